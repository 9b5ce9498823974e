package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/turnus/turnus/core"
)

// Control is what operators and the definitions in git do to the schedules of a store. It is safe
// for concurrent use, beside any number of engines. Errors wrap core.ErrInvalid, ErrNotFound,
// ErrConflict, ErrUnavailable or ErrUnknown, or the context's. After ErrUnknown or ErrUnavailable
// every call may be repeated: all are idempotent.
type Control struct {
	store   Store
	planner *planner
}

// NewControl makes the control of a store.
func NewControl(store Store) *Control { return &Control{store: store, planner: newPlanner()} }

// Status is a schedule as operators see it.
type Status struct {
	Definition Definition
	State      State
	Next       time.Time // the nominal time that comes next; zero: never, or paused
	Start      time.Time // Next with its jitter
	Now        time.Time // the store's clock
}

// Put creates schedules and replaces definitions; the result says for each whether anything changed.
// All are validated before any is kept. A schedule that is the same is not touched, so that
// definitions may be put again and again. A new cron expression or zone counts from now: what the
// former one still had to launch is dropped. All else keeps the state; a changed Paused pauses or
// resumes.
func (c *Control) Put(ctx context.Context, all ...Definition) (changed []bool, err error) {
	seen := map[ID]bool{}
	ids := make([]ID, len(all))
	for i := range all {
		if err := all[i].Validate(); err != nil {
			return nil, err
		}
		if ids[i] = all[i].ID; seen[ids[i]] {
			return nil, fmt.Errorf("schedule %s is there twice: %w", ids[i], core.ErrInvalid)
		}
		seen[ids[i]] = true
	}
	changed = make([]bool, len(all))
	err = c.update(ctx, ids, true, func(i int, now time.Time, old *Definition, s *State) (Definition, bool, error) {
		d := normal(all[i])
		var change bool
		change, *s = put(d, old, *s, now)
		changed[i] = changed[i] || change
		return d, change, nil
	})
	return changed, err
}

// put is what a definition makes of the state kept with the old one; nil: there is none.
func put(d Definition, old *Definition, s State, now time.Time) (bool, State) {
	if old == nil {
		return true, State{Since: now, Paused: d.Paused, Reason: definedPaused(d.Paused)}
	}
	if reflect.DeepEqual(*old, d) {
		return false, s
	}
	if old.Cron != d.Cron || old.Timezone != d.Timezone {
		s.dropWaiting(d.ID, now, "the cron expression or zone was changed")
		s.Since = now
	}
	switch {
	case d.Paused && !old.Paused:
		s.pause(d.ID, now, definedPaused(true))
	case old.Paused && !d.Paused:
		s.resume(now)
	}
	return true, s
}

func definedPaused(paused bool) string {
	if paused {
		return "its definition says so"
	}
	return ""
}

// normal writes what is meant by an empty field, so that equal definitions are equal.
func normal(d Definition) Definition {
	d.CatchUp, d.Overlap = cmp.Or(d.CatchUp, CatchUpSkip), cmp.Or(d.Overlap, OverlapSkip)
	if len(d.Payload) == 0 {
		d.Payload = nil
	}
	return d
}

// dropWaiting drops the fire that waits.
func (s *State) dropWaiting(id ID, now time.Time, reason string) {
	if w := s.Waiting; w != nil {
		s.Waiting = nil
		s.skip(Skip{From: w.Nominal, To: w.Nominal, Count: 1, RunID: RunID(id, w.Nominal), Cause: w.Cause, Reason: reason}, now)
	}
}

func (s *State) pause(id ID, now time.Time, reason string) {
	s.Paused, s.Reason = true, cut(reason)
	s.dropWaiting(id, now, "the schedule was paused: "+reason)
}

func (s *State) resume(now time.Time) { s.Paused, s.Reason, s.Since = false, "", now }

// Pause stops the fires of the cron expression until Resume. A fire that waits is dropped; what is being
// launched, backfills and triggers go on. reason is what people are told.
func (c *Control) Pause(ctx context.Context, reason string, ids ...ID) error {
	return c.change(ctx, ids, func(i int, now time.Time, _ *plan, s *State) error {
		if !s.Paused || s.Reason != cut(reason) {
			s.pause(ids[i], now, reason)
		}
		return nil
	})
}

// Resume lets paused schedules go on with their next fire.
func (c *Control) Resume(ctx context.Context, ids ...ID) error {
	return c.change(ctx, ids, func(_ int, now time.Time, _ *plan, s *State) error {
		if s.Paused {
			s.resume(now)
		}
		return nil
	})
}

// Trigger launches a schedule once, now, paused or not, and returns the id of the run. The same key
// gives the same run, and launches it once. While MaxTriggers are to be launched it is
// core.ErrConflict.
func (c *Control) Trigger(ctx context.Context, id ID, key string) (run string, err error) {
	if key == "" || len(key) > MaxKey {
		return "", fmt.Errorf("trigger of schedule %s: its key is %d bytes, expected 1 to %d: %w", id, len(key), MaxKey, core.ErrInvalid)
	}
	run = TriggerRunID(id, key)
	return run, c.change(ctx, []ID{id}, func(_ int, now time.Time, _ *plan, s *State) error {
		switch {
		case s.knows(run):
		case len(s.Triggers) >= MaxTriggers:
			return fmt.Errorf("schedule %s has %d triggers that are not launched: wait until runs of it are complete: %w", id, len(s.Triggers), core.ErrConflict)
		default:
			s.Triggers = append(s.Triggers, Trigger{RunID: run, At: now})
		}
		return nil
	})
}

// Backfill launches the fires with nominal times in [from, to], oldest first, each when no run of the schedule
// is left, paused or not, and returns their number. The range must be over, and have at most MaxBackfill.
func (c *Control) Backfill(ctx context.Context, id ID, from, to time.Time) (n int, err error) {
	from, to = from.UTC().Truncate(time.Millisecond), to.UTC().Truncate(time.Millisecond)
	if from.Before(minTime) || to.Before(from) {
		return 0, fmt.Errorf("backfill of schedule %s from %s to %s: expected a range after %d: %w", id, stamp(from), stamp(to), minTime.Year(), core.ErrInvalid)
	}
	err = c.change(ctx, []ID{id}, func(_ int, now time.Time, p *plan, s *State) error {
		span := Span{After: from.Add(-time.Millisecond), To: to}
		n = p.count(span.After, to, MaxBackfill+1)
		switch {
		case to.After(now):
			return fmt.Errorf("backfill of schedule %s to %s: that is not over yet: %w", id, stamp(to), core.ErrInvalid)
		case n > MaxBackfill:
			return fmt.Errorf("backfill of schedule %s from %s to %s: more than %d fires; ask for a shorter range: %w", id, stamp(from), stamp(to), MaxBackfill, core.ErrInvalid)
		case n == 0 || containsSpan(s.Backfill, span):
		case len(s.Backfill) >= MaxBackfills:
			return fmt.Errorf("schedule %s has %d backfills that are not done: %w", id, len(s.Backfill), core.ErrConflict)
		default:
			s.Backfill = append(s.Backfill, span)
		}
		return nil
	})
	return n, err
}

func containsSpan(all []Span, span Span) bool {
	for _, b := range all {
		if b.After.Equal(span.After) && b.To.Equal(span.To) {
			return true
		}
	}
	return false
}

// Recheck has schedules that wait for a run to end looked at now: for who hears that a run is
// complete. Without it they are looked at after an eighth of the time that the run has taken, at
// most 30 s.
func (c *Control) Recheck(ctx context.Context, ids ...ID) error {
	return c.batches(ids, func(_ int, ids []ID) error {
		read, err := c.store.Get(ctx, ids)
		if err != nil {
			return err
		}
		var changes []Change
		for _, r := range read.Records {
			if _, s, err := Decode(r.ID, r.Data); err == nil && len(s.Claimed) == 0 && len(s.Active) > 0 {
				changes = append(changes, Change{ID: r.ID, Version: r.Version, Keep: true, Due: read.Now})
			}
		}
		if _, err = c.store.Write(ctx, changes); errors.Is(err, core.ErrUnknown) {
			return nil
		}
		return err
	})
}

// Delete removes schedules; what they launched goes on. Those that do not exist are no error.
func (c *Control) Delete(ctx context.Context, ids ...ID) error {
	return c.batches(ids, func(_ int, ids []ID) error {
		for range maxTries {
			read, err := c.store.Get(ctx, ids)
			if err != nil {
				return err
			}
			if len(read.Records) == 0 {
				return nil
			}
			changes := make([]Change, 0, len(read.Records))
			for _, r := range read.Records {
				changes = append(changes, Change{ID: r.ID, Version: r.Version, Delete: true})
			}
			if _, err = c.store.Write(ctx, changes); err != nil && !errors.Is(err, core.ErrUnknown) {
				return err
			}
		}
		return contended(ids[0])
	})
}

// Get reads one schedule.
func (c *Control) Get(ctx context.Context, id ID) (Status, error) {
	read, err := c.store.Get(ctx, []ID{id})
	if err != nil {
		return Status{}, err
	}
	if len(read.Records) == 0 {
		return Status{}, missing(id)
	}
	return c.status(read.Records[0], read.Now)
}

// List reads a page of schedules, and the cursor of the next one.
func (c *Control) List(ctx context.Context, p Page) (all []Status, next string, err error) {
	listed, err := c.store.List(ctx, p)
	if err != nil {
		return nil, "", err
	}
	for _, r := range listed.Records {
		s, err := c.status(r, listed.Now)
		if err != nil {
			return nil, "", err
		}
		all = append(all, s)
	}
	return all, listed.Next, nil
}

func (c *Control) status(r Record, now time.Time) (Status, error) {
	d, s, err := Decode(r.ID, r.Data)
	if err != nil {
		return Status{}, err
	}
	out := Status{Definition: d, State: s, Now: now}
	p, err := c.planner.plan(d)
	if err != nil {
		return out, err
	}
	if next, ok := p.next(s.Since); ok && !s.Paused {
		out.Next, out.Start = next, p.start(next)
	}
	return out, nil
}

func missing(id ID) error { return fmt.Errorf("schedule %s: %w", id, core.ErrNotFound) }

func contended(id ID) error {
	return fmt.Errorf("schedule %s was changed by others %d times meanwhile; try again: %w", id, maxTries, core.ErrUnavailable)
}

// maxTries bounds how often a compare-and-set is tried.
const maxTries = 20

// update is one schedule's change: its definition and whether anything is to be written. old is nil
// where it does not exist.
type update func(i int, now time.Time, old *Definition, s *State) (d Definition, changed bool, err error)

// change applies f to schedules that exist.
func (c *Control) change(ctx context.Context, ids []ID, f func(i int, now time.Time, p *plan, s *State) error) error {
	return c.update(ctx, ids, false, func(i int, now time.Time, old *Definition, s *State) (Definition, bool, error) {
		p, err := c.planner.plan(*old)
		if err != nil {
			return *old, false, err
		}
		before := s.clone()
		err = f(i, now, p, s)
		return *old, !reflect.DeepEqual(before, s.clone()), err
	})
}

// update applies f to all, in batches, each by compare-and-set until it succeeds.
func (c *Control) update(ctx context.Context, ids []ID, create bool, f update) error {
	return c.batches(ids, func(first int, ids []ID) error {
		todo := make([]int, len(ids))
		for i := range ids {
			todo[i] = i
		}
		for range maxTries {
			if len(todo) == 0 {
				return nil
			}
			changes, which, err := c.prepare(ctx, first, ids, todo, create, f)
			if err != nil {
				return err
			}
			versions, err := c.store.Write(ctx, changes)
			if err != nil && !errors.Is(err, core.ErrUnknown) {
				return err
			}
			todo = todo[:0]
			for k, i := range which {
				if err != nil || versions[k] == 0 {
					todo = append(todo, i)
				}
			}
		}
		if len(todo) == 0 {
			return nil
		}
		return contended(ids[todo[0]])
	})
}

// prepare reads the schedules with the indexes todo, and makes the changes to write.
func (c *Control) prepare(ctx context.Context, first int, ids []ID, todo []int, create bool, f update) (changes []Change, which []int, err error) {
	asked := make([]ID, len(todo))
	for k, i := range todo {
		asked[k] = ids[i]
	}
	read, err := c.store.Get(ctx, asked)
	if err != nil {
		return nil, nil, err
	}
	now := read.Now.UTC().Truncate(time.Millisecond)
	present := byID(read.Records)
	for _, i := range todo {
		id := ids[i]
		r, ok := present[id]
		var old *Definition
		var s State
		switch {
		case ok:
			d, kept, err := Decode(id, r.Data)
			if err != nil {
				return nil, nil, err
			}
			old, s = &d, kept
		case !create:
			return nil, nil, missing(id)
		}
		d, changed, err := f(first+i, now, old, &s)
		if err != nil {
			return nil, nil, err
		}
		if !changed {
			continue
		}
		p, err := c.planner.plan(d)
		if err != nil {
			return nil, nil, err
		}
		change := Change{ID: id, Version: r.Version, Data: Encode(d, s), Due: p.due(&s, now, false)}
		if _, ok := s.claimsAfter(now); !ok { // somebody is launching: leave the hold about as it is
			change.Due, change.Hold = time.Time{}, claimHold
		}
		changes, which = append(changes, change), append(which, i)
	}
	return changes, which, nil
}

// claimHold keeps a schedule that is changed in the middle of a launch from being launched beside.
const claimHold = 500 * time.Millisecond

// batches calls f for parts of ids that fit one call of the store; first is the index of each part.
func (c *Control) batches(ids []ID, f func(first int, ids []ID) error) error {
	for first := 0; first < len(ids); first += MaxBatch {
		if err := f(first, ids[first:min(first+MaxBatch, len(ids))]); err != nil {
			return err
		}
	}
	return nil
}
