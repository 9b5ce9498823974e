package launch

import (
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/forecast"
)

// tookAnHour is how long each step took before.
func tookAnHour(string, string) *forecast.Learned {
	return &forecast.Learned{Took: []time.Duration{time.Hour}, Runs: 1, Hosts: 1}
}

// Of a run under way the hosts that have ended count: the next wave waits for nobody for whom a run
// does not wait.
func TestForecastOfARunUnderWay(t *testing.T) {
	later := strings.Replace(windowText, `brief: {timezone: UTC, allow: [{id: day, rrule: "FREQ=DAILY", from: "08:00", to: "14:00"}]}`,
		`brief: {timezone: UTC, allow: [{id: day, at: "2026-12-10T08:00", to: "2026-12-10T14:00"}]}`, 1)
	for name, c := range map[string]struct {
		strategy string
		first    string // window set of the first host, which has not ended
		ended    map[int]core.Outcome
		waits    bool // the last host waits for the first
	}{
		"two proved the change":         {"waves: [3, 100%]", "brief", map[int]core.Outcome{1: core.Changed, 2: core.Changed}, false},
		"two were skipped":              {"waves: [3, 100%]", "brief", map[int]core.Outcome{1: core.Skipped, 2: core.Skipped}, true},
		"two failed":                    {"waves: [3, 100%]", "brief", map[int]core.Outcome{1: core.Failed, 2: core.Failed}, true},
		"two failed, the run continues": {"waves: [3, 100%], on_failed_wave: continue", "brief", map[int]core.Outcome{1: core.Failed, 2: core.Failed}, false},
		"it waits for windows":          {"waves: [3, 100%], wait_for_windows: true", "brief", map[int]core.Outcome{1: core.Changed, 2: core.Changed}, true},
		"a straggler":                   {"waves: [3, 100%], next_wave_at: 60%", "now", map[int]core.Outcome{1: core.Changed, 2: core.Changed}, false},
		"two stragglers":                {"waves: [3, 100%], next_wave_at: 60%", "now", map[int]core.Outcome{2: core.Changed}, true},
		"the next wave has begun":       {"waves: [3, 100%], pause_between: 2h", "now", map[int]core.Outcome{3: core.Changed}, false},
		"a wave before has ended":       {"waves: [1, 3, 100%], next_wave_at: 60%", "now", map[int]core.Outcome{0: core.Changed, 1: core.Changed}, false},
	} {
		l, err := windowed(t, "strategy: {"+c.strategy+"}\n"+upgrade, inSets("now", "now", c.first, "now", "now", "now"), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		e, err := l.Forecast(Outlook{At: friday, Samples: 1, Calendar: calendarOf(t, later), Types: types, Past: tookAnHour, Ended: func(i int) core.Outcome { return c.ended[i] }})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if last := e.Hosts[5].Begin; last.After(friday) != c.waits {
			t.Errorf("%s: the last host begins at %v, expected that it waits: %v", name, last, c.waits)
		}
	}
}
