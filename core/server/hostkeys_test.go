package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
)

// A scan takes the role operator, and reaches the named hosts of the token's tenant only. Each
// refusal has a control beside it.
func TestKeyScansReachHostsOfTheTenantOnly(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, c := range []struct {
		tenant string
		role   Role
		hosts  string
		status int
		want   string // hosts of the run
	}{
		{"acme", Operator, "acme-1", http.StatusCreated, "acme-1"},
		{"acme", Viewer, "acme-1", http.StatusForbidden, ""},
		{"acme", Operator, "globex-1", http.StatusNotFound, ""},
		{"acme", Operator, "nobody", http.StatusNotFound, ""},
		{"acme", Operator, "globex-1,acme-2,nobody,acme-1", http.StatusCreated, "acme-1,acme-2"},
		{"acme", Operator, "all,*,@hosts,192.0.2.1,acme", http.StatusNotFound, ""},
		{"globex", Operator, "globex-1", http.StatusCreated, "globex-1"},
		{everyTenant, Operator, "globex-1,acme-1", http.StatusCreated, "acme-1,globex-1"},
	} {
		before := len(b.runs())
		a := b.ask(b.token(c.tenant, c.role), "POST", "/v1/hostkeys", api.NewKeyScan{Hosts: strings.Split(c.hosts, ",")})
		if a.status != c.status {
			t.Errorf("%s %s on %s: %d %s, expected %d", c.tenant, c.role, c.hosts, a.status, a.body, c.status)
			continue
		}
		if c.status != http.StatusCreated {
			if after := len(b.runs()); after != before {
				t.Errorf("%s on %s: it is refused, and %d runs became %d", c.tenant, c.hosts, before, after)
			}
			continue
		}
		run := want[api.Run](t, a, c.status)
		l := b.launched(run)
		var hosts []string
		for _, h := range l.Hosts {
			hosts = append(hosts, h.Name)
		}
		slices.Sort(hosts)
		if got := strings.Join(hosts, ","); got != c.want || l.Run.Tenant != strings.TrimPrefix(c.tenant, everyTenant) {
			t.Errorf("%s on %s: hosts %s of tenant %q, expected %s", c.tenant, c.hosts, got, l.Run.Tenant, c.want)
		}
		if step := l.Playbook.Steps[0]; len(l.Playbook.Steps) != 1 || step.Uses != "hostkeys" || l.Run.Disruptive || len(l.Snapshot.Vars) > 0 {
			t.Errorf("%s: the run has %+v", c.hosts, l.Playbook.Steps)
		}
		if e := b.newestBy(run.LaunchedBy, 0); e.What != "run.accept" || e.Object != run.ID || !strings.Contains(string(e.After), `"playbook":"hostkeys"`) {
			t.Errorf("%s: the audit log has %+v", c.hosts, e)
		}
	}
}

// A scan is not retried, because the caller compares keys with those that a machine knows.
func TestKeyScansAreNotRetried(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator := b.token("acme", Operator)
	run := want[api.Run](t, b.ask(operator, "POST", "/v1/hostkeys", api.NewKeyScan{Hosts: []string{"acme-1"}}), http.StatusCreated)
	b.finish(run)
	if a := b.ask(operator, "POST", "/v1/runs/"+run.ID+"/retry", api.Retry{}); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, "turnus hostkeys scan") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A scan waits for another person's approval if the project demands four eyes of its tenant, or of
// the tenant of a host. Control: scans of another tenant do not.
func TestKeyScansUnderFourEyes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	project := tree()
	project["turnus.yaml"] = "four_eyes: [acme]\n"
	b.apply(project)
	for _, c := range []struct {
		tenant, host string
		phase        api.Phase
	}{{"acme", "acme-1", api.Approval}, {everyTenant, "acme-1", api.Approval}, {"globex", "globex-1", api.Queued}, {everyTenant, "globex-1", api.Queued}} {
		run := want[api.Run](t, b.ask(b.token(c.tenant, Operator), "POST", "/v1/hostkeys", api.NewKeyScan{Hosts: []string{c.host}}), http.StatusCreated)
		if run.Phase != c.phase {
			t.Errorf("%s scans %s: %s, expected %s", c.tenant, c.host, run.Phase, c.phase)
		}
		if c.phase == api.Approval {
			a := b.ask(b.token(c.tenant, Approver), "POST", "/v1/runs/"+run.ID+"/approve", api.Approve{Approve: true})
			if now := want[api.Run](t, a, http.StatusOK); now.Phase != api.Queued {
				t.Errorf("%s approves the scan of %s: %s", c.tenant, c.host, now.Phase)
			}
		}
	}
}
