package forecast

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
)

// leastToLearn is on how many hosts a step must have been measured before its times count.
const leastToLearn = 10

// Learned is how long a step took in earlier runs.
type Learned struct {
	Took        []time.Duration
	Runs, Hosts int

	changed []time.Duration // the part of Took where the step changed something
}

// History is the durations and results of a playbook's steps in earlier runs. The zero value is
// empty.
type History struct {
	steps map[[2]string]*Learned // by name and job type: a step that uses another type is another one
	seen  map[[3]string]bool     // and run
}

// Add takes the steps of one host of a run that was no check. A result of an earlier call,
// which a host took over, does not count.
func (h *History) Add(run string, steps []core.StepResult) {
	if h.steps == nil {
		h.steps, h.seen = map[[2]string]*Learned{}, map[[3]string]bool{}
	}
	for _, s := range steps {
		if s.Kept != nil || s.Took <= 0 || s.Outcome != core.Changed && s.Outcome != core.Unchanged {
			continue
		}
		l := h.steps[[2]string{s.Name, s.Uses}]
		if l == nil {
			l = &Learned{}
			h.steps[[2]string{s.Name, s.Uses}] = l
		}
		if k := [3]string{s.Name, s.Uses, run}; !h.seen[k] {
			h.seen[k] = true
			l.Runs++
		}
		l.Took = append(l.Took, s.Took)
		if s.Outcome == core.Changed {
			l.changed = append(l.changed, s.Took)
		}
		l.Hosts++
	}
}

// Step returns the values of a step in earlier runs; nil if there are too few.
func (h *History) Step(step, uses string) *Learned {
	if l := h.steps[[2]string{step, uses}]; l != nil && l.Hosts >= leastToLearn {
		return l
	}
	return nil
}

// Need returns the time that must fit for a step whose playbook has no needs:, in whole minutes. It
// is the P95 of the times in which the step changed its host, and as much again for a rollback. A
// step that was not seen to change enough hosts has none: the short time without a change does not
// show the time that a change needs.
func (h *History) Need(step, uses string) (time.Duration, bool) {
	l := h.Step(step, uses)
	if l == nil || len(l.changed) < leastToLearn {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(l.changed))
	need := 2 * sorted[int(math.Ceil(0.95*float64(len(sorted))))-1]
	return (need + time.Minute - 1).Truncate(time.Minute), true
}

// Text returns in a few words what a cause is, as "max_in_flight" or "windows of NAME".
func (c Cause) Text(name string) string {
	switch c {
	case ByWindows:
		return "windows of " + cmp.Or(name, "several sets")
	case ByApproval:
		return "windows of " + cmp.Or(name, "several sets") + " that are not approved"
	case ByConcurrency:
		return "concurrency of the workers"
	case ByInFlight:
		return "max_in_flight"
	case ByGroup:
		return "per_group of " + cmp.Or(name, "several groups")
	case ByHAGroup:
		return "HA group " + cmp.Or(name, "locks")
	case ByWaves:
		return "earlier waves"
	case ByPause:
		return "pause between waves"
	case ByBarrier:
		return "until all hosts have done the steps before"
	case ByWork:
	}
	return "the work itself"
}
