package civil

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustCron(t testing.TB, text string) *Cron {
	t.Helper()
	c, err := ParseCron(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// nextOf lists what follows a wall time of the zone, shown as local time with its offset.
func nextOf(t testing.TB, cron, zoneName, after string, n int) []string {
	t.Helper()
	zone := mustZone(t, zoneName)
	at, _ := Resolve(wallTime(t, after), zone)
	var out []string
	for range n {
		next, ok := mustCron(t, cron).Next(at, zone)
		if !ok {
			return append(out, "never")
		}
		out = append(out, next.In(zone).Format("01-02 15:04-07"))
		at = next
	}
	return out
}

func TestNext(t *testing.T) {
	for _, c := range []struct {
		cron, zone, after string
		want              string
	}{
		{"0 22 * * SUN", "UTC", "2026-01-01 00:00", "01-04 22:00+00, 01-11 22:00+00"},
		{"0 22 * * 7", "UTC", "2026-01-01 00:00", "01-04 22:00+00, 01-11 22:00+00"},
		{"0 0 * * 5-7", "UTC", "2026-01-01 00:00", "01-02 00:00+00, 01-03 00:00+00, 01-04 00:00+00, 01-09 00:00+00"},
		{"0 0 * * fri-sun", "UTC", "2026-01-01 00:00", "01-02 00:00+00, 01-03 00:00+00, 01-04 00:00+00, 01-09 00:00+00"},
		{"0 0 29 2 *", "UTC", "2026-01-01 00:00", "02-29 00:00+00, 02-29 00:00+00"},
		{"0 0 30 2 *", "UTC", "2026-01-01 00:00", "never"},
		{"17 3 1 */3 *", "Europe/Zurich", "2026-01-01 03:17", "04-01 03:17+02, 07-01 03:17+02, 10-01 03:17+02"},
		// Either day field may match, unless one begins with *.
		{"0 0 13 * FRI", "UTC", "2026-02-01 00:00", "02-06 00:00+00, 02-13 00:00+00, 02-20 00:00+00"},
		{"0 0 */13 * FRI", "UTC", "2026-01-25 00:00", "02-27 00:00+00, 03-27 00:00+00"},
		// Fixed times: once, in a gap at its end.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", "03-29 03:00+02, 03-30 02:30+02"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "10-25 02:30+02, 10-26 02:30+01"},
		{"0,30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", "03-29 03:00+02, 03-30 02:00+02"},
		{"0 2,3 * * *", "Europe/Berlin", "2026-03-28 12:00", "03-29 03:00+02, 03-30 02:00+02"},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00", "10-04 02:30+11, 10-05 02:15+11"},
		// Real time: both copies of a repeated hour, none of a skipped one.
		{"30 * * * *", "Europe/Berlin", "2026-10-25 01:00", "10-25 01:30+02, 10-25 02:30+02, 10-25 02:30+01, 10-25 03:30+01"},
		{"30 * * * *", "Europe/Berlin", "2026-03-29 00:45", "03-29 01:30+01, 03-29 03:30+02"},
		{"*/30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", "03-30 02:00+02, 03-30 02:30+02"},
		{"*/30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "10-25 02:00+02, 10-25 02:30+02, 10-25 02:00+01, 10-25 02:30+01, 10-26 02:00+01"},
		{"*/15 * * * *", "Australia/Lord_Howe", "2026-04-05 01:30", "04-05 01:45+11, 04-05 01:30+10, 04-05 01:45+10, 04-05 02:00+10"},
		{"0 */4 * * *", "Asia/Kathmandu", "2026-01-01 05:00", "01-01 08:00+05, 01-01 12:00+05"},
	} {
		t.Run(c.cron+" "+c.zone, func(t *testing.T) {
			want := strings.Split(c.want, ", ")
			got := nextOf(t, c.cron, c.zone, c.after, len(want))
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

func TestParseCronNamesTheField(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "0 fields",
		"* * * *":                    "4 fields",
		"0 0 0 1 1 *":                "none for seconds",
		"60 * * * *":                 "minute field",
		"* 24 * * *":                 "hour field",
		"* * 0 * *":                  "day-of-month field",
		"* * 32 * *":                 "day-of-month field",
		"* * * 13 *":                 "month field",
		"* * * * 8":                  `day-of-week field "8": expected 0 to 7 or sun to sat`,
		"* * * foo *":                "month field",
		"* * L * *":                  "day-of-month field",
		"* * * * 5L":                 "day-of-week field",
		"* * ? * *":                  "write *",
		"1,,2 * * * *":               "empty",
		"*/0 * * * *":                "step",
		"*/99999999999999 * * * *":   "step",
		"* 22-2 * * *":               `hour field "22-2": expected 0 to 23, lists as 1,3, ranges as 1-5 that do not run backwards`,
		"@daily":                     `write "0 0 * * *"`,
		"@reboot":                    "words are not supported",
		"TZ=0":                       "cannot contain a time zone",
		"TZ=Europe/Berlin 0 0 * * *": "cannot contain a time zone",
		"CRON_TZ=UTC 0 0 * * *":      "cannot contain a time zone",
		strings.Repeat("1,", 300):    "longer than",
		"0 0 1#2 * *":                "not supported",
	} {
		t.Run(text[:min(len(text), 30)], func(t *testing.T) {
			_, err := ParseCron(text)
			if err == nil || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

func TestTrapTZPrefixPanics(t *testing.T) { // robfig/cron#554
	if _, err := ParseCron("TZ=0"); err == nil {
		t.Error("accepted")
	}
}

func TestTrapMidnightGapSkipsTheDay(t *testing.T) { // every cron library tried
	for zone, day := range map[string]string{"Africa/Cairo": "2026-04-24", "America/Santiago": "2026-09-06", "Asia/Beirut": "2026-03-29", "America/Havana": "2026-03-08"} {
		at, kind := Resolve(wallTime(t, day+" 00:00"), mustZone(t, zone))
		next, ok := mustCron(t, "0 0 * * *").Next(at.Add(-time.Hour), mustZone(t, zone))
		if kind != Gap || !ok || !next.Equal(at) {
			t.Errorf("%s: midnight of %s is at %s, want %s", zone, day, next, at)
		}
	}
}

func TestTrapTriggersManyTimesAtAClockChange(t *testing.T) { // nomad#5410
	for _, name := range oddZones() {
		zone := mustZone(t, name)
		for _, c := range Changes(zone, time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)) {
			at, n := c.At.Add(-24*time.Hour), 0
			for ; ; n++ {
				next, ok := mustCron(t, "30 0-3 * * *").Next(at, zone)
				if !ok || next.After(c.At.Add(24*time.Hour)) {
					break
				}
				if !next.After(at) {
					t.Fatalf("%s: %s does not come after %s", name, next, at)
				}
				at = next
			}
			if n > 12 {
				t.Errorf("%s: %d fire times in two days", name, n)
			}
		}
	}
}

// matches reports whether the time of a clock is a fire time of the expression. It reads the fields
// of the expression and not its bits.
func matches(c *Cron, w time.Time) bool {
	in := func(i, v int) bool {
		mask := [5]uint64{c.minute, c.hour, c.dom, c.month, c.dow}[i]
		return mask>>v&1 == 1
	}
	dom, dow := in(2, w.Day()), in(4, int(w.Weekday()))
	days := dom || dow
	if c.fields[2][0] == '*' || c.fields[4][0] == '*' {
		days = dom && dow
	}
	return in(0, w.Minute()) && in(1, w.Hour()) && in(3, int(w.Month())) && days
}

func drawCron(t *rapid.T) string {
	field := func(name string, least, most int, stars bool) string {
		one := func() string { return fmt.Sprint(rapid.IntRange(least, most).Draw(t, name)) }
		options := []func() string{one, one,
			func() string { return one() + "," + one() },
			func() string {
				a, b := rapid.IntRange(least, most).Draw(t, name), rapid.IntRange(least, most).Draw(t, name)
				return fmt.Sprintf("%d-%d", min(a, b), max(a, b))
			},
			func() string { return fmt.Sprintf("%d-%d/%d", least, most, rapid.IntRange(1, 20).Draw(t, name)) },
		}
		if stars {
			options = append(options, func() string { return "*" }, func() string { return "*" },
				func() string { return fmt.Sprintf("*/%d", rapid.IntRange(1, 20).Draw(t, name)) })
		}
		return rapid.SampledFrom(options).Draw(t, name+" form")()
	}
	month := "*"
	if rapid.IntRange(0, 5).Draw(t, "months") == 0 {
		month = field("month", 1, 12, true)
	}
	day, weekday := "*", "*"
	if rapid.Bool().Draw(t, "days") {
		day, weekday = field("day", 1, 31, true), field("weekday", 0, 7, true)
	}
	return strings.Join([]string{field("minute", 0, 59, true), field("hour", 0, 23, true), day, month, weekday}, " ")
}

// firesByLooking goes through a span minute by minute. Fixed times fire at the first minute
// at which the clock has reached them; real time whenever the clock matches.
func firesByLooking(c *Cron, zone *time.Location, from, to time.Time) []time.Time {
	var out []time.Time
	high := Wall(from.Add(-26*time.Hour), zone) // the latest the clock has shown
	for at := from.Add(-26 * time.Hour); at.Before(to); at = at.Add(time.Minute) {
		shown, fires := Wall(at, zone), false
		if c.real {
			fires = matches(c, shown)
		} else {
			for ; high.Before(shown); high = high.Add(time.Minute) {
				fires = matches(c, high.Add(time.Minute)) || fires
			}
		}
		if fires && at.After(from) {
			out = append(out, at)
		}
	}
	return out
}

func TestNextAgreesWithLookingAtTheClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		zone, err := LoadZone(rapid.SampledFrom(oddZones()).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		text := drawCron(t)
		c, err := ParseCron(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		from, _ := Resolve(nearChange(t, zone), zone)
		to := from.Add(5 * 24 * time.Hour)
		var got []time.Time
		for at := from; ; {
			next, ok := c.Next(at, zone)
			if !ok || !next.Before(to) {
				break
			}
			got = append(got, next.UTC())
			at = next
		}
		want := firesByLooking(c, zone, from.UTC(), to.UTC())
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q in %s after %s:\ngot  %v\nwant %v", text, zone, from, got, want)
		}
	})
}

// The negative control: an oracle for fixed times notices an expression that counts real time.
func TestLookingNoticesAWrongRule(t *testing.T) {
	zone := mustZone(t, "Europe/Berlin")
	from, _ := Resolve(wallTime(t, "2026-10-25 00:00"), zone)
	fixed := mustCron(t, "30 2 * * *")
	wrong := *fixed
	wrong.real = true
	a := firesByLooking(fixed, zone, from, from.Add(12*time.Hour))
	b := firesByLooking(&wrong, zone, from, from.Add(12*time.Hour))
	if len(a) != 1 || len(b) != 2 {
		t.Errorf("fixed %v, real %v", a, b)
	}
}

func TestDescribe(t *testing.T) {
	for cron, want := range map[string]string{
		"* * * * *":       "Every minute every day.",
		"*/15 * * * *":    "Every 15 minutes every day.",
		"*/7 * * * *":     "At minute 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour every day.",
		"0 * * * *":       "Every hour, on the hour, every day.",
		"30 2 * * 1-5":    "At 02:30 on Monday to Friday.",
		"0 22 * * SUN":    "At 22:00 on Sunday.",
		"0 22 * * 6,7":    "At 22:00 on Sunday and Saturday.",
		"0 0 * * fri-sun": "At 00:00 on Friday to Sunday.",
		"0 */6 * * *":     "At 00:00, 06:00, 12:00 and 18:00 every day.",
		"17 3 1 */3 *":    "At 03:17 on day 1 in January, April, July and October.",
		"0 4 1 * MON":     "At 04:00 on day 1 of the month, or on any Monday.",
		"0 4 */2 * MON":   "At 04:00 on day 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29 and 31 of the month if it is a Monday.",
		"*/5 9-17 * * *":  "Every 5 minutes of hour 9 to 17 every day.",
	} {
		if got := mustCron(t, cron).Describe(); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", cron, got, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	for cron, want := range map[string]string{
		"0 12 * * *":     "",
		"0 12 13 * FRI":  "both day fields are restricted",
		"0 12 */2 * FRI": "both day fields must match",
		"0 12 30 2 *":    "it has no fire time: February has no day 30",
		"0 12 31 4,6 *":  "no fire time",
		"0 12 31 * *":    "months without day 31",
		"30 2 * * *":     "clocks change at night",
		"*/5 2 * * *":    "counts real time",
	} {
		got := strings.Join(mustCron(t, cron).Warnings(), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", cron, got, want)
		}
	}
}

func TestWarningsInAZone(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for zone, want := range map[string]int{"Europe/Berlin": 2, "UTC": 1, "Asia/Tokyo": 1} {
		if got := mustCron(t, "30 2 13 * FRI").WarningsIn(mustZone(t, zone), from, from.AddDate(1, 0, 0)); len(got) != want || !strings.Contains(got[0], "both day fields") {
			t.Errorf("%s: %q, expected %d warnings", zone, got, want)
		}
	}
}

func TestClockChanges(t *testing.T) {
	zone := mustZone(t, "Europe/Berlin")
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	got := strings.Join(mustCron(t, "30 2 * * *").ClockChanges(zone, from, from.AddDate(1, 0, 0)), "; ")
	want := "2026-03-29 02:30 does not exist in Europe/Berlin: the fire time is 2026-03-29T03:00:00+02:00; 2026-10-25 02:30 comes twice in Europe/Berlin: the fire time is the first, 2026-10-25T02:30:00+02:00"
	if got != want {
		t.Errorf("got %s", got)
	}
}

func FuzzCron(f *testing.F) {
	for _, seed := range []string{"* * * * *", "30 2 * * 1-5", "0 0 29 2 */7", "TZ=0", "@every 1s", "0-59/3 22-2 * jan-dec sun-7/2", "*/0 * * * *", "0 0 31 2,4 *"} {
		f.Add(seed)
	}
	zone := mustZone(f, "Australia/Lord_Howe")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCron(text)
		if err != nil {
			return
		}
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 20 {
			next, ok := c.Next(at, zone)
			if !ok {
				break
			}
			if !next.After(at) {
				t.Fatalf("%q: %s does not come after %s", text, next, at)
			}
			at = next
		}
		if again, err := ParseCron(c.String()); err != nil || c.Describe() != again.Describe() {
			t.Fatalf("%q: written again it means something else", text)
		}
		c.Warnings()
	})
}

func BenchmarkNext(b *testing.B) {
	c, zone := mustCron(b, "30 2 * * 1-5"), mustZone(b, "Europe/Berlin")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for b.Loop() {
		c.Next(at, zone)
	}
}
