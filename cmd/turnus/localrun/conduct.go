// Package localrun owns runs that a process drives itself: preparing launches from files and flags,
// driving them on a queue, and what is remembered of them between commands.
//
// It must not know how hosts are reached, nor how a service keeps runs.
package localrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/gate"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/worker"
)

// Conductor drives launches at the same time and gathers what becomes of them.
type Conductor struct {
	con     *console.Console
	Q       queue.Queue
	approve func(ctx context.Context, l *launch.Launch, wave int) error
	Now     <-chan struct{}      // closed by a second signal: cancel what runs, too
	events  *runview.EventWriter // nil: none are wanted
	windows func() *gate.Book    // that runs keep; nil: none

	mu    sync.Mutex
	parts map[string]*Part // by run id
}

// Part is one launch under way.
type Part struct {
	Launch  *launch.Launch
	Tally   *runview.Tally
	results map[string]core.Result // by host; a later life replaces an earlier one
	started time.Time
	keeper  *handlersKeeper // nil: the run has no handlers
}

// NewConductor returns a conductor of launches on that queue.
func NewConductor(con *console.Console, q queue.Queue) *Conductor {
	return &Conductor{con: con, Q: q, parts: map[string]*Part{}}
}

// Add registers a launch, so that worker events find it.
func (c *Conductor) Add(l *launch.Launch) *Part {
	p := &Part{Launch: l, Tally: runview.NewTally(l.Playbook.Name, len(l.Hosts)), results: map[string]core.Result{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parts[l.Run.ID] = p
	return p
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
	case worker.StepRetry:
		p.Tally.Retried(e.Host, e.Text)
	case worker.JobParked, worker.JobDone:
		p.Tally.JobLeft(e.Host)
	}
}

// Drive submits the part's run and follows it to its end.
func (c *Conductor) Drive(ctx context.Context, p *Part) (runview.Report, error) {
	p.started = time.Now()
	p.Tally.Begin()
	opts := launch.DriveOptions{
		Now: c.Now,
		OnRecord: func(r core.Result) {
			c.mu.Lock()
			p.results[r.Host] = r
			c.mu.Unlock()
			if p.keeper != nil {
				p.keeper.result(r)
			}
			p.Tally.Recorded(r)
			if c.events != nil {
				c.events.Result(r)
			}
			if !r.Outcome.Good() && r.Outcome != core.Cancelled {
				c.con.Message(fmt.Sprintf("%s %s: %s", c.con.Paint(console.OutcomeColor(r.Outcome), string(r.Outcome)), r.Host, console.CutText(console.Printable(console.FirstLine(runview.ReasonText(r))), 200)))
			}
		},
		OnEvent:  func(e launch.Event) { c.driveEvent(p, e) },
		OnStatus: func(s queue.Status) { p.Tally.Waits(s.Deferred) },
		Windows:  c.windows,
	}
	if c.approve != nil {
		opts.Approve = func(ctx context.Context, wave int) error { return c.approve(ctx, p.Launch, wave) }
	}
	announcing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { controller.Announce(announcing, c.Q, p.Launch.Run.ID) })
	status, err := launch.Drive(ctx, c.Q, p.Launch, opts)
	stop()
	wg.Wait()
	p.Tally.End()
	if p.keeper != nil {
		if err := p.keeper.finish(status.Complete); err != nil {
			c.con.Message(c.con.Paint(console.Yellow, "warning: ") + "pending handlers were not kept: " + err.Error())
		}
	}
	if err != nil && !errors.Is(err, context.Canceled) && status.Run == "" {
		return runview.Report{}, fmt.Errorf("run %s: %w", p.Launch.Run.ID, err)
	}
	return c.report(p, status), nil
}

func (c *Conductor) driveEvent(p *Part, e launch.Event) {
	if c.events != nil {
		c.events.Drive(e)
	}
	waves := p.Launch.Waves()
	switch e.Kind {
	case launch.EventReleased:
		p.Tally.Say(fmt.Sprintf("wave %d of %d", e.Wave+1, waves))
	case launch.EventAsk:
		p.Tally.Say(fmt.Sprintf("wave %d of %d waits for an approval", e.Wave+1, waves))
	case launch.EventPause:
		p.Tally.Say(fmt.Sprintf("wave %d of %d starts at %s", e.Wave+1, waves, e.Until.Local().Format(time.TimeOnly)))
	case launch.EventWaiting:
		p.Tally.Opens(runview.WaitingNote(e))
		c.con.Message(p.Launch.Playbook.Name + ": " + runview.WaitingText(e))
	case launch.EventAway:
		c.con.Message(fmt.Sprintf("%s: the queue does not answer, waiting: %v", p.Launch.Playbook.Name, e.Err))
	case launch.EventBack:
		c.con.Message(p.Launch.Playbook.Name + ": the queue answers again")
	case launch.EventClosed:
		c.con.Message(fmt.Sprintf("%s: %s end without it: %s", p.Launch.Playbook.Name, console.Plural(e.Waiting, "host"), e.Reason))
	case launch.EventStopped, launch.EventCancelled:
		c.con.Message(fmt.Sprintf("%s: %s: %s", p.Launch.Playbook.Name, e.Kind, e.Reason))
	}
}

func (c *Conductor) report(p *Part, s queue.Status) runview.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := runview.Report{
		Run: p.Launch.Run.ID, Playbook: p.Launch.Playbook.Name, Phase: string(s.Phase), Reason: s.Reason, Total: len(p.Launch.Hosts),
		Outcomes: map[core.Outcome]int{}, Started: p.started.UTC(), Took: time.Since(p.started), Results: []core.Result{},
		File: p.Launch.Playbook.File, Check: p.Launch.Snapshot.Check, Unfit: p.Launch.Unfit,
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

// driveAll drives all parts at once and returns their reports in the order given.
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
