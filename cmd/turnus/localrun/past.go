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

// lastRun is the last run of a playbook, which --retry-failed repeats in part.
func (r *Record) lastRun(ctx context.Context, playbook string) (run ledger.Run, err error) {
	err = core.ErrNotFound
	if r != nil {
		run, err = controller.LastRun(ctx, r.Ledger, ledger.AllTenants(), playbook)
	}
	if errors.Is(err, core.ErrNotFound) {
		return run, console.Invalid("--retry-failed: no earlier run of %q is recorded here", playbook)
	}
	return run, err
}

// keepOnce gives a retry of a run the results of its steps with once.
func (r *Record) keepOnce(ctx context.Context, run *ledger.Run, again *launch.Launch) error {
	return controller.KeepOnceOf(ctx, r.Ledger, run, again)
}
