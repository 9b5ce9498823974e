package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
)

// No launch at a service of pool eu has a host of pool us.
func TestFaultW5AServiceLaunchesOnHostsOfItsPoolOnly(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(c *Config) { c.Pool = "eu" })
	provider := b.token(everyTenant, Operator)
	moved := func(pool string) map[string]string {
		next := tree()
		next["inventory/hosts.yaml"] = strings.Replace(next["inventory/hosts.yaml"], "acme-1: {", "acme-1: {pool: "+pool+", ", 1)
		return next
	}
	runs := func() int {
		return len(want[struct{ Items []api.Run }](t, b.ask(provider, "GET", "/v1/runs", nil), http.StatusOK).Items)
	}
	refused := func(what string, a answer, before int) {
		t.Helper()
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, "acme-1") || !strings.Contains(a.body, "--pool us") {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
		if n := runs(); n != before {
			t.Errorf("%s: %d runs, expected %d", what, n, before)
		}
	}
	b.apply(moved("eu"))
	run := b.launch("acme", api.NewRun{}) // control: its own pool, and hosts without one
	b.finish(run)
	b.apply(moved("us"))
	refused("retry", b.ask(provider, "POST", "/v1/runs/"+run.ID+"/retry", api.Retry{}), 1)
	refused("submit", b.ask(provider, "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch"}), 1)
	if a := b.ask(provider, "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch", LaunchOptions: api.LaunchOptions{Limit: []string{"acme-2"}}}); a.status != http.StatusCreated {
		t.Errorf("the others: %d %s", a.status, a.body)
	}
}
