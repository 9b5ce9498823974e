package server

import (
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
)

// launched restores the launch of a run.
func (b *bed) launched(run api.Run) *launch.Launch {
	b.t.Helper()
	m, err := b.ledger.Material(b.t.Context(), run.ID)
	must(b.t, err)
	l, err := (&launch.Restorer{}).Restore(m.Snapshot, m.Queue)
	must(b.t, err)
	return l
}

func (b *bed) runs() []api.Run {
	b.t.Helper()
	return want[struct{ Items []api.Run }](b.t, b.ask(b.token(everyTenant, Viewer), "GET", "/v1/runs", nil), http.StatusOK).Items
}

// Each refusal stands beside a control that differs in what is refused only.
func TestExecRights(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	keeps := api.NewExec{Command: "uptime", Limit: []string{"acme-1"}, Needs: 300}
	outside := api.NewExec{Command: "uptime", Limit: []string{"acme-1"}, OutsideWindows: true, Reason: "outage 7"}
	silent := outside
	silent.Reason = " "
	both := []api.Permission{api.PermitExec, api.PermitOutside}
	for _, c := range []struct {
		name     string
		tenant   string
		role     Role
		permits  []api.Permission
		exec     api.NewExec
		status   int
		says     string
		windowed bool // of a run that was made
	}{
		{"operator with the permission", "acme", Operator, both[:1], keeps, http.StatusCreated, "", true},
		{"operator without it", "acme", Operator, nil, keeps, http.StatusForbidden, "does not have the permission exec,", false},
		{"admin with it", "acme", Admin, both[:1], keeps, http.StatusCreated, "", true},
		{"admin without it", "acme", Admin, nil, keeps, http.StatusForbidden, "--exec", false},
		{"provider's admin without it", everyTenant, Admin, nil, keeps, http.StatusForbidden, "permission exec,", false},
		{"viewer with it", "acme", Viewer, both, keeps, http.StatusForbidden, "role viewer", false},
		{"of another tenant", "globex", Operator, both, keeps, http.StatusNotFound, "selects no host of yours", false},
		{"outside of windows with both", "acme", Operator, both, outside, http.StatusCreated, "", false},
		{"outside of windows with one", "acme", Operator, both[:1], outside, http.StatusForbidden, "permission exec-outside-windows", false},
		{"outside of windows with the second only", "acme", Operator, both[1:], outside, http.StatusForbidden, "permission exec,", false},
		{"outside of windows, admin", "acme", Admin, both[:1], outside, http.StatusForbidden, "permission exec-outside-windows", false},
		{"outside of windows without a reason", "acme", Operator, both, silent, http.StatusUnprocessableEntity, "no reason is given", false},
		{"provider", everyTenant, Operator, both[:1], keeps, http.StatusCreated, "", true},
	} {
		before := len(b.runs())
		a := b.ask(b.token(c.tenant, c.role, c.permits...), "POST", "/v1/exec", c.exec)
		if a.status != c.status || !strings.Contains(a.body, c.says) {
			t.Errorf("%s: %d %s, expected %d and %s", c.name, a.status, a.body, c.status, c.says)
			continue
		}
		if a.status != http.StatusCreated {
			if after := len(b.runs()); after != before {
				t.Errorf("%s: it is refused, and %d runs became %d", c.name, before, after)
			}
			continue
		}
		l := b.launched(want[api.Run](t, a, c.status))
		if (l.Snapshot.Windows != nil) != c.windowed {
			t.Errorf("%s: windows %+v", c.name, l.Snapshot.Windows)
		}
		if tenant := strings.TrimPrefix(c.tenant, everyTenant); l.Run.Tenant != tenant {
			t.Errorf("%s: the run is of tenant %q", c.name, l.Run.Tenant)
		}
	}
}

// A pattern reaches the hosts of the token's tenant; the provider's token is the control.
func TestExecReachesHostsOfTheTenantOnly(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, c := range []struct {
		tenant, limit string
		want          []string // none: 404
	}{
		{"acme", "all", []string{"acme-1", "acme-2", "acme-3"}},
		{"acme", "*-1", []string{"acme-1"}},
		{"acme", "acme-2,globex-2", []string{"acme-2"}},
		{"acme", "globex-1", nil},
		{"acme", "nobody", nil},
		{"globex", "*-1", []string{"globex-1"}},
		{everyTenant, "*-1", []string{"acme-1", "globex-1"}},
	} {
		a := b.ask(b.token(c.tenant, Operator, api.PermitExec, api.PermitOutside), "POST", "/v1/exec",
			api.NewExec{Command: "date", Limit: strings.Split(c.limit, ","), OutsideWindows: true, Reason: "test"})
		if len(c.want) == 0 {
			if a.status != http.StatusNotFound || strings.Contains(a.body, "globex-2") {
				t.Errorf("%s on %s: %d %s", c.tenant, c.limit, a.status, a.body)
			}
			continue
		}
		var hosts []string
		for _, h := range b.launched(want[api.Run](t, a, http.StatusCreated)).Hosts {
			hosts = append(hosts, h.Name)
		}
		if slices.Sort(hosts); !slices.Equal(hosts, c.want) {
			t.Errorf("%s on %s: %v, expected %v", c.tenant, c.limit, hosts, c.want)
		}
	}
}

func TestExecOptions(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator := b.token("acme", Operator, api.PermitExec)
	l := b.launched(want[api.Run](t, b.ask(operator, "POST", "/v1/exec", api.NewExec{
		Command: "echo ${{ secrets.db }}", Limit: []string{"acme-*"}, Needs: 300, Timeout: 30, StopAfter: "1", MaxInFlight: 2, Disruptive: true, SkipNoWindow: true,
	}), http.StatusCreated))
	line, ok := l.Snapshot.CommandLine()
	if step := l.Playbook.Steps[0]; !ok || line != "echo ${{ secrets.db }}" || step.Uses != "command" || l.Run.MaxInFlight != 2 || l.Run.StopAfter != 1 || !l.Run.Disruptive || len(l.Playbook.Steps) != 1 {
		t.Errorf("%q, %+v, %+v", line, step, l.Run)
	}
	for body, says := range map[string]string{
		`{"command": "date", "limit": ["acme-1"], "check": true}`:                                    "nobody knows what a command would change",
		`{"command": "date", "limit": ["acme-1"]}`:                                                   "needs_seconds in the API",
		`{"command": "date", "limit": ["acme-1"], "needs_seconds": "soon"}`:                          "expected number",
		`{"command": "date", "limit": ["acme-1"], "needs_seconds": 300, "timeout_seconds": -1}`:      "timeout_seconds",
		`{"command": "date", "limit": ["acme-1"], "needs_seconds": 300, "stop_after": "x"}`:          `stop_after \"x\"`,
		`{"command": "date", "limit": ["acme-1"], "needs_seconds": 172800}`:                          "no window",
		`{"command": " ", "limit": ["acme-1"], "needs_seconds": 300}`:                                "the command is empty",
		`{"command": "date", "limit": [], "needs_seconds": 300}`:                                     "limit",
		`{"command": "date", "needs_seconds": 300}`:                                                  "limit",
		`{"command": "date", "limit": ["@hosts"], "needs_seconds": 300}`:                             "@FILE",
		`{"command": "` + strings.Repeat("<", 20_000) + `", "limit": ["all"], "needs_seconds": 300}`: "audit log takes",
	} {
		a := b.ask(operator, "POST", "/v1/exec", body)
		if strings.Contains(body, "<<") { // its hosts have no approved window
			a = b.ask(b.token("acme", Operator, api.PermitExec, api.PermitOutside), "POST", "/v1/exec", strings.Replace(body, `"needs_seconds": 300`, `"outside_windows": true, "reason": "r"`, 1))
		}
		if a.status != http.StatusUnprocessableEntity && a.status != http.StatusNotFound || !strings.Contains(a.body, says) {
			t.Errorf("%.80s: %d %s, expected %s", body, a.status, a.body, says)
		}
	}
	if runs := b.runs(); len(runs) != 1 {
		t.Errorf("refused commands left runs: %d", len(runs))
	}
}

// The audit log has who ran what, why, and on how many hosts; another tenant does not see it.
func TestExecIsAudited(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := want[api.Run](t, b.ask(b.token("acme", Operator, api.PermitExec, api.PermitOutside), "POST", "/v1/exec",
		api.NewExec{Command: "systemctl restart nginx", Limit: []string{"acme-1", "acme-2"}, OutsideWindows: true, Reason: "ticket 12"}), http.StatusCreated)
	e := b.newestBy("acme/the operator", 0)
	if e.What != "run.exec" || e.Who != "acme/the operator" || e.Object != run.ID || e.Tenant != "acme" {
		t.Errorf("%+v", e)
	}
	for _, part := range []string{`"command":"systemctl restart nginx"`, `"launch_reason":"ticket 12"`, `"outside_windows":true`, `"jobs":2`} {
		if !strings.Contains(string(e.After), part) {
			t.Errorf("the entry has no %s: %s", part, e.After)
		}
	}
	if a := b.ask(b.token("globex", Viewer), "GET", "/v1/audit", nil); strings.Contains(a.body, "nginx") {
		t.Errorf("another tenant sees it: %s", a.body)
	}
	if shown := want[api.Run](t, b.ask(b.token("acme", Viewer), "GET", "/v1/runs/"+run.ID, nil), http.StatusOK); shown.Command != "systemctl restart nginx" {
		t.Errorf("the view of the run: %+v", shown)
	}
	if other := want[api.Run](t, b.ask(b.token("acme", Viewer), "GET", "/v1/runs/"+b.launch("acme", api.NewRun{}).ID, nil), http.StatusOK); other.Command != "" {
		t.Errorf("a run of a playbook has a command: %+v", other)
	}
	if _, err := b.ledger.VerifyAudit(t.Context()); err != nil {
		t.Error(err)
	}
}

// A command as another user needs a permission of its own and a reason; the run has the user, and
// a retry asks for the permission again. As the login is the control.
func TestExecBecome(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	on, off := true, false
	plain, root := b.token("acme", Operator, api.PermitExec, api.PermitOutside), b.token("acme", Operator, api.PermitExec, api.PermitBecome)
	asked := func(token string, become *bool, user, reason string) answer {
		return b.ask(token, "POST", "/v1/exec", api.NewExec{Command: "id -un", Limit: []string{"acme-1"}, Needs: 300, Become: become, BecomeUser: user, Reason: reason})
	}
	for _, c := range []struct {
		name, token  string
		become       *bool
		user, reason string
		status       int
		says         string
		want         *core.BecomeRule
	}{
		{"the login", plain, nil, "", "", http.StatusCreated, "", nil},
		{"the login despite the inventory", plain, &off, "", "", http.StatusCreated, "", &core.BecomeRule{}},
		{"root without the permission", plain, &on, "", "ticket 9", http.StatusForbidden, "NAME --role operator --exec-become", nil},
		{"a user without the permission", plain, nil, "app", "ticket 9", http.StatusForbidden, "permission exec-become", nil},
		{"a user despite false, without the permission", plain, &off, "app", "ticket 9", http.StatusForbidden, "permission exec-become", nil},
		{"root without exec", b.token("acme", Operator, api.PermitBecome), &on, "", "ticket 9", http.StatusForbidden, "permission exec,", nil},
		{"root without a reason", root, &on, "", " ", http.StatusUnprocessableEntity, "become: no reason is given", nil},
		{"a user that cannot be", root, nil, "-x", "ticket 9", http.StatusUnprocessableEntity, "become_user", nil},
		{"root", root, &on, "", "ticket 9", http.StatusCreated, "", &core.BecomeRule{On: true}},
		{"a user", root, nil, "app", "ticket 9", http.StatusCreated, "", &core.BecomeRule{On: true, User: "app"}},
	} {
		a := asked(c.token, c.become, c.user, c.reason)
		if a.status != c.status || !strings.Contains(a.body, c.says) {
			t.Errorf("%s: %d %s, expected %d and %s", c.name, a.status, a.body, c.status, c.says)
			continue
		}
		if a.status != http.StatusCreated {
			continue
		}
		run := want[api.Run](t, a, c.status)
		if got := b.launched(run).Snapshot.Become; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: the run has %+v, expected %+v", c.name, got, c.want)
		}
		becomes := c.want != nil && c.want.On
		shown := want[api.Run](t, b.ask(b.token("acme", Viewer), "GET", "/v1/runs/"+run.ID, nil), http.StatusOK)
		if shown.Become != becomes || shown.BecomeUser != c.user || shown.LaunchReason != c.reason {
			t.Errorf("%s: the view has %+v", c.name, shown)
		}
		entry := string(b.newestBy("acme/the operator", 0).After)
		if strings.Contains(entry, `"become":true`) != becomes || strings.Contains(entry, `"launch_reason":"ticket 9"`) != becomes {
			t.Errorf("%s: the audit log has %s", c.name, entry)
		}
		b.finish(run)
		again := b.ask(plain, "POST", "/v1/runs/"+run.ID+"/retry", api.Retry{})
		if wanted := map[bool]int{false: http.StatusCreated, true: http.StatusForbidden}[becomes]; again.status != wanted {
			t.Errorf("%s: a retry without the permission: %d %s, expected %d", c.name, again.status, again.body, wanted)
		}
		if !becomes {
			continue
		}
		retried := want[api.Run](t, b.ask(root, "POST", "/v1/runs/"+run.ID+"/retry", api.Retry{}), http.StatusCreated)
		entry = string(b.newestBy("acme/the operator", 0).After)
		if got := b.launched(retried).Snapshot.Become; !reflect.DeepEqual(got, c.want) || !strings.Contains(entry, `"become":true`) || !strings.Contains(entry, `"launch_reason":"ticket 9"`) {
			t.Errorf("%s: the retry has %+v, the audit log %s", c.name, got, entry)
		}
	}
}

// A key makes one run, and belongs to the command.
func TestExecWithAKey(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator := b.token("acme", Operator, api.PermitExec)
	n := api.NewExec{Command: "date", Limit: []string{"acme-1"}, Needs: 300}
	first := want[api.Run](t, b.ask(operator, "POST", "/v1/exec", n, "Idempotency-Key", "k"), http.StatusCreated)
	if again := want[api.Run](t, b.ask(operator, "POST", "/v1/exec", n, "Idempotency-Key", "k"), http.StatusCreated); again.ID != first.ID {
		t.Errorf("%s, then %s", first.ID, again.ID)
	}
	n.Command = "reboot"
	want[any](t, b.ask(operator, "POST", "/v1/exec", n, "Idempotency-Key", "k"), http.StatusConflict)
}

// A retry of a command asks for the right again, and keeps the windows of the hosts.
func TestExecRetry(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator, both := b.token("acme", Operator, api.PermitExec), b.token("acme", Operator, api.PermitExec, api.PermitOutside)
	kept := want[api.Run](t, b.ask(operator, "POST", "/v1/exec", api.NewExec{Command: "date", Limit: []string{"acme-1", "acme-2"}, Needs: 300, Timeout: 300, StopAfter: "10%", MaxInFlight: 1}), http.StatusCreated)
	outside := want[api.Run](t, b.ask(both, "POST", "/v1/exec", api.NewExec{Command: "date", Limit: []string{"acme-1"}, OutsideWindows: true, Reason: "outage"}), http.StatusCreated)
	b.finish(kept)
	b.finish(outside)
	if a := b.ask(b.token("acme", Admin), "POST", "/v1/runs/"+kept.ID+"/retry", api.Retry{}); a.status != http.StatusForbidden || !strings.Contains(a.body, "permission exec,") {
		t.Errorf("without the permission: %d %s", a.status, a.body)
	}
	again := want[api.Run](t, b.ask(operator, "POST", "/v1/runs/"+kept.ID+"/retry", api.Retry{}), http.StatusCreated)
	e := b.newestBy("acme/the operator", 0)
	before, now := b.launched(kept), b.launched(again)
	if len(now.Hosts) != 1 || now.Snapshot.Source != before.Snapshot.Source || now.Snapshot.Vars["command"] != "date" || now.Run.MaxInFlight != 1 || now.Snapshot.Windows == nil {
		t.Errorf("%d hosts, %+v", len(now.Hosts), now.Snapshot)
	}
	if again.Retried.PlaybookChanged || !strings.Contains(string(e.After), `"command":"date"`) || !strings.Contains(string(e.After), `"retry":"`+kept.ID) {
		t.Errorf("%+v, %s", again.Retried, e.After)
	}
	if a := b.ask(both, "POST", "/v1/runs/"+outside.ID+"/retry", api.Retry{}); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, "ran outside of windows") {
		t.Errorf("a retry outside of windows: %d %s", a.status, a.body)
	}
}

// A project's playbook named exec is another thing than a command: its retry launches the playbook,
// and commands are refused.
func TestExecBesideAPlaybookOfThatName(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	changed := tree()
	changed["playbooks/exec.yaml"] = "playbook: exec\ntenant: acme\ntargets: true\nwindow: none\nsteps: [{name: look, uses: command, with: {run: uptime}}]\n"
	b.apply(changed)
	run := b.launch("acme", api.NewRun{Playbook: "exec", LaunchOptions: api.LaunchOptions{Limit: []string{"acme-1"}}})
	b.finish(run)
	if again := want[api.Run](t, b.ask(b.token("acme", Operator), "POST", "/v1/runs/"+run.ID+"/retry", api.Retry{}), http.StatusCreated); again.Command != "" {
		t.Errorf("%+v", again)
	}
	a := b.ask(b.token("acme", Operator, api.PermitExec), "POST", "/v1/exec", api.NewExec{Command: "date", Limit: []string{"acme-1"}, Needs: 300})
	if a.status != http.StatusConflict || !strings.Contains(a.body, "rename the playbook") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// The provider's admin gives permissions; a tenant's admin gives only those that it has.
func TestWhoGivesPermissions(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	both := []api.Permission{api.PermitExec, api.PermitOutside}
	for _, c := range []struct {
		name   string
		by     string
		role   string
		gives  []api.Permission
		status int
	}{
		{"the provider's admin", b.token(everyTenant, Admin), "operator", both, http.StatusOK},
		{"a tenant's admin with it", b.token("acme", Admin, api.PermitExec), "operator", both[:1], http.StatusOK},
		{"a tenant's admin without it", b.token("acme", Admin), "operator", both[:1], http.StatusForbidden},
		{"a tenant's admin with one gives both", b.token("acme", Admin, api.PermitExec), "operator", both, http.StatusForbidden},
		{"to a viewer", b.token(everyTenant, Admin), "viewer", both[:1], http.StatusUnprocessableEntity},
		{"the second alone", b.token(everyTenant, Admin), "operator", both[1:], http.StatusUnprocessableEntity},
		{"the third alone", b.token(everyTenant, Admin), "operator", []api.Permission{api.PermitBecome}, http.StatusUnprocessableEntity},
		{"an unknown one", b.token(everyTenant, Admin), "operator", []api.Permission{"root"}, http.StatusUnprocessableEntity},
		{"none", b.token("acme", Admin), "operator", nil, http.StatusOK},
	} {
		a := b.ask(c.by, "POST", "/v1/tokens", api.NewToken{Name: "bob", Tenant: "acme", Role: c.role, Permissions: c.gives})
		if c.status == http.StatusOK && a.status == http.StatusCreated {
			made := want[api.Token](t, a, http.StatusCreated)
			who := want[api.Whoami](t, b.ask(made.Secret, "GET", "/v1/whoami", nil), http.StatusOK)
			if !slices.Equal(made.Permissions, c.gives) || made.Role != c.role || !slices.Equal(who.Roles, []string{c.role}) || !slices.Equal(who.Permissions, c.gives) {
				t.Errorf("%s: %+v, %+v", c.name, made, who)
			}
			continue
		}
		if a.status != c.status {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
	}
	tokens, _, err := b.ledger.Tokens(t.Context(), ledger.AllTenants(), ledger.TokenFilter{}, ledger.Page{Limit: 100})
	must(t, err)
	if n := len(slices.DeleteFunc(tokens, func(t ledger.Token) bool { return t.Name != "bob" })); n != 3 {
		t.Errorf("%d tokens were made", n)
	}
}
