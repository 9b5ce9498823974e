package schedule

import (
	"context"
	"reflect"
	"strings"
	"time"
)

// Lost is a schedule that a store has forgotten, with what was kept of it elsewhere.
type Lost struct {
	Definition Definition
	Data       []byte    // the record's, as it was when it had more to say than its definition (see Idle); nil: it had not
	Floor      time.Time // it was made, changed or resumed then: fires before are not its
	Mark       time.Time // fires that started until then are decided. Of one with Data, its data decide
	Active     []Run     // that are not complete
	// Blind is when what was kept came back from a backup; zero: it did not. What was launched between the two is not known: fires
	// until then count as decided, and what Data says was still to be launched is not.
	Blind time.Time
}

// Restore makes schedules that are not there, as they were: fires since Mark are missed ones, and catch_up says what becomes of
// them. What was launched since is decided again, under the run ids that it had. Those that are there are left alone. It returns how many it made.
func (c *Control) Restore(ctx context.Context, all ...Lost) (restored int, err error) {
	ids := make([]ID, len(all))
	for i := range all {
		if err := all[i].Definition.Validate(); err != nil {
			return 0, err
		}
		ids[i] = all[i].Definition.ID
	}
	made := make([]bool, len(all))
	err = c.update(ctx, ids, true, func(i int, now time.Time, old *Definition, s *State) (_ Definition, changed bool, err error) {
		if made[i] = old == nil; !made[i] {
			return *old, false, nil
		}
		var d Definition
		d, *s, err = c.lost(all[i], now)
		return d, true, err
	})
	for _, m := range made {
		if m {
			restored++
		}
	}
	return restored, err
}

// lost is what a schedule that was lost goes on with.
func (c *Control) lost(l Lost, now time.Time) (Definition, State, error) {
	d := normal(l.Definition)
	p, err := c.planner.plan(d)
	if err != nil {
		return d, State{}, err
	}
	var s State
	if had, state, err := Decode(d.ID, l.Data); err == nil && l.Data != nil {
		_, s = put(d, &had, state, now)
	} else {
		s = State{Since: p.decided(l.Floor, earlier(l.Mark, now)), Paused: d.Paused, Reason: definedPaused(d.Paused)}
	}
	if !l.Blind.IsZero() {
		s.Since = latest(s.Since, p.decided(l.Floor, earlier(l.Blind, now)))
		s.Claimed, s.Waiting, s.Backfill, s.Triggers = nil, nil, nil, nil
	}
	s.Active = nil
	for _, r := range l.Active {
		if len(s.Active) == MaxActive {
			break
		}
		s.Active = append(s.Active, r)
		if at, ok := nominalOf(d.ID, r.ID); ok && at.After(s.Since) && len(s.Claimed) == 0 { // launched, so decided
			s.Since = at
		}
	}
	return d, s, nil
}

// decided is the nominal time up to which all is decided, when all that started until mark is.
func (p *plan) decided(floor, mark time.Time) time.Time {
	last, ok := p.latest(floor, mark)
	switch {
	case !ok:
		return latest(floor, minTime)
	case p.start(last).After(mark):
		return last.Add(-time.Millisecond)
	}
	return last
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// nominalOf reads the nominal time out of what RunID made.
func nominalOf(id ID, run string) (time.Time, bool) {
	text, ok := strings.CutPrefix(run, id.String()+"-")
	if !ok {
		return time.Time{}, false
	}
	at, err := time.Parse("20060102T1504Z", text)
	return at, err == nil
}

// IDOf reads the schedule out of the id of a run that a schedule launched.
func IDOf(run string) (ID, bool) {
	at := strings.LastIndexByte(run, '-')
	if at < 1 {
		return ID{}, false
	}
	id := ID{Name: run[:at]}
	if tenant, name, ok := strings.Cut(id.Name, ":"); ok {
		id = ID{Tenant: tenant, Name: name}
	}
	tail := run[at+1:]
	_, byCron := nominalOf(id, run)
	return id, byCron || len(tail) == 21 && tail[0] == 't'
}

// Idle tells whether a record, read at the given time of the store's clock, says no more than that all fires that started until
// then are decided. One that is paused, or has something to launch or that waits, says more: lost, it would be missed.
func (c *Control) Idle(r Record, at time.Time) (bool, error) {
	d, s, err := Decode(r.ID, r.Data)
	if err != nil {
		return false, err
	}
	if s.Paused || s.waits() || len(s.Claimed) > 0 {
		return false, nil
	}
	p, err := c.planner.plan(d)
	if err != nil {
		return false, err
	}
	next, ok := p.next(s.Since)
	return !ok || p.start(next).After(at), nil
}

// Equal tells whether putting one definition in the place of the other changes nothing.
func Equal(a, b Definition) bool { return reflect.DeepEqual(normal(a), normal(b)) }
