package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// act does what the engine decided, of all runs together. First it writes down which waves are
// about to be released. Then it does what one call of the queue does for all of them, then the rest
// of each run, in its order. Of a run of which something fails, the rest is not done, and its
// progress not kept: it is decided again.
func (c *Controller) act(ctx context.Context, polls []*poll) {
	c.noteReleases(ctx, polls)
	c.adjust(ctx, polls)
	for _, l := range polls {
		for i := range l.actions {
			if l.ends() {
				break
			}
			if err := c.actOne(ctx, l, &l.actions[i]); err != nil {
				l.fail(string(l.actions[i].Kind), err)
			}
		}
	}
}

// noteReleases writes down how far waves are about to be released. A queue that loses it afterwards
// had perhaps begun their jobs.
func (c *Controller) noteReleases(ctx context.Context, polls []*poll) {
	c.setProgress(ctx, polls, "write down that a wave is released", func(l *poll) (string, error) {
		if !slices.ContainsFunc(l.actions, func(a engine.Action) bool { return a.Kind == engine.Release }) {
			return l.run.Progress, nil
		}
		kept, _ := engine.DecodeProgress(l.run.Progress) // zero if nobody can read it: its waves begin again
		kept.Limit = l.progress.Limit
		return kept.Encode()
	})
}

// adjust pauses, resumes, releases and stops.
func (c *Controller) adjust(ctx context.Context, polls []*poll) {
	var adjusts []queue.Adjust
	var of []*poll
	for _, l := range polls {
		if l.ends() {
			continue
		}
		for i := range l.actions {
			a, yes, no := queue.Adjust{Run: l.run.ID}, true, false
			switch action := &l.actions[i]; action.Kind {
			case engine.Release:
				a.Limit = &action.Limit
			case engine.Stop:
				a.Stop = action.Reason
			case engine.Pause:
				a.Paused = &yes
			case engine.Resume:
				a.Paused = &no
			default:
				continue
			}
			adjusts, of = append(adjusts, a), append(of, l)
		}
	}
	for i, err := range c.cfg.Queue.Adjust(ctx, adjusts...) {
		if err != nil {
			of[i].fail("adjust the run in the queue", err)
		}
	}
}

func (c *Controller) actOne(ctx context.Context, l *poll, a *engine.Action) (err error) {
	id := l.run.ID
	switch a.Kind {
	case engine.Signal:
		_, err = c.cfg.Queue.Signal(ctx, id, a.Signal)
	case engine.Dismiss:
		_, err = c.cfg.Queue.Dismiss(ctx, id, a.Signal, a.Reason)
	case engine.Cancel:
		err = c.cancelRun(ctx, &l.run, a.Reason)
	case engine.Activate:
		_, err = c.cfg.Ledger.SetPhase(ctx, ledger.AllTenants(), "", id, ledger.PhaseActive, "")
		if errors.Is(err, core.ErrConflict) { // somebody asked for something else: see it
			l.again, err = true, nil
		}
	case engine.MarkStop:
		err = c.markStopped(ctx, id, a.Reason)
	case engine.Elect:
		err = c.elect(ctx, l, a.Step)
	case engine.Keep:
		err = c.keepOnce(ctx, l, a.Step)
	case engine.Share:
		if err = c.shareOnce(ctx, l, a.Step); err == nil {
			_, err = c.cfg.Queue.Signal(ctx, id, a.Signal)
		}
	case engine.Notify:
		c.notify(l, a.Event)
		if a.Event.Kind == engine.EventAsk { // durable before the progress is: it is not asked again
			err = c.report(ctx, Event{Kind: WaveAsks, Run: id, Wave: a.Event.Wave})
		}
	}
	return err
}

// cancelRun cancels a run that its engine ends, in the ledger first: a queue that is lost
// afterwards does not bring it back.
func (c *Controller) cancelRun(ctx context.Context, run *ledger.Run, reason core.Reason) error {
	if run.Phase != ledger.PhaseCancelled {
		if _, err := c.cfg.Ledger.Cancel(ctx, ledger.AllTenants(), "", run.ID, reason); err != nil && !errors.Is(err, core.ErrConflict) {
			return fmt.Errorf("write down that run %s is cancelled: %w", run.ID, err)
		}
	}
	return c.cfg.Queue.Cancel(ctx, run.ID, reason)
}

// notify reports what the engine saw.
func (c *Controller) notify(l *poll, e engine.Event) {
	if e.Kind == engine.EventReleased {
		l.w.pace.release(e.Wave)
	}
	c.emit(Event{Kind: RunEvent, Run: e.Run, Engine: &e})
}

// markStopped writes down that the queue stopped a run.
func (c *Controller) markStopped(ctx context.Context, id string, reason core.Reason) error {
	_, err := c.cfg.Ledger.SetPhase(ctx, ledger.AllTenants(), "", id, ledger.PhaseStopped, reason)
	if err != nil && !errors.Is(err, core.ErrConflict) { // cancelled meanwhile, or over
		return fmt.Errorf("write down that run %s was stopped: %w", id, err)
	}
	return nil
}

func (c *Controller) setQueuePaused(ctx context.Context, id string, paused bool) error {
	return queue.AdjustOne(ctx, c.cfg.Queue, id, queue.Adjust{Paused: &paused})
}
