package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/tracing"
)

// enqueueSome claims runs that the queue does not have, and puts them into it, most critical first. It
// returns how many it claimed.
func (c *Controller) enqueueSome(ctx context.Context, incarnation string) (int, error) {
	claims, err := c.claim(ctx, incarnation)
	if err != nil {
		return 0, fmt.Errorf("claim runs: %w", err)
	}
	var errs []error
	for i, err := range c.enqueue(ctx, incarnation, claims...) {
		if err == nil {
			continue
		}
		errs = append(errs, fmt.Errorf("run %s: %w", claims[i].Run.ID, err))
		if err := c.cfg.Ledger.Release(ctx, claims[i]); err != nil {
			errs = append(errs, err)
		}
	}
	return len(claims), errors.Join(errs...)
}

func (c *Controller) claimNext(ctx context.Context, incarnation string) ([]ledger.Claim, error) {
	return c.cfg.Ledger.ClaimNext(ctx, c.cfg.Name, incarnation, claimFor, claimMax)
}

// enqueue puts claimed runs into the queue, with one call of it. It returns an error, or nil, for each of them.
func (c *Controller) enqueue(ctx context.Context, incarnation string, claims ...ledger.Claim) []error {
	errs, spans := make([]error, len(claims)), make([]trace.Span, len(claims))
	var runs []queue.Run
	var at []int // where the claim of a run is
	for i, claim := range claims {
		var run *queue.Run
		if run, spans[i], errs[i] = c.prepare(ctx, claim, incarnation); run != nil && errs[i] == nil {
			runs, at = append(runs, *run), append(at, i)
		}
	}
	for i, answer := range c.cfg.Queue.Submit(ctx, runs...) {
		errs[at[i]] = c.enqueued(ctx, claims[at[i]], incarnation, answer.Err)
	}
	for i, span := range spans {
		if span != nil {
			tracing.End(span, errs[i])
		}
	}
	return errs
}

// prepare reads a claimed run back and begins its span. The run is nil if it was refused.
func (c *Controller) prepare(ctx context.Context, claim ledger.Claim, incarnation string) (*queue.Run, trace.Span, error) {
	l, err := c.restore(ctx, claim.Run.ID)
	if errors.Is(err, core.ErrInvalid) {
		return nil, nil, c.refuse(ctx, claim, incarnation, err)
	}
	if err != nil {
		return nil, nil, err
	}
	var span trace.Span
	if l.Snapshot.Trace != "" {
		ctx, span = tracing.Begin(tracing.Under(ctx, l.Snapshot.Trace), c.cfg.Traces, tracing.Enqueue,
			trace.WithAttributes(tracing.Run.String(claim.Run.ID), tracing.Tenant.String(claim.Run.Tenant)))
	}
	run, err := c.remaining(ctx, claim, l, incarnation)
	return run, span, err
}

// remaining is a run as far as it is not recorded, nil if it was refused.
func (c *Controller) remaining(ctx context.Context, claim ledger.Claim, l *launch.Launch, incarnation string) (*queue.Run, error) {
	var err error
	if l.Run.Settled, err = c.settled(ctx, claim.Run.ID); err != nil {
		return nil, err
	}
	if err := c.holdLost(ctx, claim.Run, l, incarnation); err != nil {
		return nil, err
	}
	if c.queueLost(claim.Run, incarnation) {
		if _, err := c.doubt(ctx, l); err != nil {
			return nil, err
		}
	}
	if err := c.addPending(ctx, claim.Run, l, incarnation); errors.Is(err, core.ErrInvalid) {
		return nil, c.refuse(ctx, claim, incarnation, err)
	} else if err != nil {
		return nil, err
	}
	// It goes in paused, and is let go on by what the ledger says once it says that the queue has it: else a run that
	// somebody cancels between the two would start.
	l.Run.Paused = true
	return &l.Run, nil
}

// enqueued writes down that the queue has a run, and lets it go on; err is what the queue answered.
func (c *Controller) enqueued(ctx context.Context, claim ledger.Claim, incarnation string, err error) error {
	if errors.Is(err, core.ErrConflict) { // a server that ended since put it there, when other handlers were pending
		_, err = c.cfg.Queue.Status(ctx, claim.Run.ID)
	}
	if err != nil {
		return fmt.Errorf("put it into the queue: %w", err)
	}
	run, err := c.cfg.Ledger.Enqueued(ctx, claim, incarnation)
	if err != nil {
		return fmt.Errorf("write down that the queue has it: %w", err)
	}
	switch run.Phase {
	case ledger.PhaseCancelled:
		err = c.cfg.Queue.Cancel(ctx, run.ID, run.Reason)
	case ledger.PhasePaused:
	default:
		err = c.letGo(ctx, run.ID)
	}
	if err != nil { // who follows it brings that about
		c.cfg.Log.Warn("a run is held in the queue for now", "run", run.ID, "error", err)
	}
	c.accepted.Store(true)
	c.say(Event{Kind: RunEnqueued, Run: run.ID})
	return nil
}

// addPending gives a run the handlers that earlier runs of its playbook left pending on its hosts. If the queue that had the run was lost, its
// steps count as changed on all hosts without an outcome, whatever becomes of their jobs.
func (c *Controller) addPending(ctx context.Context, run ledger.Run, l *launch.Launch, incarnation string) error {
	names := l.Playbook.Notifiable()
	if !l.Snapshot.Check && len(names) > 0 && c.queueLost(run, incarnation) {
		var hosts []string
		l.Run.Unsettled(func(_ time.Time, from, to int) {
			for _, h := range l.Hosts[from:to] {
				hosts = append(hosts, h.Name)
			}
		})
		if err := c.cfg.Ledger.LeaveHandlers(ctx, run, hosts, names); err != nil {
			return err
		}
	}
	pending, err := c.cfg.Ledger.HostHandlers(ctx, run.Tenant, run.Playbook)
	if err != nil {
		return err
	}
	if err := l.SetPending(pending); err != nil {
		return fmt.Errorf("run %s: %w", run.ID, err)
	}
	return nil
}

func (c *Controller) setQueuePaused(ctx context.Context, id string, paused bool) error {
	return c.cfg.Queue.Adjust(ctx, id, queue.Adjust{Paused: &paused})
}

// queueLost tells whether a queue had the run and is gone, with what its jobs had reached.
func (c *Controller) queueLost(run ledger.Run, incarnation string) bool {
	return run.Incarnation != "" && run.Incarnation != incarnation && !slices.Contains(c.cfg.Intact, run.ID)
}

// doubt writes down which jobs may have begun in a queue that was lost, and returns how many, from the first on: those of released
// waves that were due. l.Run.Settled is what is recorded.
func (c *Controller) doubt(ctx context.Context, l *launch.Launch) (n int, err error) {
	done, released := 0, len(l.Hosts)
	for _, s := range l.Run.Settled {
		if s.Index == done {
			done += s.Count
		}
	}
	if i := slices.IndexFunc(l.Limits, func(limit int) bool { return done < limit }); i >= 0 { // a wave waits for all of the one before
		released = l.Limits[i]
	}
	l.Run.Unsettled(func(due time.Time, from, to int) {
		if from < released && !due.After(time.Now()) {
			n = min(to, released)
		}
	})
	if n == 0 {
		return 0, nil
	}
	return n, c.cfg.Ledger.Doubt(ctx, l.Run.ID, n)
}

// lostReason is why a run is held after its queue was lost.
const lostReason = "the queue was lost while jobs of it may have been running, and they must not be repeated blindly: look at the hosts, then resume or cancel it"

// holdLost pauses a run of which nobody knows which jobs were running in the queue that was lost, where they must not be repeated.
func (c *Controller) holdLost(ctx context.Context, run ledger.Run, l *launch.Launch, incarnation string) error {
	// A run that no queue has had is queued, not active.
	if run.Phase != ledger.PhaseActive || run.Incarnation == incarnation || l.Run.OnLost != queue.LostHold || slices.Contains(c.cfg.Intact, run.ID) {
		return nil
	}
	return c.hold(ctx, run.ID)
}

// hold pauses a run in the ledger, for lostReason.
func (c *Controller) hold(ctx context.Context, id string) error {
	_, err := c.cfg.Ledger.SetPhase(ctx, ledger.AllTenants(), "", id, ledger.PhasePaused, lostReason)
	if errors.Is(err, core.ErrConflict) { // cancelled, stopped or complete meanwhile
		return nil
	}
	if err != nil {
		return fmt.Errorf("hold run %s: %w", id, err)
	}
	c.say(Event{Kind: RunHeld, Run: id, Reason: lostReason})
	return nil
}

// restore reads a run back from the ledger.
func (c *Controller) restore(ctx context.Context, id string) (*launch.Launch, error) {
	m, err := c.cfg.Ledger.Material(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read run %s: %w", id, err)
	}
	return launch.Restore(m.Snapshot, m.Queue, c.cfg.Types)
}

// refuse ends a run that cannot be read back, with the reason.
func (c *Controller) refuse(ctx context.Context, claim ledger.Claim, incarnation string, why error) error {
	if err := c.tell(ctx, Event{Kind: RunRefused, Run: claim.Run.ID, Reason: why.Error()}); err != nil {
		return err
	}
	begun := claim.Run.Uncertain
	if c.queueLost(claim.Run, incarnation) { // nobody can read how far its waves were
		begun = claim.Run.Total
	}
	return c.cfg.Ledger.Refuse(ctx, claim, begun, why.Error())
}

// settled is what the ledger has recorded of a run.
func (c *Controller) settled(ctx context.Context, id string) ([]queue.Settled, error) {
	ended, err := c.cfg.Ledger.Ended(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read what is recorded of run %s: %w", id, err)
	}
	list := make([]queue.Settled, len(ended))
	for i, e := range ended {
		list[i] = queue.Settled{Index: e.Index, Count: e.Count, Outcome: e.Outcome}
	}
	return list, nil
}
