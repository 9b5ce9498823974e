package server

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/playbooks"
)

// gatedTree is tree with a disruptive playbook of acme that waits for the windows of its hosts. Two
// have one each night, and the third one's need an approval.
func gatedTree() map[string]string {
	t := tree()
	t["playbooks/gated.yaml"] = "playbook: gated\ntenant: acme\ntargets: host.customer == \"acme\"\nwindow: service\nsteps: [{name: look, uses: command, needs: 30m, with: {run: reboot}}]\n"
	return t
}

// A plan shows what a run would do, and makes none. A run is refused where its hosts or its
// playbook are not those of the plan by then; control: without the hash it is not.
func TestPlan(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator := b.token("acme", Operator)
	run := api.NewRun{Playbook: "acme-patch"}
	plan := func() api.Plan { return want[api.Plan](t, b.ask(operator, "POST", "/v1/plan", run), http.StatusOK) }
	first := plan()
	if first.Hosts != 3 || first.Tenant != "acme" || len(first.Waves) != 2 || first.Waves[0].Total != 1 || len(first.Waves[1].Hosts) != 2 || first.Pause != "approve" || first.StopAfter != 3 || len(first.NoWindow) != 0 {
		t.Errorf("%+v", first)
	}
	if f := first.Forecast; f == nil || f.Run != "" || f.Hosts != 3 || !f.FinishP50.Before(f.FinishP90) {
		t.Errorf("%+v", f)
	}
	if again := plan(); again.Hash != first.Hash {
		t.Errorf("the same plan has the hash %s, and then %s", first.Hash, again.Hash)
	}
	if runs := want[struct{ Items []api.Run }](t, b.ask(operator, "GET", "/v1/runs", nil), http.StatusOK); len(runs.Items) != 0 {
		t.Errorf("a plan made a run: %+v", runs.Items)
	}
	launch := func(hash string, status int) {
		t.Helper()
		planned := run
		planned.Plan = hash
		if a := b.ask(operator, "POST", "/v1/runs", planned); a.status != status || status == http.StatusConflict && !strings.Contains(a.body, "plan it again") {
			t.Errorf("%d %s, expected %d", a.status, a.body, status)
		}
	}
	launch(first.Hash, http.StatusCreated)
	fewer := tree()
	fewer["inventory/hosts.yaml"] = strings.Replace(fewer["inventory/hosts.yaml"], "customer: acme", "customer: initech", 1)
	b.apply(fewer)
	launch(first.Hash, http.StatusConflict)
	launch("", http.StatusCreated)
	second := plan()
	if second.Hosts != 2 {
		t.Errorf("%+v", second)
	}
	launch(second.Hash, http.StatusCreated)
	fewer["playbooks/acme.yaml"] = strings.Replace(fewer["playbooks/acme.yaml"], "uptime", "reboot", 1)
	b.apply(fewer)
	launch(second.Hash, http.StatusConflict)
}

// Hosts that no window fits are listed, and the hash is that of a run that leaves them out.
func TestPlanOfWindows(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.apply(gatedTree())
	operator := b.token("acme", Operator)
	run := api.NewRun{Playbook: "gated"}
	plan := want[api.Plan](t, b.ask(operator, "POST", "/v1/plan", run), http.StatusOK)
	if plan.Hosts != 2 || !plan.Disruptive || len(plan.NoWindow) != 1 || plan.NoWindow[0].Host != "acme-3" || plan.NoWindow[0].Set != "acme-day" || plan.NoWindow[0].Reason == "" {
		t.Errorf("%+v", plan)
	}
	if w := plan.Windows; len(w) != 1 || w[0].Set != "acme-night" || w[0].Hosts != 2 || w[0].Need != 1800 || w[0].Starts.IsZero() != (w[0].StartsLocal == "") {
		t.Errorf("%+v", plan.Windows)
	}
	run.Plan = plan.Hash
	want[any](t, b.ask(operator, "POST", "/v1/runs", run), http.StatusUnprocessableEntity) // it must ask for that
	run.SkipUnfit = true                                                                   // its former name
	if got := want[api.Run](t, b.ask(operator, "POST", "/v1/runs", run), http.StatusCreated); got.Total != 2 {
		t.Errorf("%+v", got)
	}
	run.SkipUnfit, run.SkipNoWindow = false, true
	if got := want[api.Run](t, b.ask(operator, "POST", "/v1/runs", run), http.StatusCreated); got.Total != 2 {
		t.Errorf("%+v", got)
	}
	run.Limit = []string{"acme-3"}
	if none := want[api.Plan](t, b.ask(operator, "POST", "/v1/plan", run), http.StatusOK); none.Hosts != 0 || len(none.NoWindow) != 1 || none.Forecast != nil {
		t.Errorf("%+v", none)
	}
}

// A customer reads which work waits for the customer's windows, on the customer's hosts only.
func TestWorkOfWindows(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	project := gatedTree()
	project["playbooks/all.yaml"] = strings.NewReplacer("window: none", "window: service", "uses: command,", "uses: command, needs: 5m,").Replace(project["playbooks/all.yaml"])
	project["playbooks/undone.yaml"] = `playbook: undone
tenant: acme
targets: host.customer == "acme"
window: service
steps:
  - name: change
    steps: [{name: one, uses: command, needs: 5m, with: {run: reboot}}, {name: two, uses: command, needs: 5m, with: {run: reboot}}]
    rescue: [{name: back, uses: command, with: {run: revert}}]
`
	half := strings.NewReplacer("undone", "half", "rescue:", "always:").Replace(project["playbooks/undone.yaml"])
	project["playbooks/half.yaml"] = half + "  - name: more\n    steps: [{name: three, uses: command, needs: 5m, with: {run: reboot}}]\n    rescue: [{name: again, uses: command, with: {run: revert}}]\n"
	b.apply(project)
	for tenant, expected := range map[string][]api.WindowWork{
		"acme":   {{Playbook: "everywhere", Hosts: 1, Need: 300}, {Playbook: "gated", Hosts: 1, Need: 1800}, {Playbook: "half", Hosts: 1, Need: 900}, {Playbook: "undone", Hosts: 1, Need: 600, Rescue: true}},
		"globex": {{Playbook: "everywhere", Hosts: 1, Need: 300}},
	} {
		a := b.ask(b.token(tenant, Viewer), "GET", "/v1/approvals", nil)
		all := want[struct{ Items []api.WindowApproval }](t, a, http.StatusOK).Items
		if len(all) != 1 || string(asJSON(all[0].Work)) != string(asJSON(expected)) || !all[0].Decides || all[0].Timezone != "Europe/Berlin" {
			t.Errorf("%s: %s", tenant, a.body)
		}
	}
	set := want[api.WindowSet](t, b.ask(b.token("acme", Viewer), "GET", "/v1/windows/acme-night", nil), http.StatusOK)
	if len(set.Work) != 4 || set.Work[1].Hosts != 2 {
		t.Errorf("%+v", set.Work)
	}
	shared := gatedTree()
	shared["inventory/hosts.yaml"] = strings.ReplaceAll(shared["inventory/hosts.yaml"], "globex-day", "acme-day")
	b.apply(shared)
	if all := want[struct{ Items []api.WindowApproval }](t, b.ask(b.token("acme", Viewer), "GET", "/v1/approvals", nil), http.StatusOK).Items; len(all) != 1 || all[0].Decides {
		t.Errorf("a set that serves hosts of two tenants: %+v", all)
	}
}

// Work has the time that its waiting steps took, from recent runs of the playbook's tenant, once
// all of them were measured. Controls: runs of another tenant do not count, nor steps of another
// name. A request reads a bounded number of playbooks, and each again after some time only.
func TestWorkOfWindowsTook(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for range 4 { // of three hosts
		b.ended(b.launch("acme", api.NewRun{}), 9*time.Minute)
	}
	const step = "{name: look, uses: command, needs: 25m, with: {run: uptime}}"
	apply := func(tenant, steps string) {
		project := tree()
		project["playbooks/acme.yaml"] = "playbook: acme-patch\n" + tenant + "targets: host.customer == \"acme\"\nwindow: service\nsteps: [" + steps + "]\n"
		b.apply(project)
	}
	viewer := b.token("acme", Viewer)
	took := func() (all []core.Seconds) {
		for _, w := range want[api.WindowSet](t, b.ask(viewer, "GET", "/v1/windows/acme-night", nil), http.StatusOK).Work {
			all = append(all, w.Took)
		}
		for _, path := range []string{"/v1/windows", "/v1/approvals"} {
			for _, one := range want[struct {
				Items []struct{ Work []api.WindowWork }
			}](t, b.ask(viewer, "GET", path, nil), http.StatusOK).Items {
				for _, w := range one.Work {
					all = append(all, w.Took)
				}
			}
		}
		return all
	}
	for _, c := range []struct {
		name, tenant, steps string
		want                core.Seconds
	}{
		{"learned", "tenant: acme\n", step, 540},
		{"a step that was not measured", "tenant: acme\n", step + ", " + strings.Replace(step, "look", "more", 1), 0},
		{"of the provider", "", step, 0},
	} {
		apply(c.tenant, c.steps)
		if all := took(); !slices.Equal(all, []core.Seconds{c.want, c.want, c.want, c.want}) { // a set, two of a list, an approval
			t.Errorf("%s: %v, expected %v", c.name, all, c.want)
		}
	}
	apply("tenant: acme\n", step)
	for range 8 {
		b.ended(want[api.Run](t, b.ask(b.token("acme", Operator), "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch", SkipNoWindow: true}), http.StatusCreated), time.Minute)
	}
	if all := took(); all[0] != 540 {
		t.Errorf("read again within %v: %v", tookAge, all)
	}
	b.server.workTimes.mu.Lock()
	for key, one := range b.server.workTimes.kept {
		one.at = one.at.Add(-tookAge)
		b.server.workTimes.kept[key] = one
	}
	b.server.workTimes.mu.Unlock()
	if all := took(); all[0] == 540 {
		t.Errorf("not read again after %v: %v", tookAge, all)
	}
	none := 0
	if d := b.server.took(t.Context(), &wait{WindowWork: api.WindowWork{Playbook: "acme-patch"}, tenant: "acme", steps: []int{0}, calls: []playbooks.Step{{Name: "look", Uses: "other"}}}, &none); d != 0 || none != 0 {
		t.Errorf("beyond the bound of a request: %v, %d", d, none)
	}
}

// A job type that undoes its own failure needs no rescue. Controls: it undoes no earlier step, no
// earlier item, and nothing with the param that excludes it; another type undoes nothing.
func TestWorkThatUndoesItsFailure(t *testing.T) {
	t.Parallel()
	types := map[string]playbooks.Type{
		"command": {Disruptive: true}, "firewall.push": {Disruptive: true, Reverts: true},
		"firmware.upgrade": {Disruptive: true, Reverts: true, RevertsUnless: []string{"irreversible"}},
	}
	b := newBed(t, func(c *Config) {
		c.Types = func(name string) (playbooks.Type, bool) { found, ok := types[name]; return found, ok }
	})
	const push, upgrade = "uses: firewall.push, needs: 5m, with: {artifact: a.nft}", "uses: firmware.upgrade, needs: 5m, with: {artifact: {path: a}"
	project, expected := gatedTree(), map[string]bool{}
	for name, one := range map[string]struct {
		undone bool
		steps  []string
	}{
		"push":         {true, []string{push}},
		"upgrade":      {true, []string{upgrade + "}"}},
		"reversible":   {true, []string{upgrade + ", irreversible: false}"}},
		"irreversible": {false, []string{upgrade + ", irreversible: true}"}},
		"whichever":    {false, []string{upgrade + ", irreversible: '${{ host.name == \"a\" }}'}"}},
		"twice":        {false, []string{push, push}},
		"mixed":        {false, []string{push, "uses: command, needs: 5m, with: {run: reboot}"}},
		"each":         {false, []string{push + ", foreach: '[1, 2]'"}},
		"plain":        {false, []string{"uses: command, needs: 5m, with: {run: reboot}"}},
	} {
		text := "playbook: " + name + "\ntenant: acme\ntargets: host.customer == \"acme\"\nwindow: service\nsteps:\n"
		for i, step := range one.steps {
			text += fmt.Sprintf("  - {name: s%d, %s}\n", i, step)
		}
		project["playbooks/"+name+".yaml"], expected[name] = text, one.undone
	}
	b.apply(project)
	a := b.ask(b.token("acme", Viewer), "GET", "/v1/windows/acme-night", nil)
	undone := map[string]bool{}
	for _, work := range want[api.WindowSet](t, a, http.StatusOK).Work {
		if _, ours := expected[work.Playbook]; ours {
			undone[work.Playbook] = work.Rescue
		}
	}
	if !maps.Equal(undone, expected) {
		t.Errorf("undone: %v, expected %v", undone, expected)
	}
}

// A revocation may be bound to the windows that a person saw. Control: without a hash it is not.
func TestRevokeWhatWasLookedAt(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	approver := b.token("acme", Approver)
	old := "sha256:" + strings.Repeat("0", 64)
	want[any](t, b.ask(approver, "POST", "/v1/windows/acme-day/revoke", api.RevokeWindow{Window: old}), http.StatusConflict)
	set := want[api.WindowSet](t, b.ask(approver, "GET", "/v1/windows/acme-day", nil), http.StatusOK)
	want[any](t, b.ask(approver, "POST", "/v1/windows/acme-day/revoke", api.RevokeWindow{Window: set.Hash}), http.StatusOK)
	want[any](t, b.ask(approver, "POST", "/v1/windows/acme-day/revoke", api.RevokeWindow{}), http.StatusOK)
}

// The view of one schedule has its next fire times, in its zone.
func TestUpcoming(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator := b.token("acme", Operator)
	want[any](t, b.ask(operator, "PUT", "/v1/schedules/made", api.NewSchedule{Playbook: "acme-patch", Cron: "0 4 * * *", Timezone: "Asia/Tokyo"}), http.StatusOK)
	s := want[api.Schedule](t, b.ask(operator, "GET", "/v1/schedules/made", nil), http.StatusOK)
	if len(s.Upcoming) != 5 || !s.Upcoming[0].At.Equal(s.Next) || !strings.HasSuffix(s.Upcoming[4].Local, " 04:00 JST") {
		t.Errorf("%+v", s)
	}
	want[any](t, b.ask(operator, "POST", "/v1/schedules/made/pause", api.Why{}), http.StatusOK)
	if s = want[api.Schedule](t, b.ask(operator, "GET", "/v1/schedules/made", nil), http.StatusOK); s.Upcoming != nil {
		t.Errorf("a paused one: %+v", s.Upcoming)
	}
}

// A plan of a retry has the hosts that did not succeed, and its hash refuses a retry of others.
func TestPlanOfARetry(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator := b.token("acme", Operator)
	run := b.launch("acme", api.NewRun{})
	path := "/v1/runs/" + run.ID + "/retry"
	want[any](t, b.ask(operator, "POST", path+"/plan", api.Retry{}), http.StatusConflict) // it is not over
	b.finish(run)
	plan := want[api.Plan](t, b.ask(operator, "POST", path+"/plan", api.Retry{}), http.StatusOK)
	if plan.Hosts != 1 || plan.Retried == nil || plan.Retried.Run != run.ID || plan.Forecast == nil {
		t.Errorf("%+v", plan)
	}
	all := want[api.Plan](t, b.ask(operator, "POST", path+"/plan", api.Retry{Outcomes: []core.Outcome{core.Failed, core.Changed}}), http.StatusOK)
	if all.Hosts != 3 || all.Hash == plan.Hash {
		t.Errorf("%+v", all)
	}
	want[any](t, b.ask(operator, "POST", path, api.Retry{Plan: all.Hash}), http.StatusConflict)
	if again := want[api.Run](t, b.ask(operator, "POST", path, api.Retry{Plan: plan.Hash}), http.StatusCreated); again.Total != 1 {
		t.Errorf("%+v", again)
	}
}
