package worker

import (
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

// scope makes known what the expressions of a call may read of includes and of error: the results
// of those whose steps have ended, and the params of those around the call. The first done steps
// have ended. All of it follows from the results of steps alone, so another worker that continues
// the job finds the same.
func (m *machine) scope(done int, around []int) error {
	blocks := m.prog.playbook.Blocks
	for ; m.walked <= done; m.walked++ {
		for i := range slices.Backward(blocks) { // the inner before the outer
			if blocks[i].End == m.walked {
				if err := m.publishBlock(i); err != nil {
					return err
				}
			}
		}
		for i := range blocks {
			if b := &blocks[i]; b.First == m.walked && m.state.Entered[b.Name] {
				m.env.Error = m.failedBefore(m.walked)
				if err := m.give(b); err != nil {
					return err
				}
			}
		}
	}
	m.env.Error = m.failedBefore(done)
	for _, i := range around {
		if err := m.give(&blocks[i]); err != nil {
			return err
		}
	}
	return nil
}

// give makes the params of an include known.
func (m *machine) give(b *playbooks.Block) error {
	if b.Group() || m.env.Included[b.Name] != nil {
		return nil
	}
	given, err := b.Given(m.env)
	if err != nil {
		return err
	}
	if m.env.Included == nil {
		m.env.Included = map[string]map[string]any{}
	}
	m.env.Included[b.Name] = given
	return nil
}

// publishBlock lets later expressions read an include or a group whose steps have ended.
func (m *machine) publishBlock(index int) error {
	b := &m.prog.playbook.Blocks[index]
	outcome, outputs := blockOutcome(m.state.Done[b.First:b.End]), map[string]any{}
	if b.Group() {
		outcome = m.course().outcome(index)
	}
	if m.state.Entered[b.Name] {
		var err error
		if outputs, err = b.Outputs(m.env); err != nil {
			return err
		}
	}
	m.env.Steps[b.Name] = map[string]any{"outcome": string(outcome), "changed": outcome == core.Changed, "outputs": outputs}
	return nil
}

// blockOutcome is the worst outcome of steps.
func blockOutcome(steps []core.StepResult) core.Outcome {
	out := core.Skipped
	for _, s := range steps {
		if severity(s.Outcome) > severity(out) {
			out = s.Outcome
		}
	}
	return out
}

// enter asks the when of each block around a step that was not asked yet. It returns the result of
// the step where it has one without being called; nil where it may be.
func (m *machine) enter(s playbooks.Step, sr core.StepResult) *core.StepResult {
	for i, index := range s.Within {
		b := &m.prog.playbook.Blocks[index]
		entered, asked := m.state.Entered[b.Name]
		lacking := b.When.Lacking(m.lacks)
		if lacking != "" {
			sr = uncheck(sr, "when of "+b.Name, lacking)
			return &sr
		}
		if !asked {
			err := m.scope(len(m.state.Done), s.Within[:i])
			if err == nil {
				m.env.Item = nil
				entered, err = b.When.Bool(m.env)
			}
			if err != nil {
				sr = fail(sr, core.BadExpression, err.Error())
				return &sr
			}
			if m.state.Entered == nil {
				m.state.Entered = map[string]bool{}
			}
			m.state.Entered[b.Name] = entered
		}
		if !entered {
			sr = skip(sr, core.WhenFalse, fmt.Sprintf("when of %s: %s", b.Name, b.When.Text))
			return &sr
		}
	}
	return nil
}
