// Package planview owns how people see what a run would do: the forecast of a launch, and its forms as
// text, chart, picture and document.
//
// It must not know flags, nor how a launch is prepared.
package planview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/gate"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/windows"
)

// What a forecast takes where nothing is known; it says so.
const (
	assumedMedian = 10 * time.Second
	assumedP95    = time.Minute
	assumedFails  = 0.02 // share of the attempts of a step with retry: that are repeated
)

// View is a launch with its forecast.
type View struct {
	launch   *launch.Launch
	at       time.Time
	byHost   bool
	windows  bool // some are given
	workers  int
	slots    int // of all workers
	steps    []stepTime
	hosts    []plannedHost
	result   *forecast.Result
	warnings []string
	notes    []string
}

// plannedHost is what the forecast needs to be shown with.
type plannedHost struct {
	set    *windows.Compiled // of the first gated step; nil: none is gated
	need   time.Duration
	reason string // why its windows do not let it start at once
}

func (h plannedHost) zone() *time.Location {
	if h.set == nil || h.set.Zone == nil {
		return time.UTC
	}
	return h.set.Zone
}

// stepTime is how long a step takes, and where that is known from.
type stepTime struct {
	name, uses string
	handler    bool
	selected   bool
	after      string // of a barrier
	secrets    []string
	took       forecast.Dist
	source     string // given, learned or assumed
	from       string // a sentence
	need       time.Duration
	needSource string
	fails      float64
}

// Options say what a forecast is made for.
type Options struct {
	At      time.Time // of the launch
	By      string    // host, customer, or "" for what the number of hosts asks for
	Workers int
	Slots   int        // of each worker
	Book    *gate.Book // nil: no windows are given
	Past    *localrun.History
	Types   func(string) (playbooks.Type, bool)
}

// New makes the forecast of a launch.
func New(l *launch.Launch, o Options) (*View, error) {
	d := &View{launch: l, at: o.At, workers: o.Workers, slots: o.Workers * o.Slots, windows: o.Book != nil}
	d.byHost = o.By == "host" || o.By == "" && len(l.Hosts) <= maxPlanHosts
	disruptive := func(uses string) bool {
		t, known := o.Types(uses)
		return !known || t.Disruptive
	}
	steps := l.Snapshot.Steps(l.Playbook, disruptive)
	d.steps = stepTimes(l, o.Past)
	in := forecast.Input{
		At: d.at, Slots: d.slots, MaxInFlight: l.Run.MaxInFlight, PerGroup: l.Run.PerGroup, HAGroups: l.Run.Disruptive,
		Pause: l.Playbook.Strategy.PauseBetween.For, WaitForWindows: l.Playbook.Strategy.WaitForWindows, NextWaveAt: l.Playbook.Strategy.NextWaveAt, Seed: 1,
	}
	w := stager{d: d, steps: steps, book: o.Book, why: map[question]string{}}
	d.hosts = make([]plannedHost, len(l.Hosts))
	var passes []forecast.Input
	for _, part := range l.Passes() {
		w.from, w.to, w.work = part[0], part[1], map[string]*forecast.Work{}
		pass := in
		for i, h := range l.Hosts {
			work := w.of(h)
			if d.hosts[i].set == nil {
				d.hosts[i] = w.host(work)
			}
			pass.Hosts = append(pass.Hosts, forecast.Host{
				Name: h.Name, HAGroup: h.HAGroup, Group: l.Run.Targets[i].Group, Wave: rollout.Wave(l.Limits, i), Work: work,
			})
		}
		passes = append(passes, pass)
	}
	var err error
	if d.result, err = forecast.MakeChain(passes); err != nil {
		return nil, fmt.Errorf("playbook %s: %w", l.Playbook.Name, err)
	}
	d.remark()
	return d, nil
}

// stager turns a playbook's steps into the stages of hosts.
type stager struct {
	d     *View
	steps *gate.Steps // nil: nothing is gated
	book  *gate.Book
	from  int                       // step: a pass of the run, see launch.Turns
	to    int                       // the step behind it
	work  map[string]*forecast.Work // by the host's window set: all else is the same
	why   map[question]string
}

type question struct {
	set  *windows.Compiled
	need time.Duration
}

// of is what a host's job does. Each gated step asks its window anew, and so begins a stage.
func (w *stager) of(h core.Host) *forecast.Work {
	if work := w.work[h.WindowSet]; work != nil {
		return work
	}
	l, work := w.d.launch, &forecast.Work{}
	for i, s := range l.Playbook.Calls() {
		t := w.d.steps[i]
		if !t.selected || i < w.from || i >= w.to {
			continue
		}
		step := forecast.Step{Took: t.took, Attempts: s.Retry.Attempts, Fails: t.fails, Backoff: s.Retry.Backoff}
		stage := forecast.Stage{}
		if w.steps != nil {
			if q, gated := l.Snapshot.Windows.Question(w.steps, i, h, 0); gated {
				set := w.book.Compiled(w.d.at, q.Set, windows.Work{Change: q.Change, Targets: q.Targets})
				stage = forecast.Stage{Gated: true, Windows: set, Need: q.Need}
			}
		}
		if n := len(work.Stages); n > 0 && !stage.Gated {
			work.Stages[n-1].Steps = append(work.Stages[n-1].Steps, step)
			continue
		}
		stage.Steps = []forecast.Step{step}
		work.Stages = append(work.Stages, stage)
	}
	if len(work.Stages) == 0 {
		work.Stages = []forecast.Stage{{}}
	}
	w.work[h.WindowSet] = work
	return work
}

// host says what the first gated stage waits for.
func (w *stager) host(work *forecast.Work) plannedHost {
	for _, s := range work.Stages {
		if !s.Gated {
			continue
		}
		out := plannedHost{set: s.Windows, need: s.Need}
		q := question{s.Windows, s.Need}
		why, asked := w.why[q]
		if !asked {
			if e, err := s.Windows.Explain(w.d.at, s.Need); err == nil && !e.Fits {
				why = e.Reason
			}
			w.why[q] = why
		}
		out.reason = why
		return out
	}
	return plannedHost{}
}

// stepTimes is how long the steps of a launch take.
func stepTimes(l *launch.Launch, past *localrun.History) []stepTime {
	calls := l.Playbook.Calls()
	out := make([]stepTime, len(calls))
	for i, s := range calls {
		handler := i >= len(l.Playbook.Steps)
		t := stepTime{name: s.Name, uses: s.Uses, handler: handler, selected: handler || l.Snapshot.Selects(s.Tags), after: s.After, need: s.Needs, secrets: slices.Compact(slices.Sorted(maps.Values(s.Secrets)))}
		if s.Needs > 0 {
			t.needSource = "given"
		} else if w := l.Snapshot.Windows; w != nil && w.Needs[s.Name] > 0 {
			t.need, t.needSource = w.Needs[s.Name], "learned"
		}
		t.estimate(s, past.Step(l.Playbook.Name, s.Name, s.Uses))
		out[i] = t
	}
	return out
}

// estimate takes what was measured, else what the playbook says, else an assumption.
func (t *stepTime) estimate(s playbooks.Step, l *localrun.Learned) {
	assume := func(source, from string, median, p95 time.Duration) {
		t.took, _ = forecast.Assumed(median, p95) // both are over 0, in this order
		t.source, t.from = source, from
		if s.Retry.Attempts > 1 {
			t.fails = assumedFails
		}
	}
	switch {
	case l != nil:
		t.took, t.source = forecast.Observed(l.All), "learned"
		t.from = fmt.Sprintf("learned from %s on %s", console.Plural(l.Runs, "run"), console.Plural(l.Hosts, "host"))
	case s.Needs > 0:
		assume("given", "needs: "+windows.FormatDuration(s.Needs)+" as P95, half of it as P50", s.Needs/2, s.Needs)
	case s.Timeout > 0 && s.Timeout/2 < assumedP95:
		assume("assumed", "half of its timeout as P95", s.Timeout/10, s.Timeout/2)
	default:
		assume("assumed", "nothing is known of it", assumedMedian, assumedP95)
	}
}

// remark says what a reader of the forecast must know.
func (d *View) remark() {
	l := d.launch
	if l.Asks != "" && l.Starts == nil {
		why := "none are given: the forecast takes all times as open\nhint: --windows windows.yaml"
		if d.windows {
			why = "none of the selected steps is disruptive: nothing waits"
			if l.Inert {
				why = "none of its steps is disruptive, so nothing would wait, and turnus run refuses it\nhint: a step with disruptive: true, or with a window: of its own, waits whatever its job type"
			}
		}
		d.warnings = append(d.warnings, fmt.Sprintf("playbook %s asks for the window %q, but %s", l.Playbook.Name, l.Asks, why))
	}
	if n := l.Waves() - 1; l.Playbook.Strategy.PauseBetween.Approve && n > 0 {
		d.notes = append(d.notes, fmt.Sprintf("%s between waves: how long they take is not known, and not counted", console.Plural(n, "approval")))
	}
	if l.Playbook.Strategy.PerGroup["ha_group"] == 1 || l.Run.Disruptive {
		if slices.ContainsFunc(l.Hosts, func(h core.Host) bool { return h.HAGroup != "" }) {
			d.notes = append(d.notes, "hosts of one HA group are done one after the other")
		}
	}
	if len(l.Passes()) > 1 {
		d.notes = append(d.notes, "a step that begins after all hosts is counted roughly: from the median end of what comes before it")
	}
	var assumed []string
	for _, t := range d.steps {
		if t.selected && t.source == "assumed" {
			assumed = append(assumed, t.name)
		}
	}
	if len(assumed) > 0 {
		d.notes = append(d.notes, "durations are assumed, not measured: "+names(assumed))
	}
	if d.result.Samples < forecast.DefaultSamples {
		d.notes = append(d.notes, fmt.Sprintf("only %d samples were taken: hosts miss many windows", d.result.Samples))
	}
}

// names lists a few, and how many more there are.
func names(list []string) string {
	const most = 5
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// holdText says what a host waits for.
func holdText(cause forecast.Cause, name string) string {
	switch cause {
	case forecast.ByWindows:
		if name == "" {
			return "windows of several sets"
		}
		return "windows of " + name
	case forecast.ByApproval:
		if name == "" {
			return "windows of several sets that are not approved"
		}
		return "windows of " + name + " that are not approved"
	case forecast.BySlots:
		return "slots of the workers"
	case forecast.ByInFlight:
		return "max_in_flight"
	case forecast.ByGroup:
		return "per_group of " + cmp.Or(name, "several groups")
	case forecast.ByHAGroup:
		return "HA group " + cmp.Or(name, "locks")
	case forecast.ByWaves:
		return "earlier waves"
	case forecast.ByPause:
		return "pause between waves"
	case forecast.ByBarrier:
		return "until all hosts have done the steps before"
	}
	return "the work itself"
}
