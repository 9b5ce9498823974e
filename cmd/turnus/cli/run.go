package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
)

// runFlags are the flags of run beyond what it shares.
type runFlags struct {
	play      playFlags
	node      node.Flags
	queue     service.QueueFlags
	events    bool
	yes       bool
	listHosts bool
	noWorker  bool
	outside   bool
}

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run PLAYBOOK... -i INVENTORY",
		Short: "Run playbooks on hosts now, and follow them to the end",
		Long: `Run playbooks on hosts now, and follow them to the end. Several playbooks run at
the same time and share the workers fairly.

Ctrl-C lets running jobs finish and starts no more; a second one cancels them.
Exit codes: 0 all well; 1 a fault of Turnus or its surroundings; 2 some host failed, was rolled back
or lost; 3 cancelled; 4 some host unreachable, none failed; 5 wrong input or usage.`,
		Example: `  turnus run site.yaml -i hosts.yaml
  turnus run site.yaml -i hosts.ini --limit 'web*' --check --diff
  turnus run site.yaml -i hosts.yaml -e version=1.4 -f 50 -o json > result.json
  turnus run site.yaml -i hosts.yaml --retry-failed
  turnus run site.yaml -i hosts.yaml --redis rediss://queue:6379/0   # other nodes take part`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), args, &f) },
	}
	f.play.add(c)
	f.node.Add(c)
	f.node.Login.Add(c)
	f.queue.Add(c)
	c.Flags().BoolVar(&f.events, "events", false, "write every event to stdout as it happens, a JSON line each")
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "approve every wave")
	c.Flags().BoolVar(&f.listHosts, "list-hosts", false, "list the hosts of the run and end")
	c.Flags().BoolVar(&f.outside, "outside-windows", false, "run now, whatever windows a playbook asks for: an emergency")
	c.Flags().BoolVar(&f.play.skipUnfit, "skip-unfit", false, "leave out hosts that no window fits; without it such a run is refused")
	c.Flags().BoolVar(&f.noWorker, "no-worker", false, "with --redis: leave all work to other nodes")
	return c
}

func (a *app) run(ctx context.Context, paths []string, f *runFlags) (err error) {
	if f.noWorker && f.queue.URL == "" {
		return console.Invalid("--no-worker needs --redis: nobody else can reach this process's own queue")
	}
	inv, hosts, err := f.play.inv.load(ctx)
	if err != nil {
		return err
	}
	for _, w := range inv.Warnings {
		fmt.Fprintln(a.Err, a.Paint(console.Yellow, "warning: ")+w)
	}
	log := a.Logger(f.node.Verbose)
	if !f.node.Verbose {
		f.node.SSH.Warnings = a.Warnings()
	}
	logins := node.ByUserLogins
	if f.queue.URL != "" {
		logins = node.ByCredentials
		if err := inv.Shared(); err != nil {
			return err
		}
	}
	n, err := f.node.Reach(ctx, logins, func() *inventory.Inventory { return inv }, log)
	if err != nil {
		return err
	}
	stop := sync.OnceValue(n.Stop)
	defer func() { err = errors.Join(err, stop()) }()
	node.Unconfined(a.Console, n)
	f.node.Plugins.TellDev(a.Console)
	if f.outside {
		f.play.windows.paths = nil
	}
	f.play.secrets, f.play.nodeSecrets = node.SecretsFor(n.Secrets, f.queue.URL != "")
	launches, err := f.play.prepare(paths, hosts, n.Plugins)
	if unfit, ok := errors.AsType[*launch.UnfitError](err); ok && len(unfit.Hosts) < unfit.Total {
		return fmt.Errorf("%w\nhint: --skip-unfit runs on the others", err)
	}
	if err != nil {
		return err
	}
	if f.listHosts {
		return a.listLaunches(launches)
	}
	for _, l := range launches {
		if l.FourEyes != "" {
			return console.Invalid("%s: %s demands four eyes, and nobody can approve a run of this command\nhint: launch it at a server with turnus submit %s, or try it with --check",
				l.Playbook.File, l.FourEyes, l.Playbook.Name)
		}
	}
	if err := a.keepWindows(launches, f); err != nil {
		return err
	}
	if err := f.queue.ChoosePool(launches); err != nil {
		return err
	}
	q, closeQueue, err := f.queue.Open(ctx, a.Console)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop(), closeQueue()) }() // the worker gives its session back first

	return a.follow(ctx, f, n, q, launches, log)
}

// follow starts the launches on q, has n work on them unless others do, and reports when all are over.
func (a *app) follow(ctx context.Context, f *runFlags, n *node.Node, q queue.Queue, launches []*launch.Launch, log *slog.Logger) error {
	book, stopKeeping, err := f.play.windows.keep(ctx, a, q, launches)
	if err != nil {
		return err
	}
	defer stopKeeping()
	keeping := &handlersQueue{Queue: q, keepers: map[string]*handlersKeeper{}}
	if f.queue.URL == "" {
		q = keeping
	}
	c := newConductor(a, q)
	c.windows = book
	c.approve = a.approver(f.yes)
	if f.events {
		c.events = runview.NewEventWriter(a.Out)
	}
	var parts []*part
	var tallies []*runview.Tally
	for _, l := range launches {
		p := c.add(l)
		if p.keeper, err = keepHandlers(l, f.queue.URL != ""); err != nil {
			return err
		}
		keeping.keepers[l.Run.ID] = p.keeper
		parts, tallies = append(parts, p), append(tallies, p.tally)
	}
	stopView := runview.ShowProgress(a.Console, tallies...)
	defer stopView()
	if !f.noWorker {
		files := func(run, _ string) string { // never what the queue says: others may write to it
			p := c.part(run)
			if p == nil {
				return ""
			}
			return p.l.Snapshot.Files
		}
		if err := n.Work(&f.node, node.WorkOptions{Queue: q, Pool: f.queue.Pool, Files: files, Events: c.workerEvent}, log); err != nil {
			return err
		}
	}
	ctx, now, release := a.Signals(ctx, finishingJobs, a.Message, n.Kill)
	defer release()
	c.now = now
	reports, err := c.driveAll(ctx, parts)
	stopView()
	return errors.Join(err, a.finish(reports, f.events))
}

// finish prints what became of the runs, keeps their record, and chooses the exit code.
func (a *app) finish(reports []runview.Report, events bool) error {
	code := console.ExitOK
	for _, r := range reports {
		switch {
		case events:
			runview.NewEventWriter(a.Out).Report(r)
		case a.Output == "json":
			if err := console.PrintJSON(a.Out, r); err != nil {
				return err
			}
		default:
			runview.WriteRecap(a.Console, a.Out, r)
		}
		if !r.Check {
			if err := saveLastRun(r); err != nil {
				fmt.Fprintln(a.Err, a.Paint(console.Yellow, "warning: ")+"the run's record for --retry-failed was not kept: "+err.Error())
			}
			if err := saveDurations(r); err != nil {
				fmt.Fprintln(a.Err, a.Paint(console.Yellow, "warning: ")+"how long the run's steps took was not kept: "+err.Error())
			}
		}
		code = worse(code, r.Exit)
	}
	if code != console.ExitOK {
		return &console.Exit{Code: code}
	}
	return nil
}

// worse is the exit code that says more of two.
func worse(a, b int) int {
	rank := map[int]int{console.ExitOK: 0, console.ExitUnreachable: 1, console.ExitFailed: 2, console.ExitCancelled: 3}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

func (a *app) listLaunches(launches []*launch.Launch) error {
	for _, l := range launches {
		if a.Output == "json" {
			if err := console.PrintJSON(a.Out, l.Plan()); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.Out, "%s: %s\n", l.Playbook.Name, console.Plural(len(l.Hosts), "host"))
		for _, h := range l.Hosts {
			fmt.Fprintln(a.Out, "  "+h.Name)
		}
	}
	return nil
}

// approver asks on the terminal whether the next wave may start.
func (a *app) approver(yes bool) func(context.Context, *launch.Launch, int) error {
	var one sync.Mutex
	return func(ctx context.Context, l *launch.Launch, wave int) error {
		if yes {
			return nil
		}
		if !a.Terminal {
			return errors.New("a wave waits for an approval, and nobody can be asked here\nhint: --yes approves every wave")
		}
		one.Lock()
		defer one.Unlock()
		answered := a.Ask(fmt.Sprintf("%s: start wave %d of %d (%s)? [y/N] ", l.Playbook.Name, wave+1, l.Waves(), console.Plural(l.WaveHosts(wave), "host")))
		defer answered()
		line := make(chan string, 1)
		go func() { // ends with the process when the operator never answers: a read of a terminal cannot be interrupted
			text, _ := bufio.NewReader(a.In).ReadString('\n')
			line <- text
		}()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case text := <-line:
			if t := strings.ToLower(strings.TrimSpace(text)); t == "y" || t == "yes" {
				return nil
			}
			return fmt.Errorf("wave %d was not approved", wave+1)
		}
	}
}

// What the first signal means to a run, and to a worker.
const (
	finishingJobs = "stopping: running jobs finish, no more start; once more cancels them"
	drainingSteps = "draining: steps that run finish, other workers go on with the rest; once more cancels them"
)
