package windows

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/teambition/rrule-go"

	"github.com/turnus/turnus/windows/civil"
)

// recurrence is what a rule repeats by: days of an RRULE, or starts of a cron expression.
type recurrence struct {
	rule *dayRule
	cron *civil.Cron
}

// dayRule is a parsed RRULE. It gives days; the time of day is the rule's own.
type dayRule struct {
	opt      rrule.ROption
	until    time.Time // zero: none
	untilDay bool      // until is a date: a start on that day is still in
	untilUTC bool      // until is an instant, else wall time
	anchored bool      // which days it means depends on where it begins
}

const (
	maxRRule    = 512 // bytes
	maxInterval = 1000
	maxCount    = 100_000
	maxSetPos   = 16 // the library goes through all days for each
)

// parseRRule reads an RFC 5545 RRULE. Parts that this model gives another place are refused,
// and so are all that make the library loop.
func parseRRule(text string) (*dayRule, error) {
	r := &dayRule{opt: rrule.ROption{Interval: 1}}
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
		freqs := map[string]rrule.Frequency{"DAILY": rrule.DAILY, "WEEKLY": rrule.WEEKLY, "MONTHLY": rrule.MONTHLY, "YEARLY": rrule.YEARLY}
		freq, ok := freqs[value]
		if !ok {
			return fmt.Errorf("%s is not supported: expected DAILY, WEEKLY, MONTHLY or YEARLY", quote(value))
		}
		r.opt.Freq = freq
	case "INTERVAL":
		r.opt.Interval, err = number(value, 1, maxInterval)
	case "COUNT":
		r.opt.Count, err = number(value, 1, maxCount)
	case "UNTIL":
		return r.parseUntil(value)
	case "BYMONTH":
		r.opt.Bymonth, err = numbers(value, 12, false)
	case "BYMONTHDAY":
		r.opt.Bymonthday, err = numbers(value, 31, true)
	case "BYYEARDAY":
		r.opt.Byyearday, err = numbers(value, 366, true)
	case "BYWEEKNO":
		r.opt.Byweekno, err = numbers(value, 53, true)
	case "BYSETPOS":
		r.opt.Bysetpos, err = numbers(value, 366, true)
	case "BYDAY":
		return r.parseDays(value)
	case "WKST":
		day, ok := weekdays()[value]
		if !ok {
			return fmt.Errorf("%s is no weekday: expected MO, TU, WE, TH, FR, SA or SU", quote(value))
		}
		r.opt.Wkst = day
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

func weekdays() map[string]rrule.Weekday {
	return map[string]rrule.Weekday{"MO": rrule.MO, "TU": rrule.TU, "WE": rrule.WE, "TH": rrule.TH, "FR": rrule.FR, "SA": rrule.SA, "SU": rrule.SU}
}

func (r *dayRule) parseDays(value string) error {
	for item := range strings.SplitSeq(value, ",") {
		day, ok := weekdays()[item[max(0, len(item)-2):]]
		if !ok {
			return fmt.Errorf("%s: expected weekdays such as SA or 2TU", quote(item))
		}
		if nth := item[:len(item)-2]; nth != "" {
			n, err := number(strings.TrimPrefix(nth, "+"), -53, 53)
			if err != nil || n == 0 {
				return fmt.Errorf("%s: expected weekdays such as SA, 2TU or -1FR", quote(item))
			}
			day = day.Nth(n)
		}
		r.opt.Byweekday = append(r.opt.Byweekday, day)
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
			return yearBounds(t)
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

// check refuses what RFC 5545 forbids, where libraries give something silently.
func (r *dayRule) check(seen map[string]bool) error {
	o := &r.opt
	nth := slices.ContainsFunc(o.Byweekday, func(d rrule.Weekday) bool { return d.N() != 0 })
	switch {
	case seen["COUNT"] && seen["UNTIL"]:
		return errors.New("COUNT and UNTIL exclude each other")
	case nth && o.Freq != rrule.MONTHLY && o.Freq != rrule.YEARLY:
		return errors.New("BYDAY: a position such as 2TU needs FREQ=MONTHLY or YEARLY")
	case nth && len(o.Byweekno) > 0:
		return errors.New("BYDAY: a position such as 2TU and BYWEEKNO exclude each other")
	case len(o.Byweekno) > 0 && o.Freq != rrule.YEARLY:
		return errors.New("BYWEEKNO needs FREQ=YEARLY")
	case len(o.Byyearday) > 0 && o.Freq != rrule.YEARLY:
		return errors.New("BYYEARDAY needs FREQ=YEARLY")
	case len(o.Bymonthday) > 0 && o.Freq == rrule.WEEKLY:
		return errors.New("BYMONTHDAY cannot stand with FREQ=WEEKLY")
	case len(o.Bysetpos) > maxSetPos:
		return fmt.Errorf("BYSETPOS: at most %d positions", maxSetPos)
	case len(o.Bysetpos) > 0 && len(o.Byweekday)+len(o.Bymonthday)+len(o.Byyearday)+len(o.Byweekno)+len(o.Bymonth) == 0:
		return errors.New("BYSETPOS chooses among the days of another BY part; there is none")
	}
	days := len(o.Byweekday) + len(o.Bymonthday) + len(o.Byyearday) + len(o.Byweekno)
	r.anchored = o.Interval > 1 || o.Count > 0 || days == 0 && o.Freq != rrule.DAILY || len(o.Byweekno) > 0 && len(o.Byweekday) == 0
	return nil
}

// days gives the rule's days within [lo, hi], all floating midnights, for a rule that begins
// at anchor. It stops after most days.
func (r *dayRule) days(anchor, lo, hi time.Time, most int) []time.Time {
	opt := r.opt
	r.implied(&opt, anchor)
	start := anchor
	if opt.Count == 0 {
		start = fastForward(opt, anchor, lo)
	}
	// The library looks for a match up to the year 9999. The calendar repeats every 400 years
	// to the weekday, so the search is done as late as the horizon allows: a rule that never
	// matches costs milliseconds.
	shift := max(0, (9999-hi.Year()-1)/400*400)
	opt.Dtstart = start.AddDate(shift, 0, 0)
	rule, err := rrule.NewRRule(opt)
	if err != nil {
		return nil // parseRRule has checked the bounds
	}
	var out []time.Time
	for next := rule.Iterator(); len(out) < most; {
		day, ok := next()
		if day = day.AddDate(-shift, 0, 0); !ok || day.After(hi) {
			break
		}
		if !day.Before(lo) && !day.Before(anchor) {
			out = append(out, day)
		}
	}
	return out
}

// implied writes out what the rule takes from the day it begins, before that day is moved.
func (r *dayRule) implied(opt *rrule.ROption, anchor time.Time) {
	weekday := []rrule.Weekday{rrule.SU, rrule.MO, rrule.TU, rrule.WE, rrule.TH, rrule.FR, rrule.SA}[anchor.Weekday()]
	if len(opt.Byweekno) > 0 && len(opt.Byweekday) == 0 && len(opt.Bymonthday)+len(opt.Byyearday) == 0 {
		opt.Byweekday = []rrule.Weekday{weekday}
	}
	if len(opt.Byweekday)+len(opt.Bymonthday)+len(opt.Byyearday)+len(opt.Byweekno) > 0 {
		return
	}
	switch opt.Freq {
	case rrule.WEEKLY:
		opt.Byweekday = []rrule.Weekday{weekday}
	case rrule.YEARLY:
		if len(opt.Bymonth) == 0 {
			opt.Bymonth = []int{int(anchor.Month())}
		}
		opt.Bymonthday = []int{anchor.Day()}
	case rrule.MONTHLY:
		opt.Bymonthday = []int{anchor.Day()}
	}
}

// fastForward moves the start of a rule without COUNT by whole intervals to shortly before lo.
func fastForward(opt rrule.ROption, anchor, lo time.Time) time.Time {
	days := int(lo.Sub(anchor).Hours()) / 24
	if days <= 0 {
		return anchor
	}
	step := func(elapsed, interval int) int { return max(0, elapsed/interval-1) * interval }
	switch opt.Freq {
	case rrule.DAILY:
		return anchor.AddDate(0, 0, step(days, opt.Interval))
	case rrule.WEEKLY:
		return anchor.AddDate(0, 0, step(days, 7*opt.Interval))
	case rrule.MONTHLY:
		if n := step((lo.Year()-anchor.Year())*12+int(lo.Month()-anchor.Month()), opt.Interval); n > 0 {
			return time.Date(anchor.Year(), anchor.Month()+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
		}
	case rrule.YEARLY:
		if n := step(lo.Year()-anchor.Year(), opt.Interval); n > 0 {
			return time.Date(anchor.Year()+n, 1, 1, 0, 0, 0, 0, time.UTC)
		}
	}
	return anchor
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
