package queuetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
)

// DriveQueue is the part of a queue that Drive needs.
type DriveQueue interface {
	queue.Control
	queue.Watch
}

// DriveOptions guide Drive. All functions may be nil.
type DriveOptions struct {
	OnRecord func(core.Result)
	OnStatus func(queue.Status)
	OnEvent  func(engine.Event)
	Approve  func(wave int) error // called once for each wave that waits for an approval
	Windows  func() *admission.Calendar
	// Joins a run that the queue has, of which so much is recorded; nil submits it.
	Joins    bool
	Recorded []queue.FinishedJobs
}

// driver is one Drive.
type driver struct {
	q         DriveQueue
	l         *launch.Launch
	o         DriveOptions
	results   *engine.Results
	progress  engine.Progress
	decisions map[int]engine.Decision
	cursor    string
	news      map[int]string
}

// Drive follows a run until every job has its outcome, or ctx ends, whose cause it then returns;
// the run continues without it.
func Drive(ctx context.Context, q DriveQueue, l *launch.Launch, o DriveOptions) (status queue.Status, err error) {
	part := queue.Part(l.Run.ID)
	d := &driver{q: q, l: l, o: o, results: engine.NewResults(l, o.Recorded...), decisions: map[int]engine.Decision{}, news: map[int]string{part: ""}}
	if !o.Joins {
		if _, err := queue.SubmitOne(ctx, q, l.Run); err != nil {
			return status, err
		}
		d.results = engine.NewResults(l, l.Run.FinishedJobs...)
	}
	for ctx.Err() == nil {
		next, more, err := d.poll(ctx)
		if err != nil {
			return status, err
		}
		if next.Run != "" {
			status = next
		}
		switch {
		case more:
			continue
		case status.Complete:
			return status, nil
		}
		wait := 500 * time.Millisecond
		if until := d.progress.Until; !until.IsZero() {
			wait = max(time.Millisecond, min(wait, time.Until(until)))
		}
		if news, err := q.News(ctx, d.news, wait); err == nil {
			d.news = news.Next
		}
	}
	return status, context.Cause(ctx)
}

// poll asks the queue, and does what follows. more reports that there are more records.
func (d *driver) poll(ctx context.Context) (status queue.Status, more bool, err error) {
	s := d.q.Poll(ctx, 1000, queue.Ask{Run: d.l.Run.ID, Cursor: d.cursor, Awaited: d.l.Snapshot.Turns != nil})[0]
	if s.Err != nil && ctx.Err() != nil {
		return status, false, nil //nolint:nilerr // Drive says why ctx ended
	}
	if s.Err != nil {
		return status, false, fmt.Errorf("poll run %s: %w", d.l.Run.ID, s.Err)
	}
	d.cursor = s.Next
	for _, r := range s.Records {
		d.results.Add(queue.FinishedJobs{Index: r.Index, Count: r.Count, Outcome: r.Outcome})
		if d.o.OnRecord != nil {
			d.l.Results(r, d.o.OnRecord)
		}
	}
	if d.o.OnStatus != nil {
		d.o.OnStatus(s.Status)
	}
	if s.More {
		return s.Status, true, nil
	}
	in := engine.Input{
		Launch: d.l, Results: d.results, Progress: d.progress, Phase: engine.Phase(s.Status.Phase), Reason: s.Status.Reason,
		Status: s.Status, Decisions: d.decisions, Now: time.Now(),
	}
	if !s.Partial {
		in.Awaited = s.Awaited
	}
	if d.o.Windows != nil {
		in.Windows = d.o.Windows()
	}
	var actions []engine.Action
	d.progress, actions = engine.Next(in)
	for _, a := range actions {
		if err := d.act(ctx, a); err != nil && ctx.Err() == nil {
			return s.Status, false, fmt.Errorf("%s in run %s: %w", a.Kind, d.l.Run.ID, err)
		}
	}
	return s.Status, false, nil
}

func (d *driver) act(ctx context.Context, a engine.Action) (err error) {
	id := d.l.Run.ID
	switch a.Kind {
	case engine.Release:
		err = queue.AdjustOne(ctx, d.q, id, queue.Adjust{Limit: &a.Limit})
	case engine.Stop:
		err = queue.AdjustOne(ctx, d.q, id, queue.Adjust{Stop: a.Reason})
	case engine.Signal:
		_, err = d.q.Signal(ctx, id, a.Signal)
	case engine.Dismiss:
		_, err = d.q.Dismiss(ctx, id, a.Signal, a.Reason)
	case engine.Cancel:
		err = d.q.Cancel(ctx, id, a.Reason)
	case engine.Notify:
		if d.o.OnEvent != nil {
			d.o.OnEvent(a.Event)
		}
		if a.Event.Kind == engine.EventAsk && d.o.Approve != nil {
			refused := d.o.Approve(a.Event.Wave)
			d.decisions[a.Event.Wave] = engine.Decision{By: "the test", Approved: refused == nil, Comment: fmt.Sprint(refused)}
		}
	default: // what a ledger asks for
		err = errors.ErrUnsupported
	}
	return err
}
