package windows

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Each line of testdata/recurrence.txt is a rule, its first start, and the days on which it
// starts ("…" if there are more) or why it is refused. The facts are those on which the public
// tests of other calendar programs agree.
func TestFaultW4RecurrenceFacts(t *testing.T) {
	file, err := os.Open("testdata/recurrence.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	facts := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		facts++
		parts := strings.Split(line, " | ")
		if len(parts) != 3 {
			t.Fatalf("expected RULE | START | DAYS: %s", line)
		}
		if got := starts(t, parts[0], parts[1], strings.Count(parts[2], "-")/2); !agrees(got, parts[2]) {
			t.Errorf("%s from %s:\ngot  %s\nwant %s", parts[0], parts[1], got, parts[2])
		}
	}
	if facts < 240 {
		t.Errorf("%d facts", facts)
	}
}

func agrees(got, want string) bool {
	if reason, ok := strings.CutPrefix(want, "refused: "); ok {
		return strings.HasPrefix(got, "refused: ") && strings.Contains(got, reason)
	}
	return got == want
}

// starts lists the first n starts of a rule as a line of the facts does, or returns why it is
// refused.
func starts(t testing.TB, text, first string, n int) string {
	at, err := time.Parse("2006-01-02T15:04", first)
	if err != nil {
		t.Fatal(err)
	}
	r := &Rule{RRule: text, From: at.Sub(day(at)), Duration: time.Hour, Valid: &Span{day(at), at.AddDate(250, 0, 0)}}
	if _, err := r.prepare(); err != nil {
		return "refused: " + err.Error()
	}
	list, err := r.occurrences(time.UTC, at, at.AddDate(60, 0, 0))
	for years := 60; err == nil && len(list) <= n && years < 240; years += 60 { // rules of one day in a century
		var more []occurrence
		more, err = r.occurrences(time.UTC, at.AddDate(years, 0, 0), at.AddDate(years+60, 0, 0))
		list = append(list, more...)
	}
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var out []string
	for i, o := range list {
		if i == n {
			out = append(out, "…")
			break
		}
		out = append(out, o.start.Format(time.DateOnly))
	}
	return strings.Join(out, " ")
}

// A deny whose weekdays stand with and without a position closes each of them.
func TestFaultW4DenyOfMixedWeekdaysCloses(t *testing.T) {
	d := one(t, `timezone: UTC
allow: [{id: any, rrule: FREQ=DAILY, from: "00:00", to: "24:00"}]
deny: [{id: ends, rrule: "FREQ=MONTHLY;BYDAY=1SA,SA,SU", from: "00:00", to: "24:00"}]`)
	from := date(t, "2026-11-01")
	c := d.Compile("s", Ahead(from, 30))
	for at := from; at.Before(c.Horizon.To); at = at.AddDate(0, 0, 1) {
		e, err := c.Explain(at.Add(12*time.Hour), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if end := at.Weekday() == time.Saturday || at.Weekday() == time.Sunday; e.Fits == end {
			t.Errorf("%s: open %t", at.Format("Mon 2006-01-02"), e.Fits)
		}
	}
}

// walked is the knowledge of a day of a person who walks through a calendar and counts: forward in
// [0], and back from the end, as negative numbers, in [1].
type walked struct {
	at                            time.Time
	period                        [4]int // which day, week, month and year of the walk
	weekYear                      int    // the year with four days or more of the week
	monthDay, yearDay, week       [2]int
	weekdayOfMonth, weekdayOfYear [2]int
}

func walk(from, to int, weekStart time.Weekday) []*walked {
	var days []*walked
	var n [4]int
	for at := time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() <= to; at = at.AddDate(0, 0, 1) {
		for i, begins := range []bool{true, at.Weekday() == weekStart, at.Day() == 1, at.YearDay() == 1} {
			if begins {
				n[i]++
			}
		}
		days = append(days, &walked{at: at, period: n})
	}
	inWeek := map[[2]int]int{}
	for _, d := range days {
		inWeek[[2]int{d.period[1], d.at.Year()}]++
	}
	for way, sign := range []int{1, -1} {
		counts, lastWeek := map[string]int{}, -1
		count := func(into *[2]int, by int, key ...any) {
			counts[fmt.Sprint(key...)] += by
			into[way] = sign * counts[fmt.Sprint(key...)]
		}
		for _, d := range days {
			count(&d.monthDay, 1, "day of month ", d.period[2])
			count(&d.yearDay, 1, "day of year ", d.period[3])
			count(&d.weekdayOfMonth, 1, d.at.Weekday(), " of month ", d.period[2])
			count(&d.weekdayOfYear, 1, d.at.Weekday(), " of year ", d.period[3])
			for year := range 3 {
				if inWeek[[2]int{d.period[1], d.at.Year() + year - 1}] >= 4 {
					d.weekYear = d.at.Year() + year - 1
				}
			}
			begins := 0
			if d.period[1] != lastWeek {
				begins, lastWeek = 1, d.period[1]
			}
			count(&d.week, begins, "week of ", d.weekYear)
		}
		slices.Reverse(days)
	}
	return days
}

// drawnRule is a rule as drawn, for the oracle, beside its text.
type drawnRule struct {
	freq, interval, count                       int
	months, monthDays, yearDays, weeks, choices []int
	weekdays                                    []nthWeekday
	weekStart                                   time.Weekday
}

func drawRecurrence(t *rapid.T) (r drawnRule, text string) {
	names := []string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}
	r.freq = rapid.IntRange(0, 3).Draw(t, "freq")
	r.interval = rapid.SampledFrom([]int{1, 1, 1, 2, 3, 5}).Draw(t, "interval")
	r.count = rapid.SampledFrom([]int{0, 0, 0, 1, 7, 40}).Draw(t, "count")
	r.weekStart = time.Weekday(rapid.IntRange(0, 6).Draw(t, "wkst"))
	text = fmt.Sprintf("FREQ=%s;INTERVAL=%d;WKST=%s", []string{"DAILY", "WEEKLY", "MONTHLY", "YEARLY"}[r.freq], r.interval, names[r.weekStart])
	if r.count > 0 {
		text += fmt.Sprintf(";COUNT=%d", r.count)
	}
	list := func(key string, most int, negative bool) []int {
		if !rapid.Bool().Draw(t, key) {
			return nil
		}
		out := rapid.SliceOfNDistinct(rapid.IntRange(1, most), 1, 6, rapid.ID).Draw(t, key)
		for i := range out {
			if negative && rapid.Bool().Draw(t, "back") {
				out[i] = -out[i]
			}
		}
		text += ";" + key + "=" + strings.Trim(strings.ReplaceAll(fmt.Sprint(out), " ", ","), "[]")
		return out
	}
	if rapid.Bool().Draw(t, "BYDAY") {
		var items []string
		for range rapid.IntRange(1, 4).Draw(t, "days") {
			w := nthWeekday{day: time.Weekday(rapid.IntRange(0, 6).Draw(t, "day"))}
			item := names[w.day]
			if r.freq >= 2 && rapid.Bool().Draw(t, "nth") {
				w.n = rapid.SampledFrom([]int{1, 2, 3, 5, -1, -2, -5, 20, -53}).Draw(t, "n")
				item = fmt.Sprint(w.n, item)
			}
			r.weekdays, items = append(r.weekdays, w), append(items, item)
		}
		text += ";BYDAY=" + strings.Join(items, ",")
	}
	r.months, r.monthDays = list("BYMONTH", 12, false), list("BYMONTHDAY", 31, true)
	if r.freq == 3 {
		r.yearDays, r.weeks = list("BYYEARDAY", 366, true), list("BYWEEKNO", 53, true)
	}
	r.choices = list("BYSETPOS", 8, true)
	return r, text
}

// names reports whether the parts of the rule name a day, for a rule that begins on first.
func (r drawnRule) names(d, first *walked) bool {
	any := func(list []int, at [2]int) bool { return slices.Contains(list, at[0]) || slices.Contains(list, at[1]) }
	byDay := len(r.weekdays) == 0
	for _, w := range r.weekdays {
		at := d.weekdayOfYear
		if r.freq == 2 || r.months != nil {
			at = d.weekdayOfMonth
		}
		byDay = byDay || w.day == d.at.Weekday() && (w.n == 0 || any([]int{w.n}, at))
	}
	for _, part := range []struct {
		list []int
		at   [2]int
	}{{r.months, [2]int{int(d.at.Month())}}, {r.monthDays, d.monthDay}, {r.yearDays, d.yearDay}, {r.weeks, d.week}} {
		if part.list != nil && !any(part.list, part.at) {
			return false
		}
	}
	if r.weekdays == nil && r.monthDays == nil && r.yearDays == nil && r.weeks == nil { // the day on which it begins decides
		switch r.freq {
		case 1:
			return d.at.Weekday() == first.at.Weekday()
		case 2, 3:
			return d.at.Day() == first.at.Day() && (r.freq == 2 || r.months != nil || d.at.Month() == first.at.Month())
		}
	}
	return byDay
}

// expand lists the days of the rule by walking through every day.
func (r drawnRule) expand(days []*walked, anchor, lo, hi time.Time) (out []string) {
	first := days[slices.IndexFunc(days, func(d *walked) bool { return d.at.Equal(anchor) })]
	counted := 0
	for i := 0; i < len(days); {
		period := days[i].period[r.freq]
		var of []*walked
		for ; i < len(days) && days[i].period[r.freq] == period; i++ {
			if r.names(days[i], first) {
				of = append(of, days[i])
			}
		}
		if skipped := period - first.period[r.freq]; skipped < 0 || skipped%r.interval != 0 {
			continue
		}
		for n, d := range of {
			chosen := r.choices == nil || slices.Contains(r.choices, n+1) || slices.Contains(r.choices, n-len(of))
			if !chosen || d.at.Before(anchor) {
				continue
			}
			if counted++; (r.count == 0 || counted <= r.count) && !d.at.Before(lo) && !d.at.After(hi) {
				out = append(out, d.at.Format(time.DateOnly))
			}
		}
	}
	return out
}

// A rule gives the days that walking through the calendar gives, from anywhere in it.
func TestFaultW4RecurrenceProperty(t *testing.T) {
	walks := map[time.Weekday][]*walked{}
	admitted := 0
	rapid.Check(t, func(t *rapid.T) {
		drawn, text := drawRecurrence(t)
		rule, err := parseRRule(text)
		if err != nil {
			return // the dialect refuses it
		}
		admitted++
		if walks[drawn.weekStart] == nil {
			walks[drawn.weekStart] = walk(1994, 2013, drawn.weekStart)
		}
		anchor := time.Date(1995, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 2500).Draw(t, "anchor"))
		lo := anchor.AddDate(0, 0, rapid.IntRange(-40, 2000).Draw(t, "lo"))
		hi := lo.AddDate(0, 0, rapid.IntRange(0, 1500).Draw(t, "length"))
		var got []string
		for _, d := range rule.days(anchor, lo, hi, 1<<20) {
			got = append(got, d.Format(time.DateOnly))
		}
		if want := drawn.expand(walks[drawn.weekStart], anchor, lo, hi); !slices.Equal(got, want) {
			t.Fatalf("%s from %s, within %s and %s:\ngot  %v\nwant %v", text, anchor.Format(time.DateOnly), lo.Format(time.DateOnly), hi.Format(time.DateOnly), got, want)
		}
	})
	if admitted == 0 {
		t.Error("no rule was admitted")
	}
}

// A deny that this version cannot read, such as one of a later version in a record, closes the
// whole set, and reports why. Control: the deny as it was closes its days alone.
func TestFaultW4ADenyThatCannotBeUnderstoodCloses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Set)
		open  bool
	}{
		"as it was":          {func(*Set) {}, true},
		"frequency":          {func(s *Set) { s.Deny[0].Rule = &Rule{ID: "ends", RRule: "FREQ=SOMETIMES"} }, false},
		"a use that is gone": {func(s *Set) { s.Deny[0].Rule, s.Deny[0].Use = nil, "freeze/later" }, false},
	} {
		d := one(t, `timezone: UTC
allow: [{id: any, rrule: FREQ=DAILY, from: "00:00", to: "24:00"}]
deny: [{id: ends, rrule: "FREQ=WEEKLY;BYDAY=SA,SU", from: "00:00", to: "24:00"}]`)
		c.spoil(d.Sets["s"])
		monday := date(t, "2026-11-02")
		e, err := d.Compile("s", Ahead(monday, 30)).Explain(monday.Add(12*time.Hour), time.Hour)
		if err != nil || e.Fits != c.open || !c.open && e.Reason == "" {
			t.Errorf("%s: open %t, %q, %v", name, e.Fits, e.Reason, err)
		}
	}
}
