package cli

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

// conductor drives launches at the same time and gathers what becomes of them.
type conductor struct {
	a       *app
	q       queue.Queue
	approve func(ctx context.Context, l *launch.Launch, wave int) error
	now     <-chan struct{}      // closed by a second signal: cancel what runs, too
	events  *runview.EventWriter // nil: none are wanted
	windows func() *gate.Book    // that runs keep; nil: none

	mu    sync.Mutex
	parts map[string]*part // by run id
}

// part is one launch under way.
type part struct {
	l       *launch.Launch
	tally   *runview.Tally
	results map[string]core.Result // by host; a later life replaces an earlier one
	started time.Time
	keeper  *handlersKeeper // nil: the run has no handlers
}

func newConductor(a *app, q queue.Queue) *conductor {
	return &conductor{a: a, q: q, parts: map[string]*part{}}
}

// add registers a launch, so that worker events find it.
func (c *conductor) add(l *launch.Launch) *part {
	p := &part{l: l, tally: runview.NewTally(l.Playbook.Name, len(l.Hosts)), results: map[string]core.Result{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parts[l.Run.ID] = p
	return p
}

func (c *conductor) part(run string) *part {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parts[run]
}

// workerEvent feeds the live view from the worker in this process.
func (c *conductor) workerEvent(e worker.Event) {
	if c.events != nil {
		c.events.Worker(e)
	}
	p := c.part(e.Job.Run)
	switch e.Kind {
	case worker.QueueAway, worker.QueueBack, worker.SessionLost, worker.ClockLeaped, worker.Overloaded, worker.Eased:
		c.a.Message(string(e.Kind) + ": " + e.Text)
	}
	if p == nil {
		return
	}
	switch e.Kind {
	case worker.JobStarted:
		p.tally.JobStarted(e.Host)
	case worker.StepStarted:
		p.tally.StepStarted(e.Host, e.Step)
	case worker.StepRetry:
		p.tally.Retried(e.Host, e.Text)
	case worker.JobParked, worker.JobDone:
		p.tally.JobLeft(e.Host)
	}
}

// drive submits the part's run and follows it to its end.
func (c *conductor) drive(ctx context.Context, p *part) (runview.Report, error) {
	p.started = time.Now()
	p.tally.Begin()
	opts := launch.DriveOptions{
		Now: c.now,
		OnRecord: func(r core.Result) {
			c.mu.Lock()
			p.results[r.Host] = r
			c.mu.Unlock()
			if p.keeper != nil {
				p.keeper.result(r)
			}
			p.tally.Recorded(r)
			if c.events != nil {
				c.events.Result(r)
			}
			if !r.Outcome.Good() && r.Outcome != core.Cancelled {
				c.a.Message(fmt.Sprintf("%s %s: %s", c.a.Paint(console.OutcomeColor(r.Outcome), string(r.Outcome)), r.Host, console.CutText(console.Printable(console.FirstLine(runview.ReasonText(r))), 200)))
			}
		},
		OnEvent:  func(e launch.Event) { c.driveEvent(p, e) },
		OnStatus: func(s queue.Status) { p.tally.Waits(s.Deferred) },
		Windows:  c.windows,
	}
	if c.approve != nil {
		opts.Approve = func(ctx context.Context, wave int) error { return c.approve(ctx, p.l, wave) }
	}
	announcing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { controller.Announce(announcing, c.q, p.l.Run.ID) })
	status, err := launch.Drive(ctx, c.q, p.l, opts)
	stop()
	wg.Wait()
	p.tally.End()
	if p.keeper != nil {
		if err := p.keeper.finish(status.Complete); err != nil {
			c.a.Message(c.a.Paint(console.Yellow, "warning: ") + "pending handlers were not kept: " + err.Error())
		}
	}
	if err != nil && !errors.Is(err, context.Canceled) && status.Run == "" {
		return runview.Report{}, fmt.Errorf("run %s: %w", p.l.Run.ID, err)
	}
	return c.report(p, status), nil
}

func (c *conductor) driveEvent(p *part, e launch.Event) {
	if c.events != nil {
		c.events.Drive(e)
	}
	waves := p.l.Waves()
	switch e.Kind {
	case launch.EventReleased:
		p.tally.Say(fmt.Sprintf("wave %d of %d", e.Wave+1, waves))
	case launch.EventAsk:
		p.tally.Say(fmt.Sprintf("wave %d of %d waits for an approval", e.Wave+1, waves))
	case launch.EventPause:
		p.tally.Say(fmt.Sprintf("wave %d of %d starts at %s", e.Wave+1, waves, e.Until.Local().Format(time.TimeOnly)))
	case launch.EventWaiting:
		p.tally.Opens(runview.WaitingNote(e))
		c.a.Message(p.l.Playbook.Name + ": " + runview.WaitingText(e))
	case launch.EventAway:
		c.a.Message(fmt.Sprintf("%s: the queue does not answer, waiting: %v", p.l.Playbook.Name, e.Err))
	case launch.EventBack:
		c.a.Message(p.l.Playbook.Name + ": the queue answers again")
	case launch.EventClosed:
		c.a.Message(fmt.Sprintf("%s: %s end without it: %s", p.l.Playbook.Name, console.Plural(e.Waiting, "host"), e.Reason))
	case launch.EventStopped, launch.EventCancelled:
		c.a.Message(fmt.Sprintf("%s: %s: %s", p.l.Playbook.Name, e.Kind, e.Reason))
	}
}

func (c *conductor) report(p *part, s queue.Status) runview.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := runview.Report{
		Run: p.l.Run.ID, Playbook: p.l.Playbook.Name, Phase: string(s.Phase), Reason: s.Reason, Total: len(p.l.Hosts),
		Outcomes: map[core.Outcome]int{}, Started: p.started.UTC(), Took: time.Since(p.started), Results: []core.Result{},
		File: p.l.Playbook.File, Check: p.l.Snapshot.Check, Unfit: p.l.Unfit,
	}
	for _, h := range p.l.Hosts {
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
func (c *conductor) driveAll(ctx context.Context, parts []*part) ([]runview.Report, error) {
	reports := make([]runview.Report, len(parts))
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() { reports[i], errs[i] = c.drive(ctx, p) })
	}
	wg.Wait()
	return slices.DeleteFunc(reports, func(r runview.Report) bool { return r.Run == "" }), errors.Join(errs...)
}
