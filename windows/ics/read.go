package ics

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	ical "github.com/emersion/go-ical"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/windows"
	"github.com/turnus/turnus/windows/civil"
)

// ErrInvalid is what every error of Read is: the calendar cannot be taken over.
var ErrInvalid = windows.ErrInvalid

const maxEvents = 2000

// Import says how a calendar becomes a window set.
type Import struct {
	Name     string // of the window set
	Timezone string // of the set; "": that of the events
}

// Set is the window set that was made of a calendar.
type Set struct {
	YAML     []byte   // a definition file, checked
	Skipped  []string // cancelled events, which open nothing
	Timezone string
}

// Read makes a window set of the events of an iCalendar file. It takes over everything or
// fails: a calendar that is understood in part would open what nobody agreed to.
func Read(data []byte, opts Import) (*Set, error) {
	if len(data) > windows.MaxFileSize {
		return nil, fmt.Errorf("%w calendar: larger than 1 MiB", ErrInvalid)
	}
	cal, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("%w calendar: %w", ErrInvalid, err)
	}
	events := cal.Events()
	if len(events) == 0 || len(events) > maxEvents {
		return nil, fmt.Errorf("%w calendar: it has %d events; expected 1 to %d", ErrInvalid, len(events), maxEvents)
	}
	im := &importer{zone: opts.Timezone, ids: map[string]bool{}}
	if im.zone == "" {
		im.zone = zoneOf(events)
	}
	if im.loc, err = civil.LoadZone(im.zone); err != nil {
		return nil, fmt.Errorf("%w calendar: %w; give --timezone", ErrInvalid, err)
	}
	for i, e := range events {
		if err := im.event(e, i); err != nil {
			return nil, fmt.Errorf("%w calendar: event %s: %w", ErrInvalid, title(e, i), err)
		}
	}
	return im.finish(opts.Name)
}

func decode(data []byte) (cal *ical.Calendar, err error) {
	defer func() { // the decoder panics on some malformed input
		if r := recover(); r != nil {
			err = fmt.Errorf("malformed: %v", r)
		}
	}()
	if bytes.Count(bytes.ToUpper(data), []byte("BEGIN:")) > 4*maxEvents {
		return nil, errors.New("more than 8000 components")
	}
	cal, err = ical.NewDecoder(bytes.NewReader(data)).Decode()
	if errors.Is(err, io.EOF) {
		err = errors.New("it ends too early")
	}
	return cal, err
}

// importer collects the rules of one set.
type importer struct {
	zone    string
	loc     *time.Location
	allow   []yamlRule
	deny    []yamlRule
	skipped []string
	ids     map[string]bool
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

func (im *importer) event(e ical.Event, i int) error {
	if status, _ := e.Status(); status == ical.EventCancelled {
		im.skipped = append(im.skipped, title(e, i)+": cancelled")
		return nil
	}
	if e.Props.Get(ical.PropRecurrenceID) != nil {
		return errors.New("RECURRENCE-ID: single occurrences that are moved cannot be taken over")
	}
	for _, prop := range []string{"EXRULE", "RSCALE"} {
		if e.Props.Get(prop) != nil {
			return fmt.Errorf("%s cannot be taken over", prop)
		}
	}
	start, err := im.time(e.Props.Get(ical.PropDateTimeStart), "DTSTART")
	if err != nil {
		return err
	}
	end, elapsed, err := im.end(e, start)
	if err != nil {
		return err
	}
	id := im.id(title(e, i), i)
	if prop := e.Props.Get(ical.PropRecurrenceRule); prop != nil {
		if start.zone != im.zone {
			return fmt.Errorf("it recurs in %s, the set is in %s", start.zone, im.zone)
		}
		if len(e.Props.Values(ical.PropRecurrenceRule)) > 1 {
			return errors.New("more than one RRULE")
		}
		r := yamlRule{ID: id, RRule: prop.Value, From: start.wall.Format("15:04:05"), Valid: []string{start.wall.Format(time.DateOnly), "2099-12-31"}}
		if elapsed > 0 {
			r.Duration = windows.FormatDuration(elapsed)
		} else {
			days := int(day(end).Sub(day(start.wall)).Hours()) / 24
			r.To = fmt.Sprintf("+%dd %s", days, end.Format("15:04:05"))
		}
		im.allow = append(im.allow, r)
	} else {
		im.once(&im.allow, id, start.wall, end)
	}
	length := end.Sub(start.wall)
	return im.dates(e, id, length)
}

// dates takes over single dates that are added or left out.
func (im *importer) dates(e ical.Event, id string, length time.Duration) error {
	for _, kind := range []struct {
		prop string
		into *[]yamlRule
	}{{ical.PropRecurrenceDates, &im.allow}, {ical.PropExceptionDates, &im.deny}} {
		n := 0
		for _, prop := range e.Props.Values(kind.prop) {
			for value := range strings.SplitSeq(prop.Value, ",") {
				one := prop
				one.Value = value
				at, err := im.time(&one, kind.prop)
				if err != nil {
					return err
				}
				n++
				im.once(kind.into, fmt.Sprintf("%s-%s-%d", id, strings.ToLower(kind.prop), n), at.wall, at.wall.Add(length))
			}
		}
	}
	return nil
}

func (im *importer) once(into *[]yamlRule, id string, start, end time.Time) {
	*into = append(*into, yamlRule{ID: id, At: start.Format(wall), To: end.Format(wall)})
}

// moment is a time of an event, as wall time in the set's zone.
type moment struct {
	wall time.Time
	zone string // that it was written in
}

func (im *importer) time(prop *ical.Prop, what string) (moment, error) {
	if prop == nil {
		return moment{}, fmt.Errorf("it has no %s", what)
	}
	value := strings.TrimSpace(prop.Value)
	if t, err := time.Parse("20060102", value); err == nil { // a date floats
		return moment{t, im.zone}, nil
	}
	if t, err := time.Parse("20060102T150405Z", value); err == nil {
		return moment{civil.Wall(t, im.loc), "UTC"}, nil
	}
	t, err := time.Parse("20060102T150405", value)
	if err != nil {
		return moment{}, fmt.Errorf("%s %q: expected a date, or a date and time", what, clip(value))
	}
	name := tzid(prop)
	if name == "" || name == im.zone {
		return moment{t, im.zone}, nil
	}
	zone, err := civil.LoadZone(name)
	if err != nil {
		return moment{}, fmt.Errorf("%s: %w", what, err)
	}
	at, _ := civil.Resolve(t, zone)
	return moment{civil.Wall(at, im.loc), name}, nil
}

// end is the wall time of an event's end; elapsed is given if it was written as a duration
// without days, which counts real time.
func (im *importer) end(e ical.Event, start moment) (end time.Time, elapsed time.Duration, err error) {
	if prop := e.Props.Get(ical.PropDuration); prop != nil {
		d, err := prop.Duration()
		if err != nil || d <= 0 || d%time.Second != 0 {
			return end, 0, fmt.Errorf("DURATION %q: expected more than none", clip(prop.Value))
		}
		if !strings.ContainsAny(prop.Value, "DW") {
			elapsed = d
		}
		return start.wall.Add(d), elapsed, nil
	}
	if prop := e.Props.Get(ical.PropDateTimeEnd); prop != nil {
		m, err := im.time(prop, "DTEND")
		if err == nil && !m.wall.After(start.wall) {
			err = errors.New("DTEND is not after DTSTART")
		}
		return m.wall, 0, err
	}
	if len(strings.TrimSpace(e.Props.Get(ical.PropDateTimeStart).Value)) == len("20060102") {
		return start.wall.AddDate(0, 0, 1), 0, nil
	}
	return end, 0, errors.New("it has neither DTEND nor DURATION")
}

func (im *importer) finish(name string) (*Set, error) {
	type set struct {
		Timezone string     `yaml:"timezone"`
		Allow    []yamlRule `yaml:"allow"`
		Deny     []yamlRule `yaml:"deny,omitempty"`
	}
	if im.allow == nil {
		im.allow = []yamlRule{}
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(map[string]any{"window_sets": map[string]any{name: set{im.zone, im.allow, im.deny}}}); err != nil {
		return nil, fmt.Errorf("write the window set: %w", err)
	}
	if _, err := windows.Parse(windows.Document{File: "imported", Data: b.Bytes()}); err != nil {
		return nil, fmt.Errorf("%w calendar: what it says cannot be taken over:\n%w", ErrInvalid, err)
	}
	return &Set{b.Bytes(), im.skipped, im.zone}, nil
}

// id is a name for a rule: the event's summary without blanks, made unique.
func (im *importer) id(title string, i int) string {
	id := strings.Trim(strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}, title), "-")
	id = cmp.Or(id, "event")
	if im.ids[id] {
		id = fmt.Sprintf("%s-%d", id, i+1)
	}
	im.ids[id] = true
	return id
}

func title(e ical.Event, i int) string {
	if s, err := e.Props.Text(ical.PropSummary); err == nil && s != "" {
		return clip(s)
	}
	return fmt.Sprintf("event-%d", i+1)
}

// zoneOf is the zone of the first recurring event, else of the first that names one, else UTC.
func zoneOf(events []ical.Event) string {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b ical.Event) int {
		recurs := func(e ical.Event) int {
			if e.Props.Get(ical.PropRecurrenceRule) != nil {
				return 0
			}
			return 1
		}
		return recurs(a) - recurs(b)
	})
	for _, e := range events {
		if prop := e.Props.Get(ical.PropDateTimeStart); prop != nil {
			if name := tzid(prop); name != "" {
				return name
			}
			if e.Props.Get(ical.PropRecurrenceRule) != nil && strings.HasSuffix(prop.Value, "Z") {
				return "UTC"
			}
		}
	}
	return "UTC"
}

// tzid is the IANA name of a property's zone. Some programs write Windows names.
func tzid(prop *ical.Prop) string {
	name := strings.TrimPrefix(strings.Trim(prop.Params.Get(ical.PropTimezoneID), `"`), "/")
	windowsNames := map[string]string{
		"W. Europe Standard Time": "Europe/Berlin", "Romance Standard Time": "Europe/Paris", "Central Europe Standard Time": "Europe/Budapest",
		"Central European Standard Time": "Europe/Warsaw", "GMT Standard Time": "Europe/London", "E. Europe Standard Time": "Europe/Chisinau",
		"FLE Standard Time": "Europe/Kiev", "GTB Standard Time": "Europe/Bucharest", "Eastern Standard Time": "America/New_York",
		"Central Standard Time": "America/Chicago", "Mountain Standard Time": "America/Denver", "Pacific Standard Time": "America/Los_Angeles",
		"India Standard Time": "Asia/Kolkata", "China Standard Time": "Asia/Shanghai", "Tokyo Standard Time": "Asia/Tokyo",
		"Singapore Standard Time": "Asia/Singapore", "AUS Eastern Standard Time": "Australia/Sydney", "New Zealand Standard Time": "Pacific/Auckland",
	}
	return cmp.Or(windowsNames[name], name)
}

func day(t time.Time) time.Time { return t.Truncate(24 * time.Hour) }

func clip(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		return string(r[:most])
	}
	return s
}
