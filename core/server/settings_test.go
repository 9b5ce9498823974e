package server

import (
	"net/http"
	"slices"
	"testing"

	"github.com/turnus/turnus/core/api"
)

// Admins of all tenants read the settings of the server, and nobody else does.
func TestSettingsAreForAdminsOfAllTenants(t *testing.T) {
	t.Parallel()
	given := []api.Setting{{Name: "ledger", Value: "postgres://turnus:…@db/turnus", From: "file", Where: "server.yaml:3", Variable: "TURNUS_LEDGER"}}
	b := newBed(t, func(c *Config) { c.Settings = given })
	got := want[struct{ Items []api.Setting }](t, b.ask(b.token(everyTenant, Admin), "GET", "/v1/settings", nil), http.StatusOK)
	if !slices.Equal(got.Items, given) {
		t.Errorf("got %+v", got.Items)
	}
	for tenant, role := range map[string]Role{"acme": Admin, everyTenant: Operator} {
		if a := b.ask(b.token(tenant, role), "GET", "/v1/settings", nil); a.status != http.StatusForbidden {
			t.Errorf("%s of %s: %d %s", role, tenant, a.status, a.body)
		}
	}
}
