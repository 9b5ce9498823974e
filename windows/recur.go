package windows

import (
	"slices"
	"time"
)

// days returns the rule's days within [lo, hi], all floating midnights, for a rule that begins
// at anchor. It returns at most the given number of them.
func (r *dayRule) days(anchor, lo, hi time.Time, most int) []time.Time {
	rule := r.complete(anchor)
	from := anchor
	if rule.count == 0 && lo.After(anchor) { // COUNT counts from where the rule begins
		from = lo
	}
	var out []time.Time
	counted := 0
	for first := rule.aligned(anchor, from); !first.After(hi); first = rule.next(first, rule.interval) {
		for _, day := range rule.within(first) {
			if day.Before(anchor) {
				continue
			}
			counted++
			if day.After(hi) || len(out) == most || rule.count > 0 && counted > rule.count {
				return out
			}
			if !day.Before(lo) {
				out = append(out, day)
			}
		}
	}
	return out
}

// complete returns the rule with the days that it takes from where it begins.
func (r *dayRule) complete(anchor time.Time) *dayRule {
	out := *r
	switch {
	case r.namesDays() || r.freq == daily:
	case r.freq == weekly:
		out.weekdays = []nthWeekday{{day: anchor.Weekday()}}
	default:
		out.monthDays = []int{anchor.Day()}
		if r.freq == yearly && len(r.months) == 0 {
			out.months = []int{int(anchor.Month())}
		}
	}
	return &out
}

// aligned returns the first day of the period around from, or of the next one that INTERVAL,
// counted from the anchor's period, does not skip.
func (r *dayRule) aligned(anchor, from time.Time) time.Time {
	first, begin := r.period(from), r.serial(r.period(anchor))
	if over := (r.serial(first) - begin) % r.interval; over > 0 {
		return r.next(first, r.interval-over)
	}
	return first
}

// period returns the first day of the day, week, month or year around a day.
func (r *dayRule) period(day time.Time) time.Time {
	switch r.freq {
	case weekly:
		return weekOf(day, r.weekStart)
	case monthly:
		return day.AddDate(0, 0, 1-day.Day())
	case yearly:
		return day.AddDate(0, 0, 1-day.YearDay())
	}
	return day
}

// serial numbers periods by their first day, without a hole.
func (r *dayRule) serial(first time.Time) int {
	days := int(first.Sub(time.Date(firstYear-1, 1, 1, 0, 0, 0, 0, time.UTC)) / (24 * time.Hour))
	switch r.freq {
	case weekly:
		return days / 7
	case monthly:
		return first.Year()*12 + int(first.Month())
	case yearly:
		return first.Year()
	}
	return days
}

// next returns the first day of the period n periods later.
func (r *dayRule) next(first time.Time, n int) time.Time {
	switch r.freq {
	case weekly:
		return first.AddDate(0, 0, 7*n)
	case monthly:
		return first.AddDate(0, n, 0)
	case yearly:
		return first.AddDate(n, 0, 0)
	}
	return first.AddDate(0, 0, n)
}

// within returns the days of one period, in order.
func (r *dayRule) within(first time.Time) []time.Time {
	var all []time.Time
	for day, end := first, r.next(first, 1); day.Before(end); day = day.AddDate(0, 0, 1) {
		if r.matches(day) {
			all = append(all, day)
		}
	}
	if len(r.positions) == 0 {
		return all
	}
	var chosen []time.Time
	for i, day := range all {
		if holds(r.positions, i+1, len(all)) {
			chosen = append(chosen, day)
		}
	}
	return chosen
}

// matches reports whether every BY part of the rule names the day. RFC 5545 defines for each part
// whether it expands a period or limits it; for whole days both come to this. A part names a day if
// any of its entries does.
func (r *dayRule) matches(day time.Time) bool {
	return (len(r.months) == 0 || slices.Contains(r.months, int(day.Month()))) &&
		(len(r.monthDays) == 0 || holds(r.monthDays, day.Day(), monthLength(day))) &&
		(len(r.yearDays) == 0 || holds(r.yearDays, day.YearDay(), yearLength(day))) &&
		(len(r.weekdays) == 0 || slices.ContainsFunc(r.weekdays, func(w nthWeekday) bool { return r.isWeekday(day, w) })) &&
		(len(r.weeks) == 0 || r.inWeek(day))
}

// holds reports whether a list of positions, negative ones counting from the end, has the nth
// of all.
func holds(list []int, nth, all int) bool {
	return slices.Contains(list, nth) || slices.Contains(list, nth-all-1)
}

func (r *dayRule) isWeekday(day time.Time, w nthWeekday) bool {
	if day.Weekday() != w.day || w.n == 0 {
		return day.Weekday() == w.day
	}
	nth, all := day.YearDay(), yearLength(day)
	if r.freq == monthly || len(r.months) > 0 {
		nth, all = day.Day(), monthLength(day)
	}
	if w.n > 0 {
		return w.n == (nth-1)/7+1
	}
	return -w.n == (all-nth)/7+1
}

// inWeek reports whether BYWEEKNO names the day's week. The first week of a year is the first
// with four days or more in it.
func (r *dayRule) inWeek(day time.Time) bool {
	middle := weekOf(day, r.weekStart).AddDate(0, 0, 3)
	december := weekOf(time.Date(middle.Year(), 12, 28, 0, 0, 0, 0, time.UTC), r.weekStart).AddDate(0, 0, 3)
	return holds(r.weeks, (middle.YearDay()-1)/7+1, (december.YearDay()-1)/7+1)
}

// weekOf returns the first day of the week around a day.
func weekOf(day time.Time, start time.Weekday) time.Time {
	return day.AddDate(0, 0, -(int(day.Weekday())-int(start)+7)%7)
}

func monthLength(day time.Time) int { return day.AddDate(0, 1, -day.Day()).Day() }

func yearLength(day time.Time) int {
	return time.Date(day.Year(), 12, 31, 0, 0, 0, 0, time.UTC).YearDay()
}
