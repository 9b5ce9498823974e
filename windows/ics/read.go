package ics

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	ical "github.com/emersion/go-ical"

	"github.com/turnus/turnus/windows"
	"github.com/turnus/turnus/windows/civil"
)

// ErrInvalid is the error of Read: the calendar cannot be taken over.
var ErrInvalid = windows.ErrInvalid

const maxEvents = 2000

// Import defines how a calendar becomes a window set.
type Import struct {
	Name     string // of the window set
	Timezone string // of the set; "": that of the events
}

// Set is the window set that was made of a calendar.
type Set struct {
	YAML     []byte   // a definition file, checked
	Skipped  []string // events that are not confirmed, which open nothing
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
	im, err := newImporter(cal, events, opts.Timezone)
	if err != nil {
		return nil, fmt.Errorf("%w calendar: %w", ErrInvalid, err)
	}
	series, err := im.revisions(events)
	if err != nil {
		return nil, fmt.Errorf("%w calendar: %w", ErrInvalid, err)
	}
	for _, one := range series {
		if err := im.series(one); err != nil {
			return nil, fmt.Errorf("%w calendar: %w", ErrInvalid, err)
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

func (im *importer) finish(name string) (*Set, error) {
	data, _, err := define(name, im.zone, im.allow, im.deny)
	if err != nil {
		return nil, fmt.Errorf("%w calendar: its content cannot be taken over:\n%w", ErrInvalid, err)
	}
	return &Set{data, im.skipped, im.zone}, nil
}

func title(e ical.Event, i int) string {
	if s, err := e.Props.Text(ical.PropSummary); err == nil && s != "" {
		return clip(s)
	}
	return fmt.Sprintf("event-%d", i+1)
}

// newImporter finds the zone of the set and that of times that name none.
func newImporter(cal *ical.Calendar, events []ical.Event, zone string) (*importer, error) {
	if prop := cal.Props.Get(ical.PropMethod); prop != nil && strings.EqualFold(prop.Value, "CANCEL") {
		return nil, errors.New("METHOD:CANCEL cancels events, which an import does not support")
	}
	im := &importer{zone: zone, floating: zone, ids: map[string]bool{}}
	if prop := cal.Props.Get("X-WR-TIMEZONE"); prop != nil {
		im.floating = zoneName(prop.Value)
	}
	if im.zone == "" {
		im.zone = zoneOf(events, im.floating)
	}
	var err error
	if im.loc, err = civil.LoadZone(im.zone); err != nil {
		return nil, fmt.Errorf("%w; give --timezone", err)
	}
	return im, nil
}

// zoneOf is the zone of the first recurring event, else of the first that names one or floats,
// else UTC.
func zoneOf(events []ical.Event, floating string) string {
	zones := map[bool]string{}
	for _, e := range events {
		prop := e.Props.Get(ical.PropDateTimeStart)
		if prop == nil {
			continue
		}
		recurs, zone := e.Props.Get(ical.PropRecurrenceRule) != nil, tzid(prop)
		switch utc := strings.HasSuffix(strings.TrimSpace(prop.Value), "Z"); {
		case utc && recurs:
			zone = "UTC"
		case !utc:
			zone = cmp.Or(zone, floating)
		}
		zones[recurs] = cmp.Or(zones[recurs], zone)
	}
	return cmp.Or(zones[true], zones[false], "UTC")
}

// tzid is the IANA name of a property's zone, "" if it names none.
func tzid(prop *ical.Prop) string { return zoneName(prop.Params.Get(ical.PropTimezoneID)) }

// zoneName is a zone's IANA name. Some programs write Windows names.
func zoneName(text string) string {
	name := strings.TrimPrefix(strings.Trim(strings.TrimSpace(text), `"`), "/")
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
