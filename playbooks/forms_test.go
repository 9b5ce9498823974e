package playbooks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/playbooks"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "40m": 40 * time.Minute, "1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "1w": 168 * time.Hour,
		"1.5h": 90 * time.Minute, "250ms": 250 * time.Millisecond, "1d12h": 36 * time.Hour,
	} {
		if got, err := playbooks.ParseDuration(text); err != nil || got != want {
			t.Errorf("%s = %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0s", "30", "-1s", "1y", "1 h", "h", "1h 30m", "999999999w", "1e9s", "5 minutes", "١s", strings.Repeat("1s", 100), "NaNs", "0.0001ms"} {
		if got, err := playbooks.ParseDuration(text); err == nil {
			t.Errorf("%q = %s, want an error", text, got)
		}
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]rollout.Size{"1": {Count: 1}, "5%": {Percent: 5}, "2.5%": {Percent: 2.5}, "100%": {Percent: 100}} {
		if got, err := playbooks.ParseSize(text); err != nil || got != want {
			t.Errorf("%s = %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "0%", "101%", "1.5", "-1", "%", "5 %", "all", "1e3", "9999999999"} {
		if got, err := playbooks.ParseSize(text); err == nil {
			t.Errorf("%q = %+v, want an error", text, got)
		}
	}
}

func TestDurationsOfAnyPartsAdd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d, h, s := rapid.IntRange(0, 99).Draw(t, "d"), rapid.IntRange(0, 99).Draw(t, "h"), rapid.IntRange(1, 99).Draw(t, "s")
		want := time.Duration(d)*24*time.Hour + time.Duration(h)*time.Hour + time.Duration(s)*time.Second
		if got, err := playbooks.ParseDuration(fmt.Sprintf("%dd%dh%ds", d, h, s)); err != nil || got != want {
			t.Fatalf("got %s, %v, want %s", got, err, want)
		}
	})
}

func schedule(cron string) []byte {
	return []byte("playbook: a\ntargets: true\nschedule: {cron: '" + cron + "'}\nsteps: [{uses: reboot}]\n")
}

func TestCron(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0 3 * * *": "0 3 * * *", "17 3 1 */3 *": "17 3 1 */3 *", "  0  3 * *   mon-fri ": "0 3 * * mon-fri", "0 0 29 2 *": "0 0 29 2 *",
		"0 3 * * 7": "0 3 * * 7", "0 3 * * 5-7": "0 3 * * 5-7", "0 3 * * fri-sun": "0 3 * * fri-sun", "* * * * *": "* * * * *",
	} {
		p, err := playbooks.Parse("a.yaml", schedule(text), options(t))
		if err != nil || p.Schedule.Cron != want {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"", "0 3 * *", "0 22-2 * * *", "60 * * * *", "0 3 31 4 *", "@every 1s", "CRON_TZ=UTC 0 3 * * *", "a b c d e", "*/0 * * * *", "0 3 * * 8", "? 3 * * *", "0 3 1L * *"} {
		if _, err := playbooks.Parse("a.yaml", schedule(text), options(t)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// The library panics on a zone without a space after it.
func TestTrapCronZonePrefixPanics(t *testing.T) { // robfig/cron#554
	t.Parallel()
	for _, text := range []string{"TZ=0", "CRON_TZ=", "TZ=", "TZ=Europe/Zurich"} {
		if _, err := playbooks.Parse("a.yaml", schedule(text), options(t)); err == nil || !strings.Contains(err.Error(), "timezone: Europe/Zurich") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The rule at its edge: as long as the recurrence fits, one second more does not.
func TestRecurrenceAgainstRetries(t *testing.T) {
	t.Parallel()
	src := func(cron, interval string) []byte {
		return []byte("playbook: a\ntargets: true\nschedule: {cron: '" + cron + "'}\nsteps: [{uses: reboot, retry: {attempts: 3, interval: " + interval + "}}]\n")
	}
	for _, tt := range []struct {
		cron, interval string
		ok             bool
	}{
		{"*/15 * * * *", "5m", true}, // 5 + 10
		{"*/15 * * * *", "301s", false},
		{"0,10 3 * * *", "200s", true},
		{"0,10 3 * * *", "201s", false},
		{"0 3 * * *", "8h", true},
		{"59 23 28 2 *", "30d", true},
		{"30 2 * * *', timezone: 'Europe/Zurich", "7h50m", true}, // 23 h 30 min in the night without 02:30
		{"30 2 * * *', timezone: 'Europe/Zurich", "7h50m1s", false},
		{"30 2 * * *', timezone: 'UTC", "8h", true},
		{"30 1,2 * * *', timezone: 'Europe/Zurich", "11m", false}, // 01:30, and 02:30 is moved to 03:00
		{"30 1,2 * * *', timezone: 'Europe/Zurich", "10m", true},
		{"30 1,2 * * *', timezone: 'UTC", "20m", true},
		{"0 3 * * sat,7", "8h", true}, // Saturday to Sunday
		{"0 3 * * sat,7", "8h1s", false},
	} {
		_, err := playbooks.Parse("a.yaml", src(tt.cron, tt.interval), options(t))
		if (err == nil) != tt.ok {
			t.Errorf("%s with %s: %v, want ok=%v", tt.cron, tt.interval, err, tt.ok)
		}
	}
}
