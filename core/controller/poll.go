package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// A poll takes runs with news through five steps, all of them together: read what the ledger has of
// them, ask the queue, record what is new, decide what follows, do it. A run that fails at one of
// them is checked again after a while; only the ledger remembers, so it does not matter where it
// failed, or which server continues.

// poll is one run on its way through a look.
type poll struct {
	w         *watched
	run       ledger.Run
	held      *held
	sight     queue.Sight
	uncertain int // see ledger.Run.Uncertain
	progress  engine.Progress
	outcomes  []ledger.Outcome // to be recorded
	results   []core.Result
	actions   []engine.Action
	err       error
	early     bool // no queue has it yet
	later     bool // it has too many hosts beside those before it
	behind    bool // the queue has forgotten outcomes that are recorded
	over      bool // there is nothing to watch any more
	again     bool // read it again immediately
	stalled   bool // it was asked what its jobs wait for, to notify the people that they wait for
}

// ends reports whether the rest of the look is not for this run.
func (l *poll) ends() bool { return l.err != nil || l.early || l.over || l.later }

// fail makes the run due for another check, and reports why.
func (l *poll) fail(what string, err error) {
	if l.err == nil {
		l.err = fmt.Errorf("%s: %w", what, err)
	}
}

// How much one look takes.
const (
	pollRuns    = queue.MaxPoll
	pollRecords = 4000   // of all its runs together; at most 1000 of one
	pollHosts   = 50_000 // of all its runs together, beside one: all of them are in memory together
)

// pollAt polls runs, and sets when to check them again.
func (c *Controller) pollAt(ctx context.Context, runs []*watched) {
	away := 0
	var why error
	var polls []*poll
	together, alone := apart(runs)
	if len(together) > 0 {
		polls = c.pollThrough(ctx, c.currentIncarnation(), together...)
	}
	for _, w := range alone {
		polls = append(polls, c.pollThrough(ctx, c.currentIncarnation(), w)...)
	}
	for _, l := range polls {
		l.w.alone = false
		switch {
		case l.err == nil || ctx.Err() != nil:
		case errors.Is(l.err, core.ErrUnavailable):
			away, why = away+1, l.err
		default:
			l.w.alone = true
			if l.w.failures == 0 {
				c.cfg.Log.Warn("a run is checked again later", "run", l.w.id, "error", l.err)
			}
		}
		c.planNext(l)
	}
	if away > 0 { // ledger or queue: the same for all of them
		c.cfg.Log.Warn("runs are checked again later", "runs", away, "error", why)
	}
}

func (c *Controller) pollThrough(ctx context.Context, incarnation string, runs ...*watched) []*poll {
	polls := c.readRuns(ctx, runs, incarnation)
	c.see(ctx, polls)
	c.record(ctx, polls, incarnation)
	for _, l := range polls {
		switch {
		case l.ends():
		case l.behind && engine.Goes(engine.Phase(l.run.Phase)):
			c.replace(ctx, l)
		default:
			c.decide(ctx, l)
		}
	}
	c.act(ctx, polls)
	c.keepProgress(ctx, polls)
	return polls
}

// apart takes runs out that failed for another reason than that ledger or queue are away: what one
// of them has broken must not keep failing the others, whose reads and writes it shares.
func apart(runs []*watched) (together, alone []*watched) {
	for _, w := range runs {
		if w.alone {
			alone = append(alone, w)
		} else {
			together = append(together, w)
		}
	}
	return together, alone
}

// pollOnce takes one run through a poll, for a repair beside servers.
func (c *Controller) pollOnce(ctx context.Context, id, incarnation string) error {
	for {
		l := c.pollThrough(ctx, incarnation, &watched{id: id, index: -1})[0]
		if l.err != nil || !l.again {
			return l.err
		}
	}
}

// readRuns reads what the ledger has of the runs.
func (c *Controller) readRuns(ctx context.Context, runs []*watched, incarnation string) []*poll {
	rows, err := c.cfg.Ledger.RunsOf(ctx, core.Map(runs, func(w *watched) string { return w.id }))
	byID := make(map[string]ledger.Run, len(rows))
	for _, r := range rows {
		byID[r.ID] = r
	}
	polls := make([]*poll, len(runs))
	var there []*poll
	hosts := 0
	for i, w := range runs {
		run, ok := byID[w.id]
		l := &poll{w: w, run: run, uncertain: run.Uncertain}
		polls[i] = l
		switch {
		case err != nil:
			l.fail("read the run", err)
		case !ok, run.Complete(), run.Phase == ledger.PhaseAwaiting, !c.owns(w.id):
			l.over = true
		case run.Incarnation != incarnation: // it is being put into the queue; it is checked after the submit, or at its news
			l.early = true
		case len(there) > 0 && hosts+run.Total > pollHosts:
			l.later = true
		default:
			hosts += run.Total
			w.version = run.Version
			there = append(there, l)
		}
	}
	c.readLaunches(ctx, there)
	return polls
}

func (c *Controller) readLaunches(ctx context.Context, polls []*poll) {
	c.loadLaunches(ctx, core.Map(polls, func(l *poll) *ledger.Run { return &l.run }))
	for _, l := range polls {
		c.readLaunch(ctx, l)
	}
}

func (c *Controller) readLaunch(ctx context.Context, l *poll) {
	var err error
	if l.held, err = c.launchOf(ctx, &l.run); errors.Is(err, core.ErrInvalid) {
		c.endUnreadable(ctx, l, err)
		return
	}
	if err != nil {
		l.fail("read the run", err)
		return
	}
	if l.progress, err = engine.DecodeProgress(l.run.Progress); err != nil {
		c.cfg.Log.Warn("a run begins its waves again", "run", l.run.ID, "error", err)
	}
}

// endUnreadable ends a run that the queue has and that cannot be read back, for example by a
// program older than it.
func (c *Controller) endUnreadable(ctx context.Context, l *poll, why error) {
	if err := c.cfg.Queue.Cancel(ctx, l.run.ID, core.Because("", why.Error())); err != nil && !errors.Is(err, core.ErrNotFound) {
		l.fail("cancel a run that cannot be read", err)
		return
	}
	if err := c.refuse(ctx, l.run, why); err != nil {
		l.fail("refuse a run that cannot be read", err)
		return
	}
	l.over = true
}

// see asks the queue: apart about the runs of which it had more records than fit, so that a large
// run is not read a few records at a time beside many small ones.
func (c *Controller) see(ctx context.Context, polls []*poll) {
	var few, many []*poll
	for _, l := range polls {
		switch {
		case l.ends():
		case l.w.more:
			many = append(many, l)
		default:
			few = append(few, l)
		}
	}
	c.ask(ctx, few)
	c.ask(ctx, many)
}

func (c *Controller) ask(ctx context.Context, polls []*poll) {
	if len(polls) == 0 {
		return
	}
	asks := make([]queue.Ask, len(polls))
	now := time.Now()
	for i, l := range polls {
		l.stalled = !l.w.stallAt.IsZero() && !now.Before(l.w.stallAt)
		asks[i] = queue.Ask{Run: l.run.ID, Cursor: l.run.Position, Awaited: l.stalled || l.held.launch.Snapshot.Turns != nil || l.held.launch.Snapshot.Once != nil}
	}
	for i, sight := range c.watch.Poll(ctx, max(1, min(1000, pollRecords/len(asks))), asks...) {
		c.seen(ctx, polls[i], sight)
	}
}

// seen takes in what the queue answered about a run.
func (c *Controller) seen(ctx context.Context, l *poll, sight queue.Sight) {
	l.sight, l.again, l.w.more = sight, sight.More, sight.More
	switch {
	case errors.Is(sight.Err, core.ErrNotFound), errors.Is(sight.Err, core.ErrInvalid):
		if c.cfg.Alone {
			l.over = true
			c.emit(Event{Kind: RunGone, Run: l.run.ID, Err: sight.Err})
			return
		}
		// The queue lacks the run, or a part of its records, which it has by the ledger: it came back
		// older. The run is put in again, which changes nothing where it is there, and its records are
		// read from the beginning.
		if err := c.cfg.Ledger.Unqueue(ctx, l.run.ID, l.run.Incarnation); err != nil {
			l.fail("a run that the queue has lost was not given free", err)
			return
		}
		l.over = true
		c.Notify()
	case sight.Err != nil:
		l.fail("ask the queue", sight.Err)
	default:
		if err := c.compare(ctx, l); err != nil {
			l.fail("compare the queue with what is recorded", err)
		}
	}
}

// compare detects that the queue came back older than the record. Then jobs run again that were
// recorded; where they must not, the run is paused before most of them have begun.
func (c *Controller) compare(ctx context.Context, l *poll) error {
	if err := c.readResults(ctx, l); err != nil {
		return err
	}
	in := c.input(l)
	progress, begun, hold := engine.Older(&in)
	if begun > 0 {
		c.cfg.Log.Warn("the queue came back older than what is recorded", "run", l.run.ID, "outcomes", l.sight.Status.Ended(), "recorded", l.run.Recorded)
		if err := c.cfg.Ledger.Doubt(ctx, l.run.ID, begun); err != nil {
			return err
		}
		l.uncertain = max(l.uncertain, begun)
	}
	if hold {
		if err := c.hold(ctx, l.run.ID); err != nil {
			return err
		}
		l.run.Phase, l.again = ledger.PhasePaused, true // what person asked for what is read again
	}
	l.progress, l.behind = progress, progress.Behind > 0
	if l.behind && l.sight.Status.Phase == queue.Active {
		return c.setQueuePaused(ctx, l.run.ID, true)
	}
	return nil
}

// readResults brings the results in memory to where the ledger is.
func (c *Controller) readResults(ctx context.Context, l *poll) error {
	h, run := l.held, &l.run
	if h.results != nil && h.incarnation == run.Incarnation && h.position == run.Position && h.results.Count() == run.Recorded {
		return nil
	}
	var recorded []queue.FinishedJobs
	if run.Recorded > 0 {
		var err error
		if recorded, err = c.finishedJobs(ctx, run.ID); err != nil {
			return err
		}
	}
	h.results, h.incarnation, h.position = engine.NewResults(h.launch, recorded...), run.Incarnation, run.Position
	return nil
}

func (c *Controller) input(l *poll) engine.Input {
	in := engine.Input{
		Launch: l.held.launch, Results: l.held.results, Recorded: l.run.Recorded, Progress: l.progress, Phase: engine.Phase(l.run.Phase), Reason: l.run.Reason,
		Status: l.sight.Status, Now: time.Now(),
	}
	if !l.sight.Partial {
		in.Awaited = l.sight.Awaited
	}
	if c.cfg.Windows != nil {
		in.Windows = c.cfg.Windows()
	}
	return in
}

// record makes what is new durable, of all runs together.
func (c *Controller) record(ctx context.Context, polls []*poll, incarnation string) {
	var batches []ledger.Batch
	var of []*poll
	for _, l := range polls {
		if l.ends() {
			continue
		}
		c.unrecorded(len(l.sight.Records) > 0, l.run.ID)
		if len(l.sight.Records) == 0 {
			continue
		}
		if err := c.prepareOutcomes(ctx, l); err != nil {
			l.fail("record outcomes", err)
			continue
		}
		batches = append(batches, ledger.Batch{Run: l.run.ID, Cursor: &ledger.Cursor{Incarnation: incarnation, From: l.run.Position, To: l.sight.Next}, Outcomes: l.outcomes})
		of = append(of, l)
	}
	if len(batches) == 0 {
		return
	}
	recorded, err := c.cfg.Ledger.Record(ctx, batches...)
	for i, l := range of {
		switch {
		case err != nil:
			l.fail("record outcomes", err)
		case errors.Is(recorded[i].Err, core.ErrConflict): // another server recorded them: look where the ledger is now
			l.over, l.again = true, true
		case recorded[i].Err != nil:
			l.fail("record outcomes", recorded[i].Err)
		default:
			c.recorded(l, recorded[i])
		}
	}
}

// prepareOutcomes makes of the queue's records what the ledger keeps, and does what has to be done
// before it has them.
func (c *Controller) prepareOutcomes(ctx context.Context, l *poll) (err error) {
	if l.outcomes, l.results, err = outcomes(l.held.launch, l.sight.Records, l.uncertain); err != nil {
		return err
	}
	// The stop by the queue is written down before the outcomes that follow from it: the last one
	// would finish the run.
	if l.sight.Status.Phase == queue.Stopped && slices.ContainsFunc(l.sight.Records, func(r queue.Record) bool { return r.Outcome == core.Cancelled }) {
		if err := c.markStopped(ctx, l.run.ID, l.sight.Status.Reason); err != nil {
			return err
		}
		l.run.Phase = ledger.PhaseStopped
	}
	if l.sight.Status.Complete && len(l.held.steps) > 0 {
		if err := c.endOnce(ctx, l); err != nil {
			return err
		}
	}
	// A notification about jobs that ended without a further window is made before they are recorded:
	// after that no server would make it.
	e := Event{Kind: WindowMissed, Run: l.run.ID}
	for i := range l.outcomes {
		if reason := l.outcomes[i].Reason; reason.Code() == core.NeedsReapproval {
			e.Count += max(l.outcomes[i].Count, 1)
			e.Reason = core.Because(reason.Code(), reason.Why())
		}
	}
	if e.Count == 0 {
		return nil
	}
	return c.report(ctx, e)
}

// recorded takes in what the ledger has now.
func (c *Controller) recorded(l *poll, r ledger.Recorded) {
	if r.Repeated > 0 {
		c.emit(Event{Kind: RunRepeated, Run: l.run.ID, Count: r.Repeated})
		c.cfg.Log.Warn("jobs ended that were recorded before: the queue had forgotten them, and they ran twice", "run", l.run.ID, "jobs", r.Repeated)
	}
	for i := range l.outcomes {
		l.held.results.Add(queue.FinishedJobs{Index: l.outcomes[i].Index, Count: l.outcomes[i].Count, Outcome: l.outcomes[i].Outcome})
	}
	l.held.position = r.Position
	c.unrecorded(false, l.run.ID)
	c.measured(l)
	r.Run.Progress = l.run.Progress
	l.run = r.Run
	if !r.Complete {
		return
	}
	l.over = true
	status := l.sight.Status
	status.Complete, status.Outcomes = true, r.Run.Outcomes   // the queue knows nothing of a queue before it that was lost
	if status.Phase == queue.Stopped && !l.progress.Stopped { // nothing is decided of it any more
		c.notify(l, engine.Event{Kind: engine.EventStopped, Run: l.run.ID, Reason: status.Reason.Text()})
	}
	c.emit(Event{Kind: RunEnded, Run: l.run.ID, Status: &status})
}

// decide asks the engine what follows.
func (c *Controller) decide(ctx context.Context, l *poll) {
	c.signalJobs(ctx, l)
	c.stalls(l)
	in := c.input(l)
	if l.held.launch.Playbook.Strategy.PauseBetween.Approve {
		decided, err := c.decisions(ctx, l.run.ID)
		if err != nil {
			l.fail("read the decisions", err)
			return
		}
		in.Decisions = decided
	}
	if len(l.held.steps) > 0 {
		if err := c.once(ctx, l); err != nil {
			l.fail("read which hosts call steps with once", err)
			return
		}
		in.Once = slices.Collect(maps.Values(l.held.once))
	}
	c.pace(l)
	if c.cfg.Status != nil {
		c.cfg.Status(in.Status)
	}
	l.progress, l.actions = engine.Next(in)
}

// decisions returns the decisions of people on a run's waves. A refusal goes before approvals.
func (c *Controller) decisions(ctx context.Context, id string) (map[int]engine.Decision, error) {
	list, err := c.cfg.Ledger.Decisions(ctx, ledger.AllTenants(), id)
	if err != nil {
		return nil, err
	}
	decided := map[int]engine.Decision{}
	for _, d := range list {
		if had, ok := decided[d.Wave]; !d.Void && (!ok || had.Approved && !d.Approved) {
			decided[d.Wave] = engine.Decision{By: d.By, Approved: d.Approved, Comment: d.Comment}
		}
	}
	return decided, nil
}

// signalJobs signals the jobs of a run that windows have changed, once for each change.
func (c *Controller) signalJobs(ctx context.Context, l *poll) {
	changes := c.windowChanges(l)
	if changes == l.w.notified {
		return
	}
	if l.sight.Status.Suspended > 0 {
		if _, err := c.cfg.Queue.Signal(ctx, l.run.ID, queue.EventWindow); err != nil && !errors.Is(err, core.ErrNotFound) {
			l.fail("have the jobs check the windows again", err)
			return
		}
	}
	l.w.notified = changes
}

// How often it is asked what the suspended jobs of a run wait for: soon after something has
// happened in it, and while they wait for people.
const (
	stallsSoon  = 5 * time.Second
	stallsAgain = 2 * time.Minute
)

// stalls reports jobs that wait for people: that are suspended until an event that people send.
func (c *Controller) stalls(l *poll) {
	w, s, now := l.w, &l.sight.Status, time.Now()
	switch {
	case s.Suspended == 0:
		w.stallAt = time.Time{}
	case l.stalled:
		w.stallAt, w.asked = time.Time{}, now
		for event, n := range l.sight.Awaited {
			if n > 0 && event != "" && queue.ForPeople(event) {
				c.emit(Event{Kind: StepStalled, Run: w.id, Count: n, Reason: core.Because("", event)})
				w.stallAt = now.Add(stallsAgain)
			}
		}
	case w.stallAt.IsZero() || s.Suspended != w.suspendedSeen && w.stallAt.After(now.Add(stallsSoon)):
		w.stallAt = w.asked.Add(stallsSoon) // immediately, if it was not asked lately
	}
	w.suspendedSeen = s.Suspended
}

// keepProgress writes down how far the runs have come, once what follows from it was done.
func (c *Controller) keepProgress(ctx context.Context, polls []*poll) {
	c.setProgress(ctx, polls, "keep how far it has come", func(l *poll) (string, error) { return l.progress.Encode() })
}

// setProgress writes the progress of each run, where it has changed. If that fails, the error of
// the run begins with what.
func (c *Controller) setProgress(ctx context.Context, polls []*poll, what string, of func(*poll) (string, error)) {
	changed := map[string]string{}
	for _, l := range polls {
		if l.ends() {
			continue
		}
		text, err := of(l)
		if err != nil {
			l.fail(what, err)
			continue
		}
		if text != l.run.Progress {
			changed[l.run.ID] = text
		}
	}
	err := c.cfg.Ledger.SetProgress(ctx, changed)
	for _, l := range polls {
		switch text, ok := changed[l.run.ID]; {
		case !ok:
		case err != nil:
			l.fail(what, err)
		default:
			l.run.Progress = text
		}
	}
}

// planNext sets when the run is checked again, if it is.
func (c *Controller) planNext(l *poll) {
	w := l.w
	switch {
	case l.err != nil:
		w.failures++
		c.replan(w, time.Now().Add(pollBackoff.Delay(w.failures, 0)))
		return
	case l.early:
		c.unrecorded(false, w.id)
		c.forget(w)
		return
	case l.again, l.later:
		w.failures = 0
		c.attention(w.id)
		return
	case l.over:
		c.unrecorded(false, w.id)
		c.launches.drop(w.id)
		c.disown(w.id)
		c.forget(w)
		return
	}
	w.failures = 0
	at := l.progress.Until
	if !w.stallAt.IsZero() && (at.IsZero() || w.stallAt.Before(at)) {
		at = w.stallAt
	}
	if at.IsZero() && !c.watches(w.id) { // another server's; nothing is left to do for it
		c.forget(w)
		return
	}
	c.replan(w, at)
}

// pollBackoff is between looks that fail.
var pollBackoff = core.Backoff{Interval: 100 * time.Millisecond, Max: 5 * time.Second}
