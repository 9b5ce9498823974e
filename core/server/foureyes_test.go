package server

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

// made makes a token through the API, as its maker does.
func (b *bed) made(maker, name, tenant string, role Role) string {
	b.t.Helper()
	n := api.NewToken{Name: name, Tenant: tenant, Role: string(role)}
	return want[api.Token](b.t, b.ask(maker, "POST", "/v1/tokens", n), http.StatusCreated).Secret
}

// The maker of a token has its secret: the token counts as its maker, at any distance, whichever of
// both launches. Control: a token that somebody else made approves the same runs.
func TestFaultS13ATokenCountsAsWhoMadeIt(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	admin, yes := b.token("acme", Admin), api.Approve{Approve: true}
	second := b.made(admin, "second", "acme", Admin)
	third := b.made(second, "third", "acme", Approver)
	sibling := b.made(admin, "sibling", "acme", Admin)
	for name, c := range map[string]struct {
		launcher, approver string
	}{
		"a token of the launcher's":     {admin, second},
		"a token of that":               {admin, third},
		"the launcher is the token":     {second, admin},
		"both are tokens of one person": {sibling, third},
	} {
		run := want[api.Run](t, b.ask(c.launcher, "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch", FourEyes: true}), http.StatusCreated)
		path := "/v1/runs/" + run.ID + "/approve"
		if a := b.ask(c.approver, "POST", path, yes); a.status != http.StatusConflict || !strings.Contains(a.body, "somebody else") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if done := want[api.Run](t, b.ask(b.token("acme", Approver), "POST", path, yes), http.StatusOK); done.Phase != api.Queued {
			t.Errorf("%s, control: %+v", name, done)
		}
	}
}

// A run lists those who changed it, a line each. A token whose name has two lines would not be
// found there, and its maker could approve the changed run. Control: a token with one line is
// found.
func TestFaultS13NobodyActsUnderTwoLines(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	admin := b.token("acme", Admin)
	change := func(name string) answer {
		a := b.ask(admin, "POST", "/v1/tokens", `{"name":"x","NAME":"`+name+`","tenant":"acme","role":"operator"}`)
		if a.status != http.StatusCreated {
			a = b.ask(admin, "POST", "/v1/tokens", api.NewToken{Name: strings.ReplaceAll(name, `\n`, ""), Tenant: "acme", Role: string(Operator)})
		}
		secret := want[api.Token](t, a, http.StatusCreated).Secret
		run := want[api.Run](t, b.ask(b.token("acme", Operator), "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch", FourEyes: true}), http.StatusCreated)
		weight := 7
		want[any](t, b.ask(secret, "PATCH", "/v1/runs/"+run.ID, api.ChangeRun{Weight: &weight}), http.StatusOK)
		return b.ask(admin, "POST", "/v1/runs/"+run.ID+"/approve", api.Approve{Approve: true})
	}
	for _, name := range []string{"one line", `two\nlines`} {
		if a := change(name); a.status != http.StatusConflict || !strings.Contains(a.body, "somebody else") {
			t.Errorf("%s: the maker of the token approves what it changed: %d %s", name, a.status, a.body)
		}
	}
	if _, _, err := b.ledger.NewToken(t.Context(), "test", ledger.Token{Name: "two\nlines", Tenant: "acme", Roles: []string{string(Admin)}}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("the ledger takes such a name: %v", err)
	}
}

// A calendar feed has a free name, and its secret opens no operation. Two feeds of one person that
// are named as two others do not make one person of them. Control: a real token of that name does.
func TestFaultS13ACalendarFeedMakesNobodyOnePerson(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	by := func(name string, role Role) string {
		secret, _, err := b.ledger.NewToken(t.Context(), "test/"+name, ledger.Token{Name: name, Tenant: "acme", Roles: []string{string(role)}})
		must(t, err)
		return secret
	}
	alice, bob := by("alice", Admin), by("bob", Approver)
	for _, name := range []string{"alice", "bob"} {
		want[api.CalendarFeed](t, b.ask(b.token("acme", Viewer), "POST", "/v1/calendar-feeds", api.NewCalendarFeed{Name: name}), http.StatusCreated)
	}
	approve := func(status int) {
		t.Helper()
		run := want[api.Run](t, b.ask(alice, "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch", FourEyes: true}), http.StatusCreated)
		want[any](t, b.ask(bob, "POST", "/v1/runs/"+run.ID+"/approve", api.Approve{Approve: true}), status)
	}
	approve(http.StatusOK)
	b.made(alice, "bob", "acme", Viewer)
	approve(http.StatusConflict)
}

// The project demands four eyes where the launcher does not ask for them: by the playbook, the
// tenant of the run or of a host, or a window set that a step waits for. Control: each playbook
// without its demand is queued immediately.
func TestFaultS13TheProjectDemandsFourEyes(t *testing.T) {
	t.Parallel()
	playbook := func(tree map[string]string, from, to string) {
		tree["playbooks/acme.yaml"] = strings.Replace(tree["playbooks/acme.yaml"], from, to, 1)
	}
	windowed := func(tree map[string]string) {
		playbook(tree, "window: none", "window: service")
		playbook(tree, `host.customer == "acme"`, `host.name == "acme-1"`)
		playbook(tree, "uses: command, with", "uses: command, window: service, needs: 1h, with")
	}
	set := func(tree map[string]string, name string) {
		tree["windows/sets.yaml"] = strings.Replace(tree["windows/sets.yaml"], "  "+name+":\n", "  "+name+":\n    four_eyes: true\n", 1)
	}
	for name, c := range map[string]struct {
		before, demand func(map[string]string)
		playbook, by   string
	}{
		"playbook":         {nil, func(t map[string]string) { playbook(t, "window: none", "window: none\nfour_eyes: true") }, "acme-patch", "acme"},
		"tenant":           {nil, func(t map[string]string) { t["turnus.yaml"] = "four_eyes: [acme]\n" }, "acme-patch", "acme"},
		"tenant of a host": {nil, func(t map[string]string) { t["turnus.yaml"] = "four_eyes: [acme]\n" }, "everywhere", everyTenant},
		"window set":       {windowed, func(t map[string]string) { set(t, "acme-night") }, "acme-patch", "acme"},
		"set it requires": {func(t map[string]string) {
			windowed(t)
			t["windows/sets.yaml"] = strings.Replace(t["windows/sets.yaml"], "  acme-night:\n", "  acme-night:\n    requires: [globex-night]\n", 1)
		}, func(t map[string]string) { set(t, "globex-night") }, "acme-patch", "acme"},
	} {
		b := newBed(t)
		for _, demanded := range []bool{false, true} {
			project := tree()
			if c.before != nil {
				c.before(project)
			}
			if demanded {
				c.demand(project)
			}
			b.apply(project)
			for _, check := range []bool{false, true} {
				phase := api.Queued
				if demanded && !check {
					phase = api.Approval
				}
				run := want[api.Run](t, b.ask(b.token(c.by, Operator), "POST", "/v1/runs", api.NewRun{Playbook: c.playbook, LaunchOptions: api.LaunchOptions{Check: check}}), http.StatusCreated)
				if run.Phase != phase {
					t.Errorf("%s, demanded %v, check %v: %s", name, demanded, check, run.Phase)
				}
			}
		}
	}
}

// The run of a schedule also counts for the person who made, changed or triggered the schedule.
func TestFaultS13WhoTriggersAScheduleDoesNotApproveItsRun(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	project := tree()
	project["playbooks/acme.yaml"] = strings.Replace(project["playbooks/acme.yaml"], "window: none", "window: none\nfour_eyes: true", 1)
	b.apply(project)
	b.work()
	admin := b.token("acme", Admin)
	want[any](t, b.ask(admin, "PUT", "/v1/schedules/made", api.NewSchedule{Playbook: "acme-patch", Cron: "0 4 1 1 *"}), http.StatusOK)
	id := want[struct{ Run string }](t, b.ask(b.token("acme", Operator), "POST", "/v1/schedules/acme:made/trigger", api.Why{}), http.StatusOK).Run
	run := want[api.Run](t, b.ask(admin, "GET", "/v1/runs/"+id, nil), http.StatusOK)
	if run.Phase != api.Approval {
		t.Fatalf("%+v", run)
	}
	for range ledger.MaxPage { // it counts however long ago it was
		_, err := b.ledger.AppendAudit(t.Context(), ledger.Entry{Who: "acme/other", Tenant: "acme", Action: "schedule.pause", Kind: "schedule", Subject: "made"})
		must(t, err)
	}
	path, yes := "/v1/runs/"+run.ID+"/approve", api.Approve{Approve: true}
	if a := b.ask(admin, "POST", path, yes); a.status != http.StatusConflict {
		t.Errorf("who made the schedule approved its run: %d %s", a.status, a.body)
	}
	want[any](t, b.ask(b.token("acme", Approver), "POST", path, yes), http.StatusOK) // control
}

// A person who touched another schedule of the provider may approve the run of this one. Control:
// the person who made this one may not.
func TestFaultS13OfTheProvidersSchedulesOnlyTheOneCounts(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	project := tree()
	project["playbooks/all.yaml"] = "playbook: all\ntargets: 'true'\nwindow: none\nfour_eyes: true\nsteps: [{name: look, uses: command, with: {run: uptime}}]\n"
	b.apply(project)
	b.work()
	operator, admin := b.token(everyTenant, Operator), b.token(everyTenant, Admin)
	yearly := api.NewSchedule{Playbook: "all", Cron: "0 4 1 1 *"}
	want[any](t, b.ask(operator, "PUT", "/v1/schedules/patch", yearly), http.StatusOK)
	want[any](t, b.ask(admin, "PUT", "/v1/schedules/backup", yearly), http.StatusOK)
	for schedule, status := range map[string]int{"patch": http.StatusOK, "backup": http.StatusConflict} {
		id := want[struct{ Run string }](t, b.ask(operator, "POST", "/v1/schedules/"+schedule+"/trigger", api.Why{}), http.StatusOK).Run
		want[any](t, b.ask(admin, "POST", "/v1/runs/"+id+"/approve", api.Approve{Approve: true}), status)
	}
}

// Four eyes ask the audit log who triggered the schedule of a run. That stands there before the run
// does: else who hangs up, or is quick, approves the run that they triggered.
func TestFaultS13WhoTriggersIsKnownBeforeTheRun(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.work()
	admin := b.token("acme", Admin)
	want[any](t, b.ask(admin, "PUT", "/v1/schedules/made", api.NewSchedule{Playbook: "acme-patch", Cron: "0 4 1 1 *"}), http.StatusOK)
	id := want[struct{ Run string }](t, b.ask(admin, "POST", "/v1/schedules/acme:made/trigger", api.Why{}), http.StatusOK).Run
	entries, _, err := b.ledger.AuditLog(t.Context(), ledger.AllTenants(), ledger.AuditFilter{}, ledger.Page{Limit: ledger.MaxPage}) // newest first
	must(t, err)
	run := slices.IndexFunc(entries, func(e ledger.Entry) bool { return e.Kind == "run" && e.Subject == id })
	trigger := slices.IndexFunc(entries, func(e ledger.Entry) bool {
		return e.Action == "schedule.trigger" && strings.Contains(string(e.After), id)
	})
	if run < 0 || trigger < run {
		t.Errorf("the run is entry %d, who triggered it entry %d, of %+v", run, trigger, entries)
	}
}
