package windows

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func date(t testing.TB, text string) time.Time {
	t.Helper()
	d, err := time.Parse(time.DateOnly, text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The days of rules, many of them the examples of RFC 5545 §3.8.5.3 put as facts.
func TestRRuleDays(t *testing.T) {
	for _, c := range []struct{ rule, from, to, want string }{
		{"FREQ=DAILY;COUNT=10", "1997-09-02", "1998-01-01", "09-02 09-03 09-04 09-05 09-06 09-07 09-08 09-09 09-10 09-11"},
		{"FREQ=DAILY;INTERVAL=10;COUNT=5", "1997-09-02", "1998-01-01", "09-02 09-12 09-22 10-02 10-12"},
		{"FREQ=WEEKLY;COUNT=4", "1997-09-02", "1998-01-01", "09-02 09-09 09-16 09-23"},
		{"FREQ=WEEKLY;INTERVAL=2;WKST=SU", "1997-09-02", "1997-11-01", "09-02 09-16 09-30 10-14 10-28"},
		{"FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO", "1997-08-05", "1998-01-01", "08-05 08-10 08-19 08-24"},
		{"FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU", "1997-08-05", "1998-01-01", "08-05 08-17 08-19 08-31"},
		{"FREQ=MONTHLY;COUNT=4;BYDAY=1FR", "1997-09-05", "1998-12-31", "09-05 10-03 11-07 12-05"},
		{"FREQ=MONTHLY;INTERVAL=2;COUNT=4;BYDAY=1SU,-1SU", "1997-09-07", "1998-12-31", "09-07 09-28 11-02 11-30"},
		{"FREQ=MONTHLY;COUNT=3;BYDAY=-2MO", "1997-09-22", "1998-12-31", "09-22 10-20 11-17"},
		{"FREQ=MONTHLY;BYMONTHDAY=-3", "1997-09-28", "1997-12-31", "09-28 10-29 11-28 12-29"},
		{"FREQ=MONTHLY;COUNT=4;BYMONTHDAY=1,-1", "1997-09-30", "1998-12-31", "09-30 10-01 10-31 11-01"},
		{"FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "1997-09-02", "1999-01-01", "02-13 03-13 11-13"},
		{"FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13", "1997-09-13", "1997-12-31", "09-13 10-11 11-08 12-13"},
		{"FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3", "1997-09-04", "1998-12-31", "09-04 10-07 11-06"},
		{"FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", "1997-09-29", "1998-01-01", "09-29 10-30 11-27 12-30"},
		{"FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5", "2007-01-15", "2008-01-01", "01-15 01-30 02-15 03-15 03-30"},
		{"FREQ=MONTHLY", "2026-01-31", "2026-12-31", "01-31 03-31 05-31 07-31 08-31 10-31 12-31"},
		{"FREQ=YEARLY;COUNT=4;BYMONTH=6,7", "1997-06-10", "2002-01-01", "06-10 07-10 06-10 07-10"},
		{"FREQ=YEARLY;INTERVAL=3;COUNT=4;BYYEARDAY=1,100,200", "1997-01-01", "2010-01-01", "01-01 04-10 07-19 01-01"},
		{"FREQ=YEARLY;BYDAY=20MO", "1997-05-19", "1999-12-31", "05-19 05-18 05-17"},
		{"FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "1997-05-12", "1999-12-31", "05-12 05-11 05-17"},
		{"FREQ=YEARLY;BYMONTH=3;BYDAY=TH", "1997-03-13", "1997-12-31", "03-13 03-20 03-27"},
		{"FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8", "1996-11-05", "2005-01-01", "11-05 11-07 11-02"},
		{"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "2026-01-01", "2034-01-01", "02-29 02-29"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			r, err := parseRRule(c.rule)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range r.days(date(t, c.from), date(t, c.from), date(t, c.to), 1000) {
				got = append(got, d.Format("01-02"))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, " "), c.want)
			}
		})
	}
}

func TestParseRRuleNamesThePart(t *testing.T) {
	for rule, want := range map[string]string{
		"":                                  "expected KEY=VALUE",
		"BYDAY=SA":                          "FREQ is missing",
		"FREQ=HOURLY;INTERVAL=2;BYHOUR=1":   `FREQ: "HOURLY" is not supported`,
		"FREQ=DAILY;BYHOUR=22":              "write from: and to:",
		"FREQ=DAILY;BYMINUTE=0":             "write from: and to:",
		"FREQ=DAILY;BYSECOND=0":             "write from: and to:",
		"FREQ=DAILY;INTERVAL=0":             "INTERVAL",
		"FREQ=DAILY;INTERVAL=-1":            "INTERVAL",
		"FREQ=DAILY;COUNT=0":                "COUNT",
		"FREQ=DAILY;COUNT=99999999999999":   "COUNT",
		"FREQ=DAILY;COUNT=3;UNTIL=20260101": "exclude each other",
		"FREQ=DAILY;UNTIL=tomorrow":         "UNTIL",
		"FREQ=DAILY;UNTIL=99991231":         "UNTIL",
		"FREQ=WEEKLY;BYDAY=2TU":             "needs FREQ=MONTHLY",
		"FREQ=WEEKLY;BYDAY=XX":              "BYDAY",
		"FREQ=WEEKLY;BYDAY=":                "expected KEY=VALUE",
		"FREQ=MONTHLY;BYDAY=0MO":            "BYDAY",
		"FREQ=MONTHLY;BYMONTHDAY=32":        "BYMONTHDAY",
		"FREQ=MONTHLY;BYMONTHDAY=0":         "BYMONTHDAY",
		"FREQ=MONTHLY;BYWEEKNO=3":           "BYWEEKNO",
		"FREQ=WEEKLY;BYMONTHDAY=3":          "BYMONTHDAY",
		"FREQ=DAILY;BYSETPOS=1":             "BYSETPOS",
		"FREQ=MONTHLY;BYMONTHDAY=1,1":       "given twice",
		"FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17": "at most 16",
		"FREQ=DAILY;BYEASTER=0":                  "unknown part",
		"FREQ=WEEKLY;BYDYA=SA":                   `did you mean "BYDAY"`,
		"FREQ=DAILY;FREQ=WEEKLY":                 "given twice",
		"DTSTART=20260101T000000Z;FREQ=DAILY":    "valid: [FIRST, LAST]",
		"FREQ=WEEKLY;BYDAY=SA;WKST=8":            "WKST",
		"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30":    "never matches",
		"FREQ=MONTHLY;BYMONTHDAY=1;BYDAY=5MO":    "never matches",
		"FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30":     "never matches",
		"FREQ=WEEKLY;INTERVAL=2;BYDAY=SA":        "depends on where it begins",
		"FREQ=WEEKLY":                            "depends on where it begins",
		"FREQ=MONTHLY;BYDAY=2TU;COUNT=3":         "depends on where it begins",
		"FREQ=DAILY;" + strings.Repeat("X", 600): "longer than",
	} {
		t.Run(rule[:min(len(rule), 40)], func(t *testing.T) {
			began := time.Now()
			_, err := (&Rule{RRule: rule}).prepare()
			if rule == "" {
				_, err = parseRRule(rule)
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
			if took := time.Since(began); took > time.Minute {
				t.Errorf("took %s", took)
			}
		})
	}
}

// Whether the horizon is near or far from where a rule begins, its days are the same.
func TestFastForwardChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := rapid.SampledFrom([]string{
			"FREQ=DAILY;INTERVAL=%d", "FREQ=WEEKLY;INTERVAL=%d", "FREQ=WEEKLY;INTERVAL=%d;BYDAY=TU,SU;WKST=SU", "FREQ=MONTHLY;INTERVAL=%d",
			"FREQ=MONTHLY;INTERVAL=%d;BYDAY=-1FR", "FREQ=YEARLY;INTERVAL=%d", "FREQ=YEARLY;INTERVAL=%d;BYMONTH=2", "FREQ=YEARLY;INTERVAL=%d;BYYEARDAY=1,-1",
			"FREQ=MONTHLY;INTERVAL=%d;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "FREQ=YEARLY;INTERVAL=%d;BYDAY=1SU",
		}).Draw(t, "rule")
		rule = fmt.Sprintf(rule, rapid.IntRange(1, 7).Draw(t, "interval"))
		r, err := parseRRule(rule)
		if err != nil {
			t.Fatal(err)
		}
		anchor := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 2000).Draw(t, "anchor"))
		lo := anchor.AddDate(0, 0, rapid.IntRange(0, 14000).Draw(t, "lo"))
		hi := lo.AddDate(3, 0, 0)
		got := r.days(anchor, lo, hi, 10_000)
		var want []time.Time
		for _, d := range r.days(anchor, anchor, hi, 100_000) {
			if !d.Before(lo) {
				want = append(want, d)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%s from %s:\ngot  %v\nwant %v", rule, anchor, got, want)
		}
	})
}

func TestUntil(t *testing.T) {
	const rule = `allow: [{rrule: "FREQ=DAILY;UNTIL=%s", from: "22:00", to: "23:00", valid: [2026-05-01, 2026-12-31]}]`
	for until, want := range map[string]int{
		"20260503":         3, // a date: that day is in
		"20260503T220000":  3, // wall time, included
		"20260503T215959":  2,
		"20260503T200000Z": 3, // 22:00 in Berlin
		"20260503T195959Z": 2,
	} {
		got := occurrences(t, one(t, fmt.Sprintf(rule, until)), "s", "2026-05-01", "2026-06-01")
		if n := strings.Count(got, " to "); n != want {
			t.Errorf("UNTIL=%s: %d occurrences, want %d\n%s", until, n, want, got)
		}
	}
}

func TestHolidayDates(t *testing.T) {
	d := &Definitions{Holidays: map[string]*Calendar{"acme": {Name: "acme", Dates: []time.Time{date(t, "2026-12-24")}, Include: []string{"DE-HE"}}}}
	got, ok := d.holidayDates("acme", date(t, "2026-01-01"), date(t, "2026-12-31"))
	var list []string
	for _, day := range got {
		list = append(list, day.Format("01-02"))
	}
	want := "01-01 04-03 04-06 05-01 05-14 05-25 06-04 10-03 12-24 12-25 12-26"
	if !ok || strings.Join(list, " ") != want {
		t.Errorf("got  %v\nwant %s", list, want)
	}
	if _, ok := d.holidayDates("XX", date(t, "2026-01-01"), date(t, "2026-12-31")); ok {
		t.Error("XX is known")
	}
	if got, _ := d.holidayDates("us", date(t, "2026-07-01"), date(t, "2026-07-31")); len(got) != 2 { // the 4th is a Saturday: the 3rd is observed
		t.Errorf("Independence Day 2026: %v", got)
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30m": 30 * time.Minute, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "1w": 7 * 24 * time.Hour, "90s": 90 * time.Second, "1d2h3m4s": 26*time.Hour + 3*time.Minute + 4*time.Second,
		"": 0, "0s": 0, "-1h": 0, "1.5h": 0, "1": 0, "1h 30m": 0, "30m1h": 0, "999999999999h": 0, "h": 0,
	} {
		got, err := ParseDuration(text)
		if got != want || (err == nil) != (want > 0) || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
		if want > 0 {
			if again, err := ParseDuration(FormatDuration(got)); err != nil || again != got {
				t.Errorf("%s is written %s", got, FormatDuration(got))
			}
		}
	}
}
