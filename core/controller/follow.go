package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// follower follows one run: it hands records to the ledger, and releases waves.
type follower struct {
	c    *Controller
	id   string
	life string // incarnation of the queue
	stop context.CancelFunc
	done chan struct{}
	poke chan struct{} // has room for one: look at the ledger's decisions
}

// follow starts a follower, unless there is one.
func (c *Controller) follow(id, life string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.followers[id]; f != nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background()) // ended by leave, which joins it
	f := &follower{c: c, id: id, life: life, stop: stop, done: make(chan struct{}), poke: make(chan struct{}, 1)}
	c.followers[id] = f
	go func() {
		defer close(f.done)
		f.run(ctx)
		c.mu.Lock()
		delete(c.followers, id)
		c.mu.Unlock()
		c.Poke()
	}()
}

// leaveAll ends all followers, and returns when they have.
func (c *Controller) leaveAll() { c.leave(func(*follower) bool { return true }) }

// leave ends the followers that match, and returns when they have.
func (c *Controller) leave(match func(*follower) bool) {
	c.mu.Lock()
	var leaving []*follower
	for _, f := range c.followers {
		if match(f) {
			leaving = append(leaving, f)
		}
	}
	c.mu.Unlock()
	for _, f := range leaving {
		f.stop()
	}
	for _, f := range leaving {
		<-f.done
	}
}

// run follows until the run is complete, the queue has forgotten it, or ctx ends.
func (f *follower) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := f.once(ctx)
		switch {
		case err == nil, ctx.Err() != nil:
			return
		case errors.Is(err, core.ErrConflict): // another server recorded: look where the ledger is now
			continue
		case errors.Is(err, core.ErrNotFound): // the queue does not have what the ledger says it has
			if err := f.c.cfg.Ledger.Unqueue(ctx, f.id, f.life); err != nil {
				f.c.cfg.Log.Warn("a run that the queue has lost was not given free", "run", f.id, "error", err)
			}
			return
		}
		f.c.cfg.Log.Warn("a run is not followed for now", "run", f.id, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(retryFollow):
		}
	}
}

// once follows from where the ledger is.
func (f *follower) once(ctx context.Context) error {
	run, err := f.c.cfg.Ledger.Run(ctx, ledger.AllTenants(), f.id)
	if err != nil {
		return fmt.Errorf("read run %s: %w: %w", f.id, core.ErrUnavailable, err)
	}
	if run.Complete() || run.Incarnation != f.life {
		return nil
	}
	l, err := f.c.restore(ctx, f.id)
	if err != nil {
		return err
	}
	settled, err := f.c.settled(ctx, f.id)
	if err != nil {
		return err
	}
	status, err := launch.Drive(ctx, f.c.cfg.Queue, l, launch.DriveOptions{
		Resume: &launch.Resume{Cursor: run.Position, Settled: settled},
		Leave:  true,
		Record: func(ctx context.Context, records []queue.Record, from, to string) error {
			return f.record(ctx, l, records, from, to)
		},
		OnStatus: func(s queue.Status) { f.agree(ctx, s) },
		OnEvent:  func(e launch.Event) { f.c.say(Event{Kind: RunEvent, Run: f.id, Launch: &e}) },
		Approve:  f.approve,
	})
	if err != nil {
		return err
	}
	f.c.say(Event{Kind: RunEnded, Run: f.id, Status: &status})
	return nil
}

// record makes records durable. It repeats while the ledger is away.
func (f *follower) record(ctx context.Context, l *launch.Launch, records []queue.Record, from, to string) error {
	list, err := outcomes(l, records)
	if err != nil {
		return err
	}
	batch := ledger.Batch{Run: f.id, Cursor: &ledger.Cursor{Incarnation: f.life, From: from, To: to}, Outcomes: list}
	backoff := core.Backoff{Interval: 100 * time.Millisecond, Max: 5 * time.Second}
	for n := 0; ; n++ {
		err := f.c.recorder.record(ctx, batch)
		if !errors.Is(err, core.ErrUnavailable) && !errors.Is(err, core.ErrUnknown) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(backoff.Delay(n, 0)):
		}
	}
}

// agree brings ledger and queue together. What a person asked for stands in the ledger, also if the queue
// was away when they asked; that a run was stopped is the queue's to say.
func (f *follower) agree(ctx context.Context, s queue.Status) {
	if s.Complete { // the last outcome ends it in the ledger
		return
	}
	run, err := f.c.cfg.Ledger.Run(ctx, ledger.AllTenants(), f.id)
	if err == nil {
		err = f.settlePhase(ctx, run, s)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, core.ErrConflict) {
		f.c.cfg.Log.Warn("ledger and queue do not agree on a run", "run", f.id, "error", err)
	}
}

func (f *follower) settlePhase(ctx context.Context, run ledger.Run, s queue.Status) error {
	switch {
	case run.Phase == ledger.PhaseCancelled && s.Phase != queue.Cancelled:
		return f.c.cfg.Queue.Cancel(ctx, f.id, run.Reason)
	case s.Phase == queue.Stopped && run.Phase != ledger.PhaseStopped && run.Phase != ledger.PhaseCancelled:
		_, err := f.c.cfg.Ledger.SetPhase(ctx, ledger.AllTenants(), "", f.id, ledger.PhaseStopped, s.Reason)
		return err
	case run.Phase == ledger.PhasePaused && s.Phase == queue.Active, run.Phase == ledger.PhaseActive && s.Phase == queue.Paused:
		paused := run.Phase == ledger.PhasePaused
		return f.c.cfg.Queue.Adjust(ctx, f.id, queue.Adjust{Paused: &paused})
	}
	return nil
}

// approveEvery is how often decisions are looked for when nobody pokes: another server may have taken one.
const approveEvery = 2 * time.Second

// approve waits until somebody has decided on a wave.
func (f *follower) approve(ctx context.Context, wave int) error {
	for {
		decisions, err := f.c.cfg.Ledger.Decisions(ctx, ledger.AllTenants(), f.id)
		if err != nil && ctx.Err() == nil {
			f.c.cfg.Log.Warn("decisions on a run could not be read", "run", f.id, "error", err)
		}
		for _, d := range decisions {
			if d.Wave != wave || d.Void {
				continue
			}
			if d.Approved {
				return nil
			}
			return fmt.Errorf("%s refused it: %s", d.By, d.Comment)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.poke:
		case <-time.After(approveEvery):
		}
	}
}

// WakeWindows has the jobs of this server's runs that wait for windows look again: windows have changed. It does
// not block. Other servers are told by their own catalogs; jobs of a run that just moves from one to another look by themselves in time.
func (c *Controller) WakeWindows() {
	c.mu.Lock()
	c.wakes++
	c.mu.Unlock()
	c.Poke()
}
