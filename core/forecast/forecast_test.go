package forecast

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/windows"
)

// monday is 00:00 in UTC, as all sets here are.
var monday = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

const sets = `
window_sets:
  night: {timezone: UTC, allow: [{id: n, rrule: FREQ=DAILY, valid: [2026-01-05, 2027-01-01], from: "22:00", to: "+1d 02:00"}]}
  long: {timezone: UTC, allow: [{id: l, rrule: FREQ=DAILY, valid: [2026-01-05, 2027-01-01], from: "22:00", to: "+1d 06:00"}]}
  cutoff: {timezone: UTC, cutoff: 3h, allow: [{id: n, rrule: FREQ=DAILY, valid: [2026-01-05, 2027-01-01], from: "22:00", to: "+1d 02:00"}]}
  twice: {timezone: UTC, carry_over: {max: 2}, allow: [{id: n, rrule: FREQ=DAILY, valid: [2026-01-05, 2027-01-01], from: "22:00", to: "24:00"}]}
  over: {timezone: UTC, carry_over: {deadline: 2026-01-04}, allow: [{id: n, rrule: FREQ=DAILY, valid: [2026-01-05, 2027-01-01], from: "22:00", to: "24:00"}]}
  asked: {timezone: UTC, allow: [{id: soon, at: "2026-01-05T02:00", to: "2026-01-05T04:00", approval: {id: CHG1, by: cab, state: proposed}}, {id: later, at: "2026-01-09T02:00", to: "2026-01-09T04:00"}]}
  empty: {timezone: UTC, allow: []}
`

func compiled(tb testing.TB, name string) *windows.Compiled {
	tb.Helper()
	defs, err := windows.Parse(windows.Document{File: "sets.yaml", Data: []byte(sets)})
	if err != nil {
		tb.Fatal(err)
	}
	return defs.Compile(name, windows.Ahead(monday, 60))
}

// fixed is work of one stage that always takes took; gated if need is given.
func fixed(took, need time.Duration) *Work {
	return &Work{Stages: []Stage{{Windowed: need > 0, Need: need, Steps: []Step{{Took: always(took)}}}}}
}

// fleet makes hosts from words: SET, then what is known of it: "night", "- ha=x",
// "- group=g wave=1". "-" has no windows.
func fleet(tb testing.TB, took, need time.Duration, words ...string) []Host {
	tb.Helper()
	var out []Host
	for i, w := range words {
		h := Host{Name: fmt.Sprintf("h%d", i), Work: fixed(took, 0)}
		for f := range strings.FieldsSeq(w) {
			k, v, _ := strings.Cut(f, "=")
			switch k {
			case "ha":
				h.HAGroup = v
			case "group":
				h.Group = v
			case "wave":
				h.Wave = int(v[0] - '0')
			case "-":
			default:
				h.Windows, h.Work = compiled(tb, k), fixed(took, need)
			}
		}
		out = append(out, h)
	}
	return out
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(d.Hours()), int(d.Minutes())%60)
}

// TestStartsAndFinish compares with what was worked out by hand. Times are hours and minutes since
// the launch.
func TestStartsAndFinish(t *testing.T) {
	const m, h = time.Minute, time.Hour
	cases := []struct {
		why    string
		in     Input
		took   time.Duration
		need   time.Duration
		hosts  []string
		starts string
		finish string
		hold   string // of the last host, the longest
		binds  string
	}{
		{"one slot: one after the other", Input{Concurrency: 1}, 10 * m, 0, []string{"-", "-", "-"}, "0:00 0:10 0:20", "0:30", "concurrency  20m", "concurrency "},
		{"no limit: all at once", Input{}, 10 * m, 0, []string{"-", "-", "-"}, "0:00 0:00 0:00", "0:10", "", "work "},
		{"max_in_flight is the lower limit", Input{Concurrency: 3, MaxInFlight: 2}, 10 * m, 0, []string{"-", "-", "-"}, "0:00 0:00 0:10", "0:20", "max_in_flight  10m", "max_in_flight "},
		{"a wave waits for the one before", Input{}, 10 * m, 0, []string{"-", "- wave=1", "- wave=1"}, "0:00 0:10 0:10", "0:20", "waves  10m", "waves "},
		{"and pauses", Input{Pause: 30 * m}, 10 * m, 0, []string{"-", "- wave=1", "- wave=2"}, "0:00 0:40 1:20", "1:30", "waves  50m", "waves "},
		{"the pause binds where it is nearly all of what waves cost", Input{Pause: 10 * h}, 10 * m, 0, []string{"-", "- wave=1"}, "0:00 10:10", "10:20", "pause  10h", "pause "},
		{"an HA group is one at a time", Input{HAGroups: true}, 10 * m, 0, []string{"- ha=a", "- ha=a", "- ha=b"}, "0:00 0:10 0:00", "0:20", "", "ha_group a"},
		{"unless nothing is disruptive", Input{}, 10 * m, 0, []string{"- ha=a", "- ha=a"}, "0:00 0:00", "0:10", "", "work "},
		{"per_group", Input{PerGroup: 2}, 10 * m, 0, []string{"- group=g", "- group=g", "- group=g", "- group=x"}, "0:00 0:00 0:10 0:00", "0:20", "", "per_group g"},
		{"both groups", Input{PerGroup: 1, HAGroups: true}, 10 * m, 0, []string{"- group=g ha=a", "- group=g", "- group=k ha=a"}, "0:00 0:10 0:10", "0:20", "ha_group a 10m", "work "},
		{"a window", Input{}, h, h, []string{"night", "-"}, "22:00 0:00", "23:00", "", "windows night"},
		{"what does not fit any more rolls to the next window", Input{Concurrency: 1}, h, h, []string{"night", "night", "night", "night", "night"}, "22:00 23:00 24:00 25:00 46:00", "47:00", "windows night 1d18h", "windows night"},
		{"a need that equals the window fits", Input{}, h, 4 * h, []string{"night"}, "22:00", "23:00", "windows night 22h", "windows night"},
		{"the cutoff is kept", Input{Concurrency: 1}, h, h, []string{"cutoff", "cutoff", "cutoff"}, "22:00 23:00 46:00", "47:00", "windows cutoff 1d20h", "windows cutoff"},
		{"least slack first", Input{Concurrency: 1}, h, h, []string{"long", "night"}, "23:00 22:00", "24:00", "windows night 22h", "windows "},
		{"a host that waits for its window does not hold up its wave", Input{}, h, h, []string{"night", "-", "- wave=1"}, "22:00 0:00 1:00", "23:00", "waves  1h", "windows night"},
		{"but another host of the wave must have shown what comes of it", Input{}, h, h, []string{"night", "- wave=1"}, "22:00 23:00", "24:00", "waves  23h", "windows night"},
		{"unless the playbook says so", Input{WaitForWindows: true}, h, h, []string{"night", "-", "- wave=1"}, "22:00 0:00 23:00", "24:00", "waves  23h", "windows night"},
		{"a straggler of a wave is not waited for", Input{Concurrency: 2, NextWaveAt: rollout.NextWave{Finished: 66}}, 10 * m, 0, []string{"-", "-", "-", "- wave=1"}, "0:00 0:00 0:10 0:10", "0:20", "waves  10m", "work "},
		{"nor after a time", Input{Concurrency: 2, NextWaveAt: rollout.NextWave{After: 15 * m}}, 10 * m, 0, []string{"-", "-", "-", "- wave=1"}, "0:00 0:00 0:10 0:15", "0:25", "waves  15m", "concurrency "},
		{"a window missed too often ends it", Input{Concurrency: 1}, h, h, []string{"twice", "twice", "twice", "twice", "twice"}, "22:00 23:00 46:00 47:00 -", "48:00", "", "windows twice"},
		{"an approval that is missing binds", Input{}, h, h, []string{"asked"}, "98:00", "99:00", "windows asked 4d2h", "windows asked"},
	}
	for _, c := range cases {
		c.in.At, c.in.Samples = monday, 3
		c.in.Hosts = fleet(t, c.took, c.need, c.hosts...)
		r, err := Make(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		var starts []string
		for _, h := range r.Hosts {
			if h.Start.IsZero() {
				starts = append(starts, "-")
				continue
			}
			starts = append(starts, clock(h.Start.Sub(monday)))
		}
		if got := strings.Join(starts, " "); got != c.starts {
			t.Errorf("%s: starts %s, expected %s", c.why, got, c.starts)
		}
		if got := clock(r.FinishP50.Sub(monday)); got != c.finish || !r.FinishP90.Equal(r.FinishP50) {
			t.Errorf("%s: done at %s and %s, expected %s", c.why, got, clock(r.FinishP90.Sub(monday)), c.finish)
		}
		if got := string(r.Binding.Cause) + " " + r.Binding.Name; got != c.binds {
			t.Errorf("%s: %s binds, expected %s; tried %v", c.why, got, c.binds, r.Tried)
		}
		if last := r.Hosts[len(r.Hosts)-1]; c.hold != "" {
			got := ""
			if len(last.Holds) > 0 {
				got = fmt.Sprintf("%s %s %s", last.Holds[0].Cause, last.Holds[0].Name, windows.FormatDuration(last.Holds[0].For))
			}
			if got != c.hold {
				t.Errorf("%s: held by %q, expected %q", c.why, got, c.hold)
			}
		}
	}
}

// argo-cd#29307: a blocked operation held the rollout's slot.
func TestTrapHostThatWaitsHoldsNoSlot(t *testing.T) {
	staged := &Work{Stages: []Stage{
		{Steps: []Step{{Took: always(10 * time.Minute)}}},
		{Windowed: true, Need: time.Hour, Steps: []Step{{Took: always(30 * time.Minute)}}},
	}}
	night := compiled(t, "night")
	r, err := Make(Input{At: monday, Concurrency: 1, Samples: 1, Hosts: []Host{
		{Name: "a", Windows: night, Work: staged}, {Name: "b", Windows: night, Work: staged},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := [][2]string{{"0:00", "22:00"}, {"0:10", "22:30"}}
	for i, h := range r.Hosts {
		got := [2]string{clock(h.Begin.Sub(monday)), clock(h.Start.Sub(monday))}
		if got != want[i] || len(h.Runs) != 2 {
			t.Errorf("host %d begins and starts at %v in %v, expected %v in two parts", i, got, h.Runs, want[i])
		}
	}
	// In the window the second stage follows without giving the slot back.
	r, err = Make(Input{At: monday.Add(22 * time.Hour), Concurrency: 1, Samples: 1, Hosts: []Host{
		{Name: "a", Windows: night, Work: staged}, {Name: "b", Windows: night, Work: staged},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if h := r.Hosts[1]; clock(h.Begin.Sub(monday)) != "22:40" || clock(h.Start.Sub(monday)) != "22:50" || len(r.Hosts[0].Runs) != 1 {
		t.Errorf("the second begins %s, after %v", h.Begin, r.Hosts[0].Runs)
	}
}

func TestImpossibleHostsAreNamedFirst(t *testing.T) {
	hosts := fleet(t, time.Hour, 5*time.Hour, "night", "empty", "over", "long", "-")
	hosts[4].Never = "no address"
	r, err := Make(Input{At: monday, Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"window set night: the longest window within 60 days lasts 4h, needed are 5h",
		"window set empty does not open within 60 days",
		"window set over: the longest window within 60 days lasts 2h, needed are 5h",
		"",
		"no address",
	}
	for i, h := range r.Hosts {
		if h.Never != want[i] || (h.Never == "") == h.Start.IsZero() {
			t.Errorf("host %d: %q, start %s; expected %q", i, h.Never, h.Start, want[i])
		}
	}
	if got := clock(r.FinishP50.Sub(monday)); got != "23:00" {
		t.Errorf("done at %s", got)
	}
	r, err = Make(Input{At: monday, Hosts: fleet(t, time.Hour, time.Hour, "over", "empty")})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.Hosts[0].Never, "after the deadline of its carry_over") || !r.FinishP50.IsZero() || r.Binding.Cause != ByWindows {
		t.Errorf("%+v", r)
	}
}

func TestCarriedOverHostsAreCounted(t *testing.T) {
	r, err := Make(Input{At: monday, Concurrency: 1, Samples: 10, Hosts: fleet(t, time.Hour, time.Hour, "twice", "twice", "twice", "twice", "twice")})
	if err != nil {
		t.Fatal(err)
	}
	if r.Missed != 3 || r.Unfinished != 1 || r.Hosts[4].Unfinished != 1 || r.Hosts[4].Misses != 2 || r.Hosts[2].Misses != 1 {
		t.Errorf("missed %v, unfinished %v: %+v", r.Missed, r.Unfinished, r.Hosts)
	}
}

// Hosts that never finish are no end in a year: the effect of lifting a limit for them is reported
// in hosts.
func TestFaultW14HostsThatNeverFinishAreNoTime(t *testing.T) {
	for _, c := range []struct {
		why         string
		concurrency int
		hosts       []string
		undone      float64
		done        string // of those that finish
		binds       Constraint
	}{
		{"the last one finishes without the windows, or with more slots", 1, []string{"twice", "twice", "twice", "twice", "twice"}, 1, "48:00", Constraint{Cause: ByWindows, Name: "twice", Hosts: 1}},
		{"the same beside one that may work at any time", 1, []string{"-", "twice", "twice", "twice", "twice", "twice"}, 1, "48:00", Constraint{Cause: ByWindows, Name: "twice", Hosts: 1}},
		{"control: all finish", 1, []string{"twice", "twice"}, 0, "24:00", Constraint{Cause: ByWindows, Name: "twice", Gain: 22 * time.Hour}},
	} {
		r, err := Make(Input{At: monday, Concurrency: c.concurrency, Samples: 10, Hosts: fleet(t, time.Hour, time.Hour, c.hosts...)})
		if err != nil {
			t.Fatal(err)
		}
		if done := clock(r.FinishP50.Sub(monday)); r.Unfinished != c.undone || done != c.done || r.Binding != c.binds {
			t.Errorf("%s: %v undone, the others done at %s, %+v binds, expected %v, %s, %+v; tried %+v", c.why, r.Unfinished, done, r.Binding, c.undone, c.done, c.binds, r.Tried)
		}
		for _, tried := range r.Tried {
			if tried.Gain < 0 || monday.Add(tried.Gain).After(r.FinishP50) {
				t.Errorf("%s: the run ends at %s and would end %s earlier without %s", c.why, clock(r.FinishP50.Sub(monday)), tried.Gain, tried.Cause)
			}
		}
	}
}

func TestRetriesTakeTime(t *testing.T) {
	step := Step{Took: always(time.Minute), Attempts: 3, Fails: 1, Backoff: core.Backoff{Interval: 10 * time.Second}}
	r, err := Make(Input{At: monday, Samples: 1, Hosts: []Host{{Name: "a", Work: &Work{Stages: []Stage{{Steps: []Step{step}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.FinishP50.Sub(monday); got != 3*time.Minute+30*time.Second {
		t.Errorf("three attempts take %s", got)
	}
}

func TestForecastIsRepeatable(t *testing.T) {
	in := bulk(t, 300)
	in.Samples = 30
	a, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Make(in)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", a) != fmt.Sprintf("%+v", b) {
		t.Error("the same seed gives another forecast")
	}
	in.Seed++
	if c, err := Make(in); err != nil || c.FinishP50.Equal(a.FinishP50) && c.FinishP90.Equal(a.FinishP90) {
		t.Errorf("another seed gives the same: %v", err)
	}
}

func TestForecastIsBounded(t *testing.T) {
	// Four fit a night: the others miss each of 60, over and over.
	in := Input{At: monday, Concurrency: 1, Hosts: fleet(t, time.Hour, time.Hour, strings.Fields(strings.Repeat("night ", 300))...)}
	m, err := newModel(in)
	if err != nil {
		t.Fatal(err)
	}
	m.maxEvents = 100_000
	o := m.observe(limitsOf(in))
	if o.samples != leastSamples || len(o.finish) != leastSamples || o.steps < m.maxEvents/leastSamples {
		t.Errorf("%d samples of %d events each", o.samples, o.steps)
	}
	r := &Result{Hosts: make([]HostResult, len(in.Hosts))}
	o.summarise(r)
	if r.Unfinished < 50 || r.Unfinished > 70 || r.Samples != leastSamples {
		t.Errorf("%v unfinished, %d samples", r.Unfinished, r.Samples)
	}
}

// ConfigMgr takes a run time that is not known as none.
func TestTrapUnknownNeedIsNotZero(t *testing.T) {
	in := Input{At: monday, Hosts: fleet(t, time.Hour, 0, "night")}
	in.Hosts[0].Work.Stages[0].Windowed = true
	if _, err := Make(in); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "how long the work needs is not known") {
		t.Errorf("%v", err)
	}
}

// A retry that takes over a result measures nothing: one slow call would count once more.
func TestKeptStepsAreNotMeasuredAgain(t *testing.T) {
	var h History
	for range leastToLearn {
		h.Add("r1", []core.StepResult{{Name: "a", Uses: "x", Outcome: core.Changed, Took: time.Minute}})
		h.Add("r2", []core.StepResult{{Name: "a", Uses: "x", Outcome: core.Changed, Took: time.Minute, Kept: &core.Kept{Run: "r1"}}})
	}
	if l := h.Step("a", "x"); l == nil || l.Hosts != leastToLearn || l.Runs != 1 || len(l.Took) != leastToLearn {
		t.Errorf("%+v", l)
	}
}

func TestWrongInputIsRefused(t *testing.T) {
	good := fleet(t, time.Hour, time.Hour, "night")
	cases := map[string]Input{
		"samples":     {Hosts: good, Samples: MaxSamples + 1},
		"concurrency": {Hosts: good, Concurrency: -1},
		"waves":       {Hosts: fleet(t, time.Hour, 0, "- wave=1", "-")},
		"no work":     {Hosts: []Host{{Name: "a", Work: &Work{}}}},
		"no need":     {Hosts: []Host{{Name: "a", Windows: good[0].Windows, Work: &Work{Stages: []Stage{{Windowed: true}}}}}},
		"no set":      {Hosts: []Host{{Name: "a", Work: fixed(time.Hour, time.Hour)}}},
		"no work2":    {Hosts: []Host{{Name: "a"}}},
	}
	for why, in := range cases {
		in.At = monday
		if _, err := Make(in); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v", why, err)
		}
	}
	if r, err := Make(Input{At: monday}); err != nil || !r.FinishP50.IsZero() {
		t.Errorf("no hosts: %v, %v", r, err)
	}
}
