package runview

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// Times of watching.
const (
	pollEvery   = time.Second            // at the run
	pollAgain   = 100 * time.Millisecond // at its beginning, when much happens
	outputsMost = 200                    // hosts whose outputs a recap fetches
	maxEarlier  = 2000                   // failed hosts that are fetched when a watch begins

	acceptedWithin = 15 * time.Second // a run that a schedule launches is there
	acceptedEvery  = 100 * time.Millisecond
)

// watcher follows one run of a server.
type watcher struct {
	con      *console.Console
	c        *client.Client
	t        *Tally
	id       string
	away     error
	waited   string // the last report of whom it waits for
	idle     string // and of why nothing happens though it waits for nobody
	phase    api.Phase
	grouped  bool            // it is a run of one command
	results  bool            // -o json is the results of hosts, as of a run of this machine
	reported map[string]bool // jobs whose end is shown
}

// Watch shows a run until it has ended, then its recap, and exits as turnus run does.
func Watch(ctx context.Context, con *console.Console, c *client.Client, id string) error {
	return watch(ctx, con, c, id, false)
}

// WatchExec is Watch of a run of one command, whose -o json document is that of a run of this
// machine.
func WatchExec(ctx context.Context, con *console.Console, c *client.Client, id string) error {
	return watch(ctx, con, c, id, true)
}

// WatchSoon is Watch of a run that may be accepted a moment later.
func WatchSoon(ctx context.Context, con *console.Console, c *client.Client, id string) error {
	for end := time.Now().Add(acceptedWithin); ; {
		err := Watch(ctx, con, c, id)
		if !errors.Is(err, core.ErrNotFound) || time.Now().After(end) {
			return err
		}
		if err := core.Sleep(ctx, acceptedEvery); err != nil {
			return err
		}
	}
}

// Ended shows a run until it has ended, and returns its jobs with their steps, and no recap.
func Ended(ctx context.Context, con *console.Console, c *client.Client, id string) ([]api.Job, error) {
	_, run, err := follow(ctx, con, c, id, true)
	if err != nil {
		return nil, err
	}
	jobs, err := JobsOf(ctx, c, run, false)
	if err != nil {
		return nil, err
	}
	return withSteps(ctx, c, jobs)
}

func watch(ctx context.Context, con *console.Console, c *client.Client, id string, results bool) error {
	w, run, err := follow(ctx, con, c, id, false)
	if err != nil {
		return err
	}
	w.results = results
	if err := w.finish(ctx, run); err != nil {
		return err
	}
	if code := exitOfRun(run); code != console.ExitOK {
		return &console.Exit{Code: code}
	}
	return nil
}

// follow shows a run until it has ended. Its failures are not shown if the caller shows hosts in
// groups, as is done for a command.
func follow(ctx context.Context, con *console.Console, c *client.Client, id string, grouped bool) (*watcher, api.Run, error) {
	run, err := c.Run(ctx, id)
	if err != nil {
		return nil, run, err
	}
	w := &watcher{con: con, c: c, id: id, t: NewTally(Outline{Name: run.Playbook, Total: run.Total}), phase: run.Phase, grouped: grouped || run.Kind == api.KindExec, reported: map[string]bool{}}
	w.t.Attach(run.Created, run.Outcomes)
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	stopView := ShowProgress(con, quit, w.t)
	defer stopView()
	if !over(run) {
		w.earlier(ctx, run)
	}
	run, err = w.untilOver(ctx, run)
	stopView()
	if err != nil && ctx.Err() != nil {
		con.Message("not watched any more; the run continues: turnus watch " + id + ", or turnus runs cancel " + id)
		err = &console.Exit{Code: console.ExitCancelled}
	}
	return w, run, err
}

// earlier shows the hosts that failed before the watch began, up to maxEarlier.
func (w *watcher) earlier(ctx context.Context, run api.Run) {
	bad := 0
	for o, n := range run.Outcomes {
		if !o.Good() {
			bad += n
		}
	}
	if bad == 0 || bad > maxEarlier {
		return
	}
	jobs, err := failedJobs(ctx, w.c, run)
	if err != nil {
		return // without them the view is poorer only
	}
	for _, r := range ResultsOf(jobs) {
		w.finished(r.Job.String(), r)
	}
}

// finished takes in the end of a job.
func (w *watcher) finished(job string, r api.Result) {
	w.reported[job] = true
	w.t.Finished(r)
	if !w.grouped { // else the groups show it
		w.t.Fail(w.con, r)
	}
}

// over reports whether nothing of a run happens any more.
func over(run api.Run) bool {
	if run.Complete() {
		return true
	}
	done := 0
	for _, n := range run.Outcomes {
		done += n
	}
	return run.Phase.Over() && done >= run.Total
}

// exitOfRun is the exit code that a run which is over asks for.
func exitOfRun(run api.Run) int {
	if run.Phase == api.Cancelled {
		return console.ExitCancelled
	}
	return ExitFor(run.Outcomes, run.Handlers)
}

// untilOver checks the run again and again, while events feed the view.
func (w *watcher) untilOver(ctx context.Context, run api.Run) (api.Run, error) {
	events, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { _ = w.c.Events(w.id).Follow(events, w.event, nil) }) // without them the view is poorer only
	for n := 0; ; n++ {
		w.show(run)
		if over(run) {
			return run, nil
		}
		pause := pollEvery
		if n < 20 {
			pause = pollAgain
		}
		if err := core.Sleep(ctx, pause); err != nil {
			return run, err
		}
		next, err := w.c.Run(ctx, w.id)
		switch {
		case err == nil:
			run = next
			w.back()
		case ctx.Err() == nil && (errors.Is(err, core.ErrUnavailable) || errors.Is(err, core.ErrUnknown)):
			w.gone(err)
		default:
			return run, err
		}
	}
}

func (w *watcher) gone(err error) {
	if w.away == nil {
		w.con.Message(w.con.Paint(console.Yellow, "waiting: ") + core.ErrorText(err))
	}
	w.away = err
}

func (w *watcher) back() {
	if w.away != nil {
		w.con.Message("the server answers again")
	}
	w.away = nil
}

// show updates the view to the run that the server returned.
func (w *watcher) show(run api.Run) {
	w.t.agree(run.Outcomes)
	note := ""
	if l := run.Live; l != nil {
		w.t.Waits(l.Deferred)
		w.t.Released(l.Wave, l.Waves, l.Released)
		w.t.InFlight(l.InFlight)
		w.t.Thresholds(l.StopAfter, l.StopUnreachable)
	}
	if run.Phase == api.Queued {
		note = "accepted; it is not in the queue yet"
	}
	waits := WaitsText(run)
	if waits != "" {
		note = "waits " + waits
	}
	w.t.Say(note)
	if waits != w.waited && waits != "" {
		w.con.Message(run.Playbook + ": waits " + waits)
	}
	w.waited = waits
	if run.Phase == api.Active && run.Reason != w.idle { // nobody works on it, or somebody does again
		if w.idle = run.Reason; w.idle != "" {
			w.con.Message(run.Playbook + ": " + w.idle)
		}
	}
	if run.Phase != w.phase && (run.Phase == api.Stopped || run.Phase == api.Cancelled) {
		w.con.Message(fmt.Sprintf("%s: %s: %s", run.Playbook, run.Phase, run.Reason))
	}
	w.phase = run.Phase
}

// event feeds the view with the workers' events.
func (w *watcher) event(e api.Event) {
	if w.reported[e.Job] { // events may be late, and come twice
		return
	}
	switch e.Event {
	case "job_started":
		w.t.JobStarted(e.Host)
	case "step_started":
		w.t.StepStarted(e.Host, e.Step)
	case "output":
		w.t.Output(e.Host, e.Stdout+e.Stderr)
	case "step_retry":
		w.t.Retried(e.Host, e.Text)
	case "job_suspended":
		w.t.JobLeft(e.Host)
	case api.JobDone:
		if e.Result != nil {
			w.finished(e.Job, *e.Result)
		}
	}
}

// finish prints what became of the run.
func (w *watcher) finish(ctx context.Context, run api.Run) error {
	if w.con.Output == "json" && !w.results {
		return console.PrintJSON(w.con.Out, run)
	}
	all := w.grouped || run.Total <= outputsMost
	jobs, err := JobsOf(ctx, w.c, run, !all)
	if err != nil {
		return err
	}
	if all {
		if jobs, err = withSteps(ctx, w.c, jobs); err != nil {
			return err
		}
	}
	r := Report{
		Exit: exitOfRun(run), Started: run.Created, Run: run.ID, Kind: run.Kind, Playbook: run.Playbook, Check: run.Check, Phase: string(run.Phase), Reason: run.Reason, Total: run.Total, Outcomes: run.Outcomes,
		Took: core.InSeconds(run.Ended.Sub(run.Created)), Results: ResultsOf(jobs), Handlers: run.Handlers,
	}
	if run.Handlers > 0 {
		if pending, err := w.c.Handlers(ctx, client.HandlerFilter{Run: run.ID}, client.Page{Limit: outputsMost}); err == nil { // without them the recap has their number
			r.Removed = removedOf(pending.Items)
		}
	}
	if !run.Complete() {
		r.Took = core.InSeconds(time.Since(run.Created))
	}
	switch {
	case w.con.Output == "json":
		return console.PrintJSON(w.con.Out, r)
	case w.grouped:
		WriteGroups(w.con, w.con.Out, r, "")
	default:
		WriteRecap(w.con, w.con.Out, r)
		WriteNext(w.con, r, "")
	}
	return nil
}

// removedOf is Report.Removed of handlers that a server lists.
func removedOf(pending []api.PendingHandler) map[string]string {
	places := map[string]string{}
	for _, h := range pending {
		if h.Removed {
			places[h.Handler] = h.At
		}
	}
	return places
}

// withSteps fetches each job singly, a few at the same time.
func withSteps(ctx context.Context, c *client.Client, jobs []api.Job) ([]api.Job, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	full := make([]api.Job, len(jobs))
	for i, j := range jobs {
		if j.Outcome == "" || j.Worker == "" { // nobody worked on it: there is no more to know
			full[i] = j
			continue
		}
		g.Go(func() error {
			var err error
			full[i], err = c.Job(ctx, core.JobID{Run: j.Run, Index: j.Index})
			return err
		})
	}
	return full, g.Wait()
}
