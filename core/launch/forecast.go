package launch

import (
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/windows"
)

// Assumptions of a forecast where nothing is known; the forecast states them.
const (
	assumedMedian = 10 * time.Second
	assumedP95    = time.Minute
	assumedFails  = 0.02 // share of the attempts of a step with retry: that are repeated
)

// Outlook holds what a forecast of a launch is made of.
type Outlook struct {
	At          time.Time // of the launch; of a run under way, now
	Concurrency int       // of all workers; 0: no limit
	Samples     int       // forecast.DefaultSamples when 0
	Calendar    *admission.Calendar
	Types       func(string) (playbooks.Type, bool)
	Past        func(step, uses string) *forecast.Learned // nil, or nil of a step: nothing is known
	Ended       func(index int) core.Outcome              // of hosts that have nothing left to do; nil: none
}

// Estimate is the forecast of a launch. Its Hosts are those of the launch; those that have ended
// are zero.
type Estimate struct {
	*forecast.Result
	Steps   []StepTime // as Playbook.Calls
	Windows []HostWindow
}

// HostWindow is the window that a host's first step with a window waits for.
type HostWindow struct {
	Set    *windows.Compiled // nil: none waits for a window
	Need   time.Duration
	Reason string // why it cannot start immediately
}

// Zone is that of the window set.
func (h HostWindow) Zone() *time.Location {
	if h.Set == nil || h.Set.Zone == nil {
		return time.UTC
	}
	return h.Set.Zone
}

// StepTime is how long a step takes, and where that is known from.
type StepTime struct {
	PlanStep
	Handler    bool
	Took       forecast.Dist
	Source     string // given, learned or assumed
	From       string // a sentence
	Need       time.Duration
	NeedSource string
	fails      float64
}

// Forecast estimates when the hosts of the launch start and when it ends. Errors wrap
// core.ErrInvalid.
func (l *Launch) Forecast(o Outlook) (*Estimate, error) {
	e := &Estimate{Steps: stepTimes(l, o.Past), Windows: make([]HostWindow, len(l.Hosts))}
	in := forecast.Input{
		At: o.At, Concurrency: o.Concurrency, MaxInFlight: l.Run.MaxInFlight, PerGroup: l.Run.PerGroup, HAGroups: l.Run.Disruptive, Samples: o.Samples,
		Pause: l.Playbook.Strategy.PauseBetween.For, WaitForWindows: l.Playbook.Strategy.WaitForWindows, NextWaveAt: l.Playbook.Strategy.NextWaveAt, Seed: 1,
	}
	left, ended, err := l.remaining(o.Ended)
	if err != nil {
		return nil, fmt.Errorf("playbook %s: %w", l.Playbook.Name, err)
	}
	in.Ended = ended
	w := stager{launch: l, at: o.At, times: e.Steps, steps: l.Snapshot.Steps(l.Playbook, playbooks.Disruptive(o.Types)), calendar: o.Calendar, why: map[question]string{}}
	var passes []forecast.Input
	for _, part := range l.Passes() {
		w.from, w.to, w.work = part[0], part[1], map[workOf]*forecast.Work{}
		pass := in
		for _, r := range left {
			i := r.index
			work := w.of(l.Hosts[i], r.kept, i == 0)
			if e.Windows[i].Set == nil {
				e.Windows[i] = w.window(work)
			}
			pass.Hosts = append(pass.Hosts, forecast.Host{
				Name: l.Hosts[i].Name, HAGroup: l.Hosts[i].HAGroup, Group: l.Run.Targets[i].Group, Wave: r.wave, Work: work,
			})
		}
		passes = append(passes, pass)
	}
	if e.Result, err = forecast.MakeChain(passes); err != nil {
		return nil, fmt.Errorf("playbook %s: %w", l.Playbook.Name, err)
	}
	if len(left) < len(l.Hosts) {
		all := make([]forecast.HostResult, len(l.Hosts))
		for k, r := range left {
			all[r.index] = e.Hosts[k]
		}
		e.Hosts = all
	}
	return e, nil
}

// remaining is a host that has not ended.
type remaining struct {
	index int // of its job
	wave  int // from 0, without waves of which all hosts have ended
	kept  int // steps that an earlier run called
}

// remaining returns the hosts that have not ended, in their order, and the others by wave.
func (l *Launch) remaining(outcome func(index int) core.Outcome) (left []remaining, ended []forecast.EndedHosts, err error) {
	from, gone := 0, forecast.EndedHosts{}
	for _, limit := range l.Limits {
		before, begun, tried, good := len(left), false, false, l.Playbook.Strategy.OnFailedWave == rollout.ContinueRun
		for i := from; i < limit; i++ {
			var o core.Outcome
			if outcome != nil {
				o = outcome(i)
			}
			if o == "" {
				var resume snapshot.Resume
				if l.Snapshot.Resumes != "" {
					if resume, err = snapshot.DecodeResume(l.Run.Targets[i].Data); err != nil {
						return nil, nil, err
					}
				}
				left = append(left, remaining{i, len(ended), len(resume.Steps)})
				continue
			}
			gone.Hosts++
			begun, tried, good = begun || o != core.Cancelled, tried || o.Proves(), good || o.Good()
		}
		if from = limit; len(left) > before {
			gone.Begun, gone.Proven = begun, tried && good
			ended, gone = append(ended, gone), forecast.EndedHosts{}
		}
	}
	return left, ended, nil
}

// stager turns a playbook's steps into the stages of hosts.
type stager struct {
	launch   *Launch
	at       time.Time
	times    []StepTime
	steps    *admission.Steps // nil: nothing waits for a window
	calendar *admission.Calendar
	from     int // step: a pass of the run, see Turns
	to       int // the step behind it
	work     map[workOf]*forecast.Work
	why      map[question]string
}

// workOf names work: hosts with the same values have the same.
type workOf struct {
	set   string // its window set
	kept  int    // steps that an earlier run called
	first bool   // it is the first host of the run, which is taken to call the steps with once
}

type question struct {
	set  *windows.Compiled
	need time.Duration
}

// of returns the work of a host's job. Each step with a window asks its window again, and so begins
// a stage.
func (w *stager) of(h core.Host, kept int, first bool) *forecast.Work {
	is := workOf{h.WindowSet, kept, first}
	if work := w.work[is]; work != nil {
		return work
	}
	l, work := w.launch, &forecast.Work{}
	for i, s := range l.Playbook.Calls() {
		t := w.times[i]
		if !t.Selected || t.Part == playbooks.GroupRescue || i < w.from || i >= w.to || !l.calls(i, is.kept) {
			continue
		}
		steps := []forecast.Step{{Took: t.Took, Attempts: s.Retry.Attempts, Fails: t.fails, Backoff: s.Retry.Backoff}}
		if _, known := l.Snapshot.Once[s.Name]; s.Once && (known || !is.first) {
			steps = nil // it waits for the step's window, and takes the result over
		}
		stage := forecast.Stage{}
		if w.steps != nil && w.calendar != nil {
			if q, windowed := l.Snapshot.Windows.Question(w.steps, i, h, 0); windowed {
				set := w.calendar.Compiled(w.at, q.Set, windows.Work{Change: q.Change, Targets: q.Targets})
				stage = forecast.Stage{Windowed: true, Windows: set, Need: q.Need}
			}
		}
		if n := len(work.Stages); n > 0 && !stage.Windowed {
			work.Stages[n-1].Steps = append(work.Stages[n-1].Steps, steps...)
			continue
		}
		stage.Steps = steps
		work.Stages = append(work.Stages, stage)
	}
	if len(work.Stages) == 0 {
		work.Stages = []forecast.Stage{{}}
	}
	w.work[is] = work
	return work
}

// window returns what the first stage with a window waits for.
func (w *stager) window(work *forecast.Work) HostWindow {
	for _, s := range work.Stages {
		if !s.Windowed {
			continue
		}
		q := question{s.Windows, s.Need}
		why, asked := w.why[q]
		if !asked {
			if e, err := s.Windows.Explain(w.at, s.Need); err == nil && !e.Fits {
				why = e.Reason
			}
			w.why[q] = why
		}
		return HostWindow{Set: s.Windows, Need: s.Need, Reason: why}
	}
	return HostWindow{}
}

// stepTimes is how long the steps of a launch take.
func stepTimes(l *Launch, past func(step, uses string) *forecast.Learned) []StepTime {
	calls := l.Playbook.Calls() // a copy of all
	out := make([]StepTime, 0, len(calls))
	for i, one := range l.planSteps() {
		s := calls[i]
		t := StepTime{PlanStep: one, Handler: i >= len(l.Playbook.Steps), Need: s.Needs}
		if s.Needs > 0 {
			t.NeedSource = "given"
		} else if w := l.Snapshot.Windows; w != nil && w.Needs[s.Name] > 0 {
			t.Need, t.NeedSource = w.Needs[s.Name], "learned"
		}
		var learned *forecast.Learned
		if past != nil {
			learned = past(s.Name, s.Uses)
		}
		t.estimate(s, learned)
		out = append(out, t)
	}
	return out
}

// estimate takes the measured time, else that of the playbook, else an assumption.
func (t *StepTime) estimate(s playbooks.Step, l *forecast.Learned) {
	assume := func(source, from string, median, p95 time.Duration) {
		t.Took, _ = forecast.Assumed(median, p95) // both are over 0, in this order
		t.Source, t.From = source, from
		if s.Retry.Attempts > 1 {
			t.fails = assumedFails
		}
	}
	switch {
	case l != nil:
		t.Took, t.Source = forecast.Observed(l.Took), "learned"
		t.From = fmt.Sprintf("learned from %s on %s", core.Plural(l.Runs, "run"), core.Plural(l.Hosts, "host"))
	case s.Needs > 0:
		assume("given", "needs: "+windows.FormatDuration(s.Needs)+" as P95, half of it as P50", s.Needs/2, s.Needs)
	case s.Timeout > 0 && s.Timeout/2 < assumedP95:
		assume("assumed", "half of its timeout as P95", s.Timeout/10, s.Timeout/2)
	default:
		assume("assumed", "nothing is known of it", assumedMedian, assumedP95)
	}
}
