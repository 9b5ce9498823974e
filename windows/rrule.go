package windows

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/windows/civil"
)

// recurrence is the source of a rule's repetitions: days of an RRULE, or starts of a cron
// expression.
type recurrence struct {
	rule *dayRule
	cron *civil.Cron
}

// dayRule is a parsed RRULE. It gives days; the time of day is the rule's own.
type dayRule struct {
	freq      frequency
	interval  int
	count     int // 0: no limit
	weekStart time.Weekday
	months    []int
	monthDays []int
	yearDays  []int
	weeks     []int
	positions []int // BYSETPOS
	weekdays  []nthWeekday

	until    time.Time // zero: none
	untilDay bool      // until is a date: a start on that day is still in
	untilUTC bool      // until is an instant, else wall time
	anchored bool      // which days it means depends on where it begins
}

const (
	maxRRule    = 512 // bytes
	maxInterval = 1000
	maxCount    = 100_000
	maxSetPos   = 16
)

// frequency is the length of the periods in which a rule repeats.
type frequency int

const (
	daily frequency = iota
	weekly
	monthly
	yearly
)

// nthWeekday is one entry of BYDAY. n counts within the month or the year, from its end if
// negative; 0 is every such weekday.
type nthWeekday struct {
	day time.Weekday
	n   int
}

// parseRRule reads an RFC 5545 RRULE. It refuses parts that this model gives another place,
// and rules that calendar programs read differently.
func parseRRule(text string) (*dayRule, error) {
	r := &dayRule{interval: 1, weekStart: time.Monday}
	if len(text) > maxRRule {
		return nil, fmt.Errorf("longer than %d characters", maxRRule)
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(text)), "RRULE:"), ";") {
		key, value, ok := strings.Cut(part, "=")
		switch {
		case !ok || value == "":
			return nil, fmt.Errorf("part %s: expected KEY=VALUE", quote(part))
		case seen[key]:
			return nil, fmt.Errorf("%s is given twice", key)
		}
		seen[key] = true
		if err := r.part(key, value); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	if !seen["FREQ"] {
		return nil, errors.New("FREQ is missing: expected FREQ=DAILY, WEEKLY, MONTHLY or YEARLY")
	}
	return r, r.check(seen)
}

func (r *dayRule) part(key, value string) (err error) {
	switch key {
	case "FREQ":
		freq := slices.Index([]string{"DAILY", "WEEKLY", "MONTHLY", "YEARLY"}, value)
		if freq < 0 {
			return fmt.Errorf("%s is not supported: expected DAILY, WEEKLY, MONTHLY or YEARLY", quote(value))
		}
		r.freq = frequency(freq)
	case "INTERVAL":
		r.interval, err = number(value, 1, maxInterval)
	case "COUNT":
		r.count, err = number(value, 1, maxCount)
	case "UNTIL":
		return r.parseUntil(value)
	case "BYMONTH":
		r.months, err = numbers(value, 12, false)
	case "BYMONTHDAY":
		r.monthDays, err = numbers(value, 31, true)
	case "BYYEARDAY":
		r.yearDays, err = numbers(value, 366, true)
	case "BYWEEKNO":
		r.weeks, err = numbers(value, 53, true)
	case "BYSETPOS":
		r.positions, err = numbers(value, 366, true)
	case "BYDAY":
		return r.parseDays(value)
	case "WKST":
		day, ok := weekdays()[value]
		if !ok {
			return fmt.Errorf("%s is no weekday: expected MO, TU, WE, TH, FR, SA or SU", quote(value))
		}
		r.weekStart = day
	case "BYHOUR", "BYMINUTE", "BYSECOND":
		return errors.New("the time of day is not a part of the rule; write from: and to: beside it")
	case "DTSTART", "TZID":
		return errors.New("where a rule begins is valid: [FIRST, LAST], and the zone is the set's timezone")
	default:
		return fmt.Errorf("unknown part%s", hinted(didYouMean(key, []string{"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYSETPOS", "BYDAY", "WKST"})))
	}
	return err
}

func hinted(hint string) string {
	if hint == "" {
		return ""
	}
	return "; " + hint
}

func weekdays() map[string]time.Weekday {
	return map[string]time.Weekday{
		"MO": time.Monday, "TU": time.Tuesday, "WE": time.Wednesday, "TH": time.Thursday, "FR": time.Friday, "SA": time.Saturday, "SU": time.Sunday,
	}
}

func (r *dayRule) parseDays(value string) error {
	for item := range strings.SplitSeq(value, ",") {
		day, ok := weekdays()[item[max(0, len(item)-2):]]
		if !ok {
			return fmt.Errorf("%s: expected weekdays such as SA or 2TU", quote(item))
		}
		n := 0
		if nth := item[:len(item)-2]; nth != "" {
			var err error
			if n, err = number(strings.TrimPrefix(nth, "+"), -53, 53); err != nil || n == 0 {
				return fmt.Errorf("%s: expected weekdays such as SA, 2TU or -1FR", quote(item))
			}
		}
		r.weekdays = append(r.weekdays, nthWeekday{day, n})
	}
	return nil
}

func (r *dayRule) parseUntil(value string) (err error) {
	for _, form := range []struct {
		layout   string
		day, utc bool
	}{{"20060102", true, false}, {"20060102T150405", false, false}, {"20060102T150405Z", false, true}} {
		if t, err := time.Parse(form.layout, value); err == nil {
			r.until, r.untilDay, r.untilUTC = t, form.day, form.utc
			return CheckYear(t)
		}
	}
	return fmt.Errorf("%s: expected 20261231, 20261231T220000 or 20261231T210000Z", quote(value))
}

func number(text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s: expected a number from %d to %d", quote(text), least, most)
	}
	return n, nil
}

func numbers(text string, most int, negative bool) ([]int, error) {
	var out []int
	for item := range strings.SplitSeq(text, ",") {
		least := 1
		if negative {
			least = -most
		}
		n, err := number(strings.TrimPrefix(item, "+"), least, most)
		if err != nil {
			return nil, err
		}
		switch {
		case n == 0:
			return nil, errors.New("0 is not a position")
		case slices.Contains(out, n):
			return nil, fmt.Errorf("%d is given twice", n)
		}
		out = append(out, n)
	}
	return out, nil
}

// check refuses what RFC 5545 forbids, and what calendar programs read differently: it is unknown
// which of the readings was meant.
func (r *dayRule) check(seen map[string]bool) error {
	nth := slices.ContainsFunc(r.weekdays, func(d nthWeekday) bool { return d.n != 0 })
	switch {
	case seen["COUNT"] && seen["UNTIL"]:
		return errors.New("COUNT and UNTIL exclude each other")
	case nth && r.freq != monthly && r.freq != yearly:
		return errors.New("BYDAY: a position such as 2TU needs FREQ=MONTHLY or YEARLY")
	case nth && len(r.weeks) > 0:
		return errors.New("BYDAY: a position such as 2TU and BYWEEKNO exclude each other")
	case len(r.weeks) > 0 && r.freq != yearly:
		return errors.New("BYWEEKNO needs FREQ=YEARLY")
	case len(r.weeks) > 0 && len(r.weekdays) == 0:
		return errors.New("BYWEEKNO without BYDAY is one day of the week to some programs and all seven to others; add BYDAY")
	case len(r.weeks) > 0 && (r.interval > 1 || len(r.positions) > 0):
		return errors.New("BYWEEKNO with INTERVAL or BYSETPOS: programs differ about the year that a week over New Year belongs to")
	case len(r.yearDays) > 0 && r.freq != yearly:
		return errors.New("BYYEARDAY needs FREQ=YEARLY")
	case len(r.monthDays) > 0 && r.freq == weekly:
		return errors.New("BYMONTHDAY cannot stand with FREQ=WEEKLY")
	case len(r.monthDays) > 0 && r.freq == yearly && len(r.months) == 0:
		return errors.New("BYMONTHDAY with FREQ=YEARLY is every month to some programs and one month to others; add BYMONTH, or write FREQ=MONTHLY")
	case len(r.positions) > maxSetPos:
		return fmt.Errorf("BYSETPOS: at most %d positions", maxSetPos)
	case len(r.positions) > 0 && !r.namesDays() && len(r.months) == 0:
		return errors.New("BYSETPOS chooses among the days of another BY part; there is none")
	}
	r.anchored = r.interval > 1 || r.count > 0 || !r.namesDays() && r.freq != daily
	return nil
}

// namesDays reports whether a part of the rule selects days of a period. If none does, the day on
// which the rule begins does.
func (r *dayRule) namesDays() bool {
	return len(r.weekdays)+len(r.monthDays)+len(r.yearDays)+len(r.weeks) > 0
}

// past reports whether a start lies behind UNTIL.
func (r *dayRule) past(start time.Time, zone *time.Location) bool {
	switch {
	case r.until.IsZero():
		return false
	case r.untilDay:
		return !start.Before(r.until.AddDate(0, 0, 1))
	case r.untilUTC:
		at, _ := civil.Resolve(start, zone)
		return at.After(r.until)
	}
	return start.After(r.until)
}
