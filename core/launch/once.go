package launch

import (
	"bytes"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

// OnceSteps returns the indexes of the steps of which one host of the run calls each, and of which
// no earlier run has the result.
func (l *Launch) OnceSteps() (steps []int) {
	for i, s := range l.Playbook.Steps {
		if _, known := l.Snapshot.Once[s.Name]; s.Once && !known && l.Snapshot.Selects(s.Tags) {
			steps = append(steps, i)
		}
	}
	return steps
}

// newOnce is Snapshot.Once of a new run.
func newOnce(p *playbooks.Playbook) map[string]core.StepResult {
	if slices.ContainsFunc(p.Steps, func(s playbooks.Step) bool { return s.Once }) {
		return map[string]core.StepResult{}
	}
	return nil
}

// SetOnce gives the run the results of steps with once that an earlier run called, by the names of
// the steps. Call it before the run is accepted.
func (l *Launch) SetOnce(results map[string]core.StepResult) (err error) {
	l.Snapshot.Once = results
	l.Run.Payload, err = l.Snapshot.Encode()
	return err
}

// KeptOnce returns the index of the step of an earlier playbook whose result a retry keeps for s, a
// step of now; -1 if it keeps none. The step has once in both, and calls the same.
func KeptOnce(before, now *playbooks.Playbook, s *playbooks.Step) int {
	step := slices.IndexFunc(before.Steps, func(b playbooks.Step) bool { return b.Once && b.Name == s.Name })
	if !s.Once || step < 0 {
		return -1
	}
	if call := now.Call(s); call == nil || !bytes.Equal(before.Call(&before.Steps[step]), call) {
		return -1
	}
	return step
}
