package worker

import (
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
)

// lacks reports whether a dry run has no result of a step, or no outputs of one that it did not
// run. A step that was skipped for another reason has none in a run either.
func (m *machine) lacks(step string, outputs bool) bool {
	if !m.prog.snapshot.Check {
		return false
	}
	unknown := func(r core.StepResult) bool {
		unrun := (r.Outcome == core.Changed || r.Outcome == core.Unchanged) && r.ExitCode == nil && r.Stdout == "" && !printed(r.Outputs)
		return r.ReasonCode == core.Unchecked || r.ReasonCode == core.NoCheckMode || outputs && unrun
	}
	for _, r := range m.state.Done {
		if r.Name == step {
			return unknown(r)
		}
	}
	for _, b := range m.prog.playbook.Blocks {
		if b.Name == step && b.First < len(m.state.Done) {
			return slices.ContainsFunc(m.state.Done[b.First:min(b.End, len(m.state.Done))], unknown)
		}
	}
	return false
}

// printed reports whether a step, or an item of one, has outputs.
func printed(outputs map[string]any) bool {
	items, isForeach := outputs["items"].([]any)
	if !isForeach {
		return len(outputs) > 0
	}
	return slices.ContainsFunc(items, func(item any) bool {
		one, _ := item.(map[string]any)
		of, _ := one["outputs"].(map[string]any)
		return len(of) > 0
	})
}

// uncheck is the result of a step that depends on a result which the dry run lacks. what is the
// part of the step.
func uncheck(sr core.StepResult, what, lacking string) core.StepResult {
	return skip(sr, core.Unchecked, fmt.Sprintf("%s reads the result of step %s, which a dry run does not have", what, lacking))
}
