package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// The board's documents of processes that drive a run that no ledger has, as turnus run --redis
// does. They show that the process is there.
const (
	driverPrefix = "driver/"
	driverFor    = time.Minute
	driverEvery  = 15 * time.Second
)

// Announce posts on the board that this process drives the run, which no ledger has, until ctx
// ends. Check then leaves the run alone. A post that fails is tried again with the next one.
func Announce(ctx context.Context, b board.Board, run string) {
	for ctx.Err() == nil {
		_, _ = b.Post(ctx, driverPrefix+run, nil, driverFor) // the driver of the run reports that the queue is away
		core.Pause(ctx, driverEvery, nil)
	}
}

// checkOrphans checks runs of the queue that the ledger does not know as unfinished. unfinished
// reports which it does.
func (c *Controller) checkOrphans(ctx context.Context, unfinished map[string]bool, repair bool) ([]Finding, error) {
	suspects, err := c.orphans(ctx, unfinished)
	if err != nil || len(suspects) == 0 {
		return nil, err
	}
	if err := core.Sleep(ctx, lag); err != nil { // they may be new, or just ending
		return nil, err
	}
	driven, err := c.cfg.Board.Names(ctx, driverPrefix)
	if err != nil {
		return nil, err
	}
	var all []Finding
	for _, id := range suspects {
		f, err := c.orphan(ctx, id, slices.Contains(driven, driverPrefix+id), repair)
		if err != nil {
			return all, err
		}
		if f != nil {
			all = append(all, *f)
		}
	}
	return all, nil
}

func (c *Controller) orphans(ctx context.Context, unfinished map[string]bool) ([]string, error) {
	ids, err := c.cfg.Queue.Runs(ctx)
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return unfinished[id] })
	slices.Sort(ids)
	return ids, nil
}

// orphan returns what is wrong with one; nil: nothing any more. It is paused, and not cancelled:
// that keeps what runs from being cut off, and a service with another ledger, whose run it may be,
// resumes it.
func (c *Controller) orphan(ctx context.Context, id string, driven, repair bool) (*Finding, error) {
	s, err := c.cfg.Queue.Status(ctx, id)
	if errors.Is(err, core.ErrNotFound) || err == nil && s.Complete {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	run, err := c.cfg.Ledger.Run(ctx, ledger.AllTenants(), id)
	unknown := errors.Is(err, core.ErrNotFound)
	if err != nil && !unknown {
		return nil, err
	}
	f := &Finding{Part: Between, Run: id}
	held := s.Phase != queue.Active && s.InFlight == 0
	switch {
	case !unknown && !run.Complete(): // it was accepted meanwhile
		return nil, nil
	case unknown && driven:
		f.What, f.Note = "the queue has it, and the ledger does not: it was started beside the service, as by turnus run --redis, which is there", true
	case held && unknown:
		f.What, f.Note = "the queue has it, and the ledger does not; it is "+string(s.Phase)+", and nothing of it runs", true
	case held:
		f.What, f.Note = "it is over in the ledger, and the queue has forgotten a part of that; it is "+string(s.Phase)+", and nothing of it runs", true
	case unknown:
		f.What = "the queue has it, the ledger does not, and nobody drives it: what its jobs do is recorded nowhere"
	default:
		f.What = "it is over in the ledger, and the queue works on it: its jobs run again, and that is recorded nowhere"
	}
	if f.Note || !repair {
		return f, nil
	}
	if s.Phase == queue.Active {
		if err := c.setQueuePaused(ctx, id, true); err != nil {
			f.What += "; it could not be paused: " + err.Error()
			return f, nil //nolint:nilerr // the finding says it
		}
	}
	f.What += "; it is paused: running jobs end, and no further job starts"
	f.Repaired = true
	return f, nil
}

// How often a server checks for runs that have ended when nothing reports that the queue came back
// older, and while jobs of one run.
const (
	sweepEvery = time.Minute
	sweepSoon  = 2 * time.Second
)

// heldOver is why the queue's part of a run is paused, and ended. The ledger does not know of that.
const heldOver = "the queue came back older: by the ledger the run has ended"

// sweep has the queue stop working on runs that are over in the ledger: it came back older, and has
// forgotten the end of them. Nobody follows those any more, and their jobs would run again.
func (c *Controller) sweep(ctx context.Context) {
	began := time.Now()
	if began.Before(c.sweepAt) {
		return
	}
	ending, err := c.endOver(ctx)
	if err != nil && ctx.Err() == nil {
		c.cfg.Log.Warn("runs that are over could not be looked for", "error", err)
		return // again at the next look
	}
	every := sweepEvery
	if ending {
		every = sweepSoon
	}
	c.sweepAt = began.Add(max(every, 200*time.Since(began)))
}

// endOver ends them; ending reports that jobs of some still run.
func (c *Controller) endOver(ctx context.Context) (ending bool, err error) {
	ids, err := c.cfg.Queue.Runs(ctx) // first: what is accepted meanwhile is none of them
	if err != nil {
		return false, err
	}
	unfinished := map[string]bool{}
	err = c.eachStanding(ctx, func(r ledger.Standing) { unfinished[r.ID] = true })
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		if unfinished[id] {
			continue
		}
		run, err := c.cfg.Ledger.Run(ctx, ledger.AllTenants(), id)
		if errors.Is(err, core.ErrNotFound) || err == nil && !run.Complete() {
			continue // beside the service, or released meanwhile
		}
		if err != nil {
			return ending, err
		}
		ended, err := c.endOne(ctx, id)
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			return ending, err
		}
		ending = ending || !ended
	}
	return ending, nil
}

// endOne holds a run, and ends it once nothing of it runs: what runs is not cut off.
func (c *Controller) endOne(ctx context.Context, id string) (ended bool, err error) {
	s, err := c.cfg.Queue.Status(ctx, id)
	if err != nil || s.Complete {
		return true, err
	}
	if s.Phase == queue.Active {
		if err := c.setQueuePaused(ctx, id, true); err != nil {
			return false, err
		}
		c.cfg.Log.Warn(heldOver, "run", id)
		c.emit(Event{Kind: RunPaused, Run: id, Reason: core.Because(core.QueueOlder, heldOver)})
		if s, err = c.cfg.Queue.Status(ctx, id); err != nil {
			return false, err
		}
	}
	if s.InFlight > 0 {
		return false, nil
	}
	return true, c.cfg.Queue.Cancel(ctx, id, core.Because(core.QueueOlder, heldOver))
}
