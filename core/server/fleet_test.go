package server

import (
	"net/http"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// The fleet is the caller's hosts, with what ran last on each; also a run of another tenant does
// not show.
func TestFleet(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.launch("acme", api.NewRun{})
	b.finish(run)
	fleet := func(tenant, query string) map[string]api.FleetHost {
		all := map[string]api.FleetHost{}
		for _, h := range want[struct{ Items []api.FleetHost }](t, b.ask(b.token(tenant, Viewer), "GET", "/v1/fleet"+query, nil), http.StatusOK).Items {
			all[h.Name] = h
		}
		return all
	}
	all := fleet(everyTenant, "")
	if len(all) != 6 || all["acme-1"].Outcome != core.Failed || all["acme-2"].Outcome != core.Changed || all["acme-2"].Run != run.ID || all["acme-2"].Index != 1 || all["acme-2"].Ended.IsZero() || all["acme-2"].Playbook != "acme-patch" {
		t.Errorf("%+v", all)
	}
	if h := all["globex-1"]; h.Outcome != "" || h.Run != "" || !h.Ended.IsZero() {
		t.Errorf("nothing ran on it: %+v", h)
	}
	if own := fleet("globex", ""); len(own) != 3 || own["globex-1"].Customer != "globex" {
		t.Errorf("%+v", own)
	}
	if some := fleet(everyTenant, "?customer=acme"); len(some) != 3 {
		t.Errorf("%+v", some)
	}
	if none := fleet("globex", "?customer=acme"); len(none) != 0 {
		t.Errorf("another tenant's: %+v", none)
	}
	if page := fleet(everyTenant, "?limit=2&cursor=acme-2"); len(page) != 2 || page["acme-3"].Name == "" {
		t.Errorf("%+v", page)
	}
}
