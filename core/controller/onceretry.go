package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/playbooks"
)

// KeepOnceResults gives a retry the results of steps with once that the earlier run called, and
// that call the same now. Call it before the retry is accepted.
func KeepOnceResults(ctx context.Context, from *ledger.Ledger, run *ledger.Run, before, again *launch.Launch) error {
	if again.Snapshot.Once == nil || before.Snapshot.Check != again.Snapshot.Check || !sameJSON(before.Snapshot.Vars, again.Snapshot.Vars) {
		return nil
	}
	known, err := from.Once(ctx, run)
	if err != nil {
		return err
	}
	results := map[string]core.StepResult{}
	for _, s := range again.Playbook.Steps {
		step := slices.IndexFunc(before.Playbook.Steps, func(b playbooks.Step) bool { return launch.KeepsOnce(b, s) })
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
		o, err := launch.DecodeOnce(data)
		if err != nil {
			return err
		}
		results[s.Name] = o.ForOthers(again.Playbook, run.ID)
	}
	if len(results) == 0 {
		return nil
	}
	return again.SetOnce(results)
}

func sameJSON(a, b map[string]any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && (len(a) == 0 && len(b) == 0 || bytes.Equal(x, y))
}
