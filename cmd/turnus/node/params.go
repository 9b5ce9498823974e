package node

import (
	"context"
	"encoding/json"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

// AskJobTypes asks the job types of playbooks about the params that hold no expression.
func AskJobTypes(ctx context.Context, sup *host.Supervisor, all []*playbooks.Playbook) (problems, warnings playbooks.Diagnostics) {
	v := sup.Validator()
	for _, b := range all {
		bad, odd := b.CheckParams(func(uses string, params json.RawMessage) ([]playbooks.ParamProblem, error) {
			found, err := v.Validate(ctx, uses, params)
			out := core.Map(found, func(f host.ParamProblem) playbooks.ParamProblem { return playbooks.ParamProblem(f) })
			return out, err
		})
		problems, warnings = append(problems, bad...), append(warnings, odd...)
	}
	if err := v.Close(); err != nil {
		warnings = append(warnings, playbooks.Diagnostic{File: "plugins", Message: err.Error()})
	}
	return problems, warnings
}
