package schedule

import (
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
)

// Decision is the next state and actions of a schedule at a moment.
type Decision struct {
	State State     // with the launches that are due among Claimed
	Skips []Skip    // fire times that this decision drops
	Due   time.Time // when to check again; zero: never
	Waits bool      // the end of a run makes it due
	Gone  bool      // it triggered once, KeepOnce ago: it is removed
}

// asks lists the runs of which a decision has to know whether they are complete.
func (s *State) asks() []string {
	return core.Map(s.Active, func(r Run) string { return r.ID })
}

// decider is one decision being made.
type decider struct {
	*plan
	s     State
	now   time.Time
	skips []Skip
	lags  bool // a fire that has come waits for a launch or a run to end
}

// decide is the whole of what a schedule does, as a function: which fire times are launched, which
// are dropped and why, which wait, at a time of the ledger's clock. running reports whether a run
// is not complete. It launches at most one fire of the cron expression or of a backfill at a time,
// and does bounded work, however long nobody looked.
func (p *plan) decide(s State, now time.Time, running func(string) bool) Decision {
	d := decider{plan: p, s: s.clone(), now: now.UTC()}
	d.s.Active = slices.DeleteFunc(d.s.Active, func(r Run) bool { return !running(r.ID) })
	d.giveUp()
	if !d.s.Paused {
		d.release(ByCron) // a queued fire goes before one that is due now
		d.trigger()
		d.release(ByCatchUp)
	}
	d.backfill()
	return Decision{
		State: d.s, Skips: d.skips, Due: d.due(&d.s, d.now, d.lags), Waits: d.lags || d.s.waits(),
		Gone: d.spent(&d.s) && !d.s.busy() && !d.s.waits() && !d.now.Before(d.At.Add(KeepOnce)),
	}
}

// limit is when a fire of the cron expression may no longer be launched; zero: no limit.
func (p *plan) limit(nominal time.Time) time.Time {
	if p.StartWithin == 0 {
		return time.Time{}
	}
	return nominal.Add(p.StartWithin)
}

func (p *plan) tooLate(nominal, now time.Time) bool {
	limit := p.limit(nominal)
	return !limit.IsZero() && now.After(limit)
}

// until is when a claim is skipped; zero: never.
func (p *plan) until(c Claim) time.Time {
	if c.Cause == ByCron || c.Cause == ByCatchUp {
		if limit := p.limit(c.Nominal); !limit.IsZero() || p.CatchUp == CatchUpOnce || p.CatchUp == CatchUpAll {
			return limit
		}
	}
	return c.Decided.Add(RetryFor)
}

// giveUp drops claims that cannot be launched in time any more.
func (d *decider) giveUp() {
	d.s.Claimed = slices.DeleteFunc(d.s.Claimed, func(c Claim) bool {
		until := d.until(c)
		if until.IsZero() || !d.now.After(until) {
			return false
		}
		reason := fmt.Sprintf("could not be launched until %s: %s", stamp(until), c.Err)
		d.drop(Skip{From: c.Nominal, To: c.Nominal, Count: 1, RunID: c.RunID, Cause: c.Cause, Reason: core.Because(core.NotLaunched, reason)})
		d.s.keepCancelled(c)
		return true
	})
}

// trigger goes through the nominal times that have come.
func (d *decider) trigger() {
	for {
		nominal, ok := d.next(d.s.Since)
		if !ok {
			return
		}
		start := d.start(nominal)
		switch {
		case start.After(d.now):
			return
		case d.now.Before(start.Add(Grace)) && !d.tooLate(nominal, d.now):
			if d.launching() || d.CatchUp == CatchUpAll && d.behind() {
				d.lags = true
				return
			}
			d.advance(nominal)
			d.onTime(nominal)
		case d.CatchUp == CatchUpAll:
			if d.missedAll(nominal) {
				return
			}
		default:
			d.missed(nominal)
		}
	}
}

// launching reports whether a launch is under way: until its result is known, overlaps are not
// known.
func (d *decider) launching() bool {
	return slices.ContainsFunc(d.s.Claimed, func(c Claim) bool { return c.Attempts == 0 })
}

// behind reports whether an earlier fire is still to be launched, or a missed one runs: with
// catch_up all, those that come meanwhile follow it.
func (d *decider) behind() bool {
	return len(d.s.Claimed) > 0 || slices.ContainsFunc(d.s.Active, func(r Run) bool { return r.Cause == ByCatchUp })
}

func (d *decider) advance(nominal time.Time) { d.s.Since = nominal }

// onTime launches a run at its fire time, or acts on overlap.
func (d *decider) onTime(nominal time.Time) {
	w := d.s.Waiting
	switch {
	case !d.s.busy():
		if w != nil { // one caught up; a queued one is released before
			d.dropWaiting(core.Because(core.Overlap, "a later fire is on time"))
		}
		d.claim(nominal, ByCron, nil)
	case d.Overlap == OverlapCancel && len(d.s.Claimed) == 0:
		d.cancelAndLaunch(nominal)
	case d.Overlap == OverlapCancel:
		d.dropWaiting(core.Because(core.Overlap, "a later fire took its place"))
		d.s.Waiting = &Waiting{Nominal: nominal, Cause: ByCron}
	case d.Overlap == OverlapQueue && w == nil:
		d.s.Waiting = &Waiting{Nominal: nominal, Cause: ByCron}
	case d.Overlap == OverlapQueue:
		d.dropOne(nominal, ByCron, core.Because(core.Overlap, fmt.Sprintf("the fire of %s waits already, and only one may", stamp(w.Nominal))))
	default:
		d.dropOne(nominal, ByCron, core.Because(core.Overlap, d.busyWith()))
	}
}

func (d *decider) busyWith() string {
	if len(d.s.Active) > 0 {
		return fmt.Sprintf("run %s is not complete", d.s.Active[0].ID)
	}
	return fmt.Sprintf("run %s is still to be launched", d.s.Claimed[0].RunID)
}

func (d *decider) cancelAndLaunch(nominal time.Time) {
	d.dropWaiting(core.Because(core.Overlap, "a later fire is on time"))
	var cancel []string
	for _, r := range d.s.Active {
		cancel = append(cancel, r.ID)
	}
	d.s.Active = nil
	d.claim(nominal, ByCron, cancel)
}

// missed drops the missed fire times from the given one on, except the latest where catch_up is
// once.
func (d *decider) missed(first time.Time) {
	last := d.lastMissed(first)
	reason := fmt.Sprintf("missed: no server looked within %v", Grace)
	if d.tooLate(last, d.now) {
		d.dropRange(first, last, core.Because(core.TooLate, fmt.Sprintf("too late: start_within %v has passed", d.StartWithin)))
		return
	}
	if d.CatchUp != CatchUpOnce {
		d.dropRange(first, last, core.Because(core.Missed, reason))
		return
	}
	if before, ok := d.latest(first.Add(-1), last.Add(-1)); ok {
		d.dropRange(first, before, core.Because(core.Missed, reason+", and only the latest is caught up"))
	}
	d.advance(last)
	d.dropWaiting(core.Because(core.Overlap, "a later fire was missed and is caught up in its place"))
	d.s.Waiting = &Waiting{Nominal: last, Cause: ByCatchUp}
}

// lastMissed is the last nominal time that was missed or is too late, where first is one.
func (d *decider) lastMissed(first time.Time) time.Time {
	last := first
	if at, ok := d.latest(first, d.now.Add(-Grace)); ok {
		if d.start(at).After(d.now.Add(-Grace)) { // its jitter keeps it on time; the one before has started before it
			if at, ok = d.latest(first, at.Add(-1)); !ok {
				at = first
			}
		}
		last = at
	}
	if d.StartWithin > 0 && d.StartWithin < Grace+d.Jitter {
		if at, ok := d.latest(last, d.now.Add(-d.StartWithin-1)); ok {
			last = at
		}
	}
	return last
}

// missedAll launches a missed fire, if nothing runs; it reports whether the rest has to wait.
func (d *decider) missedAll(first time.Time) (wait bool) {
	if d.StartWithin > 0 {
		if last, ok := d.latest(first.Add(-1), d.now.Add(-d.StartWithin-1)); ok {
			d.dropRange(first, last, core.Because(core.TooLate, fmt.Sprintf("too late: start_within %v has passed", d.StartWithin)))
			return false
		}
	}
	if last, ok := d.beyondCatchUp(first); ok {
		d.dropRange(first, last, core.Because(core.Missed, fmt.Sprintf("missed: of so many at most the newest %d are caught up", MaxCatchUp)))
		return false
	}
	if d.s.busy() || d.s.Waiting != nil {
		d.lags = true
		return true
	}
	d.advance(first)
	d.claim(first, ByCatchUp, nil)
	return false
}

// beyondCatchUp is the last of the fire times, from first on, that leaves no more than MaxCatchUp
// to launch.
func (d *decider) beyondCatchUp(first time.Time) (time.Time, bool) {
	if d.now.Sub(first) < MaxCatchUp*time.Minute || d.count(first, d.now, MaxCatchUp) < MaxCatchUp {
		return time.Time{}, false
	}
	span := MaxCatchUp / 2 * time.Minute // no expression has more fire times in it
	for d.count(d.now.Add(-2*span), d.now, MaxCatchUp+1) <= MaxCatchUp {
		span *= 2
	}
	return d.latest(first.Add(-1), d.now.Add(-span))
}

// release launches the fire that waits, if it may go now or if its time has ended.
func (d *decider) release(cause Cause) {
	w := d.s.Waiting
	if w == nil || w.Cause != cause {
		return
	}
	switch {
	case d.tooLate(w.Nominal, d.now):
		d.dropWaiting(core.Because(core.TooLate, fmt.Sprintf("too late: it waited until start_within %v had passed", d.StartWithin)))
	case d.Overlap == OverlapCancel && cause == ByCron && len(d.s.Claimed) == 0:
		d.s.Waiting = nil
		d.cancelAndLaunch(w.Nominal)
	case !d.s.busy():
		d.s.Waiting = nil
		d.claim(w.Nominal, cause, nil)
	}
}

// backfill launches the next fire of the first backfill, if nothing else runs or waits.
func (d *decider) backfill() {
	for len(d.s.Backfill) > 0 && !d.s.busy() && d.s.Waiting == nil {
		span := &d.s.Backfill[0]
		nominal, ok := d.next(span.After)
		if !ok || nominal.After(span.To) {
			d.s.Backfill = d.s.Backfill[1:]
			continue
		}
		span.After = nominal
		if !d.s.knows(RunID(d.ID, nominal)) {
			d.claim(nominal, ByBackfill, nil)
		}
	}
}

func (d *decider) claim(nominal time.Time, cause Cause, cancel []string) {
	d.s.Claimed = append(d.s.Claimed, Claim{RunID: RunID(d.ID, nominal), Nominal: nominal, Cause: cause, Decided: d.now, Cancel: cancel})
}

func (d *decider) dropOne(nominal time.Time, cause Cause, reason core.Reason) {
	d.drop(Skip{From: nominal, To: nominal, Count: 1, RunID: RunID(d.ID, nominal), Cause: cause, Reason: reason})
}

func (d *decider) dropWaiting(reason core.Reason) {
	if w := d.s.Waiting; w != nil {
		d.s.Waiting = nil
		d.dropOne(w.Nominal, w.Cause, reason)
	}
}

// dropRange passes over the nominal times from first to last.
func (d *decider) dropRange(first, last time.Time, reason core.Reason) {
	d.advance(last)
	if first.Equal(last) {
		d.dropOne(first, ByCron, reason)
		return
	}
	n := d.count(first.Add(-1), last, MaxCatchUp+1)
	d.drop(Skip{From: first, To: last, Count: min(n, MaxCatchUp), More: n > MaxCatchUp, Cause: ByCron, Reason: reason})
}

func (d *decider) drop(k Skip) {
	k.Reason = cutReason(k.Reason)
	d.s.skip(k, d.now)
	d.skips = append(d.skips, k)
}

// due is the time of the schedule's next check; lags reports that a trigger that has come waits.
func (p *plan) due(s *State, now time.Time, lags bool) time.Time {
	due, ok := s.claimsAfter(now)
	if !ok {
		return now
	}
	if s.waits() || lags {
		due = earlier(due, now.Add(s.patience(now)))
	}
	if s.Waiting != nil && p.StartWithin > 0 {
		due = earlier(due, p.limit(s.Waiting.Nominal).Add(time.Millisecond))
	}
	if !s.Paused && !lags {
		if nominal, ok := p.next(s.Since); ok {
			due = earlier(due, p.start(nominal))
		}
	}
	if p.spent(s) {
		due = earlier(due, latest(p.At.Add(KeepOnce), now.Add(time.Hour)))
	}
	return due
}

// spent reports whether the schedule triggers no more.
func (p *plan) spent(s *State) bool {
	return p.cron == nil && !p.At.After(s.Since)
}

// patience is how long to wait before runs are asked for again: an eighth of how long the last one
// has run, so that long runs cost few questions.
func (s *State) patience(now time.Time) time.Duration {
	const least, most = 500 * time.Millisecond, 30 * time.Second
	if len(s.Active) == 0 {
		return least
	}
	return min(max(now.Sub(s.Active[len(s.Active)-1].At)/8, least), most)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04Z07:00") }
