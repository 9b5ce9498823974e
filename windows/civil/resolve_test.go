package civil

import (
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"
)

// oddZones are those whose clocks do what one does not expect.
func oddZones() []string {
	return []string{
		"Australia/Lord_Howe",         // half an hour of daylight saving
		"America/Santiago",            // changes at midnight, south
		"Africa/Cairo", "Asia/Beirut", // midnight does not exist on a day in spring
		"America/Havana",                    // likewise
		"Europe/Dublin",                     // negative daylight saving
		"Pacific/Apia",                      // skipped 30 December 2011
		"Asia/Kathmandu",                    // +05:45
		"America/St_Johns",                  // -03:30; changed at 00:01
		"Europe/Berlin", "America/New_York", //
		"Antarctica/Troll",  // two hours of daylight saving
		"Africa/Casablanca", // four changes a year
		"UTC",
	}
}

func mustZone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func wallTime(t testing.TB, text string) time.Time {
	t.Helper()
	w, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestResolve(t *testing.T) {
	for _, c := range []struct {
		zone, wall, want string
		kind             Kind
	}{
		{"Europe/Berlin", "2026-07-01 12:00", "2026-07-01T12:00:00+02:00", Exact},
		{"Europe/Berlin", "2026-03-29 01:59", "2026-03-29T01:59:00+01:00", Exact},
		{"Europe/Berlin", "2026-03-29 02:00", "2026-03-29T03:00:00+02:00", Gap},
		{"Europe/Berlin", "2026-03-29 02:59", "2026-03-29T03:00:00+02:00", Gap},
		{"Europe/Berlin", "2026-03-29 03:00", "2026-03-29T03:00:00+02:00", Exact},
		{"Europe/Berlin", "2026-10-25 02:30", "2026-10-25T02:30:00+02:00", Fold},
		{"Europe/Berlin", "2026-10-25 03:00", "2026-10-25T03:00:00+01:00", Exact},
		{"America/New_York", "2026-03-08 02:30", "2026-03-08T03:00:00-04:00", Gap},
		{"America/New_York", "2026-11-01 01:30", "2026-11-01T01:30:00-04:00", Fold},
		{"Australia/Lord_Howe", "2026-10-04 02:15", "2026-10-04T02:30:00+11:00", Gap},
		{"Australia/Lord_Howe", "2026-04-05 01:45", "2026-04-05T01:45:00+11:00", Fold},
		{"America/Santiago", "2026-09-06 00:00", "2026-09-06T01:00:00-03:00", Gap},
		{"Africa/Cairo", "2026-04-24 00:30", "2026-04-24T01:00:00+03:00", Gap},
		{"Europe/Dublin", "2026-03-29 01:30", "2026-03-29T02:00:00+01:00", Gap},
		{"Europe/Dublin", "2026-10-25 01:30", "2026-10-25T01:30:00+01:00", Fold},
		{"Pacific/Apia", "2011-12-30 12:00", "2011-12-31T00:00:00+14:00", Gap},
		{"Antarctica/Troll", "2026-03-29 02:00", "2026-03-29T03:00:00+02:00", Gap},
		{"Asia/Kathmandu", "1986-01-01 00:10", "1986-01-01T00:15:00+05:45", Gap},
	} {
		t.Run(c.zone+" "+c.wall, func(t *testing.T) {
			got, kind := Resolve(wallTime(t, c.wall), mustZone(t, c.zone))
			if got.Format(time.RFC3339) != c.want || kind != c.kind {
				t.Errorf("got %s, kind %d; want %s, kind %d", got.Format(time.RFC3339), kind, c.want, c.kind)
			}
		})
	}
}

// resolveByLooking asks the zone's clock minute by minute: the first instant that shows the
// wall time, or else the first that shows a later one.
func resolveByLooking(wall time.Time, zone *time.Location) time.Time {
	for at := wall.Add(-26 * time.Hour); ; at = at.Add(time.Minute) {
		if !Wall(at, zone).Before(wall) {
			// Before it, the clock may have shown a later time only if it was set back in between.
			return at
		}
	}
}

func TestResolveAgreesWithLookingAtTheClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone, err := LoadZone(rapid.SampledFrom(oddZones()).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		wall := nearChange(t, zone)
		got, _ := Resolve(wall, zone)
		if want := resolveByLooking(wall, zone); !got.Equal(want) {
			t.Fatalf("%s in %s: got %s, want %s", wall, zone, got, want.In(zone))
		}
	})
}

// nearChange draws a wall time, mostly within a day and a half of a clock change since 1990.
func nearChange(t *rapid.T, zone *time.Location) time.Time {
	base := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
	changes := Changes(zone, base, base.AddDate(45, 0, 0))
	if len(changes) == 0 || rapid.IntRange(0, 9).Draw(t, "anywhere") == 0 {
		return base.Add(time.Duration(rapid.IntRange(0, 45*365*24*60).Draw(t, "minute")) * time.Minute)
	}
	c := rapid.SampledFrom(changes).Draw(t, "change")
	return c.Before.Add(time.Duration(rapid.IntRange(-36*60, 36*60).Draw(t, "minutes")) * time.Minute)
}

func TestResolveIsMonotone(t *testing.T) {
	for _, name := range oddZones() {
		zone := mustZone(t, name)
		for _, c := range Changes(zone, time.Date(2009, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC)) {
			last := time.Time{}
			for m := -27 * 60; m < 27*60; m++ {
				at, _ := Resolve(c.Before.Add(time.Duration(m)*time.Minute), zone)
				if at.Before(last) {
					t.Fatalf("%s: %s after %s", name, at, last)
				}
				last = at
			}
		}
	}
}

func TestChangesNameGapsAndFolds(t *testing.T) {
	got := Changes(mustZone(t, "Europe/Berlin"), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	if len(got) != 2 || !got[0].Gap() || got[1].Gap() {
		t.Fatalf("got %+v", got)
	}
	from, to := got[1].Span()
	if from != wallTime(t, "2026-10-25 02:00") || to != wallTime(t, "2026-10-25 03:00") {
		t.Errorf("the fold is %s to %s", from, to)
	}
}

func TestLoadZoneRefusesWhatIsNotTheSameEverywhere(t *testing.T) {
	for _, name := range []string{"", "Local", "Europe/Berlinn", "../../etc/passwd", "CET6", "berlin"} {
		if _, err := LoadZone(name); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	zone := mustZone(b, "Europe/Berlin")
	wall := wallTime(b, "2026-07-01 12:00")
	for b.Loop() {
		Resolve(wall, zone)
	}
}
