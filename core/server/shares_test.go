package server

import (
	"net/http"
	"testing"

	"github.com/turnus/turnus/core/api"
)

// Tokens of all tenants see each tenant's share; one of a tenant sees its own waits, and of others
// only how many come first.
func TestShares(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.launch("acme", api.NewRun{})
	b.launch("globex", api.NewRun{})
	b.work()
	until(t, "both runs are in the queue", func() bool {
		load, err := b.queue.Load(t.Context(), 0)
		return err == nil && len(load.ByTenant) == 2
	})
	shares := func(tenant string) []api.Share {
		t.Helper()
		return want[struct{ Items []api.Share }](t, b.ask(b.token(tenant, Viewer), "GET", "/v1/shares", nil), http.StatusOK).Items
	}
	all := shares(everyTenant)
	if len(all) != 2 || all[0].Tenant != "acme" || all[1].Tenant != "globex" || all[0].Runs != 1 || all[0].Waiting != 3 || all[0].Weight != 1 {
		t.Errorf("%+v", all)
	}
	if own := shares("acme"); len(own) != 1 || own[0].Tenant != "acme" || own[0].Fair != 0 || own[0].Use != 0 || own[0].Waiting != 3 {
		t.Errorf("%+v", own)
	}
	if idle := shares("initech"); len(idle) != 1 || idle[0].Runs != 0 || idle[0].Weight != 1 {
		t.Errorf("%+v", idle)
	}
}
