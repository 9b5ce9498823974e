// Package civil owns civil time: what a wall clock in a time zone shows, which instant
// that is when clocks change, and cron expressions evaluated on it.
//
// It must not know windows, schedules, or what is started.
//
// A wall time is a time.Time in UTC whose fields are what the clock shows ("floating").
// Everything is computed on wall times and resolved once, by Resolve; that sidesteps
// the faults that every library tried has at clock changes.
package civil

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrInvalid is the error of this package: the caller's text is wrong.
var ErrInvalid = errors.New("invalid")

// Kind is how a wall time met the zone's clock.
type Kind uint8

// A wall time exists once, never, or more than once.
const (
	Exact Kind = iota
	Gap        // clocks were set forward over it: the first instant after the gap
	Fold       // clocks were set back over it: the first of its occurrences
)

// Wall returns the time that a clock in zone shows at t, to the nanosecond, as a floating time.
func Wall(t time.Time, zone *time.Location) time.Time {
	_, off := t.In(zone).Zone()
	return t.Add(time.Duration(off) * time.Second).UTC()
}

// Resolve is the instant of a wall time. In a gap: the first instant after it. In a
// fold: the first occurrence. It is monotone: a later wall time never gives an earlier
// instant.
func Resolve(wall time.Time, zone *time.Location) (time.Time, Kind) {
	wall = wall.UTC()
	// No zone is more than a day from UTC, so the instant lies between these two.
	before, after := offset(wall.Add(-24*time.Hour), zone), offset(wall.Add(24*time.Hour), zone)
	a := wall.Add(-before)
	aOK := offset(a, zone) == before
	if before == after {
		if aOK {
			return a.In(zone), Exact
		}
		return walk(wall, zone)
	}
	b := wall.Add(-after)
	bOK := offset(b, zone) == after
	switch {
	case aOK && bOK: // the offsets differ, so the instants do
		if b.Before(a) {
			a = b
		}
		return a.In(zone), Fold
	case aOK:
		return a.In(zone), Exact
	case bOK:
		return b.In(zone), Exact
	}
	return walk(wall, zone)
}

// Last is the last instant at which a clock shows a wall time: in a fold its second occurrence,
// elsewhere what Resolve returns.
func Last(wall time.Time, zone *time.Location) time.Time {
	wall = wall.UTC()
	at, _ := Resolve(wall, zone)
	for _, c := range Changes(zone, at, at.Add(26*time.Hour)) {
		if from, to := c.Span(); !c.Gap() && !wall.Before(from) && wall.Before(to) {
			at = wall.Add(-offset(c.At, zone)).In(zone)
		}
	}
	return at
}

// LastBefore is the instant after which a clock shows no earlier wall time any more: the end of
// what ends at a wall time and includes both copies of a repeated hour.
func LastBefore(wall time.Time, zone *time.Location) time.Time {
	if at, kind := Resolve(wall.Add(-1), zone); kind != Gap {
		if last := Last(wall.Add(-1), zone); last.After(at) {
			return last.Add(1)
		}
	}
	at, _ := Resolve(wall, zone)
	return at
}

// walk goes through the periods of constant offset around a wall time. It ends gaps, and
// serves the few places where clocks changed twice within two days.
func walk(wall time.Time, zone *time.Location) (time.Time, Kind) {
	at := wall.Add(-26 * time.Hour).In(zone)
	const most = 8 // changes within two days
	for range most {
		_, end := at.ZoneBounds()
		candidate := wall.Add(-offset(at, zone))
		if candidate.Before(at) {
			return at, Gap // the period before ended too early, this one begins too late
		}
		if end.IsZero() || candidate.Before(end) {
			return candidate.In(zone), Exact
		}
		at = end
	}
	return at, Gap
}

func offset(t time.Time, zone *time.Location) time.Duration {
	_, off := t.In(zone).Zone()
	return time.Duration(off) * time.Second
}

// Change is one moment at which a zone's clock is set.
type Change struct {
	At     time.Time     // first instant of the new offset
	By     time.Duration // positive: forward (a gap); negative: back (a fold)
	Before time.Time     // the wall time at which the old offset ends
}

// Gap reports whether clocks are set forward.
func (c Change) Gap() bool { return c.By > 0 }

// Span is the wall time that does not exist (gap) or comes twice (fold), half-open.
func (c Change) Span() (from, to time.Time) {
	if c.By > 0 {
		return c.Before, c.Before.Add(c.By)
	}
	return c.Before.Add(c.By), c.Before
}

// Changes lists the clock changes of a zone within [from, to), at most 1000.
func Changes(zone *time.Location, from, to time.Time) []Change {
	var out []Change
	at := from
	for range 1000 {
		_, end := at.In(zone).ZoneBounds()
		if end.IsZero() || !end.Before(to) {
			break
		}
		old, next := offset(end.Add(-1), zone), offset(end, zone)
		if old != next { // a change of name only is none
			out = append(out, Change{At: end, By: next - old, Before: end.Add(old).UTC()})
		}
		at = end
	}
	return out
}

// LoadZone loads an IANA time zone. The machine's own zone is refused: a definition must
// mean the same everywhere.
func LoadZone(name string) (*time.Location, error) {
	if name == "" || name == "Local" || len(name) > 64 {
		return nil, fmt.Errorf("%w time zone %q: expected an IANA name such as Europe/Berlin, or UTC", ErrInvalid, clip(name))
	}
	zone, err := time.LoadLocation(name)
	if err == nil {
		return zone, nil
	}
	for _, known := range commonZones() {
		_, city, _ := strings.Cut(known, "/")
		if strings.EqualFold(known, name) || strings.EqualFold(city, name) {
			return nil, fmt.Errorf("%w time zone %q: did you mean %q?", ErrInvalid, clip(name), known)
		}
	}
	return nil, fmt.Errorf("%w time zone %q: expected an IANA name such as Europe/Berlin, or UTC", ErrInvalid, clip(name))
}

// commonZones is for hints only.
func commonZones() []string {
	return []string{
		"UTC", "Europe/Zurich", "Europe/Berlin", "Europe/London", "Europe/Paris", "Europe/Madrid", "Europe/Rome", "Europe/Vienna",
		"Europe/Amsterdam", "Europe/Brussels", "Europe/Dublin", "Europe/Lisbon", "Europe/Stockholm", "Europe/Warsaw", "America/New_York", "America/Chicago",
		"America/Denver", "America/Los_Angeles", "America/Santiago", "America/Sao_Paulo", "Africa/Cairo", "Asia/Tokyo", "Asia/Singapore",
		"Asia/Kolkata", "Asia/Shanghai", "Asia/Dubai", "Australia/Sydney", "Pacific/Auckland",
	}
}

func clip(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}
