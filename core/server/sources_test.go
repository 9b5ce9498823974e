package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/core/ledger"
)

// sourceHosts is how many hosts the source of a bed has after hold.
const sourceHosts = 20

// cmdb is a source of acme.
func cmdb() sources.Source {
	return sources.Source{Name: "acme-cmdb", Kind: sources.Exec, Program: "list", Tenant: "acme", Every: time.Hour, MaxAge: 24 * time.Hour, Rules: sources.Rules{Removed: 5}}
}

type fetch = func(context.Context, sources.Source) (*sources.Generation, error)

// gives is a source with so many hosts. The first is another tenant's, so that it is left out.
func gives(hosts int) fetch {
	return func(_ context.Context, s sources.Source) (*sources.Generation, error) {
		all := map[string]any{"foreign": map[string]any{"customer": "globex"}}
		for i := 1; i < hosts; i++ {
			all[fmt.Sprintf("acme-n%d", i)] = map[string]any{"vars": map[string]any{"rack": i}, "groups": []string{"racks"}}
		}
		body, err := json.Marshal(map[string]any{"hosts": all})
		return &sources.Generation{Source: s.Name, Fetched: time.Now().UTC(), Body: string(body)}, err
	}
}

// keep fetches the source of a bed as if it was some time ago.
func keep(t testing.TB, l *ledger.Ledger, ago time.Duration, ask fetch) sources.State {
	t.Helper()
	k := &sources.Keeper{Ledger: l, Shared: true, Fetch: func(ctx context.Context, s sources.Source) (*sources.Generation, error) {
		g, err := ask(ctx, s)
		if err == nil {
			g.Fetched = g.Fetched.Add(-ago)
		}
		return g, err
	}}
	st, err := k.Refresh(t.Context(), cmdb())
	must(t, err)
	return st
}

// hold has a server fetch its source, and then hold one with fewer hosts, whose id it returns.
func (b *bed) hold() string {
	b.t.Helper()
	keep(b.t, b.ledger, 0, gives(sourceHosts))
	return keep(b.t, b.ledger, 0, gives(sourceHosts/2)).Waiting.ID
}

func TestASourceThroughTheAPI(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	held := b.hold()
	b.work()
	viewer, approver := b.token("acme", Viewer), b.token("acme", Approver)
	show := func() api.Source {
		return want[api.Source](t, b.ask(viewer, "GET", "/v1/sources/acme-cmdb", nil), http.StatusOK)
	}
	until(t, "the server has the hosts", func() bool { return show().State == "waiting" })
	if s := show(); s.Hosts != sourceHosts || s.Waiting.Generation != held || s.Waiting.Hosts != sourceHosts/2 || s.Type != "exec" || s.Every != 3600 {
		t.Errorf("%+v", s)
	}
	if d := want[api.SourceDiff](t, b.ask(viewer, "GET", "/v1/sources/acme-cmdb/diff", nil), http.StatusOK); len(d.Removed) != sourceHosts/2 || len(d.Added)+len(d.Changed) != 0 {
		t.Errorf("%+v", d)
	}
	run := want[api.Run](t, b.ask(b.token(everyTenant, Operator), "POST", "/v1/runs", api.NewRun{Playbook: "everywhere"}), http.StatusCreated)
	if run.Total != 5+sourceHosts {
		t.Errorf("a run while it waits has %d hosts", run.Total)
	}
	shown := want[api.Run](t, b.ask(b.token(everyTenant, Viewer), "GET", "/v1/runs/"+run.ID, nil), http.StatusOK)
	if s := shown.Sources; len(s) != 1 || s[0].Source != "acme-cmdb" || s[0].Hosts != sourceHosts-1 || s[0].Generation != show().Generation || s[0].Age != core.InSeconds(run.Created.Sub(s[0].Good)) {
		t.Errorf("the run was launched with %+v", s)
	}
	origins := want[struct{ Items []api.Origin }](t, b.ask(b.token("acme", Operator), "GET", "/v1/hosts/acme-n3/origins", nil), http.StatusOK).Items
	if !strings.Contains(fmt.Sprint(origins), "{vars.rack 3 host source acme-cmdb:1:") || !strings.Contains(fmt.Sprint(origins), "{customer acme") {
		t.Errorf("%+v", origins)
	}
	if a := b.ask(approver, "POST", "/v1/sources/acme-cmdb/approve", api.ApproveSource{Generation: "sha256:00"}); a.status != http.StatusConflict || !strings.Contains(a.body, "turnus inventory diff acme-cmdb") {
		t.Errorf("another generation: %+v", a)
	}
	if s := want[api.Source](t, b.ask(approver, "POST", "/v1/sources/acme-cmdb/approve", api.ApproveSource{Generation: held}), http.StatusOK); s.State != "good" || s.Hosts != sourceHosts/2 {
		t.Errorf("approved: %+v", s)
	}
	if run := want[api.Run](t, b.ask(b.token(everyTenant, Operator), "POST", "/v1/runs", api.NewRun{Playbook: "everywhere"}), http.StatusCreated); run.Total != 5+sourceHosts/2 {
		t.Errorf("a run after it has %d hosts", run.Total)
	}
}

// A source that has given nothing for longer than max_age refuses launches with a type that
// programs can read.
func TestAStaleSourceIsAProblemWithAType(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	keep(t, b.ledger, 25*time.Hour, gives(sourceHosts))
	b.work()
	viewer := b.token("acme", Viewer)
	until(t, "the server has the hosts", func() bool {
		return want[api.Source](t, b.ask(viewer, "GET", "/v1/sources/acme-cmdb", nil), http.StatusOK).Hosts == sourceHosts
	})
	if s := want[api.Source](t, b.ask(viewer, "GET", "/v1/sources/acme-cmdb", nil), http.StatusOK); s.State != "refused" || s.ReasonCode != core.SourceStale {
		t.Errorf("%+v", s)
	}
	a := b.ask(b.token(everyTenant, Operator), "POST", "/v1/runs", api.NewRun{Playbook: "everywhere"})
	if a.status != http.StatusConflict || !strings.Contains(a.body, `"urn:turnus:reason:source_stale"`) || !strings.Contains(a.body, "older than max_age") {
		t.Errorf("%d %s", a.status, a.body)
	}
	run := want[api.Run](t, b.ask(b.token("globex", Operator), "POST", "/v1/runs", api.NewRun{Playbook: "globex-patch"}), http.StatusCreated)
	if run.Sources != nil {
		t.Errorf("a run on hosts of the project has %+v", run.Sources)
	}
}
