package launch

import (
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/snapshot"
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
		"it has begun, and one failed":  {"waves: [3, 100%], pause_between: 2h", "now", map[int]core.Outcome{3: core.Failed}, false},
		"it has begun, one skipped":     {"waves: [3, 100%], pause_between: 2h", "now", map[int]core.Outcome{3: core.Skipped}, false},
		"it has not begun, one is away": {"waves: [3, 100%], pause_between: 2h", "now", map[int]core.Outcome{3: core.Cancelled}, true},
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

// Steps that a host does not call take no time: those that a retry keeps, and those with once that
// another host calls. Their windows count unless the step is kept.
func TestForecastOfStepsThatAreNotCalled(t *testing.T) {
	const book = "steps:\n" +
		"  - {name: a, uses: command, redo: always, with: {run: x}}\n" +
		"  - {name: b, uses: firmware.set, window: service, needs: 1h, with: {x: 1}}\n" +
		"  - {name: c, uses: command, once: true, window: sun, needs: 1h, with: {run: x}}\n" +
		"  - {name: d, uses: command, with: {run: x}}\n"
	sun := time.Date(2026, 11, 22, 21, 0, 0, 0, time.UTC)
	results := func(names ...string) (all []core.StepResult) {
		for _, name := range names {
			all = append(all, core.StepResult{Name: name, Kept: &core.Kept{Run: "r0", At: friday}})
		}
		return all
	}
	for name, c := range map[string]struct {
		kept    []core.StepResult
		once    bool // its result is known
		begin   time.Time
		windows string
		finish  [2]time.Time
	}{
		"all are called":          {nil, false, friday, "sat", [2]time.Time{sun.Add(2 * time.Hour), sun.Add(time.Hour)}},
		"the result is known":     {nil, true, friday, "sat", [2]time.Time{sun.Add(time.Hour), sun.Add(time.Hour)}},
		"two are kept":            {results("a", "b"), false, friday, "sun", [2]time.Time{sun.Add(2 * time.Hour), sun.Add(time.Hour)}},
		"all but the last":        {results("a", "b", "c"), true, friday, "", [2]time.Time{friday.Add(2 * time.Hour), friday.Add(2 * time.Hour)}},
		"the first is kept alone": {results("a"), true, friday, "sat", [2]time.Time{sun.Add(time.Hour), sun.Add(time.Hour)}},
	} {
		l, err := windowed(t, book, inSets("sat", "sat"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if c.once {
			if err := l.SetOnce(map[string]core.StepResult{"c": {Name: "c"}}); err != nil {
				t.Fatal(err)
			}
		}
		if c.kept != nil {
			if err := l.SetResume("r0", map[string]snapshot.Resume{"h0000": {Steps: c.kept}, "h0001": {Steps: c.kept}}); err != nil {
				t.Fatal(err)
			}
		}
		e, err := l.Forecast(Outlook{At: friday, Samples: 1, Calendar: calendarOf(t, windowText), Types: types, Past: tookAnHour})
		if err != nil {
			t.Fatal(err)
		}
		for i, h := range e.Hosts {
			if !h.Begin.Equal(c.begin) || !h.Finish.Equal(c.finish[i]) {
				t.Errorf("%s: host %d from %v to %v, expected %v to %v", name, i, h.Begin, h.Finish, c.begin, c.finish[i])
			}
			if set := e.Windows[i].Set; (set == nil) != (c.windows == "") || set != nil && set.Name != c.windows {
				t.Errorf("%s: host %d waits for a window of %v, expected %q", name, i, set, c.windows)
			}
		}
	}
}

// The steps of a playbook are copied once, not once a step.
func TestStepTimesOfManySteps(t *testing.T) {
	const steps = 300
	l, err := windowed(t, "steps:\n"+strings.Repeat("  - {uses: command, with: {run: x}}\n", steps), inSets(""), Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan := testing.AllocsPerRun(5, func() { l.planSteps() })
	if times := testing.AllocsPerRun(5, func() { stepTimes(l, nil) }); times-plan > steps+10 { // one is how long the step takes
		t.Errorf("%v allocations more than the plan's, of %d steps", times-plan, steps)
	}
}
