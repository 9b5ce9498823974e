package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// doubts reports whether the queue may have lost changes, and this server has not compared it with
// the ledger yet. No run is put in meanwhile.
func (c *Controller) doubts() bool { return core.Locked(&c.mu, &c.doubt) }

func (c *Controller) setDoubt(doubt bool) {
	c.mu.Lock()
	was := c.doubt
	c.doubt = doubt
	c.mu.Unlock()
	if was && !doubt {
		c.Notify()
	}
}

// checkRestart compares the queue with the ledger after each restart and failover of Redis. The
// queue leases nothing until a server has done so: a queue that lost its last changes would lease
// jobs again whose outcomes are recorded. Runs that came back older are paused, and replaced one by
// one (see replace). If changes were lost, jobs may have begun that nobody knows of: runs that must
// not repeat them are paused.
func (c *Controller) checkRestart(ctx context.Context, incarnation string) error {
	doubt, err := c.cfg.Queue.Doubt(ctx)
	if err != nil {
		return err
	}
	if doubt.ID == "" || doubt == c.known {
		if doubt.ID == "" {
			c.known, c.setBack = queue.Doubt{}, false
		}
		c.setDoubt(false)
		return nil
	}
	c.setDoubt(true)
	behind, rest, err := c.compareAll(ctx, incarnation)
	if err != nil {
		return err
	}
	trusts := true
	if c.cfg.Alone {
		trusts, err = c.only(ctx)
	} else {
		_, err = c.endOver(ctx)
	}
	switch {
	case err != nil:
	case !doubt.Older && !c.setBack && len(behind) == 0:
		if trusts {
			err = c.cfg.Queue.Trust(ctx, doubt)
		}
	default:
		c.cfg.Log.Warn("Redis restarted, or failed over, and has lost changes: nothing starts until workers of lost leases have stopped", "runs", len(behind))
		doubt.Older = true
		if err = c.cfg.Queue.Hold(ctx); err == nil {
			err = c.holdForgotten(ctx, rest)
		}
	}
	if err != nil {
		return err
	}
	c.known, c.setBack = doubt, false
	c.setDoubt(false)
	return nil
}

// only reports whether no other server drives runs on the queue: one would have to compare them
// first.
func (c *Controller) only(ctx context.Context) (bool, error) {
	servers, err := c.cfg.Board.Names(ctx, serverPrefix)
	if err != nil {
		return false, err
	}
	drivers, err := c.cfg.Board.Names(ctx, driverPrefix)
	return len(servers) == 0 && len(drivers) <= 1, err
}

// compareAll compares all unfinished runs of the queue with the ledger. It pauses in the queue
// those that are behind the ledger, and makes them due for a check. rest are the others, also those
// that have stopped or were cancelled: what their jobs did is in doubt as well.
func (c *Controller) compareAll(ctx context.Context, incarnation string) (behind []string, rest []*poll, err error) {
	var page []ledger.Run
	compare := func() error {
		late, well, err := c.comparePage(ctx, page)
		behind, rest, page = append(behind, late...), append(rest, well...), page[:0]
		return err
	}
	err = c.eachUnfinished(ctx, func(r ledger.Run) error {
		if r.Incarnation != incarnation || !c.owns(r.ID) {
			return nil
		}
		if page = append(page, r); len(page) < pollRuns {
			return nil
		}
		return compare()
	})
	if err == nil {
		err = compare()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("compare runs: %w", err)
	}
	return behind, rest, nil
}

func (c *Controller) comparePage(ctx context.Context, page []ledger.Run) (behind []string, rest []*poll, err error) {
	if len(page) == 0 {
		return nil, nil, nil
	}
	asks := core.Map(page, func(r ledger.Run) queue.Ask { return queue.Ask{Run: r.ID, Cursor: r.Position} })
	yes := true
	var pauses []queue.Adjust
	for i, sight := range c.watch.Poll(ctx, 1, asks...) {
		run := page[i]
		goes := engine.Goes(engine.Phase(run.Phase))
		switch {
		case !goes && (errors.Is(sight.Err, core.ErrNotFound) || errors.Is(sight.Err, core.ErrInvalid)): // it is over when it is checked
		case errors.Is(sight.Err, core.ErrNotFound):
			behind = append(behind, run.ID)
		case errors.Is(sight.Err, core.ErrInvalid), goes && sight.Err == nil && sight.Status.Ended() < run.Recorded:
			behind = append(behind, run.ID)
			pauses = append(pauses, queue.Adjust{Run: run.ID, Paused: &yes})
		case sight.Err != nil:
			return nil, nil, sight.Err
		default:
			rest = append(rest, &poll{w: &watched{id: run.ID}, run: run, sight: sight})
		}
	}
	for _, err := range c.cfg.Queue.Adjust(ctx, pauses...) {
		if err != nil && !errors.Is(err, core.ErrNotFound) {
			return nil, nil, err
		}
	}
	c.attention(behind...)
	return behind, rest, nil
}

// holdForgotten doubts jobs that may have begun in what the queue has lost, and holds their runs.
func (c *Controller) holdForgotten(ctx context.Context, runs []*poll) error {
	for _, l := range runs {
		var err error
		if l.held, err = c.launchOf(ctx, &l.run); errors.Is(err, core.ErrInvalid) {
			continue // the next check refuses it
		} else if err != nil {
			return err
		}
		if err := c.readResults(ctx, l); err != nil {
			return err
		}
		l.progress = progressOf(&l.run)
		in := c.input(l)
		begun, hold := engine.Forgotten(&in)
		if begun == 0 {
			continue
		}
		one := *l.held.launch
		one.Run.FinishedJobs = l.held.results.Finished()
		if err := c.doubtJobs(ctx, l.run, &one, begun); err != nil {
			return err
		}
		if !hold {
			continue
		}
		if err := c.hold(ctx, l.run.ID); err != nil {
			return err
		}
		if err := c.setQueuePaused(ctx, l.run.ID, true); err != nil && !errors.Is(err, core.ErrNotFound) {
			return err
		}
		c.attention(l.run.ID)
	}
	return nil
}

// replaceAgain is how soon a run is checked again whose last jobs in an older queue have not ended.
const replaceAgain = 500 * time.Millisecond

// replace takes a run out of a queue that has forgotten outcomes of it, and has it put in again
// without the jobs that are recorded. Its running jobs end first, and are recorded.
func (c *Controller) replace(ctx context.Context, l *poll) {
	s := &l.sight.Status
	if l.again = l.again || l.sight.More; l.again {
		return
	}
	if s.Phase != queue.Paused || s.InFlight > 0 || len(l.sight.Records) > 0 {
		l.progress.Until = time.Now().Add(replaceAgain)
		return
	}
	if err := c.cfg.Ledger.Unqueue(ctx, l.run.ID, l.run.Incarnation); err != nil {
		l.fail("take it out of the queue", err)
		return
	}
	if _, err := c.cfg.Queue.Drop(ctx, l.run.ID, l.run.Recorded); err != nil {
		l.fail("take it out of the queue", err) // it is put in as it is, and checked again
	}
	l.over = true
	c.Notify()
}

// letGo has the queue start jobs of a run. One that came back older is left to replace.
func (c *Controller) letGo(ctx context.Context, run *ledger.Run) error {
	s, err := c.cfg.Queue.Status(ctx, run.ID)
	if err != nil || s.Ended() < run.Recorded {
		return err
	}
	return c.setQueuePaused(ctx, run.ID, false)
}
