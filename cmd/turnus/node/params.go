package node

import (
	"context"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

// AskJobTypes returns a playbooks.Options.Ask. A plugin that gives no answer is one problem, and is
// asked nothing more.
func AskJobTypes(ctx context.Context, sup *host.Supervisor) func(uses string, params []byte) ([]playbooks.ParamProblem, error) {
	silent := map[string]bool{}
	return func(uses string, params []byte) ([]playbooks.ParamProblem, error) {
		t, _ := sup.Type(uses)
		if silent[t.Plugin] {
			return nil, nil
		}
		found, err := sup.Validate(ctx, uses, params)
		silent[t.Plugin] = err != nil
		return core.Map(found, func(f host.ParamProblem) playbooks.ParamProblem { return playbooks.ParamProblem(f) }), err
	}
}
