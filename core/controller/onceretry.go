package controller

import (
	"context"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/snapshot"
)

// KeepOnceResults gives a retry the results of steps with once that the earlier run called, and
// that call the same now. Call it before the retry is accepted.
func KeepOnceResults(ctx context.Context, from *ledger.Ledger, run *ledger.Run, before, again *launch.Launch) error {
	if again.Snapshot.Once == nil || before.Snapshot.Check != again.Snapshot.Check {
		return nil
	}
	known, err := from.Once(ctx, run)
	if err != nil {
		return err
	}
	results := map[string]core.StepResult{}
	for i := range again.Playbook.Steps {
		s := &again.Playbook.Steps[i]
		step := launch.KeptOnce(before.Playbook, again.Playbook, s)
		if step < 0 {
			continue
		}
		if r, kept := before.Snapshot.Once[s.Name]; kept {
			results[s.Name] = r
		}
		if !slices.ContainsFunc(known, func(o ledger.OnceStep) bool { return o.Step == step && o.Known }) {
			continue
		}
		data, err := from.OnceResult(ctx, run, step)
		if err != nil {
			return err
		}
		o, err := snapshot.DecodeOnce(data)
		if err != nil {
			return err
		}
		results[s.Name] = o.ForOthers(nil, run.ID)
	}
	if len(results) == 0 {
		return nil
	}
	return again.SetOnce(results)
}
