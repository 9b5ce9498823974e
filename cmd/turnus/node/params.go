package node

import (
	"context"
	"encoding/json"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

// AskJobTypes asks the job types of playbooks about the params that hold no expression. A plugin
// that gives no answer is one problem, and is asked nothing more.
func AskJobTypes(ctx context.Context, sup *host.Supervisor, all []*playbooks.Playbook) (problems, warnings playbooks.Diagnostics) {
	silent := map[string]bool{}
	for _, b := range all {
		bad, odd := b.CheckParams(func(uses string, params json.RawMessage) ([]playbooks.ParamProblem, error) {
			t, _ := sup.Type(uses)
			if silent[t.Plugin] {
				return nil, nil
			}
			found, err := sup.Validate(ctx, uses, params)
			silent[t.Plugin] = err != nil
			return core.Map(found, func(f host.ParamProblem) playbooks.ParamProblem { return playbooks.ParamProblem(f) }), err
		})
		problems, warnings = append(problems, bad...), append(warnings, odd...)
	}
	return problems, warnings
}
