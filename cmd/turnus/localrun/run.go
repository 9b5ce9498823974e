package localrun

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue/encrypted"
)

// RunFlags are the flags of run beyond what it shares.
type RunFlags struct {
	Play      PlayFlags
	Node      node.Flags
	Queue     service.QueueFlags
	Events    bool
	Yes       bool
	ListHosts bool
	NoWorker  bool
	Outside   bool
	NoRecord  bool
	Page      bool // serves the pages of the run to browsers of this machine
}

// Run runs playbooks and follows them to the end.
func Run(ctx context.Context, con *console.Console, paths []string, f *RunFlags) (err error) {
	if f.NoWorker && f.Queue.URL == "" {
		return console.Invalid("--no-worker needs --redis: nobody else can reach this process's own queue")
	}
	if err := checkPaths(paths); err != nil {
		return err
	}
	inv, hosts, err := f.Play.Inv.Load(ctx)
	if err != nil {
		return err
	}
	for _, w := range inv.Warnings {
		fmt.Fprintln(con.Err, con.Paint(console.Yellow, "warning: ")+w)
	}
	log := con.Logger(f.Node.Verbose)
	if !f.Node.Verbose {
		f.Node.SSH.Warnings = con.Warnings()
	}
	if err := f.Node.Login.Ask(con); err != nil {
		return err
	}
	logins := node.ByUserLogins
	if f.Queue.URL != "" {
		logins = node.ByCredentials
		if err := inv.Shared(); err != nil {
			return err
		}
	}
	if f.Play.Command != nil && f.Queue.URL == "" {
		f.Node.Only("command")
	}
	f.Node.SSH.Inventory = f.Play.Inv.Argument()
	n, err := f.Node.Reach(ctx, logins, func() *inventory.Inventory { return inv }, log)
	if err != nil {
		return err
	}
	stop := sync.OnceValue(n.Stop)
	defer func() { err = errors.Join(err, stop()) }()
	f.Node.Plugins.ReportDev(con)
	if f.Outside {
		f.Play.Windows.paths = nil
	}
	if f.Play.Command != nil {
		f.Play.Command.OutsideWindows = f.Outside
	}
	f.Play.secrets, f.Play.nodeSecrets = node.SecretsFor(n.Secrets, f.Queue.URL != "")
	if err := node.Unconfined(con, n); err != nil {
		return err
	}
	record, err := f.record(ctx, con)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, record.Close(ctx)) }()
	f.Play.Retried = func(r *api.Retried) { runview.WriteRetried(con, r) }
	launches, err := f.Play.Prepare(ctx, paths, inv, hosts, n.Plugins, record)
	if noWindow, ok := errors.AsType[*launch.NoWindowError](err); ok && len(noWindow.Hosts) < noWindow.Total {
		return fmt.Errorf("%w\nhint: --skip-no-window runs on the others", err)
	}
	if err != nil {
		return err
	}
	if f.ListHosts {
		return ListLaunches(con, launches)
	}
	for _, l := range launches {
		if l.FourEyes != "" {
			return console.Invalid("%s: %s demands four eyes, and nobody can approve a run of this command\nhint: launch it at a server with turnus submit %s, or try it with --check",
				l.Playbook.File, l.FourEyes, l.Playbook.Name)
		}
	}
	if err := checkApprovals(con, launches, f.Yes); err != nil {
		return err
	}
	if err := keepWindows(con, launches, f); err != nil {
		return err
	}
	warnLaunches(con, launches)
	if err := f.Queue.ChoosePool(launches); err != nil {
		return err
	}
	q, closeQueue, err := f.Queue.Open(ctx, con)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop(), closeQueue()) }() // the worker gives its session back first

	return follow(ctx, con, f, n, q, launches, record, log)
}

// warnLaunches reports what is unwise in playbooks and in their launches.
func warnLaunches(con *console.Console, launches []*launch.Launch) {
	for _, l := range launches {
		for _, w := range l.Playbook.Warnings {
			con.Report(con.Paint(console.Yellow, "warning: ") + w.String())
		}
		for _, text := range l.Warnings() {
			con.Report(con.Paint(console.Yellow, "warning: ") + text)
		}
	}
}

// record opens the record of runs. Where nothing can be written there, the run continues without
// one.
func (f *RunFlags) record(ctx context.Context, con *console.Console) (*Record, error) {
	if f.NoRecord && f.Play.RetryFailed {
		return nil, console.Invalid("--retry-failed needs the record of the last run\nhint: leave out --no-record")
	}
	if f.NoRecord {
		return memoryRecord(ctx)
	}
	r, err := OpenRecord(ctx, con)
	if _, refused := errors.AsType[*console.Exit](err); err == nil || refused || f.Play.RetryFailed {
		return r, err
	}
	con.Report(con.Paint(console.Yellow, "warning: ") + unrecorded(err))
	return memoryRecord(ctx)
}

// unrecorded explains the effect of a record that cannot be written.
func unrecorded(err error) string {
	return "the run is not recorded: " + err.Error() +
		"\nhint: it continues; --retry-failed and turnus runs ls will not have it, and handlers that it leaves pending are not kept. --no-record asks for that"
}

// follow starts the launches on q, has n work on them unless others do, and reports when all have
// ended.
func follow(ctx context.Context, con *console.Console, f *RunFlags, n *node.Node, q encrypted.Backend, launches []*launch.Launch, record *Record, log *slog.Logger) (err error) {
	c := NewConductor(con, q)
	c.record, c.shared, c.grouped = record, f.Queue.URL != "", f.Play.Command != nil
	if !c.shared {
		q = &savingQueue{Backend: q, c: c}
	}
	if f.Play.Windows.files != nil {
		c.windows = f.Play.Windows.Calendar
	}
	c.approve = approver(con, f.Yes)
	if f.Events {
		c.events = runview.NewEventWriter(con.Out)
	}
	var parts []*Part
	var tallies []*runview.Tally
	for _, l := range launches {
		p := c.Add(l)
		parts, tallies = append(parts, p), append(tallies, p.Tally)
	}
	if !f.NoWorker {
		files := func(run, _ string) string { // never from the queue: others may write to it
			p := c.part(run)
			if p == nil {
				return ""
			}
			return p.Launch.Snapshot.Files
		}
		if err := n.Work(&f.Node, node.WorkOptions{Queue: q, Pool: f.Queue.Pool, Files: files, Events: c.WorkerEvent, Few: !c.shared && countHosts(launches) <= fewHosts, Report: f.Page}, log); err != nil {
			return err
		}
	}
	end, err := c.Begin(ctx, node.PlaybookOptions(n.Plugins, nil).Types)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	stopPublishing, err := f.Play.Windows.publish(ctx, con, q, c.ctl.SignalWindows)
	if err != nil {
		return err
	}
	defer stopPublishing()
	if f.Page {
		stopServing, err := servePages(ctx, con, c, launches, log)
		if err != nil {
			return err
		}
		defer stopServing()
	}
	ctx, now, release := con.Signals(ctx, FinishingJobs, con.Message, n.Kill)
	defer release()
	c.Now = now
	stopView := runview.ShowProgress(con, func() { con.Message(stopWith) }, tallies...) // after Signals: a signal restores the terminal
	defer stopView()
	reports, err := c.driveAll(ctx, parts)
	stopView()
	err = errors.Join(err, finish(con, reports, f, record.folder))
	if f.Page && con.Terminal && ctx.Err() == nil {
		con.Message("the page stays until Ctrl-C")
		<-ctx.Done()
	}
	return err
}

// servePages serves the pages of the launches, and prints a link for one browser.
func servePages(ctx context.Context, con *console.Console, c *Conductor, launches []*launch.Launch, log *slog.Logger) (end func(), err error) {
	next := "/"
	if len(launches) == 1 {
		next = "/runs/" + launches[0].Run.ID
	}
	link, end, err := service.ServePages(ctx, service.Own{Ledger: c.record.Ledger, Controller: c.ctl, Queue: c.Q, Types: c.types, Who: whoami(), Log: log}, next)
	if err != nil {
		return nil, err
	}
	con.Message("page, for one browser of this machine within 10 minutes: " + link)
	return end, nil
}

// fewHosts is up to how many hosts a run does without a small heap.
const fewHosts = 100

func countHosts(launches []*launch.Launch) (n int) {
	for _, l := range launches {
		n += len(l.Hosts)
	}
	return n
}

// finish prints what became of the runs, and chooses the exit code.
func finish(con *console.Console, reports []runview.Report, f *RunFlags, folder string) error {
	code := console.ExitOK
	for _, r := range reports {
		switch {
		case f.Events:
			runview.NewEventWriter(con.Out).Report(r)
		case con.Output == "json":
			if err := console.PrintJSON(con.Out, r); err != nil {
				return err
			}
		case f.Play.Command != nil:
			runview.WriteGroups(con, con.Out, r, runview.LocalLogs)
		default:
			runview.WriteRecap(con, con.Out, r)
			if !r.Unrecorded {
				runview.WriteNext(con, r, folder)
			}
		}
		code = worse(code, r.Exit)
	}
	if code != console.ExitOK {
		return &console.Exit{Code: code}
	}
	return nil
}

// worse is the more serious of two exit codes.
func worse(a, b int) int {
	rank := map[int]int{console.ExitOK: 0, console.ExitUnreachable: 1, console.ExitFailed: 2, console.ExitCancelled: 3}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// ListLaunches prints the hosts of each launch.
func ListLaunches(con *console.Console, launches []*launch.Launch) error {
	for _, l := range launches {
		if con.Output == "json" {
			if err := console.PrintJSON(con.Out, l.Plan()); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(con.Out, "%s: %s\n", l.Playbook.Name, core.Plural(len(l.Hosts), "host"))
		for _, h := range l.Hosts {
			fmt.Fprintln(con.Out, "  "+h.Name)
		}
	}
	return nil
}

// FinishingJobs explains the effect of the first signal on a run.
const FinishingJobs = "stopping: running jobs finish, no more start; once more cancels them"

// stopWith answers the key q: the run is driven by this process, so nobody can leave it.
const stopWith = "this process drives the run: Ctrl-C lets running jobs finish and starts no more, once more cancels them"

// approver asks on the terminal whether the next wave may start.
func approver(con *console.Console, yes bool) func(context.Context, *launch.Launch, int) error {
	var one sync.Mutex
	return func(ctx context.Context, l *launch.Launch, wave int) error {
		if yes {
			return nil
		}
		if !con.Attended() {
			return errors.New("a wave waits for an approval, and nobody can be asked here\nhint: --yes approves every wave")
		}
		one.Lock()
		defer one.Unlock()
		answered := con.Ask(fmt.Sprintf("%s: start wave %d of %d (%s)? [y/N] ", l.Playbook.Name, wave+1, l.Waves(), core.Plural(l.WaveHosts(wave), "host")))
		defer answered()
		line := make(chan string, 1)
		go func() { // ends with the process when the operator never answers: a read of a terminal cannot be interrupted
			text, _ := bufio.NewReader(con.In).ReadString('\n')
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

// keepWindows refuses a playbook that asks for a maintenance window when none are given, unless the
// operator allows a start now. It reports what a launch leaves out.
func keepWindows(con *console.Console, launches []*launch.Launch, f *RunFlags) error {
	for _, l := range launches {
		switch {
		case l.Asks == "" || f.Outside || l.Starts != nil:
		case len(f.Play.Windows.paths) == 0:
			return console.Invalid("playbook %s asks for the window %q, and no windows are given\nhint: --windows windows.yaml keeps to them; --outside-windows runs now all the same", l.Playbook.Name, l.Asks)
		case l.Inert:
			return console.Invalid("playbook %s asks for the window %q, but none of its steps is disruptive, so none would wait\nhint: a step with disruptive: true or its own window: waits; --outside-windows runs now", l.Playbook.Name, l.Asks)
		default:
			con.Report(con.Paint(console.Yellow, "warning: ") + fmt.Sprintf("playbook %s asks for the window %q, but none of the selected steps is disruptive, so nothing waits", l.Playbook.Name, l.Asks))
		}
	}
	for _, l := range launches {
		if len(l.NoWindow) == 0 {
			continue
		}
		con.Report(fmt.Sprintf("%s%s: %s left out, for no window fits:", con.Paint(console.Yellow, "warning: "), l.Playbook.Name, core.Plural(len(l.NoWindow), "host")))
		for _, u := range l.NoWindow {
			con.Message("  " + u.String())
		}
	}
	return nil
}
