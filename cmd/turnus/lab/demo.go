package lab

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/transport/fleet"
	"github.com/turnus/turnus/playbooks"
)

//go:embed demo/*.yaml
var demoFiles embed.FS

const (
	urgentHosts = 4
	demoLimit   = 5 * time.Minute // a demo that takes longer is broken
)

// demoReport is the -o json document of demo.
type demoReport struct {
	Hosts         int              `json:"hosts"`
	AsPlanned     int              `json:"as_planned"`
	Unexpected    []string         `json:"unexpected"`            // outcomes that differ from the planned ones
	UrgentDone    core.Seconds     `json:"urgent_done_seconds"`   // from its launch to its end
	UrgentPending int              `json:"pending_before_urgent"` // hosts of the big run that waited when the urgent one was launched
	Took          core.Seconds     `json:"took_seconds"`
	Runs          []runview.Report `json:"runs"`
}

// Demo runs two playbooks on a fleet of simulated hosts, and prints how they ended.
func Demo(ctx context.Context, con *console.Console, hosts int, seed uint64) (err error) {
	ctx, cancel := context.WithTimeout(ctx, demoLimit)
	defer cancel()
	fl, err := fleet.Start(ctx, fleet.Config{Hosts: hosts + urgentHosts, Seed: seed})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fl.Close()) }()
	list := demoInventory(fl.Hosts(), hosts)
	f := node.Flags{Concurrency: 256, Login: node.UserLoginFlags{Keys: []string{fl.IdentityFile()}, Agent: "none"}, SSH: node.SSHFlags{ConnectTimeout: 8 * time.Second, MaxConns: node.BesideFleet(), Warnings: con.Warnings()}}
	n, err := f.Reach(ctx, node.ByUserLogins, func() *inventory.Inventory { return nil }, con.Logger(false))
	if err != nil {
		return err
	}
	stop := sync.OnceValue(n.Stop)
	defer func() { err = errors.Join(err, stop()) }()
	big, err := demoLaunch("demo/rollout.yaml", list, n)
	if err != nil {
		return err
	}
	urgent, err := demoLaunch("demo/urgent.yaml", list, n)
	if err != nil {
		return err
	}
	if err := giveFaults(fl, big.Hosts, seed); err != nil {
		return err
	}
	q := memory.New(memory.Options{})
	defer q.Shutdown()
	c := localrun.NewConductor(con, q)
	bigPart, urgentPart := c.Add(big), c.Add(urgent)
	if err := n.Work(&f, node.WorkOptions{Queue: q, Events: c.WorkerEvent}, con.Logger(false)); err != nil {
		return err
	}
	end, err := c.Begin(ctx, node.PlaybookOptions(n.Plugins, nil).Types)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	ctx, now, release := con.Signals(ctx, localrun.FinishingJobs, con.Message, n.Kill)
	defer release()
	c.Now = now
	con.Message(fmt.Sprintf("%s on loopback, %s of the big run to change; Ctrl-C stops", core.Plural(hosts+urgentHosts, "simulated SSH host"), core.Plural(hosts, "host")))
	stopView := runview.ShowProgress(con, func() { con.Message("Ctrl-C stops the demo") }, bigPart.Tally, urgentPart.Tally)
	defer stopView()
	out := demoReport{Hosts: hosts + urgentHosts, Unexpected: []string{}}
	started := time.Now()
	out.Runs, err = demoRuns(ctx, con, c, bigPart, urgentPart, &out)
	out.Took = core.InSeconds(time.Since(started))
	stopView()
	if err != nil {
		return err
	}
	for _, r := range out.Runs {
		out.compare(r, fl)
	}
	return finishDemo(con, out)
}

// demoRuns starts the urgent run when the last wave of the big one is under way.
func demoRuns(ctx context.Context, con *console.Console, c *localrun.Conductor, big, urgent *localrun.Part, out *demoReport) ([]runview.Report, error) {
	var reports [2]runview.Report
	var errs [2]error
	var wg sync.WaitGroup
	bigDone := make(chan struct{})
	wg.Go(func() {
		defer close(bigDone)
		reports[0], errs[0] = c.Drive(ctx, big)
	})
	wg.Go(func() {
		untilLastWave(ctx, big, bigDone)
		if s, err := c.Q.Status(ctx, big.Launch.Run.ID); err == nil {
			out.UrgentPending = s.Pending
		}
		launched := time.Now()
		reports[1], errs[1] = c.Drive(ctx, urgent)
		out.UrgentDone = core.InSeconds(time.Since(launched))
		con.Message(con.Paint(console.Green, "fair: ") + out.fairness())
	})
	wg.Wait()
	return reports[:], errors.Join(errs[:]...)
}

// fairness reports how long the urgent run took beside the big one.
func (d *demoReport) fairness() string {
	return fmt.Sprintf("urgent-check started while %d hosts of ntp-everywhere waited; it finished after %s", d.UrgentPending, console.Short(d.UrgentDone.Duration()))
}

// urgentAfter is the share of the big run's last wave that has finished when the urgent run starts.
const urgentAfter = 50

// untilLastWave returns when so much of the big run's last wave has finished, or ctx or the run
// ends.
func untilLastWave(ctx context.Context, big *localrun.Part, done <-chan struct{}) {
	limits := big.Launch.Limits
	from := 0
	if len(limits) > 1 {
		from = limits[len(limits)-2]
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-done:
			return
		case <-tick.C:
			if big.Tally.Count() >= from+(len(big.Launch.Hosts)-from)/urgentAfter {
				return
			}
		}
	}
}

// giveFaults gives the big run's hosts their faults, in the order in which the run takes them: the
// first host is well, because a wave without a host that succeeds stops a run.
func giveFaults(fl *fleet.Fleet, order []core.Host, seed uint64) error {
	faults := fleet.DemoProfile(seed)
	for i, h := range order {
		if err := fl.SetProfile(h.Name, faults(i)); err != nil {
			return err
		}
	}
	return nil
}

func demoInventory(list []core.Host, hosts int) []core.Host {
	for i := range list {
		list[i].Groups = []string{"edge"}
		if i >= hosts {
			list[i].Groups = []string{"urgent"}
		}
	}
	return list
}

func demoLaunch(file string, hosts []core.Host, n *node.Node) (*launch.Launch, error) {
	src, err := demoFiles.ReadFile(file)
	if err != nil {
		return nil, err
	}
	opts := node.PlaybookOptions(n.Plugins, nil)
	p, err := playbooks.Parse(file, src, opts)
	if err != nil {
		return nil, err
	}
	return launch.Prepare(p, hosts, launch.Options{Types: opts.Types, LaunchedBy: "demo"})
}

// planned is how a host with these faults must end.
func planned(kind string) core.Outcome {
	switch kind {
	case "fail", "hang":
		return core.Failed
	case "refuse-auth", "changed-key", "reset", "cut", "silent":
		return core.Unreachable
	}
	return core.Changed
}

func (d *demoReport) compare(r runview.Report, fl *fleet.Fleet) {
	urgent := r.Total == urgentHosts
	seen := map[string]bool{}
	for _, res := range r.Results {
		profile, _ := fl.Profile(res.Host)
		want := planned(profile.Kind)
		if urgent {
			want = core.Unchanged
		}
		seen[res.Host] = true
		if res.Outcome == want {
			d.AsPlanned++
			continue
		}
		d.Unexpected = append(d.Unexpected, fmt.Sprintf("%s (%s): %s, planned %s: %s", res.Host, profile.Kind, res.Outcome, want, runview.ReasonText(res)))
	}
	if len(seen) != r.Total {
		d.Unexpected = append(d.Unexpected, fmt.Sprintf("%s: %d of %d hosts have an outcome", r.Playbook, len(seen), r.Total))
	}
}

// maxUnexpected bounds how many unexpected outcomes are listed.
const maxUnexpected = 12

func finishDemo(con *console.Console, d demoReport) error {
	ok := len(d.Unexpected) == 0 && d.AsPlanned == d.Hosts
	if con.Output == "json" {
		for i := range d.Runs {
			d.Runs[i].Results = nil
		}
		if err := console.PrintJSON(con.Out, d); err != nil {
			return err
		}
	} else {
		for _, r := range d.Runs {
			runview.WriteRecap(con, con.Out, r)
		}
		fmt.Fprintln(con.Out, "fair: "+d.fairness())
		fmt.Fprintf(con.Out, "%s of %d hosts ended as planned, in %s\n", con.Paint(console.Green, fmt.Sprint(d.AsPlanned)), d.Hosts, console.Short(d.Took.Duration()))
		for i, s := range d.Unexpected {
			if i == maxUnexpected {
				fmt.Fprintf(con.Out, "  … and %d more\n", len(d.Unexpected)-i)
				break
			}
			fmt.Fprintln(con.Out, "  unexpected: "+console.Printable(s))
		}
	}
	for _, r := range d.Runs {
		if r.Phase == string(queue.Cancelled) {
			return &console.Exit{Code: console.ExitCancelled}
		}
	}
	if !ok {
		return &console.Exit{Code: console.ExitFailed}
	}
	return nil
}
