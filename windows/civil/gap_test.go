package civil

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestShortestGap(t *testing.T) {
	for _, c := range []struct {
		cron, zone string
		want       time.Duration
	}{
		{"* * * * *", "UTC", time.Minute},
		{"*/15 * * * *", "Europe/Berlin", 15 * time.Minute},
		{"*/25 * * * *", "UTC", 10 * time.Minute}, // 50 and 0
		{"0,10 3 * * *", "UTC", 10 * time.Minute},
		{"0 3 * * *", "UTC", 24 * time.Hour},
		{"0 3 * * *", "Europe/Berlin", 23 * time.Hour},
		{"30 2 * * *", "Europe/Berlin", 23*time.Hour + 30*time.Minute},
		{"30 1,2 * * *", "Europe/Berlin", 30 * time.Minute}, // 02:30 is moved to 03:00
		{"59 0-2 * * *", "Europe/Berlin", time.Minute},      // 01:59, and 02:59 is moved to 03:00
		{"30 2,3 * * *", "Australia/Lord_Howe", time.Hour},
		{"30 1 * * *", "Australia/Lord_Howe", 23*time.Hour + 30*time.Minute}, // a shift of half an hour
		{"0 0 * * *", "America/Santiago", 23 * time.Hour},                    // midnight does not exist
		{"0 12 * * 1,2", "UTC", 24 * time.Hour},
		{"0-50/10 23,0 * * 1,3", "UTC", 10 * time.Minute},
		{"0 0,6,12,18,23 * * 1,2", "UTC", time.Hour}, // over midnight
		{"0 1-5 * * 1,3", "UTC", time.Hour},
		{"0 0 29 2 *", "UTC", 1461 * 24 * time.Hour},
		{"0 0 1 1 *", "UTC", 365 * 24 * time.Hour},
		{"0 0 30 2 *", "UTC", 0},
	} {
		from := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
		if got, _ := mustCron(t, c.cron).ShortestGap(mustZone(t, c.zone), from, from.AddDate(10, 0, 0)); got != c.want {
			t.Errorf("%s in %s: %v, expected %v", c.cron, c.zone, got, c.want)
		}
	}
}

// A gap found by a partial check is as short as one found by a full check.
func TestShortestGapMissesNone(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	to := from.AddDate(0, 5, 0)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"0", "59", "*/20", "7,8", "3-50/9"}).Draw(t, "minute") + " " +
			rapid.SampledFrom([]string{"*", "0,23", "1-3", "2", "*/5", "22,23,0,1,2,3"}).Draw(t, "hour") + " " +
			rapid.SampledFrom([]string{"*", "28-30", "1,15"}).Draw(t, "dom") + " * " + rapid.SampledFrom([]string{"*", "0", "6,0", "1-5"}).Draw(t, "dow")
		zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Havana"}).Draw(t, "zone")
		z, err := LoadZone(zone)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ParseCron(text)
		if err != nil {
			t.Fatal(err)
		}
		var want time.Duration
		last, ok := c.Next(from.Add(-1), z)
		for ok {
			next, more := c.Next(last, z)
			if !more || !next.Before(to) {
				break
			}
			if want == 0 || next.Sub(last) < want {
				want = next.Sub(last)
			}
			last = next
		}
		if got, _ := c.ShortestGap(z, from, to); got != want {
			t.Fatalf("%s in %s: %v, expected %v", text, zone, got, want)
		}
	})
}
