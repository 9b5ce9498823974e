package localrun

import (
	"context"
	"errors"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/playbooks"
)

// Learned returns how long the steps of a playbook took in earlier runs. It is a hint, so runs that
// cannot be read are left out.
func (r *Record) Learned(ctx context.Context, playbook string) *forecast.History {
	if r == nil {
		return &forecast.History{}
	}
	past, err := controller.Learned(ctx, r.Ledger, ledger.AllTenants(), playbook)
	if err != nil {
		return &forecast.History{}
	}
	return past
}

// need returns what earlier runs show of the time that steps need. They are read when it is first
// asked.
func (r *Record) need(ctx context.Context) func(playbook, step, uses string) (time.Duration, bool) {
	known := map[string]*forecast.History{}
	return func(playbook, step, uses string) (time.Duration, bool) {
		past := known[playbook]
		if past == nil {
			past = r.Learned(ctx, playbook)
			known[playbook] = past
		}
		return past.Need(step, uses)
	}
}

// facts returns what the record has of hosts, for targets that read it; nil without a record.
func (r *Record) facts(ctx context.Context, p *playbooks.Playbook) (func(core.Host) (core.Facts, bool), error) {
	if r == nil {
		return nil, nil //nolint:nilnil // as launch.Options has it
	}
	return controller.FactsOnRecord(ctx, r.Ledger, ledger.AllTenants(), p, nil)
}

// lastFailed are the hosts that did not succeed in the last run of a playbook.
func (r *Record) lastFailed(ctx context.Context, playbook string) (map[string]bool, error) {
	err := core.ErrNotFound
	var hosts map[string]bool
	if r != nil {
		hosts, err = controller.LastFailed(ctx, r.Ledger, ledger.AllTenants(), playbook)
	}
	if errors.Is(err, core.ErrNotFound) {
		return nil, console.Invalid("--retry-failed: no earlier run of %q is recorded here", playbook)
	}
	return hosts, err
}

// keepOnce gives a retry of the last run the results of its steps with once.
func (r *Record) keepOnce(ctx context.Context, again *launch.Launch) error {
	return controller.KeepLastOnce(ctx, r.Ledger, ledger.AllTenants(), again)
}
