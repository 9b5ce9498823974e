package ics

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	ical "github.com/emersion/go-ical"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/windows"
	"github.com/turnus/turnus/windows/civil"
)

// importer collects the rules of one set.
type importer struct {
	zone     string // of the set
	loc      *time.Location
	floating string // zone of times that name none; "": unknown
	allow    []yamlRule
	deny     []yamlRule
	skipped  []string
	ids      map[string]bool
}

// yamlRule is a rule as it is written.
type yamlRule struct {
	ID       string   `yaml:"id"`
	RRule    string   `yaml:"rrule,omitempty"`
	At       string   `yaml:"at,omitempty"`
	From     string   `yaml:"from,omitempty"`
	To       string   `yaml:"to,omitempty"`
	Duration string   `yaml:"duration,omitempty"`
	Valid    []string `yaml:"valid,omitempty,flow"`
}

const wall = "2006-01-02T15:04:05"

// length is how long an event lasts: elapsed time, or a difference of wall clock times in its zone.
type length struct {
	elapsed, wall time.Duration
	zone          string
	loc           *time.Location
}

// series takes over the events of one UID.
func (im *importer) series(s *series) error {
	var usual length
	if s.master != nil {
		if s.master.why != "" {
			im.skip(s.master)
			return nil
		}
		var err error
		if usual, err = im.event(s.master); err != nil {
			return fmt.Errorf("event %s: %w", s.master.name, err)
		}
	}
	for _, e := range s.single {
		if err := im.single(e, s.master, usual); err != nil {
			return fmt.Errorf("event %s: %w", e.name, err)
		}
	}
	return nil
}

func (im *importer) skip(e *event) { im.skipped = append(im.skipped, e.name+": "+e.why) }

func (im *importer) event(e *event) (length, error) {
	start, long, err := im.span(e)
	if err != nil {
		return long, err
	}
	id := im.id(e.name)
	prop := e.Props.Get(ical.PropRecurrenceRule)
	if prop == nil {
		if err := im.once(&im.allow, id, start, long); err != nil {
			return long, err
		}
		return long, im.dates(e, id, start, long)
	}
	if start.zone != im.zone {
		return long, fmt.Errorf("it recurs in %s, the set is in %s", start.zone, im.zone)
	}
	r := yamlRule{ID: id, RRule: prop.Value, From: start.wall.Format("15:04:05"), Valid: []string{start.wall.Format(time.DateOnly), "2099-12-31"}}
	if long.elapsed > 0 {
		r.Duration = windows.FormatDuration(long.elapsed)
	} else {
		end := start.wall.Add(long.wall)
		r.To = fmt.Sprintf("+%dd %s", int(day(end).Sub(day(start.wall)).Hours())/24, end.Format("15:04:05"))
	}
	if !im.opensFirst(r) {
		return long, errors.New("DTSTART is not a day of its RRULE; programs differ about whether it counts")
	}
	im.allow = append(im.allow, r)
	return long, im.dates(e, id, start, long)
}

// opensFirst reports whether a rule opens on its first valid day. A rule that is refused is left to
// finish, which reports why.
func (im *importer) opensFirst(r yamlRule) bool {
	first := r.Valid[0]
	r.Valid = []string{first, first}
	_, defs, err := define("first", im.zone, []yamlRule{r}, nil)
	if err != nil {
		return true
	}
	at, _ := time.Parse(time.DateOnly, first)
	return len(defs.Compile("first", windows.Ahead(at.AddDate(0, 0, -2), 4)).Occurrences(at.AddDate(0, 0, -2), at.AddDate(0, 0, 2))) > 0
}

// single takes over an event that stands for one occurrence of a series.
func (im *importer) single(e, master *event, usual length) error {
	for _, name := range []string{ical.PropRecurrenceRule, ical.PropRecurrenceDates, ical.PropExceptionDates} {
		if e.Props.Get(name) != nil {
			return fmt.Errorf("%s beside RECURRENCE-ID", name)
		}
	}
	if master != nil {
		if e.replaces.date != (len(value(master.Event, ical.PropDateTimeStart)) == len("20060102")) {
			return errors.New("RECURRENCE-ID and the DTSTART of its series are not both dates or both times")
		}
		if err := im.once(&im.deny, im.id(e.name+"-replaced"), *e.replaces, usual); err != nil {
			return err
		}
	}
	if e.why != "" {
		im.skip(e)
		return nil
	}
	start, long, err := im.span(e)
	if err != nil {
		return err
	}
	if master != nil {
		switch {
		case e.sequence < master.sequence:
			return fmt.Errorf("its SEQUENCE %d is older than that of its series, %d", e.sequence, master.sequence)
		case start.instant().Before(usual.after(*e.replaces)) && e.replaces.instant().Before(long.after(start)):
			return errors.New("it is moved by less than its length, which a window set cannot have")
		}
	}
	return im.once(&im.allow, im.id(e.name), start, long)
}

// after is the instant at which something ends that begins at a moment.
func (l length) after(m moment) time.Time { return l.end(m).instant().Add(l.elapsed) }

// end adds the wall clock time. A start that is written in another zone, as EXDATE often is in UTC,
// ends with its series: a clock change between start and end counts.
func (l length) end(m moment) moment {
	if l.elapsed == 0 && m.zone != l.zone {
		m.wall, m.zone, m.loc = civil.Wall(m.instant(), l.loc), l.zone, l.loc
	}
	m.wall = m.wall.Add(l.wall)
	return m
}

// dates takes over single dates that are added or left out.
func (im *importer) dates(e *event, id string, start moment, long length) error {
	for _, kind := range []struct {
		prop string
		into *[]yamlRule
	}{{ical.PropRecurrenceDates, &im.allow}, {ical.PropExceptionDates, &im.deny}} {
		n := 0
		for _, prop := range e.Props.Values(kind.prop) {
			for value := range strings.SplitSeq(prop.Value, ",") {
				one := prop
				one.Value = value
				at, err := im.timeIn(&one, kind.prop, cmp.Or(im.floating, start.zone))
				if err != nil {
					return err
				}
				if at.date != start.date {
					if !at.date || kind.prop == ical.PropRecurrenceDates || e.Props.Get(ical.PropRecurrenceDates) != nil {
						return fmt.Errorf("%s and DTSTART are not both dates or both times", kind.prop)
					}
					// Many programs leave a day out by its date alone.
					at = moment{wall: at.wall.Add(start.wall.Sub(day(start.wall))), zone: start.zone, loc: start.loc}
				}
				n++
				if err := im.once(kind.into, fmt.Sprintf("%s-%s-%d", id, strings.ToLower(kind.prop), n), at, long); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (im *importer) once(into *[]yamlRule, id string, start moment, long length) error {
	from, err := im.local(start)
	if err != nil {
		return err
	}
	r := yamlRule{ID: id, At: from.Format(wall)}
	if long.elapsed > 0 {
		r.Duration = windows.FormatDuration(long.elapsed)
	} else {
		to, err := im.local(long.end(start))
		if err != nil {
			return err
		}
		r.To = to.Format(wall)
	}
	*into = append(*into, r)
	return nil
}

// moment is a time of an event as it is written.
type moment struct {
	wall time.Time
	zone string
	loc  *time.Location
	date bool // it is a day
}

func (m moment) instant() time.Time {
	at, _ := civil.Resolve(m.wall, m.loc)
	return at
}

// local is a moment as wall time in the set's zone.
func (im *importer) local(m moment) (time.Time, error) {
	if m.zone == im.zone {
		return m.wall, nil
	}
	there := civil.Wall(m.instant(), im.loc)
	if back, _ := civil.Resolve(there, im.loc); !back.Equal(m.instant()) {
		return there, fmt.Errorf("%s comes twice in %s, and this is the second time; give --timezone UTC", there.Format(wall), im.zone)
	}
	return there, nil
}

func (im *importer) time(prop *ical.Prop, what string) (moment, error) {
	return im.timeIn(prop, what, im.floating)
}

// timeIn reads a time, in the floating zone if it names none.
func (im *importer) timeIn(prop *ical.Prop, what, floating string) (moment, error) {
	if prop == nil {
		return moment{}, fmt.Errorf("it has no %s", what)
	}
	text := strings.TrimSpace(prop.Value)
	if t, err := time.Parse("20060102T150405Z", text); err == nil {
		return moment{wall: t, zone: "UTC", loc: time.UTC}, nil
	}
	m := moment{zone: cmp.Or(tzid(prop), floating)}
	var err error
	if m.wall, err = time.Parse("20060102", text); err == nil { // a date floats
		m.date, m.zone = true, floating
	} else if m.wall, err = time.Parse("20060102T150405", text); err != nil {
		return m, fmt.Errorf("%s %q: expected a date, or a date and time", what, clip(text))
	}
	if m.zone == "" {
		return m, fmt.Errorf("%s %q names no time zone, nor does the calendar; give --timezone", what, clip(text))
	}
	if m.loc, err = civil.LoadZone(m.zone); err != nil {
		return m, fmt.Errorf("%s: %w", what, err)
	}
	return m, nil
}

// span is when an event begins and how long it lasts.
func (im *importer) span(e *event) (start moment, long length, err error) {
	if start, err = im.time(e.Props.Get(ical.PropDateTimeStart), "DTSTART"); err != nil {
		return start, long, err
	}
	duration, end := e.Props.Get(ical.PropDuration), e.Props.Get(ical.PropDateTimeEnd)
	long.zone, long.loc = start.zone, start.loc
	switch {
	case duration != nil && end != nil:
		err = errors.New("DTEND and DURATION exclude each other")
	case duration != nil:
		long.elapsed, long.wall, err = readDuration(duration)
	case end != nil:
		var m moment
		if m, err = im.time(end, "DTEND"); err != nil {
			break
		}
		if m.date != start.date {
			return start, long, errors.New("DTSTART and DTEND are not both dates or both times")
		}
		if m.zone != start.zone {
			m.wall = civil.Wall(m.instant(), start.loc)
		}
		if long.wall = m.wall.Sub(start.wall); long.wall <= 0 {
			err = errors.New("DTEND is not after DTSTART")
		}
	case start.date:
		long.wall = 24 * time.Hour
	default:
		err = errors.New("it has neither DTEND nor DURATION")
	}
	return start, long, err
}

// readDuration reads days, which count on the wall clock, or hours, minutes and seconds, which
// are elapsed time.
func readDuration(prop *ical.Prop) (elapsed, wall time.Duration, err error) {
	d, err := prop.Duration()
	if err != nil || d <= 0 || d%time.Second != 0 {
		return 0, 0, fmt.Errorf("DURATION %q: expected more than none", clip(prop.Value))
	}
	switch days, hours := strings.ContainsAny(prop.Value, "DW"), strings.Contains(prop.Value, "T"); {
	case days && hours:
		return 0, 0, fmt.Errorf("DURATION %q: days together with hours cannot be taken over", clip(prop.Value))
	case days:
		return 0, d, nil
	}
	return d, 0, nil
}

// define writes a window set, and reads it back.
func define(name, zone string, allow, deny []yamlRule) ([]byte, *windows.Definitions, error) {
	type set struct {
		Timezone string     `yaml:"timezone"`
		Allow    []yamlRule `yaml:"allow"`
		Deny     []yamlRule `yaml:"deny,omitempty"`
	}
	if allow == nil {
		allow = []yamlRule{}
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(map[string]any{"window_sets": map[string]any{name: set{zone, allow, deny}}}); err != nil {
		return nil, nil, fmt.Errorf("write the window set: %w", err)
	}
	defs, err := windows.Parse(windows.Document{File: "imported", Data: b.Bytes()})
	return b.Bytes(), defs, err
}

// id is a name for a rule: the event's summary without blanks, made unique.
func (im *importer) id(title string) string {
	id := strings.Trim(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, title), "-")
	id = cmp.Or(id, "event")
	for unique, n := id, 2; ; unique, n = fmt.Sprintf("%s-%d", id, n), n+1 {
		if !im.ids[unique] {
			im.ids[unique] = true
			return unique
		}
	}
}
