package schedule

import (
	"context"
	"strings"
	"time"

	"github.com/turnus/turnus/core/ledger"
)

// Kept is the record of a schedule that earlier versions kept in the ledger, when its state was in
// a store of its own.
type Kept struct {
	Data   []byte    // the store's record, where it had more than that all is decided; nil: it had not
	Floor  time.Time // the schedule was made, changed or resumed then: fire times before are not its
	Mark   time.Time // fire times that started until then are decided. Of one with Data, its data decide
	Active []Run     // that are not complete
	// Blind is when the kept state came back from a backup; zero: it did not. Launches between the two
	// are not known: fire times until then count as decided, and launches that Data has as pending are
	// not made.
	Blind time.Time
}

// State returns the state with which a schedule continues.
func (k Kept) State(d Definition, now time.Time) (State, error) {
	d = normal(d)
	p, err := newPlanner().plan(d)
	if err != nil {
		return State{}, err
	}
	s := put(d, nil, State{}, now)
	if had, kept, err := Decode(d.ID, k.Data); err == nil {
		s = put(d, &had, kept, now)
	} else if !k.Floor.IsZero() {
		s.Since = p.decided(k.Floor, earlier(k.Mark, now))
	}
	if !k.Blind.IsZero() {
		p.pass(&s, earlier(k.Blind, now))
	}
	s.Active = nil
	for _, r := range k.Active {
		if len(s.Active) == MaxActive {
			break
		}
		s.Active = append(s.Active, r)
		if at, ok := nominalOf(d.ID, r.ID); ok && at.After(s.Since) && len(s.Claimed) == 0 { // launched, so decided
			s.Since = at
		}
	}
	return s, nil
}

// Imported is a person's schedule with its state, and the edition that it had.
type Imported struct {
	Definition Definition
	By         string
	Edition    int64
	State      State
}

// Import makes schedules. Those that are there stay as they are.
func (c *Control) Import(ctx context.Context, all ...Imported) error {
	now, err := c.now(ctx)
	if err != nil {
		return err
	}
	changes := make([]ledger.ScheduleChange, len(all))
	for i, m := range all {
		id := m.Definition.ID
		if changes[i], _, err = c.change(ledger.Schedule{Tenant: id.Tenant, Name: id.Name, By: m.By, Edition: m.Edition}, normal(m.Definition), m.State, now); err != nil {
			return err
		}
	}
	_, err = c.ledger.ChangeSchedules(ctx, changes)
	return err
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
	layout := minuteStamp
	if len(text) > len(layout) {
		layout = secondStamp
	}
	at, err := time.Parse(layout, text)
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
