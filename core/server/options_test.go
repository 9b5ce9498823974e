package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts"
)

// shown is the view of one run for a token.
func (b *bed) shown(secret, run string) api.Run {
	b.t.Helper()
	return want[api.Run](b.t, b.ask(secret, "GET", "/v1/runs/"+run, nil), http.StatusOK)
}

// The view of a run has what it was launched with, before it is queued, after it was replaced, and
// after its end. Lists do not have it.
func TestARunShowsItsOptions(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	project := tree()
	project["playbooks/acme.yaml"] = strings.Replace(project["playbooks/acme.yaml"], "window: none\n", "window: none\nvars: {remark: none, db_password: none}\n", 1) + testparts.Params
	project["playbooks/acme.yaml"] = strings.Replace(project["playbooks/acme.yaml"], `schedule: {cron: "0 3 * * 1"}`, `schedule: {cron: "0 3 * * 1", params: {release: "1.0"}}`, 1)
	b.apply(project)
	viewer := b.token("acme", Viewer)
	options := api.LaunchOptions{
		Limit: []string{"acme-1", "acme-2"}, Params: map[string]any{"release": "1.10", "db": "shop.other"}, Vars: map[string]any{"remark": "for ticket 7", "db_password": "hunter2"},
		SkipTags: []string{"slow"}, MaxInFlight: 1, Check: true, Diff: true,
	}
	run := b.launch("acme", api.NewRun{LaunchOptions: options})
	rows := func() string { return fmt.Sprint(b.shown(viewer, run.ID).Options.Rows()) }
	all := "[{Limit [acme-1 acme-2]} {Params [db=shop.other release=1.10]} {Vars [remark=for ticket 7]} {Skipped tags [slow]} {Options [dry run diff at most 1 at the same time]} {Not shown [vars.db_password]}]"
	if got := rows(); got != all {
		t.Errorf("%s\nexpected\n%s", got, all)
	}
	for _, path := range []string{"/v1/runs", "/v1/runs/" + run.ID} {
		if a := b.ask(viewer, "GET", path, nil); strings.Contains(a.body, "hunter2") || path == "/v1/runs" && strings.Contains(a.body, `"options"`) {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	run = want[api.Run](t, b.ask(b.token("acme", Operator), "PUT", "/v1/runs/"+run.ID, api.NewRun{Playbook: "acme-patch", LaunchOptions: api.LaunchOptions{Params: map[string]any{"release": "2.0"}}}), http.StatusOK)
	for _, when := range []string{"before", "after"} {
		if got := rows(); got != "[{Params [release=2.0]}]" {
			t.Errorf("replaced, %s its end: %s", when, got)
		}
		if when == "before" {
			b.finish(run)
		}
	}
	again := want[api.Run](t, b.ask(b.token("acme", Operator), "POST", "/v1/runs/"+run.ID+"/retry", api.Retry{}), http.StatusCreated)
	if o := b.shown(viewer, again.ID).Options; o.Retry != run.ID || o.From != "" || len(o.Limit) > 0 {
		t.Errorf("a retry: %+v", o)
	}
}

// A limit of a launcher of all tenants may name hosts of others: a reader of one tenant does not
// see it. Controls: a reader of all tenants does, and both see the limit of the tenant's launcher.
func TestATenantDoesNotSeeTheLimitOfAll(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	n := api.NewRun{Playbook: "acme-patch", LaunchOptions: api.LaunchOptions{Limit: []string{"acme-1", "globex-1"}}}
	foreign := want[api.Run](t, b.ask(b.token(everyTenant, Operator), "POST", "/v1/runs", n), http.StatusCreated)
	own := b.launch("acme", api.NewRun{LaunchOptions: api.LaunchOptions{Limit: []string{"acme-1"}}})
	for _, c := range []struct {
		tenant, run string
		limit, left []string
	}{
		{"acme", foreign.ID, nil, []string{"limit"}},
		{everyTenant, foreign.ID, n.Limit, nil},
		{"acme", foreign.ID, nil, []string{"limit"}}, // also after that
		{"acme", own.ID, []string{"acme-1"}, nil},
		{everyTenant, own.ID, []string{"acme-1"}, nil},
	} {
		a := b.ask(b.token(c.tenant, Viewer), "GET", "/v1/runs/"+c.run, nil)
		if o := want[api.Run](t, a, http.StatusOK).Options; !slices.Equal(o.Limit, c.limit) || !slices.Equal(o.LeftOut, c.left) {
			t.Errorf("%s reads %s: %+v", c.tenant, c.run, o)
		}
		if strings.Contains(a.body, "globex") != (c.tenant == everyTenant && c.run == foreign.ID) {
			t.Errorf("%s reads %s: %s", c.tenant, c.run, a.body)
		}
	}
}

// The kind of a run comes from its launch, and not from the name of its playbook.
func TestKindOfARun(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	kinds := map[string]string{}
	add := func(run api.Run, kind string) { kinds[run.ID] = kind }
	operator := b.token("acme", Operator, api.PermitExec)
	add(want[api.Run](t, b.ask(operator, "POST", "/v1/hostkeys", api.NewKeyScan{Hosts: []string{"acme-1"}}), http.StatusCreated), api.KindHostKeys)
	add(want[api.Run](t, b.ask(operator, "POST", "/v1/exec", api.NewExec{Command: "date", Limit: []string{"acme-1"}, Needs: 300}), http.StatusCreated), api.KindExec)
	for _, name := range []string{"hostkeys", "exec", "acme-patch"} {
		project := tree()
		project["playbooks/acme.yaml"] = strings.Replace(project["playbooks/acme.yaml"], "playbook: acme-patch", "playbook: "+name, 1)
		b.apply(project)
		add(b.launch("acme", api.NewRun{Playbook: name}), "")
	}
	for run, kind := range kinds {
		if got := b.shown(b.token("acme", Viewer), run); got.Kind != kind || (got.Command != "") != (kind == api.KindExec) {
			t.Errorf("the run of %s has the kind %q, expected %q; command %q", got.Playbook, got.Kind, kind, got.Command)
		}
	}
}

// A run is disruptive as its plan is, and also if nobody can read what it was launched with. A dry
// run is not.
func TestDisruptiveRuns(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator := b.token("acme", Operator)
	for _, disruptive := range []bool{false, true} {
		project := tree()
		if disruptive {
			project["playbooks/acme.yaml"] = strings.Replace(project["playbooks/acme.yaml"], "uses: command, with", "uses: command, disruptive: true, with", 1)
		} else {
			project["playbooks/acme.yaml"] = strings.Replace(project["playbooks/acme.yaml"], "uses: command, with", "uses: command, disruptive: false, with", 1)
		}
		b.apply(project)
		for _, check := range []bool{false, true} {
			n := api.NewRun{Playbook: "acme-patch", LaunchOptions: api.LaunchOptions{Check: check}}
			plan := want[api.Plan](t, b.ask(operator, "POST", "/v1/plan", n), http.StatusOK)
			if run := b.shown(operator, b.launch("acme", n).ID); run.Disruptive != (disruptive && !check) || run.Disruptive != plan.Disruptive {
				t.Errorf("disruptive %v, check %v: the run is %v, its plan %v", disruptive, check, run.Disruptive, plan.Disruptive)
			}
		}
	}
	for _, check := range []bool{false, true} {
		id := fmt.Sprint("unreadable-", check)
		_, _, err := b.ledger.Accept(t.Context(), ledger.NewRun{ID: id, Tenant: "acme", Playbook: "p", LaunchedBy: "ann", Check: check, Snapshot: []byte("{}"), Queue: []byte("{}"), Jobs: []ledger.JobHost{{Host: "acme-1", Tenant: "acme"}}})
		must(t, err)
		for range 2 { // also from the cache
			if run := b.shown(operator, id); run.Disruptive == check || run.Options != nil {
				t.Errorf("check %v: %+v", check, run)
			}
		}
	}
}
