package controller

import (
	"context"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/playbooks"
)

// FactsOnRecord returns what the ledger has of the hosts in scope, for launches of a playbook; nil
// where its targets and hosts() read no facts.
func FactsOnRecord(ctx context.Context, l *ledger.Ledger, s ledger.Scope, p *playbooks.Playbook) (func(core.Host) (core.Facts, bool), error) {
	if p.FactsAge == 0 {
		return nil, nil //nolint:nilnil // as launch.Options has it
	}
	all, err := l.AllFacts(ctx, s)
	if err != nil {
		return nil, err
	}
	type key struct{ tenant, host string }
	of := make(map[key]core.Facts, len(all))
	for _, f := range all {
		f.Values = launch.Exact(f.Values)
		of[key{f.Tenant, f.Host}] = f.Facts
	}
	return func(h core.Host) (core.Facts, bool) {
		f, ok := of[key{h.Customer, h.Name}]
		return f, ok
	}, nil
}
