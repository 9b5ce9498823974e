package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// Control changes the schedules of a ledger, for operators and for the definitions in git. It is
// safe for concurrent use, beside any number of engines. Errors wrap core.ErrInvalid, ErrNotFound,
// ErrConflict, ErrUnavailable or ErrUnknown, or the context's.
type Control struct {
	ledger  *ledger.Ledger
	planner *planner
}

// NewControl makes the control of a ledger's schedules.
func NewControl(l *ledger.Ledger) *Control { return &Control{ledger: l, planner: newPlanner()} }

// Status is a schedule as operators see it.
type Status struct {
	Definition Definition
	State      State
	Next       time.Time // the nominal time that comes next; zero: never, or paused
	Edition    int64     // changes with the definition, and never comes again
	By         string    // who made it; "" for a schedule of the definitions
	Damaged    error     // why it cannot be read, with what to do; it triggers nothing, and Definition has only its ID
}

// Note makes the entry of the audit log of what a change made of a schedule, in the same
// transaction. before is nil of one that is made, after of one that is deleted.
type Note func(before, after *Status) (ledger.Entry, error)

func (p *plan) status(s State, row ledger.Schedule) *Status {
	out := &Status{Definition: p.Definition, State: s, Edition: row.Edition, By: row.By}
	if next, ok := p.next(s.Since); ok && !s.Paused {
		out.Next = next
	}
	return out
}

// Get reads one schedule of a tenant in scope.
func (c *Control) Get(ctx context.Context, scope ledger.Scope, id ID) (Status, error) {
	row, err := c.ledger.Schedule(ctx, scope, id.Tenant, id.Name)
	if err != nil {
		return Status{}, err
	}
	return c.status(row), nil
}

func (c *Control) status(row ledger.Schedule) Status {
	p, s, err := c.planner.read(row)
	if err != nil {
		return Status{Definition: Definition{ID: idOf(row)}, Edition: row.Edition, By: row.By, Damaged: err}
	}
	return *p.status(s, row)
}

// List reads a page of schedules by tenant and name, and the cursor of the next one.
func (c *Control) List(ctx context.Context, scope ledger.Scope, page ledger.Page) (all []Status, next string, err error) {
	rows, next, err := c.ledger.Schedules(ctx, scope, page)
	if err != nil {
		return nil, "", err
	}
	return core.Map(rows, c.status), next, nil
}

// put returns the state of a definition, made from the state that was kept with the old one. If old
// is nil, the state is new.
func put(d Definition, old *Definition, s State, now time.Time) State {
	if old == nil {
		return State{Since: now, Paused: d.Paused, Reason: definedPaused(d.Paused)}
	}
	if old.Cron != d.Cron || !old.At.Equal(d.At) || old.Timezone != d.Timezone {
		s.dropWaiting(d.ID, now, "its time was changed")
		s.dropClaims(now, "its time was changed")
		s.Backfill, s.Since = nil, now
	}
	switch {
	case d.Paused && !old.Paused:
		s.pause(d.ID, now, definedPaused(true))
	case old.Paused && !d.Paused:
		s.resume(now)
	}
	return s
}

func definedPaused(paused bool) string {
	if paused {
		return "its definition pauses it"
	}
	return ""
}

// normal writes what is meant by an empty field, so that equal definitions are equal.
func normal(d Definition) Definition {
	catchUp := CatchUpSkip
	if !d.At.IsZero() { // a person asked for this one run
		catchUp, d.At = CatchUpOnce, d.At.UTC()
	}
	d.CatchUp, d.Overlap = cmp.Or(d.CatchUp, catchUp), cmp.Or(d.Overlap, OverlapSkip)
	if len(d.Payload) == 0 {
		d.Payload = nil
	}
	return d
}

// dropWaiting drops the fire that waits.
func (s *State) dropWaiting(id ID, now time.Time, reason core.Reason) {
	if w := s.Waiting; w != nil {
		s.Waiting = nil
		s.skip(Skip{From: w.Nominal, To: w.Nominal, Count: 1, RunID: RunID(id, w.Nominal), Cause: w.Cause, Reason: reason}, now)
	}
}

// dropClaims drops the fire times whose launches have failed so far.
func (s *State) dropClaims(now time.Time, reason core.Reason) {
	for _, c := range s.Claimed {
		s.keepCancelled(c)
		s.skip(Skip{From: c.Nominal, To: c.Nominal, Count: 1, RunID: c.RunID, Cause: c.Cause, Reason: reason}, now)
	}
	s.Claimed = nil
}

func (s *State) pause(id ID, now time.Time, reason string) {
	s.Paused, s.Reason = true, cut(reason)
	s.dropWaiting(id, now, core.Because("", "the schedule was paused: "+reason))
}

func (s *State) resume(now time.Time) { s.Paused, s.Reason, s.Since = false, "", now }

// change is the change of a row to a definition and state.
func (c *Control) change(row ledger.Schedule, d Definition, s State, now time.Time) (ledger.ScheduleChange, *plan, error) {
	p, err := c.planner.plan(d)
	if err != nil {
		return ledger.ScheduleChange{}, nil, err
	}
	to := p.row(&s, p.due(&s, now, false), s.waits())
	row.Due, row.Waits, row.Data = to.Due, to.Waits, to.Data
	return ledger.ScheduleChange{Schedule: row}, p, nil
}

// Put makes a schedule of a person, or replaces edition ifEdition of one (0: there must be none). A
// new cron expression, time or zone counts from now: what the former one still had to launch is
// dropped, backfills included. All else keeps the state; a changed Paused pauses or resumes. A
// tenant has at most quota of them. A definition that is there already, by the same person, stays
// as it is, with any ifEdition. One that triggers once must lie ahead.
func (c *Control) Put(ctx context.Context, d Definition, by string, ifEdition int64, quota core.Quota, note Note) (Status, error) {
	if err := d.Validate(); err != nil {
		return Status{}, err
	}
	d = normal(d)
	now, err := c.now(ctx)
	if err != nil {
		return Status{}, err
	}
	row, err := c.ledger.Schedule(ctx, ledger.AllTenants(), d.ID.Tenant, d.ID.Name)
	if err != nil && !errors.Is(err, core.ErrNotFound) {
		return Status{}, err
	}
	var before *Status
	s := put(d, nil, State{}, now)
	if row.Version > 0 {
		p, had, err := c.planner.read(row)
		if err != nil {
			return Status{}, err
		}
		if row.By == by && reflect.DeepEqual(p.Definition, d) {
			return *p.status(had, row), nil
		}
		before, s = p.status(had, row), put(d, &p.Definition, had.clone(), now)
	}
	switch {
	case row.Edition != ifEdition:
		return Status{}, fmt.Errorf("schedule %s has version %d, not %d: read it again: %w", d.ID, row.Edition, ifEdition, core.ErrConflict)
	case !d.At.IsZero() && !d.At.After(now):
		return Status{}, fmt.Errorf("%s is in the past, it is now %s: %w", d.At.Format(time.RFC3339), now.Format(time.RFC3339), core.ErrInvalid)
	}
	row.Tenant, row.Name, row.By = d.ID.Tenant, d.ID.Name, by
	change, p, err := c.change(row, d, s, now)
	if err != nil {
		return Status{}, err
	}
	change.Put, change.Over = true, quota
	after := p.status(s, row)
	if after.Edition, err = c.write(ctx, change, note, before, after); err == nil && after.Edition == 0 {
		err = fmt.Errorf("schedule %s was changed meanwhile: read it again: %w", d.ID, core.ErrConflict)
	}
	return *after, err
}

// write makes one change, and returns its version; 0 where the row had been changed.
func (c *Control) write(ctx context.Context, change ledger.ScheduleChange, note Note, before, after *Status) (int64, error) {
	entry, err := note(before, after)
	if err != nil {
		return 0, err
	}
	change.Note = &entry
	changed, err := c.ledger.ChangeSchedules(ctx, []ledger.ScheduleChange{change})
	if err != nil {
		return 0, err
	}
	return changed[0].Version, nil
}

// Delete removes edition ifEdition of a schedule, also a damaged one; what it launched continues.
func (c *Control) Delete(ctx context.Context, id ID, ifEdition int64, note Note) error {
	return c.again(ctx, id, func(row ledger.Schedule, _ time.Time) (bool, error) {
		if row.Edition != ifEdition {
			return false, fmt.Errorf("schedule %s has version %d, not %d: read it again: %w", id, row.Edition, ifEdition, core.ErrConflict)
		}
		before := c.status(row)
		version, err := c.write(ctx, ledger.ScheduleChange{Schedule: row, Delete: true}, note, &before, nil)
		return version > 0, err
	})
}

// SetPaused stops the launches of the cron expression, or lets them continue with the next fire
// time. A pause drops a waiting trigger; launches that have begun, and backfills, continue. Its
// reason is shown to people.
func (c *Control) SetPaused(ctx context.Context, id ID, paused bool, reason string, note Note) error {
	return c.edit(ctx, id, note, func(_ *plan, s *State, now time.Time) error {
		switch {
		case paused && (!s.Paused || s.Reason != cut(reason)):
			s.pause(id, now, reason)
		case !paused && s.Paused:
			s.resume(now)
		}
		return nil
	})
}

// Backfill launches the fire times with nominal times in [from, to], oldest first, each when no run
// of the schedule is left, paused or not, and returns their number. The range must be over, and
// have at most MaxBackfill.
func (c *Control) Backfill(ctx context.Context, id ID, from, to time.Time, note Note) (n int, err error) {
	err = c.edit(ctx, id, note, func(p *plan, s *State, now time.Time) error {
		span, times, err := p.backfilled(from, to, now)
		n = len(times)
		switch {
		case err != nil:
			return err
		case n == 0 || slices.ContainsFunc(s.Backfill, func(b Span) bool { return b.After.Equal(span.After) && b.To.Equal(span.To) }):
		case len(s.Backfill) >= MaxBackfills:
			return fmt.Errorf("schedule %s has %d backfills that are not done: %w", id, len(s.Backfill), core.ErrConflict)
		default:
			s.Backfill = append(s.Backfill, span)
		}
		return nil
	})
	return n, err
}

// PlanBackfill returns how many fire times a backfill of a range would launch, and how many of the
// range were launched before. It changes nothing.
func (c *Control) PlanBackfill(ctx context.Context, id ID, from, to time.Time) (launches, before int, err error) {
	row, now, err := c.read(ctx, id)
	if err != nil {
		return 0, 0, err
	}
	p, _, err := c.planner.read(row)
	if err != nil {
		return 0, 0, err
	}
	_, times, err := p.backfilled(from, to, now)
	if err != nil {
		return 0, 0, err
	}
	before, err = c.ledger.Kept(ctx, core.Map(times, func(at time.Time) string { return RunID(id, at) }))
	return len(times) - before, before, err
}

// backfilled lists the fire times of a range that a backfill may launch.
func (p *plan) backfilled(from, to, now time.Time) (span Span, times []time.Time, err error) {
	from, to = from.UTC().Truncate(time.Millisecond), to.UTC().Truncate(time.Millisecond)
	if from.Before(minTime) || to.Before(from) {
		return span, nil, fmt.Errorf("backfill of schedule %s from %s to %s: expected a range after %d: %w", p.ID, stamp(from), stamp(to), minTime.Year(), core.ErrInvalid)
	}
	if to.After(now) {
		return span, nil, fmt.Errorf("backfill of schedule %s to %s: that is in the future: %w", p.ID, stamp(to), core.ErrInvalid)
	}
	span = Span{After: from.Add(-time.Millisecond), To: to}
	for after := span.After; len(times) <= MaxBackfill; {
		at, ok := p.next(after)
		if !ok || at.After(to) {
			return span, times, nil
		}
		times, after = append(times, at), at
	}
	return span, nil, fmt.Errorf("backfill of schedule %s from %s to %s: more than %d fire times; ask for a shorter range: %w", p.ID, stamp(from), stamp(to), MaxBackfill, core.ErrInvalid)
}

// Trigger launches a schedule once, now, paused or not, by the run that prepare makes, and returns
// that run. The same key gives the same run, and launches it once.
func (c *Control) Trigger(ctx context.Context, id ID, key string, prepare func(Trigger) (ledger.NewRun, error), note Note) (run ledger.Accepted, err error) {
	if key == "" || len(key) > MaxKey {
		return run, fmt.Errorf("trigger of schedule %s: its key is %d bytes, expected 1 to %d: %w", id, len(key), MaxKey, core.ErrInvalid)
	}
	err = c.again(ctx, id, func(row ledger.Schedule, now time.Time) (bool, error) {
		p, s, err := c.planner.read(row)
		if err != nil {
			return false, err
		}
		open, err := c.ledger.Open(ctx, s.asks())
		if err != nil {
			return false, err
		}
		before := p.status(s, row)
		claim := Claim{RunID: TriggerRunID(id, key), Nominal: now, Cause: ByTrigger, Decided: now}
		s = s.clone()
		s.Active = slices.DeleteFunc(s.Active, func(r Run) bool { return !open[r.ID] })
		if len(s.Active) >= MaxActive && !s.knows(claim.RunID) {
			return false, fmt.Errorf("schedule %s has %d runs that are not complete: wait until one has ended: %w", id, len(s.Active), core.ErrConflict)
		}
		n, err := prepare(p.trigger(claim))
		if err != nil {
			return false, err
		}
		after := s.clone()
		after.launched(claim, now)
		entry, err := note(before, p.status(after, row))
		if err != nil {
			return false, err
		}
		changed, err := c.ledger.ChangeSchedules(ctx, []ledger.ScheduleChange{{Schedule: row, Runs: []ledger.NewRun{n}, Note: &entry, Finish: func(runs []ledger.Accepted) ledger.Schedule {
			if runs[0].Created {
				s = after
			}
			return p.row(&s, p.due(&s, now, false), s.waits())
		}}})
		if err != nil || changed[0].Version == 0 {
			return false, err
		}
		run = changed[0].Runs[0]
		return true, run.Err
	})
	return run, err
}

// MakeDue makes those of the schedules due that wait for a run to end, and reports whether there
// were any. Its caller has news that runs are complete. Without it they are checked after an eighth
// of the time that the run has taken, at most 30 s.
func (c *Control) MakeDue(ctx context.Context, ids ...ID) (due bool, err error) {
	return c.ledger.MakeSchedulesDue(ctx, core.Map(ids, func(id ID) [2]string { return [2]string{id.Tenant, id.Name} }))
}

// Align replaces the schedules without a maker by those of the definitions, on the basis of their
// document, and returns how many it made, changed or removed. If made is not nil, it makes the
// state of schedules that do not exist yet.
func (c *Control) Align(ctx context.Context, all []Definition, on ledger.Basis, made func(Definition, time.Time) (State, error)) (int, error) {
	now, err := c.now(ctx)
	if err != nil {
		return 0, err
	}
	want := make(map[ID]Definition, len(all))
	for _, d := range all {
		want[d.ID] = normal(d)
	}
	var changes []ledger.ScheduleChange
	for row, err := range c.each(ctx) {
		if err != nil {
			return 0, err
		}
		d, wanted := want[idOf(row)]
		delete(want, d.ID)
		change, err := c.aligned(row, d, wanted, now)
		if err != nil {
			return 0, err
		}
		if change != nil {
			changes = append(changes, *change)
		}
	}
	for _, d := range want {
		s := put(d, nil, State{}, now)
		if made != nil {
			if s, err = made(d, now); err != nil {
				return 0, err
			}
		}
		change, _, err := c.change(ledger.Schedule{Tenant: d.ID.Tenant, Name: d.ID.Name}, d, s, now)
		if err != nil {
			return 0, err
		}
		change.Put = true
		changes = append(changes, change)
	}
	if len(changes) == 0 {
		return 0, nil
	}
	changed, err := c.ledger.ChangeSchedules(ctx, changes, on)
	if err == nil && slices.ContainsFunc(changed, func(c ledger.ScheduleChanged) bool { return c.Version == 0 }) {
		err = fmt.Errorf("schedules were changed while they were brought in line: %w", core.ErrConflict)
	}
	return len(changes), err
}

// each returns the rows of all schedules.
func (c *Control) each(ctx context.Context) iter.Seq2[ledger.Schedule, error] {
	return ledger.Each(ctx, ledger.MaxPage, func(ctx context.Context, p ledger.Page) ([]ledger.Schedule, string, error) {
		return c.ledger.Schedules(ctx, ledger.AllTenants(), p)
	})
}

// aligned returns the change of a row by the definitions; nil: it stays, as a damaged one does: its
// state is unknown, and a person decides.
func (c *Control) aligned(row ledger.Schedule, d Definition, wanted bool, now time.Time) (*ledger.ScheduleChange, error) {
	if !wanted {
		if row.By != "" {
			return nil, nil //nolint:nilnil // nothing changes
		}
		return &ledger.ScheduleChange{Schedule: row, Delete: true}, nil
	}
	p, s, err := c.planner.read(row)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // the engine and lists report it
	}
	if row.By == "" && reflect.DeepEqual(p.Definition, d) {
		return nil, nil //nolint:nilnil // nothing changes
	}
	row.By = "" // a person's schedule of this name is the definitions' from now on
	change, _, err := c.change(row, d, put(d, &p.Definition, s.clone(), now), now)
	change.Put = true
	return &change, err
}

// edit changes the state of a schedule.
func (c *Control) edit(ctx context.Context, id ID, note Note, do func(p *plan, s *State, now time.Time) error) error {
	return c.again(ctx, id, func(row ledger.Schedule, now time.Time) (bool, error) {
		p, s, err := c.planner.read(row)
		if err != nil {
			return false, err
		}
		before := p.status(s, row)
		s = s.clone()
		if err := do(p, &s, now); err != nil {
			return false, err
		}
		change, _, err := c.change(row, p.Definition, s, now)
		if err != nil {
			return false, err
		}
		version, err := c.write(ctx, change, note, before, p.status(s, row))
		return version > 0, err
	})
}

// maxTries bounds how often a compare-and-set is tried.
const maxTries = 20

// again reads a schedule and calls do, until that has changed it.
func (c *Control) again(ctx context.Context, id ID, do func(row ledger.Schedule, now time.Time) (done bool, err error)) error {
	for range maxTries {
		row, now, err := c.read(ctx, id)
		if err != nil {
			return err
		}
		if done, err := do(row, now); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("schedule %s was changed by others %d times meanwhile: try again: %w", id, maxTries, core.ErrUnavailable)
}

// read reads a schedule's row, and the time.
func (c *Control) read(ctx context.Context, id ID) (row ledger.Schedule, now time.Time, err error) {
	if now, err = c.now(ctx); err == nil {
		row, err = c.ledger.Schedule(ctx, ledger.AllTenants(), id.Tenant, id.Name)
	}
	return row, now, err
}

func (c *Control) now(ctx context.Context) (time.Time, error) {
	now, err := c.ledger.Now(ctx)
	return now.UTC().Truncate(time.Millisecond), err
}
