package controller_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/playbooks"
)

// factsOfMany fills a ledger with facts of hosts, and returns those hosts.
func factsOfMany(tb testing.TB, l *ledger.Ledger, n int) []core.Host {
	tb.Helper()
	hosts, run := make([]core.Host, n), ledger.NewRun{ID: "gather", Playbook: "gather", LaunchedBy: "ann", Snapshot: []byte("s"), Queue: []byte("q")}
	var outcomes []ledger.Outcome
	for i := range hosts {
		hosts[i] = core.Host{Name: fmt.Sprintf("web-%05d", i), Customer: "acme"}
		run.Jobs = append(run.Jobs, ledger.JobHost{Host: hosts[i].Name, Tenant: "acme"})
		family := []string{"debian", "redhat"}[i%2]
		outcomes = append(outcomes, ledger.Outcome{Index: i, Outcome: core.Unchanged, Attempt: 1, Facts: core.Gathered(map[string]any{
			"os":     map[string]any{"family": family, "id": family, "version": "13", "name": "Some Linux 13 (name)"},
			"kernel": map[string]any{"name": "Linux", "release": "6.12.41-amd64"}, "arch": "x86_64", "cpus": 4, "memory": 8192,
			"addresses": []any{"192.0.2.7", "2001:db8::7"}, "init": "systemd", "package_manager": "apt", "boot_id": "0d6a7d6c-4a4e-4b62-9a0c-7c4f8f0d1a11",
		}, time.Now())})
	}
	if _, _, err := l.Accept(tb.Context(), run); err != nil {
		tb.Fatal(err)
	}
	if got, err := l.Record(tb.Context(), ledger.Batch{Run: run.ID, Outcomes: outcomes}); err != nil || got[0].Err != nil {
		tb.Fatal(got, err)
	}
	return hosts
}

func byFacts(tb testing.TB, l *ledger.Ledger, scope ledger.Scope, hosts []core.Host, cache *controller.FactsCache) (*launch.Launch, error) {
	tb.Helper()
	p, err := playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: host.facts.os.family == \"debian\" && host.facts.cpus % 4 == 0\nsteps: [{uses: command, with: {run: date}}]\n"), playbooks.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	facts, err := controller.FactsOnRecord(tb.Context(), l, scope, p, cache)
	if err != nil {
		tb.Fatal(err)
	}
	return launch.Prepare(p, hosts, launch.Options{Facts: facts})
}

func openFacts(tb testing.TB) *ledger.Ledger {
	tb.Helper()
	l, err := ledger.Open(tb.Context(), "sqlite:"+filepath.Join(tb.TempDir(), "ledger.db"), ledger.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// A host is known by its name and tenant: facts of another tenant's host of the same name are not
// its own.
func TestTargetsByFactsOnRecord(t *testing.T) {
	t.Parallel()
	l := openFacts(t)
	hosts := append(factsOfMany(t, l, 6), core.Host{Name: "web-00002x", Customer: "acme"}, core.Host{Name: "new"})
	made, err := byFacts(t, l, ledger.AllTenants(), hosts, nil)
	if err != nil || len(made.Hosts) != 3 || fmt.Sprint(made.WithoutFacts) != "[web-00002x new]" || made.Repeatable() {
		t.Fatalf("%+v, %v", made, err)
	}
	if _, err := byFacts(t, l, ledger.AllTenants(), []core.Host{{Name: "web-00000", Customer: "other"}}, nil); err == nil {
		t.Error("a host had the facts of another tenant's")
	}
	if _, err := byFacts(t, l, ledger.Tenants("other"), hosts[:6], nil); err == nil {
		t.Error("facts out of scope were read")
	}
}

// Facts that are kept from an earlier launch are those of the record: other ones replace them, and
// a scope shows its own only. The control: equal facts are not decoded again.
func TestKeptFactsAreThoseOnRecord(t *testing.T) {
	t.Parallel()
	l := openFacts(t)
	hosts := factsOfMany(t, l, 6)
	var cache controller.FactsCache
	selected := func(scope ledger.Scope) string {
		t.Helper()
		made, err := byFacts(t, l, scope, hosts, &cache)
		if err != nil {
			return "none"
		}
		names := ""
		for _, h := range made.Hosts {
			names += h.Name + " "
		}
		return names
	}
	for range 2 {
		if got := selected(ledger.AllTenants()); got != "web-00000 web-00002 web-00004 " {
			t.Fatalf("selected %s", got)
		}
	}
	if got := selected(ledger.Tenants("other")); got != "none" {
		t.Errorf("another tenant's scope selects %s", got)
	}
	again := ledger.NewRun{ID: "again", Playbook: "gather", LaunchedBy: "ann", Snapshot: []byte("s"), Queue: []byte("q"), Jobs: []ledger.JobHost{{Host: hosts[1].Name, Tenant: "acme"}, {Host: hosts[2].Name, Tenant: "acme"}}}
	if _, _, err := l.Accept(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	var outcomes []ledger.Outcome
	for i, family := range []string{"debian", "redhat"} {
		outcomes = append(outcomes, ledger.Outcome{Index: i, Outcome: core.Unchanged, Attempt: 1, Facts: core.Gathered(map[string]any{"os": map[string]any{"family": family}, "cpus": 4}, time.Now())})
	}
	if got, err := l.Record(t.Context(), ledger.Batch{Run: again.ID, Outcomes: outcomes}); err != nil || got[0].Err != nil {
		t.Fatal(got, err)
	}
	if got := selected(ledger.AllTenants()); got != "web-00000 web-00001 web-00004 " {
		t.Errorf("after new facts it selects %s", got)
	}
	p, err := playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: host.facts.cpus == 4\nsteps: [{uses: command, with: {run: date}}]\n"), playbooks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	decoded := func(cache *controller.FactsCache) uintptr {
		facts, err := controller.FactsOnRecord(t.Context(), l, ledger.AllTenants(), p, cache)
		if err != nil {
			t.Fatal(err)
		}
		of, _ := facts(hosts[0])
		return reflect.ValueOf(of.Values).Pointer()
	}
	if first, again := decoded(&cache), decoded(&cache); first != again {
		t.Error("the same facts are decoded again")
	}
	if first, again := decoded(nil), decoded(nil); first == again {
		t.Error("without a cache the values are kept: the test sees nothing")
	}
}

func BenchmarkTargetsOverFacts(b *testing.B) {
	l := openFacts(b)
	hosts := factsOfMany(b, l, 10_000)
	p, err := playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: host.facts.os.family == \"debian\"\nsteps: [{uses: command, with: {run: date}}]\n"), playbooks.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var cache controller.FactsCache
	for name, kept := range map[string]*controller.FactsCache{"read": nil, "read again": &cache} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := controller.FactsOnRecord(b.Context(), l, ledger.AllTenants(), p, kept); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	facts, err := controller.FactsOnRecord(b.Context(), l, ledger.AllTenants(), p, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("targets", func(b *testing.B) {
		for b.Loop() {
			for i := range hosts {
				f, _ := facts(hosts[i])
				h := hosts[i]
				h.Facts = f.Values
				if ok, err := p.Targets.Bool(playbooks.Env{Host: h}); err != nil || ok != (i%2 == 0) {
					b.Fatal(ok, err)
				}
			}
		}
	})
}
