package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/telemetry"
)

// putIn puts runs into the queue that it lacks, whenever it is notified, and every second.
func (c *Controller) putIn(ctx context.Context) {
	defer c.putting.End()
	var refuses core.Outage
	failures := map[string]failure{}
	for ctx.Err() == nil {
		c.putting.Beat()
		if incarnation := c.currentIncarnation(); incarnation != "" && !c.doubts() {
			err := c.enqueueAll(ctx, incarnation, failures)
			if c.cfg.Alone && ctx.Err() == nil && (err != nil || len(failures) == 0) { // else those that failed are passed over
				c.emitOutage(&refuses, err)
			}
		}
		core.Pause(ctx, tickEvery, c.putNow)
	}
}

// failure is a run that was claimed and not put into the queue.
type failure struct {
	since time.Time
	times int
}

const (
	refuseAfter = 30 * time.Minute // of failures that are the run's own, not those of a queue or a ledger that is away
	maxFailures = 16 * claimMax    // that are remembered; each is forgotten when the run is queued or refused
)

// Pauses before a run that failed is claimed again, by any server.
var (
	awayBackoff   = core.Backoff{Interval: time.Second, Max: 5 * time.Second}
	refuseBackoff = core.Backoff{Interval: time.Second, Max: time.Minute}
)

// next decides what follows a failure: the run is refused, or claimed again after a pause. A run
// that is invalid stays so; one that the queue or the ledger was away for is never refused.
func (f failure) next(err error, alone bool, now time.Time) (refuse bool, after time.Duration) {
	switch {
	case errors.Is(err, core.ErrUnavailable), errors.Is(err, core.ErrUnknown):
		return false, awayBackoff.Delay(f.times-1, 0)
	case errors.Is(err, core.ErrInvalid), alone, now.Sub(f.since) >= refuseAfter:
		return true, 0
	}
	return false, refuseBackoff.Delay(f.times-1, 0)
}

// emitOutage emits once that the queue is away, and later that it is back. A queue that can be read
// but does not take a run, because it is full or refuses writes, also counts as away: somebody
// waits for the run.
func (c *Controller) emitOutage(o *core.Outage, err error) {
	if err == nil {
		if lasted, failed := o.Over(); failed > 0 {
			c.emit(Event{Kind: QueueBack, Count: failed, Lasted: lasted})
		}
		return
	}
	if report, lasts := o.Failed(); report && lasts == 0 {
		c.emit(Event{Kind: QueueAway, Err: err})
	}
}

// enqueueAll claims runs that the queue does not have, and puts them into it, most critical first.
// Runs that fail are passed over for a while, so that they keep none of those behind them. It
// returns why the last one failed, and ends early if no run of a claim could be put in.
func (c *Controller) enqueueAll(ctx context.Context, incarnation string, failures map[string]failure) (last error) {
	for {
		c.putting.Beat()
		claims, err := c.claim(ctx, incarnation)
		if err != nil {
			c.warn(ctx, "cannot claim runs for the queue", err)
			return fmt.Errorf("claim runs: %w", err)
		}
		if len(claims) == 0 {
			return last
		}
		failed := 0
		began := time.Now()
		errs := c.enqueue(ctx, incarnation, claims...)
		c.took = time.Since(began)
		for i, err := range errs {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil {
				delete(failures, claims[i].Run.ID)
			} else if err = c.notQueued(ctx, claims[i], err, failures); err != nil {
				last, failed = err, failed+1
			}
		}
		if failed == len(claims) {
			return last
		}
	}
}

// notQueued refuses a run that was not put into the queue, or has it claimed again later, and
// returns why. A run is warned of once, however often it fails.
func (c *Controller) notQueued(ctx context.Context, claim ledger.Claim, why error, failures map[string]failure) error {
	if len(failures) >= maxFailures { // of runs that were cancelled meanwhile, or that other servers have queued
		clear(failures)
	}
	id, now := claim.Run.ID, time.Now()
	f, known := failures[id]
	if !known {
		f.since = now
		c.cfg.Log.Warn("a run was not put into the queue, retrying", "run", id, "error", why)
	}
	f.times++
	failures[id] = f
	refuse, after := f.next(why, c.cfg.Alone, now)
	if refuse {
		err := c.refuse(ctx, claim.Run, why, claim)
		if err == nil || errors.Is(err, core.ErrConflict) { // or another server does what follows
			delete(failures, id)
			return nil
		}
		after = awayBackoff.Max
	}
	if c.cfg.Alone { // no other run waits behind it, and its one user waits for it
		after = 0
	}
	if err := c.cfg.Ledger.Release(ctx, claim, after); err != nil {
		c.cfg.Log.Warn("a claim was not released; it expires", "run", id, "error", err)
	}
	return fmt.Errorf("run %s: %w", id, why)
}

func (c *Controller) claimNext(ctx context.Context, incarnation string) ([]ledger.Claim, error) {
	return c.cfg.Ledger.ClaimNext(ctx, c.cfg.Name, incarnation, c.claimTTL(), claimMax, claimJobs)
}

// claimTTL is how long the next claim lasts: longer than the last attempt took. Otherwise servers
// that are slow take over each other's claims, and none of them puts a run in.
func (c *Controller) claimTTL() time.Duration {
	return max(claimFor, min(2*c.took, claimMost))
}

// claimOwn is claimNext of one that is alone.
func (c *Controller) claimOwn(ctx context.Context, incarnation string) ([]ledger.Claim, error) {
	c.mu.Lock()
	own := slices.Sorted(maps.Keys(c.own))
	c.mu.Unlock()
	if len(own) == 0 {
		return nil, nil
	}
	return c.cfg.Ledger.ClaimOf(ctx, c.cfg.Name, incarnation, c.claimTTL(), own)
}

// owns reports whether this process checks a run: one that is alone checks its own.
func (c *Controller) owns(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.cfg.Alone || c.own[id]
}

// disown forgets runs that have ended.
func (c *Controller) disown(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.own, id)
}

// enqueue puts claimed runs into the queue: one call of it, and one transaction. It returns an
// error, or nil, for each of them.
func (c *Controller) enqueue(ctx context.Context, incarnation string, claims ...ledger.Claim) []error {
	errs, spans, launches := make([]error, len(claims)), make([]trace.Span, len(claims)), make([]*launch.Launch, len(claims))
	all := make([]*ledger.Run, len(claims))
	for i := range claims {
		all[i] = &claims[i].Run
	}
	c.loadLaunches(ctx, all)
	for i, claim := range claims {
		launches[i], spans[i], errs[i] = c.prepare(ctx, claim, incarnation)
	}
	c.addPending(ctx, claims, launches, errs)
	var runs []queue.Run
	var at []int // where the claim of a run is
	for i := range claims {
		if errs[i] == nil {
			runs, at = append(runs, launches[i].Run), append(at, i)
		}
	}
	if len(runs) > 0 {
		for i, err := range c.submit(ctx, incarnation, runs, claims, at) {
			errs[at[i]] = err
		}
	}
	for i, span := range spans {
		if span != nil {
			telemetry.EndSpan(span, errs[i])
		}
	}
	return errs
}

// submit puts prepared runs into the queue, writes down that it has them, and lets them continue.
// at has the index of each one's claim.
func (c *Controller) submit(ctx context.Context, incarnation string, runs []queue.Run, claims []ledger.Claim, at []int) []error {
	errs := make([]error, len(runs))
	fail := func(what string, err error) []error {
		for i := range errs {
			if errs[i] == nil {
				errs[i] = fmt.Errorf("%s: %w", what, err)
			}
		}
		return errs
	}
	// A queue that was emptied meanwhile is another one: in it, what runs may be at work on has to
	// be waited for first.
	if name, err := c.nameQueue(ctx); err != nil || name != incarnation {
		return fail("put it into the queue", errors.Join(core.ErrUnavailable, err))
	}
	c.enter(runs)
	defer c.entered(runs)
	var queued []ledger.Claim
	var of []int
	had := map[string]bool{} // the queue had the run already, and may have come back older
	for i, answer := range c.cfg.Queue.Submit(ctx, runs...) {
		err := answer.Err
		had[runs[i].ID] = !answer.Created
		if errors.Is(err, core.ErrConflict) {
			had[runs[i].ID], err = c.putAgain(ctx, claims[at[i]], runs[i])
		}
		if err != nil {
			errs[i] = fmt.Errorf("put it into the queue: %w", err)
			continue
		}
		queued, of = append(queued, claims[at[i]]), append(of, i)
	}
	marked, err := c.cfg.Ledger.Enqueued(ctx, incarnation, queued...)
	if err != nil {
		return fail("write down that the queue has it", err)
	}
	var going, shares []queue.Adjust
	no := false
	for i := range marked {
		run := &marked[i].Run
		switch errs[of[i]] = marked[i].Err; {
		case marked[i].Err != nil:
			continue
		case run.Phase == ledger.PhaseCancelled:
			err = c.cfg.Queue.Cancel(ctx, run.ID, run.Reason)
		case run.Phase == ledger.PhasePaused, run.Phase == ledger.PhaseStopped: // the engine stops it again
		case run.Recorded > 0 && had[run.ID]: // it is released, or replaced, when it is checked
		default:
			going = append(going, queue.Adjust{Run: run.ID, Paused: &no})
		}
		if s := run.Shares; s.Weight != nil || s.MaxInFlight != nil {
			shares = append(shares, queue.Adjust{Run: run.ID, Weight: s.Weight, MaxInFlight: s.MaxInFlight})
		}
		c.emit(Event{Kind: RunEnqueued, Run: run.ID})
		if run.Recorded > 0 && had[run.ID] { // it came back older, and must be replaced
			defer c.attention(run.ID)
		}
	}
	if len(shares) > 0 {
		err = errors.Join(err, errors.Join(c.cfg.Queue.Adjust(ctx, shares...)...))
	}
	err = errors.Join(err, errors.Join(c.cfg.Queue.Adjust(ctx, going...)...))
	if err != nil { // whose run it is brings that about
		c.cfg.Log.Warn("some runs stay paused in the queue until they are checked", "error", err)
	}
	return errs
}

// putAgain puts a run into the queue that has it with other content, and reports whether the old
// one stays. A server put that there and ended before it wrote that down. If none ever did, nothing
// of the run has been let go, and it may have been amended since: the new content takes its place.
// Else other handlers were pending. After the claim has ended the old one may be what another
// server put there since, and stays.
func (c *Controller) putAgain(ctx context.Context, claim ledger.Claim, run queue.Run) (stays bool, err error) {
	if err := c.cfg.Ledger.Held(ctx, claim); err != nil {
		return true, err
	}
	if claim.Run.Incarnation != "" {
		_, err := c.cfg.Queue.Status(ctx, run.ID)
		return true, err
	}
	if gone, err := c.cfg.Queue.Drop(ctx, run.ID, 1); err != nil {
		return true, err
	} else if !gone {
		return true, fmt.Errorf("the queue has another run %s that has begun: %w", run.ID, core.ErrConflict)
	}
	answer := c.cfg.Queue.Submit(ctx, run)[0]
	return !answer.Created, answer.Err
}

// enter defers checks of runs while they are put into the queue: its news comes before the ledger
// records that it has them, and waits until then.
func (c *Controller) enter(runs []queue.Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range runs {
		c.entering[runs[i].ID] = false
	}
}

// entered makes those due for a check that are in this server's parts, and those of which there
// were news meanwhile.
func (c *Controller) entered(runs []queue.Run) {
	c.mu.Lock()
	for i := range runs {
		id := runs[i].ID
		if c.entering[id] || c.parts[queue.Part(id)] {
			c.agenda.touch(id)
		}
		delete(c.entering, id)
	}
	c.mu.Unlock()
	core.Notify(c.wake)
}

// prepare reads a claimed run back, as far as it is not recorded, and begins its span.
func (c *Controller) prepare(ctx context.Context, claim ledger.Claim, incarnation string) (*launch.Launch, trace.Span, error) {
	h, err := c.launchOf(ctx, &claim.Run)
	if err != nil {
		return nil, nil, err
	}
	l := *h.launch // what is changed below is this queue's run only
	var span trace.Span
	if l.Snapshot.Trace != "" {
		ctx, span = telemetry.BeginSpan(telemetry.UnderTrace(ctx, l.Snapshot.Trace), c.cfg.Traces, telemetry.SpanEnqueue,
			trace.WithAttributes(telemetry.AttributeRun.String(claim.Run.ID), telemetry.AttributeTenant.String(claim.Run.Tenant)))
	}
	return &l, span, c.remaining(ctx, claim.Run, &l, incarnation)
}

// remaining makes a launch one of what of its run is not recorded.
func (c *Controller) remaining(ctx context.Context, run ledger.Run, l *launch.Launch, incarnation string) error {
	if run.Recorded > 0 {
		var err error
		if l.Run.FinishedJobs, err = c.finishedJobs(ctx, run.ID); err != nil {
			return err
		}
	}
	if err := c.holdLost(ctx, run, l, incarnation); err != nil {
		return err
	}
	if c.queueLost(run.ID, run.Incarnation, incarnation) {
		if err := c.doubtJobs(ctx, run, l, begun(&run, l, l.Run.FinishedJobs, time.Now())); err != nil {
			return err
		}
	}
	// It goes in paused, and is released by the ledger's phase once the ledger has it as queued: else
	// a run that somebody cancels between the two would start.
	l.Run.Paused = true
	return nil
}

// doubtJobs writes down what the first jobs of a run may have done in a queue that lost changes.
// Each may have begun, and its steps count as changed on all of their hosts without an outcome,
// whatever becomes of the jobs.
func (c *Controller) doubtJobs(ctx context.Context, run ledger.Run, l *launch.Launch, begun int) error {
	if begun == 0 {
		return nil
	}
	if err := c.cfg.Ledger.Doubt(ctx, run.ID, begun); err != nil {
		return err
	}
	if names := l.Playbook.Notifiable(); !l.Snapshot.Check && len(names) > 0 {
		return c.cfg.Ledger.LeaveHandlers(ctx, run, unfinishedHosts(l, begun), names)
	}
	return nil
}

// begun is how many jobs of a run, from the first on, may have begun by until in a queue that is
// gone.
func begun(run *ledger.Run, l *launch.Launch, finished []queue.FinishedJobs, until time.Time) int {
	return engine.Begun(l, engine.NewResults(l, finished...), progressOf(run), until)
}

// progressOf is how far a run has come. If nobody can read that, all of its waves may have been
// released.
func progressOf(run *ledger.Run) engine.Progress {
	progress, err := engine.DecodeProgress(run.Progress)
	if err != nil {
		return engine.Progress{Limit: run.Total}
	}
	return progress
}

// addPending gives runs the handlers that earlier runs of their playbooks left pending on their
// hosts. errs has an error of a run that must stay out of the queue.
func (c *Controller) addPending(ctx context.Context, claims []ledger.Claim, launches []*launch.Launch, errs []error) {
	of := func(i int) ledger.HandlersOf {
		return ledger.HandlersOf{Tenant: claims[i].Run.Tenant, Playbook: claims[i].Run.Playbook}
	}
	var all []ledger.HandlersOf
	for i := range claims {
		if errs[i] == nil {
			all = append(all, of(i))
		}
	}
	pending, err := c.cfg.Ledger.HostHandlers(ctx, all...)
	for i := range claims {
		switch {
		case errs[i] != nil:
		case err != nil:
			errs[i] = err
		case len(pending[of(i)]) > 0:
			if e := launches[i].SetPending(pending[of(i)]); e != nil {
				errs[i] = fmt.Errorf("run %s: %w", claims[i].Run.ID, e)
			}
		}
	}
}

// unfinishedHosts are the hosts of those of the first jobs of a run that have no outcome.
func unfinishedHosts(l *launch.Launch, first int) (hosts []string) {
	l.Run.Unfinished(func(_ time.Time, from, to int) {
		for _, h := range l.Hosts[min(from, first):min(to, first)] {
			hosts = append(hosts, h.Name)
		}
	})
	return hosts
}

// queueLost reports whether a queue, by its incarnation, had the run and is gone, with what its
// jobs had reached.
func (c *Controller) queueLost(run, had, incarnation string) bool {
	return had != "" && had != incarnation && !slices.Contains(c.cfg.Intact, run)
}

// lostReason is why a run is paused after its queue was lost.
const lostReason = "the queue was lost while jobs of it may have been running, and they must not be repeated blindly: check the hosts, then resume or cancel it"

// holdLost pauses a run of which nobody knows which jobs were running in the queue that was lost,
// where they must not be repeated.
func (c *Controller) holdLost(ctx context.Context, run ledger.Run, l *launch.Launch, incarnation string) error {
	// A run that no queue has had is queued, not active.
	if run.Phase != ledger.PhaseActive || run.Incarnation == incarnation || l.Run.OnLost != queue.LostHold || slices.Contains(c.cfg.Intact, run.ID) {
		return nil
	}
	return c.hold(ctx, run.ID)
}

// hold pauses a run in the ledger, for lostReason.
func (c *Controller) hold(ctx context.Context, id string) error {
	_, err := c.cfg.Ledger.SetPhase(ctx, ledger.AllTenants(), "", id, ledger.PhasePaused, core.Because(core.QueueLost, lostReason))
	if errors.Is(err, core.ErrConflict) { // cancelled, stopped or complete meanwhile
		return nil
	}
	if err != nil {
		return fmt.Errorf("hold run %s: %w", id, err)
	}
	c.emit(Event{Kind: RunPaused, Run: id, Reason: core.Because(core.QueueLost, lostReason)})
	return nil
}

// refuse ends a run that no queue can take, or that cannot be read back, with the reason. by is
// this server's claim of it, if it has one; core.ErrConflict if another server has taken that over.
func (c *Controller) refuse(ctx context.Context, run ledger.Run, why error, by ...ledger.Claim) error {
	for _, claim := range by {
		if err := c.cfg.Ledger.Held(ctx, claim); err != nil {
			return err
		}
	}
	reason := core.Because("", why.Error())
	if err := c.report(ctx, Event{Kind: RunRefused, Run: run.ID, Reason: reason, Err: why}); err != nil {
		return err
	}
	return c.cfg.Ledger.Refuse(ctx, run.ID, begunBefore(&run), reason, by...)
}

// begunBefore returns how many jobs of a run, from the first on, may have begun.
func begunBefore(run *ledger.Run) int {
	if run.Incarnation != "" { // a queue had it, and it cannot be read how far its waves were
		return run.Total
	}
	return run.Uncertain
}

// finishedJobs returns the recorded outcomes of a run.
func (c *Controller) finishedJobs(ctx context.Context, id string) ([]queue.FinishedJobs, error) {
	ended, err := c.cfg.Ledger.Ended(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read what is recorded of run %s: %w", id, err)
	}
	return core.Map(ended, func(e ledger.Ended) queue.FinishedJobs { return queue.FinishedJobs(e) }), nil
}
