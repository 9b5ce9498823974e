// Package localrun owns runs that a process drives itself: preparing launches from files and flags,
// driving them on a queue, and what is remembered of them between commands.
//
// It must not know how hosts are reached, nor how a service keeps runs.
package localrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/encrypted"
	"github.com/turnus/turnus/core/worker"
	"github.com/turnus/turnus/playbooks"
)

// Conductor has launches run at the same time, by the engine that servers have, over a record in
// memory, and gathers what becomes of them.
type Conductor struct {
	con     *console.Console
	Q       encrypted.Backend
	approve func(ctx context.Context, l *launch.Launch, wave int) error
	Now     <-chan struct{}            // closed by a second signal: cancel also running jobs
	events  *runview.EventWriter       // nil: none are wanted
	windows func() *admission.Calendar // that runs keep; nil: none
	shared  bool                       // other processes work on the queue
	grouped bool                       // failures are shown at the end, equal ones together, and not as they happen
	types   func(string) (playbooks.Type, bool)
	asking  sync.WaitGroup // approvals

	mu      sync.Mutex
	record  *Record // nil until Begin: one in memory
	ctl     *controller.Controller
	instead chan struct{}    // closed when another record and controller have taken the place of these
	parts   map[string]*Part // by run id
}

// Part is one launch under way.
type Part struct {
	Launch  *launch.Launch
	Tally   *runview.Tally
	started time.Time
	ctx     context.Context //nolint:containedctx // of approvals; it ends with Drive's, and with the run
	finish  context.CancelFunc
	by      string        // who launched it
	over    chan struct{} // closed at the end of the run

	// Under Conductor.mu.
	accepted  bool                  // by the controller
	ending    bool                  // no job may start any more
	results   map[string]api.Result // by host
	status    queue.Status          // as last seen
	submitted bool
	lost      error // the queue does not have the run any more
}

// NewConductor returns a conductor of launches on that queue.
func NewConductor(con *console.Console, q encrypted.Backend) *Conductor {
	return &Conductor{con: con, Q: q, parts: map[string]*Part{}, instead: make(chan struct{})}
}

// Add registers a launch, so that worker events find it.
func (c *Conductor) Add(l *launch.Launch) *Part {
	p := &Part{Launch: l, Tally: runview.NewTally(outline(l)), results: map[string]api.Result{}, over: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parts[l.Run.ID] = p
	return p
}

// outline returns what the live view knows of a launch before it starts. Behind a barrier the waves
// begin again, so their hosts are not counted.
func outline(l *launch.Launch) runview.Outline {
	o := runview.Outline{Name: l.Playbook.Name, Total: len(l.Hosts), StopAfter: l.Run.StopAfter, StopUnreachable: l.Run.StopUnreachable}
	if l.Waves() == len(l.Limits) {
		o.Waves = l.Limits
	}
	for _, s := range l.Plan().Steps {
		if s.Selected {
			o.Steps = append(o.Steps, s.Name)
		}
	}
	return o
}

func (c *Conductor) part(run string) *Part {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parts[run]
}

// WorkerEvent feeds the live view from the worker in this process.
func (c *Conductor) WorkerEvent(e worker.Event) {
	if c.events != nil {
		c.events.Worker(e)
	}
	p := c.part(e.Job.Run)
	switch e.Kind {
	case worker.QueueAway, worker.QueueBack, worker.SessionLost, worker.ClockLeaped, worker.Overloaded, worker.Eased:
		c.con.Message(string(e.Kind) + ": " + e.Text)
	}
	if p == nil {
		return
	}
	switch e.Kind {
	case worker.JobStarted:
		p.Tally.JobStarted(e.Host)
	case worker.StepStarted:
		p.Tally.StepStarted(e.Host, e.Step)
	case worker.Output:
		p.Tally.Output(e.Host, string(e.Stdout)+string(e.Stderr))
	case worker.StepRetry:
		p.Tally.Retried(e.Host, e.Text)
	case worker.JobSuspended, worker.JobDone:
		p.Tally.JobLeft(e.Host)
	}
}

// Drive launches the part and returns when it has ended. When ctx ends, no new job starts, running
// ones finish, and the rest is cancelled. When c.Now is closed, Drive also cancels running jobs,
// and after a while stops waiting for them.
func (c *Conductor) Drive(ctx context.Context, p *Part) (runview.Report, error) {
	p.started = time.Now()
	p.Tally.Begin()
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.ctx, p.finish = context.WithCancel(ctx)
	defer p.finish()
	var wg sync.WaitGroup
	wg.Go(func() { controller.Announce(life, c.Q, p.Launch.Run.ID) })
	err := c.launch(ctx, life, p)
	stop()
	wg.Wait()
	p.Tally.End()
	status := p.last(c)
	if err != nil && status.Run == "" {
		return runview.Report{}, fmt.Errorf("run %s: %w", p.Launch.Run.ID, err)
	}
	if err != nil { // the results that came are reported all the same
		c.con.Message(fmt.Sprintf("%s: %v", p.Launch.Playbook.Name, err))
	}
	r := c.report(p, status)
	r.Removed = c.removed(context.WithoutCancel(ctx), p, r.Results)
	return r, nil
}

func (p *Part) last(c *Conductor) queue.Status { return core.Locked(&c.mu, &p.status) }

// launch has the run accepted and waits for its end.
func (c *Conductor) launch(ctx, life context.Context, p *Part) error {
	if err := c.accept(life, p, cmp.Or(p.Launch.Snapshot.LaunchedBy, "turnus run")); err != nil {
		return err
	}
	select {
	case <-p.over:
	case <-c.Now:
		return c.cancelNow(life, p)
	case <-ctx.Done():
		return c.finishRunning(life, p, context.Cause(ctx))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.lost
}

// endingEvery is how often it is asked whether the last running job has finished.
const endingEvery = 100 * time.Millisecond

// finishRunning lets running jobs finish, and cancels the rest.
func (c *Conductor) finishRunning(ctx context.Context, p *Part, why error) error {
	c.show(p, engine.Event{Kind: engine.EventEnding, Err: why})
	id := p.Launch.Run.ID
	c.mu.Lock()
	p.ending = true
	c.mu.Unlock()
	var run ledger.Run
	err := c.steady(ctx, func(ctl *controller.Controller, _ *Record) (err error) {
		run, _, err = ctl.Pause(ctx, ledger.AllTenants(), "", id, "cancelled by the operator")
		return err
	})
	if err != nil && !errors.Is(err, core.ErrConflict) {
		return err
	}
	if err == nil && run.Incarnation == "" { // the queue may be away, and has nothing of it that could finish
		return c.cancel(ctx, p, why)
	}
	ticker := time.NewTicker(endingEvery)
	defer ticker.Stop()
	for {
		if s, err := c.Q.Status(ctx, id); err == nil && s.InFlight == 0 || errors.Is(err, core.ErrNotFound) {
			return c.cancel(ctx, p, why)
		}
		select {
		case <-p.over:
			return nil
		case <-c.Now:
			return c.cancelNow(ctx, p)
		case <-ticker.C:
		}
	}
}

// patience is how long the command waits for jobs that were asked to stop.
const patience = 30 * time.Second

var errStoppedNow = fmt.Errorf("stopped immediately by the operator: %w", context.Canceled)

func (c *Conductor) cancelNow(ctx context.Context, p *Part) error {
	return c.cancel(ctx, p, errStoppedNow)
}

// cancel cancels the run and waits for its end.
func (c *Conductor) cancel(ctx context.Context, p *Part, why error) error {
	reason := "cancelled by the operator"
	if !errors.Is(why, context.Canceled) {
		reason = why.Error()
	}
	run, err := c.cancelRun(ctx, p, reason)
	if errors.Is(err, core.ErrConflict) { // it has ended
		err = nil
	} else if err == nil {
		c.show(p, engine.Event{Kind: engine.EventCancelled, Reason: reason, Err: why})
	}
	if err != nil {
		return err
	}
	if run.Complete() { // before the queue had it
		c.looked(queue.Status{Run: run.ID, Phase: queue.Cancelled, Reason: core.Because("", reason), Complete: true})
		return nil
	}
	timer, ticker := time.NewTimer(patience), time.NewTicker(endingEvery)
	defer timer.Stop()
	defer ticker.Stop()
	for before := 0; ; {
		select {
		case <-p.over:
			return nil
		case <-timer.C:
			c.con.Message(fmt.Sprintf("%s: the run was cancelled, but jobs did not end within %v", p.Launch.Playbook.Name, patience))
			return nil
		case <-ticker.C:
		}
		left := c.left(ctx, p)
		if left > 0 && left == before {
			c.con.Message(fmt.Sprintf("%s: always of a group did not run on %s, because the worker of this run was stopped: finish there by hand", p.Launch.Playbook.Name, core.Plural(left, "host")))
			return nil
		}
		before = left
	}
}

// left returns how many hosts of a cancelled run wait for always of a group, once no worker is left
// to run it. The number falls while the queue still ends other hosts.
func (c *Conductor) left(ctx context.Context, p *Part) int {
	select {
	case <-c.Now: // the worker is stopped
	default:
		return 0
	}
	if c.shared {
		return 0
	}
	s, err := c.Q.Status(ctx, p.Launch.Run.ID)
	if err != nil || s.Phase != queue.Cancelled || s.InFlight > 0 {
		return 0
	}
	return s.Total - s.Ended()
}

func (c *Conductor) cancelRun(ctx context.Context, p *Part, reason string) (run ledger.Run, err error) {
	err = c.steady(ctx, func(ctl *controller.Controller, _ *Record) (err error) {
		run, _, err = ctl.Cancel(ctx, ledger.AllTenants(), "", p.Launch.Run.ID, reason)
		return err
	})
	return run, err
}

// recorded takes in results.
func (c *Conductor) recorded(r controller.Recorded) {
	p := c.part(r.Run)
	if p == nil {
		return
	}
	for _, res := range r.Results {
		c.result(p, api.ResultOf(res))
	}
	for i := range r.Outcomes {
		if o := &r.Outcomes[i]; o.Count > 1 { // of jobs that ended together
			rec := queue.Record{Index: o.Index, Count: o.Count, Outcome: o.Outcome, Reason: o.Reason, Attempt: o.Attempt}
			p.Launch.Results(rec, func(res core.Result) { c.result(p, api.ResultOf(res)) })
		}
	}
}

func (c *Conductor) result(p *Part, r api.Result) {
	c.mu.Lock()
	_, known := p.results[r.Host] // before the record broke
	if !known {
		p.results[r.Host] = r
	}
	c.mu.Unlock()
	if known {
		return
	}
	p.Tally.Recorded(r)
	if c.events != nil {
		c.events.Result(r)
	}
	if !c.grouped {
		p.Tally.Fail(c.con, r)
	}
}

// looked records the status of a run in the queue.
func (c *Conductor) looked(s queue.Status) {
	p := c.part(s.Run)
	if p == nil {
		return
	}
	c.mu.Lock()
	p.status = s
	c.mu.Unlock()
	p.Tally.Waits(s.Deferred)
}

// event takes in what happens to runs.
func (c *Conductor) event(e controller.Event) {
	switch e.Kind {
	case controller.QueueAway, controller.QueueBack:
		kind := map[controller.EventKind]engine.EventKind{controller.QueueAway: engine.EventAway, controller.QueueBack: engine.EventBack}[e.Kind]
		c.mu.Lock()
		parts := slices.Collect(maps.Values(c.parts))
		c.mu.Unlock()
		for _, p := range parts {
			c.show(p, engine.Event{Kind: kind, Err: e.Err})
		}
		return
	}
	p := c.part(e.Run)
	if p == nil {
		return
	}
	switch e.Kind {
	case controller.RunEnqueued:
		c.showSubmitted(p)
	case controller.RunEvent:
		c.showSubmitted(p)
		c.show(p, *e.Engine)
	case controller.WaveAsks:
		if c.approve != nil {
			c.asking.Go(func() { c.ask(p, e.Wave) })
		}
	case controller.RunRefused:
		c.end(p, nil, e.Err)
	case controller.RunGone:
		c.end(p, nil, e.Err)
	case controller.RunEnded:
		c.end(p, e.Status, nil)
	}
}

func (c *Conductor) end(p *Part, s *queue.Status, lost error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-p.over: // it was reported before
		return
	default:
	}
	if p.lost = lost; s != nil {
		p.status = *s
	}
	p.finish()
	close(p.over)
}

// ask has the operator decide on a wave.
func (c *Conductor) ask(p *Part, wave int) {
	ctx := p.ctx
	err := c.approve(ctx, p.Launch, wave)
	if ctx.Err() != nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if err == nil {
		err = c.steady(ctx, func(ctl *controller.Controller, _ *Record) error {
			_, err := ctl.Decide(ctx, ledger.AllTenants(), p.Launch.Run.ID, ledger.Decision{Wave: wave, By: "the operator", Approved: true})
			return err
		})
	} else {
		err = c.refuse(ctx, p, fmt.Errorf("wave %d was not approved: %w", wave+1, err))
	}
	if err != nil && !errors.Is(err, core.ErrConflict) {
		c.con.Report(c.con.Paint(console.Yellow, "warning: ") + core.ErrorText(err))
	}
}

// refuse ends a run whose wave was not approved.
func (c *Conductor) refuse(ctx context.Context, p *Part, why error) error {
	_, err := c.cancelRun(ctx, p, why.Error())
	if err == nil {
		c.show(p, engine.Event{Kind: engine.EventCancelled, Reason: why.Error(), Err: why})
	}
	return err
}

// showSubmitted reports it once, before anything else of the run.
func (c *Conductor) showSubmitted(p *Part) {
	c.mu.Lock()
	first := !p.submitted
	p.submitted = true
	c.mu.Unlock()
	if first {
		c.show(p, engine.Event{Kind: engine.EventSubmitted})
	}
}

func (c *Conductor) show(p *Part, e engine.Event) {
	e.Run = p.Launch.Run.ID
	if c.events != nil {
		c.events.Drive(e)
	}
	waves := p.Launch.Waves()
	switch e.Kind {
	case engine.EventReleased:
		p.Tally.Say("")
		p.Tally.Released(e.Wave+1, waves, p.Launch.Limits[e.Wave%len(p.Launch.Limits)])
	case engine.EventAsk:
		p.Tally.Say(fmt.Sprintf("wave %d of %d waits for an approval", e.Wave+1, waves))
	case engine.EventPause:
		p.Tally.Say(fmt.Sprintf("wave %d of %d starts at %s", e.Wave+1, waves, e.Until.Local().Format(time.TimeOnly)))
	case engine.EventWaiting:
		p.Tally.Opens(runview.WaitingNote(e))
		c.con.Message(p.Launch.Playbook.Name + ": " + runview.WaitingText(e))
	case engine.EventAway:
		c.con.Message(fmt.Sprintf("%s: the queue does not answer, waiting: %v", p.Launch.Playbook.Name, e.Err))
	case engine.EventBack:
		c.con.Message(p.Launch.Playbook.Name + ": the queue answers again")
	case engine.EventClosed:
		c.con.Message(fmt.Sprintf("%s: %s end without it: %s", p.Launch.Playbook.Name, core.Plural(e.Waiting, "host"), e.Reason))
	case engine.EventStopped, engine.EventCancelled:
		c.con.Message(fmt.Sprintf("%s: %s: %s", p.Launch.Playbook.Name, e.Kind, e.Reason))
	}
}

func (c *Conductor) report(p *Part, s queue.Status) runview.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := runview.Report{
		Run: p.Launch.Run.ID, Playbook: p.Launch.Playbook.Name, File: p.Launch.Playbook.File, Phase: string(s.Phase), Reason: s.Reason.Text(), Total: len(p.Launch.Hosts),
		Outcomes: map[core.Outcome]int{}, Started: p.started.UTC(), Took: core.InSeconds(time.Since(p.started)), Results: []api.Result{},
		Unrecorded: c.record.folder == "", Check: p.Launch.Snapshot.Check, NoWindow: p.Launch.NoWindow,
	}
	for _, h := range p.Launch.Hosts {
		res, ok := p.results[h.Name]
		if !ok {
			continue
		}
		r.Outcomes[res.Outcome]++
		r.Results = append(r.Results, res)
	}
	for _, res := range r.Results {
		if res.Handlers != nil {
			r.Handlers += len(res.Handlers.Pending)
		}
	}
	r.Exit = runview.ExitFor(r.Outcomes, r.Handlers)
	if s.Phase == queue.Cancelled || !s.Complete {
		r.Exit = console.ExitCancelled
	}
	return r
}

// driveAll drives all parts at the same time and returns their reports in the order given.
func (c *Conductor) driveAll(ctx context.Context, parts []*Part) ([]runview.Report, error) {
	reports := make([]runview.Report, len(parts))
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() { reports[i], errs[i] = c.Drive(ctx, p) })
	}
	wg.Wait()
	return slices.DeleteFunc(reports, func(r runview.Report) bool { return r.Run == "" }), errors.Join(errs...)
}
