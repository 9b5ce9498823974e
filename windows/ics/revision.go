package ics

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	ical "github.com/emersion/go-ical"
)

// event is one VEVENT, in the newest of its revisions.
type event struct {
	ical.Event
	name     string
	sequence int
	replaces *moment // RECURRENCE-ID: the occurrence of its series that it takes the place of
	why      string  // why it opens nothing; "" if it is confirmed
}

// series are the events of one UID.
type series struct {
	master *event   // nil: only single occurrences are in the file
	single []*event // each takes the place of one occurrence
}

// revisions groups events by UID. Of several revisions of an event the one with the highest
// SEQUENCE, then with the latest DTSTAMP, is valid.
func (im *importer) revisions(events []ical.Event) ([]*series, error) {
	type key struct {
		uid      string
		replaces time.Time
	}
	newest := map[key]*event{}
	all := map[string]*series{}
	var keys []key
	var out []*series
	for i, raw := range events {
		e, err := im.read(raw, i)
		if err != nil {
			return nil, fmt.Errorf("event %s: %w", title(raw, i), err)
		}
		k := key{uid: value(raw, ical.PropUID)}
		if k.uid == "" {
			k.uid = fmt.Sprintf("event %d without a UID", i+1)
		}
		if e.replaces != nil {
			k.replaces = e.replaces.instant()
		}
		old := newest[k]
		if old == nil {
			keys = append(keys, k)
			newest[k] = e
			continue
		}
		switch order := cmp.Or(cmp.Compare(e.sequence, old.sequence), cmp.Compare(value(raw, ical.PropDateTimeStamp), value(old.Event, ical.PropDateTimeStamp))); {
		case order == 0:
			return nil, fmt.Errorf("event %s: two revisions of UID %q have SEQUENCE %d and one DTSTAMP", e.name, clip(k.uid), e.sequence)
		case order > 0:
			newest[k] = e
		}
	}
	for _, k := range keys {
		s := all[k.uid]
		if s == nil {
			s = &series{}
			all[k.uid], out = s, append(out, s)
		}
		if e := newest[k]; e.replaces == nil {
			s.master = e
		} else {
			s.single = append(s.single, e)
		}
	}
	return out, nil
}

// read checks what decides whether an event counts.
func (im *importer) read(raw ical.Event, i int) (*event, error) {
	e := &event{Event: raw, name: title(raw, i)}
	for _, name := range []string{
		ical.PropUID, ical.PropDateTimeStart, ical.PropDateTimeEnd, ical.PropDuration, ical.PropStatus,
		ical.PropSequence, ical.PropDateTimeStamp, ical.PropRecurrenceID, ical.PropRecurrenceRule,
	} {
		if len(raw.Props.Values(name)) > 1 {
			return nil, fmt.Errorf("more than one %s", name)
		}
	}
	for _, name := range []string{"EXRULE", "RSCALE"} {
		if raw.Props.Get(name) != nil {
			return nil, fmt.Errorf("%s cannot be taken over", name)
		}
	}
	status, err := raw.Status()
	switch {
	case err != nil:
		return nil, fmt.Errorf("STATUS %q: expected CONFIRMED, TENTATIVE or CANCELLED", clip(value(raw, ical.PropStatus)))
	case status == ical.EventCancelled || status == ical.EventTentative:
		e.why = strings.ToLower(string(status))
	case value(raw, ical.PropCategories) == freezeCategory:
		e.why = "a freeze, which opens nothing"
	}
	if prop := raw.Props.Get(ical.PropSequence); prop != nil {
		if e.sequence, err = prop.Int(); err != nil || e.sequence < 0 {
			return nil, fmt.Errorf("SEQUENCE %q: expected a number", clip(prop.Value))
		}
	}
	prop := raw.Props.Get(ical.PropRecurrenceID)
	if prop == nil {
		return e, nil
	}
	if prop.Params.Get(ical.ParamRange) != "" {
		return nil, fmt.Errorf("RECURRENCE-ID with RANGE cannot be taken over")
	}
	at, err := im.time(prop, ical.PropRecurrenceID)
	e.replaces = &at
	return e, err
}

func value(e ical.Event, name string) string {
	if prop := e.Props.Get(name); prop != nil {
		return strings.TrimSpace(prop.Value)
	}
	return ""
}
