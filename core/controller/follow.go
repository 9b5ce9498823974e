package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// follower follows one run: it hands records to the ledger, and releases waves.
type follower struct {
	c           *Controller
	id          string
	incarnation string // of the queue

	uncertain int // see ledger.Run

	watched *watched
	ends    []int     // of the run's segments
	handed  time.Time // when the outcomes came that are being recorded; under Controller.mu

	stop context.CancelFunc
	done chan struct{}
	poke chan struct{} // has room for one: look at the ledger's decisions
}

// followLocked starts a follower. c.mu is held.
func (c *Controller) followLocked(w *watched) {
	ctx, stop := context.WithCancel(context.Background()) // ended by leave, which joins it
	f := &follower{c: c, id: w.id, incarnation: w.incarnation, watched: w, stop: stop, done: make(chan struct{}), poke: make(chan struct{}, 1)}
	c.followers[w.id], w.follow = f, f
	go func() {
		defer close(f.done)
		defer stop()
		over := f.run(ctx)
		c.mu.Lock()
		delete(c.followers, w.id)
		w.follow = nil
		if over && c.watched[w.id] == w {
			delete(c.watched, w.id)
		}
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

// run follows until the run is complete, the queue has forgotten it, nothing happens in it for now, or ctx ends.
// over tells that there is nothing left to watch.
func (f *follower) run(ctx context.Context) (over bool) {
	for ctx.Err() == nil {
		err := f.once(ctx)
		switch {
		case err == nil, ctx.Err() != nil:
			return err == nil
		case errors.Is(err, launch.ErrIdle):
			return false
		case errors.Is(err, core.ErrConflict): // another server recorded: look where the ledger is now
			continue
		case errors.Is(err, core.ErrNotFound), errors.Is(err, errCursor):
			// The queue does not have what the ledger says it has, or not that part of its records: it came back older. The
			// run is put in again, which changes nothing where it is there, and its records are read from the beginning.
			f.c.forgotten(ctx, f.id, f.incarnation)
			return true
		}
		f.c.cfg.Log.Warn("a run is not followed for now", "run", f.id, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(retryFollow):
		}
	}
	return false
}

// errCursor says that the queue does not know the place in its records up to which they are recorded.
var errCursor = errors.New("the queue does not know where its records were left")

// once follows from where the ledger is.
func (f *follower) once(ctx context.Context) error {
	run, err := f.c.cfg.Ledger.Run(ctx, ledger.AllTenants(), f.id)
	if err != nil {
		return fmt.Errorf("read run %s: %w: %w", f.id, core.ErrUnavailable, err)
	}
	if run.Complete() || run.Incarnation != f.incarnation {
		return nil
	}
	l, err := f.c.restore(ctx, f.id)
	if err != nil {
		return fmt.Errorf("%w: %w", core.ErrUnavailable, err)
	}
	f.uncertain = run.Uncertain
	settled, err := f.c.settled(ctx, f.id)
	if err != nil {
		return fmt.Errorf("%w: %w", core.ErrUnavailable, err)
	}
	if err := f.older(ctx, run, l); err != nil {
		return err
	}
	f.ends = segmentEnds(l.Run.Segments)
	f.c.mu.Lock()
	f.watched.pace.begin(&run, l, time.Now())
	rest := f.watched.rest
	f.c.mu.Unlock()
	most := 0 // outcomes that the queue knew of
	status, err := launch.Drive(ctx, f.c.cfg.Queue, l, launch.DriveOptions{
		Resume: &launch.Resume{Cursor: run.Position, Settled: settled, Rest: &rest},
		Leave:  true,
		Record: func(ctx context.Context, records []queue.Record, from, to string) error {
			return f.record(ctx, l, records, from, to)
		},
		OnStatus: func(s queue.Status) {
			known := s.Ended()
			if known < most { // forgotten, or given another life
				f.forgot(ctx, l)
			}
			most = known
			if s.Phase == queue.Paused {
				f.note(func(p *pace) { p.paused = time.Now() })
			}
			f.agree(ctx, s)
		},
		OnEvent: func(e launch.Event) {
			if e.Kind == launch.EventReleased {
				f.note(func(p *pace) { p.released[e.Wave] = time.Now() })
			}
			f.c.say(Event{Kind: RunEvent, Run: f.id, Launch: &e})
			if e.Kind == launch.EventAsk {
				f.c.say(Event{Kind: WaveAsks, Run: f.id, Wave: e.Wave})
			}
		},
		Approve: f.approve,
		Idle: func(quiet time.Duration, s queue.Status, rest launch.Rest) bool {
			return f.c.idle(f.id, l, quiet, s, rest)
		},
		Wait: f.wait,
	})
	if errors.Is(err, core.ErrInvalid) {
		return fmt.Errorf("%w: %w", errCursor, err)
	}
	if err != nil {
		return err
	}
	ended, err := f.c.cfg.Ledger.Run(ctx, ledger.AllTenants(), f.id)
	if err != nil {
		return fmt.Errorf("%w: %w", core.ErrUnavailable, err)
	}
	status.Outcomes = ended.Outcomes // the queue knows nothing of a queue before it that was lost
	f.c.say(Event{Kind: RunEnded, Run: f.id, Status: &status})
	return nil
}

// older looks whether the queue has forgotten outcomes that are recorded, as Redis does that restarts from an older file: their jobs
// run again. Where they must not, the run is held, before most of them have begun.
func (f *follower) older(ctx context.Context, run ledger.Run, l *launch.Launch) error {
	status, err := f.c.cfg.Queue.Status(ctx, f.id)
	if err != nil {
		return err
	}
	known := status.Ended()
	if known >= run.Recorded || status.Complete {
		return nil
	}
	f.c.cfg.Log.Warn("the queue came back older than what is recorded", "run", f.id, "outcomes", known, "recorded", run.Recorded)
	if l.Run.Settled, err = f.c.settled(ctx, f.id); err != nil {
		return err
	}
	begun, err := f.c.doubt(ctx, l)
	if err != nil {
		return err
	}
	f.uncertain = max(f.uncertain, begun)
	if l.Run.OnLost != queue.LostHold || run.Phase != ledger.PhaseActive {
		return nil
	}
	if err := f.c.hold(ctx, f.id); err != nil {
		return err
	}
	return f.c.setQueuePaused(ctx, f.id, true)
}

// forgot looks at a run of which the queue knows fewer outcomes than before.
func (f *follower) forgot(ctx context.Context, l *launch.Launch) {
	run, err := f.c.cfg.Ledger.Run(ctx, ledger.AllTenants(), f.id)
	if err == nil {
		err = f.older(ctx, run, l)
	}
	if err != nil && ctx.Err() == nil {
		f.c.cfg.Log.Warn("whether the queue came back older could not be found out", "run", f.id, "error", err)
	}
}

// wait paces the looks at the queue. A few followers block on it, each on a connection of its own; where more are at work, they
// ask it a few times a second.
func (f *follower) wait(ctx context.Context, quiet time.Duration) time.Duration {
	f.c.mu.Lock()
	few := len(f.c.followers) <= maxAsking
	f.c.mu.Unlock()
	if few {
		return askFor
	}
	timer := time.NewTimer(min(max(quiet/4, askEvery), askMost))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return 0
}

// How long a follower blocks on the queue, and how often it asks where too many would.
const (
	askFor   = 500 * time.Millisecond
	askEvery = 100 * time.Millisecond
	askMost  = time.Second
)

// record makes records durable. It repeats while the ledger is away.
func (f *follower) record(ctx context.Context, l *launch.Launch, records []queue.Record, from, to string) error {
	list, results, err := outcomes(l, records, f.uncertain)
	if err != nil {
		return err
	}
	f.handing(true)
	defer f.handing(false)
	if err := f.stopped(ctx, records); err != nil {
		return err
	}
	if err := f.missed(ctx, list); err != nil {
		return err
	}
	batch := ledger.Batch{Run: f.id, Cursor: &ledger.Cursor{Incarnation: f.incarnation, From: from, To: to}, Outcomes: list}
	backoff := core.Backoff{Interval: 100 * time.Millisecond, Max: 5 * time.Second}
	for n := 0; ; n++ {
		recorded, err := f.c.recorder.record(ctx, batch)
		if err == nil && recorded.Known > 0 && from != "" {
			f.c.say(Event{Kind: RunRepeated, Run: f.id, Count: recorded.Known})
			f.c.cfg.Log.Warn("jobs ended that were recorded before: the queue had forgotten them, and they ran twice", "run", f.id, "jobs", recorded.Known)
		}
		if err == nil {
			f.measure(l, list, results)
		}
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

// missed tells of jobs that ended since no window is left to them, before they are recorded: else nobody would.
func (f *follower) missed(ctx context.Context, list []ledger.Outcome) error {
	e := Event{Kind: WindowMissed, Run: f.id}
	for i := range list {
		if reason, ok := strings.CutPrefix(list[i].Reason, core.NeedsReapproval); ok {
			e.Count += max(list[i].Count, 1)
			e.Reason = reason
		}
	}
	if e.Count == 0 {
		return nil
	}
	return f.c.tell(ctx, e)
}

// stopped writes down that the queue stopped the run, before the outcomes are that follow from it: the last one would finish it.
func (f *follower) stopped(ctx context.Context, records []queue.Record) error {
	if !slices.ContainsFunc(records, func(r queue.Record) bool { return r.Outcome == core.Cancelled }) {
		return nil
	}
	s, err := f.c.cfg.Queue.Status(ctx, f.id)
	if err != nil || s.Phase != queue.Stopped {
		return err
	}
	_, err = f.c.cfg.Ledger.SetPhase(ctx, ledger.AllTenants(), "", f.id, ledger.PhaseStopped, s.Reason)
	if errors.Is(err, core.ErrConflict) {
		return nil
	}
	return err
}

// agree brings ledger and queue together. What a person asked for stands in the ledger, also if the queue
// was away when they asked; that a run was stopped is the queue's to say.
func (f *follower) agree(ctx context.Context, s queue.Status) {
	f.c.wakeJobs(ctx, f.watched, s)
	f.c.stalls(ctx, f.watched, s)
	f.c.mu.Lock()
	phase := f.watched.phase
	f.c.mu.Unlock()
	if s.Complete || string(phase) == string(s.Phase) { // the last outcome ends it in the ledger
		return
	}
	run, err := f.c.cfg.Ledger.Run(ctx, ledger.AllTenants(), f.id)
	if err == nil {
		err = f.settlePhase(ctx, run, s)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, core.ErrConflict) {
		f.c.cfg.Log.Warn("ledger and queue do not agree on a run", "run", f.id, "error", err)
		return
	}
	f.c.mu.Lock()
	f.watched.phase = run.Phase
	f.c.mu.Unlock()
}

func (f *follower) settlePhase(ctx context.Context, run ledger.Run, s queue.Status) error {
	switch {
	case run.Phase == ledger.PhaseCancelled && s.Phase != queue.Cancelled:
		return f.c.cfg.Queue.Cancel(ctx, f.id, run.Reason)
	case s.Phase == queue.Stopped && run.Phase != ledger.PhaseStopped && run.Phase != ledger.PhaseCancelled:
		_, err := f.c.cfg.Ledger.SetPhase(ctx, ledger.AllTenants(), "", f.id, ledger.PhaseStopped, s.Reason)
		return err
	case run.Phase == ledger.PhaseQueued: // it was let go on while it was being put into the queue
		if _, err := f.c.cfg.Ledger.SetPhase(ctx, ledger.AllTenants(), "", f.id, ledger.PhaseActive, ""); err != nil {
			return err
		}
		return f.c.letGo(ctx, f.id)
	case run.Phase == ledger.PhasePaused && s.Phase == queue.Active:
		return f.c.setQueuePaused(ctx, f.id, true)
	case run.Phase == ledger.PhaseActive && s.Phase == queue.Paused:
		return f.c.letGo(ctx, f.id)
	}
	return nil
}

// approveEvery is how often decisions are looked for when nobody pokes: another server may have taken one.
const approveEvery = 2 * time.Second

// approve waits until somebody has decided on a wave.
func (f *follower) approve(ctx context.Context, wave int) error {
	for {
		switch d := f.c.decided(ctx, f.id, wave); {
		case d == undecided:
		case d.Approved:
			return nil
		default:
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

// undecided is the decision that nobody took.
var undecided ledger.Decision

// decided is what somebody decided on a wave. A refusal goes before approvals.
func (c *Controller) decided(ctx context.Context, id string, wave int) (found ledger.Decision) {
	decisions, err := c.cfg.Ledger.Decisions(ctx, ledger.AllTenants(), id)
	if err != nil && ctx.Err() == nil {
		c.cfg.Log.Warn("decisions on a run could not be read", "run", id, "error", err)
	}
	for _, d := range decisions {
		if d.Wave == wave && !d.Void && (found == undecided || !d.Approved) {
			found = d
		}
	}
	return found
}

// WakeWindows has the jobs of this server's runs that wait for windows look again: windows have changed. It does
// not block. Other servers are told by their own catalogs; jobs of a run that just moves from one to another look by themselves in time.
func (c *Controller) WakeWindows() {
	c.mu.Lock()
	c.wakes++
	c.mu.Unlock()
	c.Poke()
}
