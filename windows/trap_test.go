package windows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/windows/civil"
)

func TestTrapMidnightGapSkipsTheDay(t *testing.T) { // every cron library tried
	for zone, day := range map[string]string{"Africa/Cairo": "2026-04-24", "America/Santiago": "2026-09-06", "Asia/Beirut": "2026-03-29", "America/Havana": "2026-03-08"} {
		for _, rule := range []string{`rrule: FREQ=DAILY, from: "00:00", to: "03:00"`, `cron: "0 0 * * *", to: "03:00"`} {
			d := one(t, "timezone: "+zone+"\nallow: [{"+rule+"}]")
			from := instantOf(t, day+"T00:00:00Z").Add(-12 * time.Hour)
			c := d.Compile("s", Ahead(from, 3))
			got := show(c, c.Occurrences(from, c.Horizon.To))
			if !strings.HasPrefix(strings.ReplaceAll(got, "\n", " "), day[5:]+" 01:00") && !strings.Contains(got, "\n"+day[5:]+" 01:00") {
				t.Errorf("%s, %s: the window of %s is missing:\n%s", zone, rule, day, got)
			}
		}
	}
}

func TestTrapDaysAreNot24Hours(t *testing.T) { // alertmanager#5447
	got := occurrences(t, one(t, `allow: [{rrule: "FREQ=WEEKLY;BYDAY=SU", from: "00:00", to: "24:00"}]`), "s", "2026-03-29", "2026-03-30")
	if got != "03-29 00:00+01 to 03-30 00:00+02; shortened by 1h by a clock change" {
		t.Errorf("got %s", got)
	}
}

func TestTrapNegativeDaylightSavingLoops(t *testing.T) { // systemd#36897
	d := one(t, "timezone: Europe/Dublin\nallow: [{cron: \"30 1 * * *\", duration: 1h}]")
	c := d.Compile("s", Ahead(instantOf(t, "2026-01-01T00:00:00Z"), 400))
	if n := len(c.Occurrences(c.Horizon.From, c.Horizon.To)); n != 400 {
		t.Errorf("%d occurrences in 400 days", n)
	}
}

func TestTrapSecondTuesdayPlusTwoIsNotSecondThursday(t *testing.T) {
	// October 2026 begins on a Thursday: its second is the 8th, two days after the second Tuesday is
	// the 15th.
	got := occurrences(t, one(t, `allow: [{rrule: "FREQ=MONTHLY;BYDAY=2TU", offset: 2d, from: "01:00", to: "02:00"}]`), "s", "2026-10-01", "2026-10-31")
	if !strings.HasPrefix(got, "10-15 ") || strings.Contains(got, "\n") {
		t.Errorf("got %s", got)
	}
}

func TestTrapInactiveAllowBlocksActiveOne(t *testing.T) { // argo-cd#10425
	d := one(t, `allow:
  - {id: past, rrule: "FREQ=DAILY", from: "10:00", to: "11:00", valid: [2020-01-01, 2020-12-31]}
  - {id: other, cron: "0 3 * * *", duration: 1h, approval: {by: cab, state: proposed}}
  - {id: now, rrule: "FREQ=DAILY", from: "10:00", to: "11:00"}`)
	at := instantOf(t, "2026-05-02T08:00:00Z")
	if got, err := d.Compile("s", Ahead(at, 10)).Next(at, time.Hour); err != nil || !got.Equal(at) {
		t.Errorf("next %s, %v", got, err)
	}
}

func TestTrapNothingStartsAfterTheWindowOpened(t *testing.T) { // argo-cd#21692
	c := one(t, saturday).Compile("s", Ahead(instantOf(t, "2026-05-02T23:17:31Z"), 10))
	at := instantOf(t, "2026-05-02T23:17:31Z")
	if got, err := c.Next(at, time.Hour); err != nil || !got.Equal(at) {
		t.Errorf("in the middle of a window: next %s, %v", got, err)
	}
}

func TestTrapExcludeSpillsIntoTheNextDay(t *testing.T) { // icinga2#8741, icinga2#9781
	d := one(t, "allow: [{rrule: FREQ=DAILY, from: \"00:00\", to: \"24:00\"}]\ndeny: [{use: holidays/DE-HE}]")
	for at, open := range map[string]bool{
		"2026-10-02T21:59:59Z": true, "2026-10-02T22:00:00Z": false, "2026-10-03T21:59:59Z": false, "2026-10-03T22:00:00Z": true,
	} {
		c := d.Compile("s", Ahead(instantOf(t, at), 2))
		if got, err := c.Next(instantOf(t, at), time.Second); (err == nil && got.Equal(instantOf(t, at))) != open {
			t.Errorf("%s: next %s, want open %t", at, got, open)
		}
	}
}

func TestTrapStartsOneSecondBeforeTheWindow(t *testing.T) { // rebootmgr#10
	open := instantOf(t, "2026-05-02T20:00:00Z")
	c := one(t, saturday).Compile("s", Ahead(open.AddDate(0, 0, -1), 10))
	for _, early := range []time.Duration{time.Second, time.Millisecond, 1} {
		if got, err := c.Next(open.Add(-early), time.Hour); err != nil || !got.Equal(open) {
			t.Errorf("%s before it opens: next %s, %v", early, got, err)
		}
	}
}

func TestTrapWindowBreaksOverMidnight(t *testing.T) { // kured, Rancher SUC: the weekday of the instant
	c := one(t, saturday).Compile("s", Ahead(instantOf(t, "2026-05-01T00:00:00Z"), 10))
	at := instantOf(t, "2026-05-03T00:30:00Z") // Sunday 02:30 in Berlin
	if got, err := c.Next(at, time.Hour); err != nil || !got.Equal(at) {
		t.Errorf("next %s, %v", got, err)
	}
}

func TestTrapNowsOffsetForEveryInstant(t *testing.T) { // Argo CD
	c := one(t, saturday).Compile("s", Ahead(instantOf(t, "2026-07-01T00:00:00Z"), 400))
	for _, w := range c.Occurrences(c.Horizon.From, c.Horizon.To) {
		if local := w.Open.In(c.Zone).Format("15:04"); local != "22:00" {
			t.Errorf("opens at %s on %s", local, w.Open)
		}
	}
}

func TestTrapBadZoneIsSilentlyUTC(t *testing.T) { // Argo CD
	if _, err := Parse(Document{"w.yaml", []byte("window_sets: {s: {timezone: Europe/Berlinn, allow: []}}")}); err == nil {
		t.Error("accepted")
	}
}

func TestTrapUnknownRunTimeCountsAsNothing(t *testing.T) { // ConfigMgr
	c := one(t, saturday).Compile("s", Ahead(instantOf(t, "2026-05-02T20:00:00Z"), 10))
	if _, err := c.Next(instantOf(t, "2026-05-02T20:00:00Z"), 0); err == nil {
		t.Error("an unknown need fits")
	}
	if _, err := c.Explain(instantOf(t, "2026-05-02T20:00:00Z"), 0); err == nil {
		t.Error("an unknown need is explained")
	}
}

func TestTrapNaiveGapOpensBeforeTheApprovedTime(t *testing.T) { // golang/go#24551: time.Date moves it backward in the Americas
	d := one(t, "timezone: America/New_York\nallow: [{at: 2026-03-08T02:30, to: 2026-03-08T06:00}]")
	if got := occurrences(t, d, "s", "2026-03-08", "2026-03-09"); !strings.HasPrefix(got, "03-08 03:00-04 to") {
		t.Errorf("got %s", got)
	}
}

func TestTrapConstantIntervalIsAnIllusion(t *testing.T) { // kubernetes#118724
	d := one(t, `allow: [{cron: "0 3 * * *", duration: 1h}]`)
	c := d.Compile("s", Ahead(instantOf(t, "2026-01-01T00:00:00Z"), 365))
	steps := map[time.Duration]int{}
	list := c.Occurrences(c.Horizon.From, c.Horizon.To)
	for i := 1; i < len(list); i++ {
		steps[list[i].Open.Sub(list[i-1].Open)]++
	}
	if steps[23*time.Hour] != 1 || steps[25*time.Hour] != 1 || len(steps) != 3 {
		t.Errorf("steps %v", steps)
	}
}

func TestTrapADenyOfAWiderScopeIsRemovedFurtherDown(t *testing.T) {
	d := load(t, `
window_sets:
  all: {scope: {}, timezone: UTC, deny: [{use: freeze/f}]}
  acme: {scope: {customer: acme}, timezone: UTC, inherit: replace, deny: [], allow: [{rrule: FREQ=DAILY, from: "00:00", to: "01:00"}]}
freezes: {f: {timezone: UTC, from: 2026-05-01, to: 2026-05-03}}`)
	c := d.Compile("acme", Ahead(instantOf(t, "2026-05-01T00:00:00Z"), 10))
	if got, err := c.Next(c.Horizon.From, time.Hour); err != nil || got.Format(time.DateOnly) != "2026-05-03" {
		t.Errorf("next %s, %v", got, err)
	}
}

func TestTrapASetThatOnlyDeniesClosesWhoInherits(t *testing.T) {
	d := load(t, `
window_sets:
  all: {scope: {}, timezone: UTC, deny: [{use: freeze/f}]}
  acme: {scope: {customer: acme}, timezone: UTC, allow: [{rrule: FREQ=DAILY, from: "00:00", to: "01:00"}]}
  fra: {scope: {customer: acme, site: fra}, timezone: UTC}
  other: {scope: {customer: other}, timezone: UTC}
  closed: {scope: {customer: acme, site: muc}, timezone: UTC, allow: []}
freezes: {f: {timezone: UTC, from: 2026-05-01, to: 2026-05-03}}`)
	for set, open := range map[string]bool{"all": false, "acme": true, "fra": true, "other": false, "closed": false} {
		c := d.Compile(set, Ahead(instantOf(t, "2026-05-01T00:00:00Z"), 10))
		got, err := c.Next(c.Horizon.From, time.Hour)
		if (err == nil) != open || open && got.Format(time.DateOnly) != "2026-05-03" {
			t.Errorf("%s: next %s, %v", set, got, err)
		}
	}
}

func TestTrapASeamOfWhichOneSideIsNotApproved(t *testing.T) {
	d := one(t, `allow:
  - {cron: "0 1 * * *", duration: 1h}
  - {cron: "0 2 * * *", duration: 1h, approval: {by: cab, state: proposed}}`)
	c := d.Compile("s", Ahead(instantOf(t, "2026-05-01T00:00:00Z"), 10))
	if got, err := c.Next(c.Horizon.From, 61*time.Minute); err == nil {
		t.Errorf("a job crosses the seam at %s", got)
	}
	if _, err := c.Next(c.Horizon.From, time.Hour); err != nil {
		t.Error(err)
	}
}

// A horizon's ends cut no window: the answer of Next does not depend on where the horizon begins.
func TestTheHorizonCutsNoWindow(t *testing.T) {
	d := one(t, `allow: [{rrule: FREQ=DAILY, from: "00:00", to: "23:00"}, {rrule: "FREQ=WEEKLY;BYDAY=SA", from: "00:00", to: "+20d 00:00"}]`+"\ndeny: [{use: holidays/DE-HE}]")
	wide := d.Compile("s", Ahead(instantOf(t, "2026-01-01T00:00:00Z"), 400))
	for i := range 300 {
		at := wide.Horizon.From.Add(time.Duration(i) * 26 * time.Hour)
		narrow := d.Compile("s", Ahead(at, 40))
		a, errA := wide.Next(at, 10*time.Hour)
		b, errB := narrow.Next(at, 10*time.Hour)
		if !a.Equal(b) || (errA == nil) != (errB == nil) {
			t.Fatalf("%s: %s %v, %s %v", at, a, errA, b, errB)
		}
	}
}

// A deny that cancels closes all of a long window, also when it is long past, or far ahead.
func TestTrapACancelledWindowOpensOnceTheHolidayIsPast(t *testing.T) {
	const long = "allow: [{at: 2026-01-10T00:00, to: 2027-01-20T00:00}]\n"
	for _, deny := range []string{
		"{use: holidays/own, effect: cancel}", "{at: 2026-01-12T00:00, duration: 1h, effect: cancel}",
		"{use: holidays/late, effect: cancel}", "{at: 2027-01-18T00:00, duration: 1h, effect: cancel}",
	} {
		d := load(t, "window_sets:\n  s:\n    timezone: UTC\n    "+long+"    deny: ["+deny+"]\n"+
			"holidays: {own: {dates: [2026-01-12]}, late: {dates: [2027-01-18]}}")
		for _, from := range []string{"2026-01-11", "2026-02-20", "2026-08-01", "2026-12-01", "2027-01-19"} {
			c := d.Compile("s", Ahead(instantOf(t, from+"T00:00:00Z"), 1))
			if at, err := c.Next(c.Horizon.From, time.Hour); err == nil {
				t.Errorf("%s: compiled from %s on it opens at %s", deny, from, at)
			}
		}
	}
	c := one(t, long).Compile("s", Ahead(instantOf(t, "2026-08-01T00:00:00Z"), 1))
	if _, err := c.Next(c.Horizon.From, time.Hour); err != nil {
		t.Errorf("control: %v", err)
	}
}

// Each overlapping pair of two levels is a piece. Two rules of 31 days an hour were 17 million, and
// took gigabytes in every compile.
func TestTrapOverlapsOfTwoLevelsAreBounded(t *testing.T) {
	text := func(length string) string {
		return strings.ReplaceAll(`
window_sets:
  wide: {scope: {}, timezone: UTC, allow: [{cron: "0 * * * *", duration: LONG}]}
  narrow: {scope: {customer: a}, timezone: UTC, allow: [{cron: "0 * * * *", duration: LONG}]}
  inner: {scope: {customer: a, site: b}, timezone: UTC}
`, "LONG", length)
	}
	from := instantOf(t, "2026-05-01T00:00:00Z")
	for _, name := range []string{"narrow", "inner"} {
		c := load(t, text("31d")).Compile(name, Ahead(from, 10))
		if why := c.Reason(); !strings.HasPrefix(why, "window set narrow: its times and those of wide overlap more than") {
			t.Errorf("%s: it is closed as %q", name, why)
		}
		c = load(t, text("10h")).Compile(name, Ahead(from, 10))
		if at, err := c.Next(from, 24*time.Hour); err != nil || !at.Equal(from) {
			t.Errorf("%s, control: next %s, %v", name, at, err)
		}
	}
}

func TestOneCompiledSetServesManyHosts(t *testing.T) {
	c := one(t, saturday+"\ndeny: [{use: holidays/DE-HE}]").Compile("s", Ahead(instantOf(t, "2026-01-01T00:00:00Z"), 400))
	done := make(chan error)
	for i := range 8 {
		go func() {
			for n := range 200 {
				if _, err := c.Next(c.Horizon.From.Add(time.Duration(i*n)*time.Hour), time.Hour); err != nil {
					done <- fmt.Errorf("host %d: %w", i, err)
					return
				}
				c.Occurrences(c.Horizon.From, c.Horizon.To)
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestZoneDataAgrees(t *testing.T) {
	// The facts of the tests above rest on these changes; another version of the zone data may differ.
	for zone, day := range map[string]string{"Africa/Cairo": "2026-04-24", "America/Santiago": "2026-09-06", "Asia/Beirut": "2026-03-29"} {
		z, err := civil.LoadZone(zone)
		if err != nil {
			t.Fatal(err)
		}
		if _, kind := civil.Resolve(date(t, day), z); kind != civil.Gap {
			t.Errorf("%s: midnight of %s exists", zone, day)
		}
	}
}
