package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/launch"
)

// withSecret is tree with a secret that acme's playbook takes from path.
func withSecret(path string) map[string]string {
	t := tree()
	t["secrets.yaml"] = "secrets: {db: {vault: \"" + path + "#value\"}}\n"
	t["playbooks/acme.yaml"] = strings.Replace(t["playbooks/acme.yaml"], "with: {run: uptime}", "with: {run: uptime}, secrets: [db]", 1)
	return t
}

// apply puts a changed project in the place of the present one.
func (b *bed) apply(tree map[string]string) {
	b.t.Helper()
	_, err := b.cat.Apply(b.t.Context(), "test", documents(tree), definitions.Revision{}, catalog.AnyVersion)
	must(b.t, err)
}

// A retry is a launch of the project as it is now: what left the project, or the tenant, since the
// run before is not touched.
func TestFaultS4RetryKeepsToTheProjectAsItIsNow(t *testing.T) {
	t.Parallel()
	change := func(path, from, to string) func(map[string]string) {
		return func(tree map[string]string) { tree[path] = strings.Replace(tree[path], from, to, 1) }
	}
	const hosts, book = "inventory/hosts.yaml", "playbooks/acme.yaml"
	for name, c := range map[string]struct {
		change func(map[string]string)
		as     string // the tenant of the token that retries
		status int
		says   string
	}{
		"control: nothing changed":       {func(map[string]string) {}, "acme", http.StatusCreated, `"playbook_changed":false`},
		"host of another tenant":         {change(hosts, "192.0.2.1, customer: acme", "192.0.2.1, customer: globex"), "acme", http.StatusConflict, "acme-1"},
		"host of another, by provider":   {change(hosts, "192.0.2.1, customer: acme", "192.0.2.1, customer: globex"), everyTenant, http.StatusConflict, "acme-1"},
		"host removed":                   {change(hosts, "  acme-1: {", "  acme-9: {"), "acme", http.StatusConflict, "acme-1"},
		"playbook removed":               {change(book, "playbook: acme-patch", "playbook: acme-other"), "acme", http.StatusNotFound, "acme-patch"},
		"playbook of another tenant":     {change(book, "tenant: acme", "tenant: globex"), "acme", http.StatusNotFound, "acme-patch"},
		"of another tenant, by provider": {change(book, "tenant: acme", "tenant: globex"), everyTenant, http.StatusConflict, "globex"},
		"steps changed":                  {change(book, "run: uptime", "run: uptime -p"), "acme", http.StatusCreated, `"playbook_changed":true`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.apply(withSecret("kv/old"))
			run := b.launch("acme", api.NewRun{})
			b.finish(run) // acme-1 fails
			next := withSecret("kv/new")
			c.change(next)
			b.apply(next)
			a := b.ask(b.token(c.as, Operator), "POST", "/v1/runs/"+run.ID+"/retry", api.Retry{})
			if a.status != c.status || !strings.Contains(a.body, c.says) {
				t.Fatalf("%d %s, expected %d and %s", a.status, a.body, c.status, c.says)
			}
			if runs := want[struct{ Items []api.Run }](t, b.ask(b.token(everyTenant, Viewer), "GET", "/v1/runs", nil), http.StatusOK).Items; a.status != http.StatusCreated && len(runs) != 1 {
				t.Fatalf("a refused retry left a run: %+v", runs)
			}
		})
	}
}

// A host gets today's values by a retry: steps, address, SSH settings and references to secrets.
func TestFaultS4RetryTakesTodaysAddressesSettingsAndSecrets(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.apply(withSecret("kv/old"))
	run := b.launch("acme", api.NewRun{LaunchOptions: api.LaunchOptions{MaxInFlight: 2}})
	b.finish(run)
	next := withSecret("kv/new")
	next["inventory/hosts.yaml"] = strings.Replace(next["inventory/hosts.yaml"], "address: 192.0.2.1,", "address: 192.0.2.77, user: fresh,", 1)
	next["playbooks/acme.yaml"] = strings.Replace(next["playbooks/acme.yaml"], "run: uptime", "run: uptime -p", 1)
	b.apply(next)
	again := want[api.Run](t, b.ask(b.token("acme", Operator), "POST", "/v1/runs/"+run.ID+"/retry", api.Retry{}), http.StatusCreated)
	m, err := b.ledger.Material(t.Context(), again.ID)
	must(t, err)
	l, err := (&launch.Restorer{}).Restore(m.Snapshot, m.Queue)
	must(t, err)
	if len(l.Hosts) != 1 || l.Hosts[0].Address != "192.0.2.77" || l.Hosts[0].SSH.User != "fresh" {
		t.Errorf("hosts: %+v", l.Hosts)
	}
	if !strings.Contains(l.Snapshot.Source, "uptime -p") || l.Run.MaxInFlight != 2 {
		t.Errorf("%d at the same time of %s", l.Run.MaxInFlight, l.Snapshot.Source)
	}
	if ref := l.Snapshot.Secrets["db"]; ref.Vault != "kv/new#value" {
		t.Errorf("secret: %+v", ref)
	}
}
