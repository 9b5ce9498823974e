package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// Part is where a Finding is.
type Part string

// The parts.
const (
	InLedger Part = "ledger"
	InQueue  Part = "queue"
	Between  Part = "between" // ledger and queue do not agree
	// InProject is the project: a commit, folder or version that servers do not use.
	InProject Part = "project"
	// InSources is a source of hosts that fails, or of which a generation waits for approval.
	InSources Part = "sources"
)

// Finding is one broken promise.
type Finding struct {
	Part     Part   `json:"part"`
	Run      string `json:"run,omitempty"`
	What     string `json:"what"`
	Repaired bool   `json:"repaired"`
	Note     bool   `json:"note,omitempty"` // worth knowing, and no fault
}

// lag is how long servers at work may take to bring ledger and queue together before it is a fault.
const lag = 5 * time.Second

// Check checks the invariants of ledger and queue, each alone and between them. With repair it
// repairs what it can without losing anything. It may run beside servers: what they are about to do
// is no fault. A sound service has no findings but notes. While the queue is away the ledger is
// checked, and the error wraps core.ErrUnavailable.
func (c *Controller) Check(ctx context.Context, repair bool) ([]Finding, error) {
	var all []Finding
	found, err := c.cfg.Ledger.Check(ctx, repair)
	for _, f := range found {
		all = append(all, Finding{Part: InLedger, Run: f.Run, What: f.What, Repaired: f.Repaired})
	}
	if err != nil {
		return all, fmt.Errorf("check the ledger: %w", err)
	}
	broken, err := c.cfg.Queue.Check(ctx, repair)
	for _, f := range broken {
		all = append(all, Finding{Part: InQueue, Run: f.Run, What: f.What, Repaired: f.Repaired})
	}
	if err != nil {
		return all, fmt.Errorf("check the queue: %w", err)
	}
	between, err := c.checkBetween(ctx, repair)
	if err != nil {
		err = fmt.Errorf("compare ledger and queue: %w", err)
	}
	return append(all, between...), err
}

// checkBetween compares the runs that are not complete.
func (c *Controller) checkBetween(ctx context.Context, repair bool) ([]Finding, error) {
	incarnation, known, err := c.knownIncarnation(ctx, repair)
	if err != nil {
		return nil, err
	}
	var all []Finding
	if !known {
		all = append(all, Finding{Part: Between, What: "the queue is empty or was emptied, and no server has taken notice", Repaired: repair})
	}
	var suspects []ledger.Run
	unfinished := map[string]bool{}
	err = c.eachUnfinished(ctx, func(r ledger.Run) error {
		unfinished[r.ID] = true
		what, _, err := c.disagree(ctx, r, incarnation)
		if what != "" {
			suspects = append(suspects, r)
		}
		return err
	})
	if err != nil {
		return all, err
	}
	disagreeing, err := c.recheck(ctx, suspects, incarnation, repair)
	all = append(all, disagreeing...)
	if err != nil {
		return all, err
	}
	orphans, err := c.checkOrphans(ctx, unfinished, repair)
	return append(all, orphans...), err
}

// recheck looks again at runs on which ledger and queue did not agree: a server may have been at
// it.
func (c *Controller) recheck(ctx context.Context, suspects []ledger.Run, incarnation string, repair bool) (all []Finding, err error) {
	if len(suspects) == 0 {
		return nil, nil
	}
	if err := core.Sleep(ctx, lag); err != nil {
		return nil, err
	}
	for _, r := range suspects {
		r, err := c.cfg.Ledger.Run(ctx, ledger.AllTenants(), r.ID)
		if err != nil {
			return all, err
		}
		what, mend, err := c.disagree(ctx, r, incarnation)
		if err != nil {
			return all, err
		}
		if what == "" {
			continue
		}
		f := Finding{Part: Between, Run: r.ID, What: what}
		if repair && mend != nil {
			if err := mend(ctx); err != nil {
				f.What += "; it could not be repaired: " + err.Error()
			} else {
				f.Repaired = true
			}
		}
		all = append(all, f)
	}
	return all, nil
}

// knownIncarnation is the queue's incarnation; known is false where it had none.
func (c *Controller) knownIncarnation(ctx context.Context, repair bool) (incarnation string, known bool, err error) {
	name, _, err := c.cfg.Board.Posted(ctx, board.Incarnation, 0)
	switch {
	case err == nil:
		return string(name), true, nil
	case !errors.Is(err, core.ErrNotFound):
		return "", false, err
	case !repair:
		return "none", false, nil
	}
	incarnation, err = incarnationOf(ctx, c.cfg.Board)
	return incarnation, false, err
}

func (c *Controller) eachUnfinished(ctx context.Context, do func(ledger.Run) error) error {
	for r, err := range ledger.Each(ctx, followPage, c.cfg.Ledger.Unfinished) {
		if err != nil {
			return err
		}
		if err := do(r); err != nil {
			return err
		}
	}
	return nil
}

// eachStanding is eachUnfinished for what a server remembers of a run.
func (c *Controller) eachStanding(ctx context.Context, do func(ledger.Standing)) error {
	var last ledger.Standing
	for {
		runs, err := c.cfg.Ledger.Standings(ctx, last)
		if err != nil || len(runs) == 0 {
			return err
		}
		for _, r := range runs {
			do(r)
		}
		last = runs[len(runs)-1]
	}
}

// disagree returns what of a run is not the same in ledger and queue, and how that is mended; ""
// when all is well.
func (c *Controller) disagree(ctx context.Context, r ledger.Run, incarnation string) (what string, mend func(context.Context) error, err error) {
	if r.Complete() || r.Phase == ledger.PhaseAwaiting {
		return "", nil, nil
	}
	if r.Incarnation != incarnation {
		return "it is accepted, and no server has put it into the queue", func(ctx context.Context) error { return c.enqueueOne(ctx, r.ID) }, nil
	}
	s, err := c.cfg.Queue.Status(ctx, r.ID)
	if errors.Is(err, core.ErrNotFound) {
		return "the queue should have it, and has not", func(ctx context.Context) error {
			if err := c.cfg.Ledger.Unqueue(ctx, r.ID, incarnation); err != nil {
				return err
			}
			return c.enqueueOne(ctx, r.ID)
		}, nil
	}
	if err != nil {
		return "", nil, err
	}
	ended := s.Ended()
	switch {
	case s.Total != r.Total:
		return fmt.Sprintf("it has %d jobs in the queue, %d in the ledger", s.Total, r.Total), nil, nil
	case ended > r.Recorded:
		return fmt.Sprintf("%d outcomes of the queue are not recorded", ended-r.Recorded), func(ctx context.Context) error { return c.pollOnce(ctx, r.ID, incarnation) }, nil
	case ended < r.Recorded:
		return fmt.Sprintf("%d outcomes are recorded that the queue has forgotten: their jobs run again", r.Recorded-ended), nil, nil
	case r.Phase == ledger.PhaseCancelled && s.Phase != queue.Cancelled, s.Phase == queue.Stopped && r.Phase != ledger.PhaseStopped && r.Phase != ledger.PhaseCancelled,
		r.Phase == ledger.PhasePaused && s.Phase == queue.Active, (r.Phase == ledger.PhaseActive || r.Phase == ledger.PhaseQueued) && s.Phase == queue.Paused:
		return fmt.Sprintf("it is %s in the ledger, %s in the queue", r.Phase, s.Phase), func(ctx context.Context) error {
			if err := c.pollOnce(ctx, r.ID, incarnation); err != nil {
				return err
			}
			return c.pollOnce(ctx, r.ID, incarnation)
		}, nil
	}
	return "", nil, nil
}

// enqueueOne puts one run into the queue.
func (c *Controller) enqueueOne(ctx context.Context, id string) error {
	incarnation, err := incarnationOf(ctx, c.cfg.Board)
	if err != nil {
		return err
	}
	claim, err := c.cfg.Ledger.Claim(ctx, c.cfg.Name, id, incarnation, claimFor)
	if err != nil {
		return err
	}
	return c.enqueue(ctx, incarnation, claim)[0]
}
