package server

import (
	"database/sql"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
)

// schedulesOf lists the schedules that a token sees.
func (b *bed) schedulesOf(secret string) []api.Schedule {
	b.t.Helper()
	return want[struct{ Items []api.Schedule }](b.t, b.ask(secret, "GET", "/v1/schedules", nil), http.StatusOK).Items
}

// A schedule that cannot be read is listed with what to do, beside the others, and nobody can act
// on it except remove it. One of the project is then made again. Control: nobody removes one of the
// project that can be read.
func TestDamagedSchedules(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger.db")
	b := newBedOn(t, "sqlite:"+file)
	b.work()
	operator, all := b.token("acme", Operator), b.token(everyTenant, Viewer)
	made := api.NewSchedule{Playbook: "acme-patch", Cron: "0 4 * * *"}
	want[any](t, b.ask(operator, "PUT", "/v1/schedules/made", made), http.StatusOK)
	want[any](t, b.ask(operator, "PUT", "/v1/schedules/sound", made), http.StatusOK)
	want[any](t, b.ask(operator, "DELETE", "/v1/schedules/acme-patch", nil, "If-Match", "*"), http.StatusConflict)
	db, err := sql.Open("sqlite", file)
	must(t, err)
	_, err = db.ExecContext(t.Context(), `UPDATE schedules SET data = x'00ff' WHERE name IN ('made', 'acme-patch')`)
	must(t, err)
	must(t, db.Close())

	for _, secret := range []string{operator, all} {
		var damaged, sound []string
		for _, s := range b.schedulesOf(secret) {
			if s.Damaged == "" {
				sound = append(sound, s.Name)
			} else if damaged = append(damaged, s.Name); !strings.Contains(s.Damaged, "\nhint: turnus schedules rm acme:"+s.Name+"; then ") || !s.Next.IsZero() {
				t.Errorf("%+v", s)
			}
		}
		if !slices.Equal(damaged, []string{"acme-patch", "made"}) || !slices.Contains(sound, "sound") {
			t.Errorf("damaged are %v, sound %v", damaged, sound)
		}
	}
	if s := want[api.Schedule](t, b.ask(all, "GET", "/v1/schedules/made", nil), http.StatusOK); s.Tenant != "acme" || s.Damaged == "" {
		t.Errorf("by its bare name: %+v", s)
	}
	want[any](t, b.ask(all, "GET", "/v1/calendar", nil), http.StatusOK)
	for _, verb := range []string{"pause", "trigger"} {
		if a := b.ask(operator, "POST", "/v1/schedules/made/"+verb, api.Why{}); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, "turnus schedules rm acme:made") {
			t.Errorf("%s: %d %s", verb, a.status, a.body)
		}
	}
	want[any](t, b.ask(operator, "POST", "/v1/schedules/sound/trigger", api.Why{}), http.StatusOK)

	for _, name := range []string{"made", "acme-patch"} {
		want[any](t, b.ask(operator, "DELETE", "/v1/schedules/"+name, nil, "If-Match", "*"), http.StatusOK)
	}
	until(t, "the schedule of the project to be made again", func() bool {
		return slices.ContainsFunc(b.schedulesOf(operator), func(s api.Schedule) bool { return s.Name == "acme-patch" && s.Damaged == "" && !s.Next.IsZero() })
	})
	want[any](t, b.ask(operator, "PUT", "/v1/schedules/made", made), http.StatusOK)
}

// A limit by a person of all tenants may name hosts of others. A tenant does not see it in lists of
// schedules, their views, audit entries and runs, also those that it triggered. The same applies to
// values whose names mark a secret, and to the reasons of refused launches. Controls: a person of
// all tenants sees all of it, and the tenant sees its own schedule whole.
func TestATenantDoesNotSeeTheLimitOfAScheduleOfAll(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	project := tree()
	project["playbooks/acme.yaml"] = strings.Replace(project["playbooks/acme.yaml"], "window: none\n", "window: none\nvars: {remark: none, db_password: none}\n", 1)
	b.apply(project)
	provider, operator, viewer := b.token(everyTenant, Operator), b.token("acme", Operator), b.token("acme", Viewer)
	foreign := api.NewSchedule{Playbook: "acme-patch", Cron: "0 4 * * *", LaunchOptions: api.LaunchOptions{
		Limit: []string{"acme-1", "globex-1"}, Vars: map[string]any{"remark": "for ticket 7", "db_password": "hunter2"},
	}}
	own := api.NewSchedule{Playbook: "acme-patch", Cron: "0 4 * * *", LaunchOptions: api.LaunchOptions{Limit: []string{"acme-2"}, Vars: map[string]any{"db_password": "mine"}}}
	want[any](t, b.ask(provider, "PUT", "/v1/schedules/foreign", foreign), http.StatusOK)
	want[any](t, b.ask(operator, "PUT", "/v1/schedules/own", own), http.StatusOK)
	run := want[api.Launched](t, b.ask(operator, "POST", "/v1/schedules/foreign/trigger", api.Why{}), http.StatusOK).Run
	gone := foreign
	gone.Limit = []string{"globex-1"}
	project["playbooks/acme.yaml"] = strings.Replace(project["playbooks/acme.yaml"], `targets: host.customer == "acme"`, "targets: true", 1)
	b.apply(project)
	want[any](t, b.ask(provider, "PUT", "/v1/schedules/gone", gone), http.StatusOK)
	for what, a := range map[string]answer{
		"trigger":  b.ask(operator, "POST", "/v1/schedules/gone/trigger", api.Why{}),
		"backfill": b.ask(operator, "POST", "/v1/schedules/gone/backfill", api.Backfill{From: time.Now().AddDate(0, 0, -2), To: time.Now().AddDate(0, 0, -1)}),
	} {
		if a.status < 400 || strings.Contains(a.body, "globex") {
			t.Errorf("%s: %d %s", what, a.status, a.body)
		}
	}
	for _, path := range []string{"/v1/schedules", "/v1/schedules/acme:foreign", "/v1/audit?kind=schedule", "/v1/export/audit", "/v1/export/audit?format=csv", "/v1/runs/" + run} {
		for secret, all := range map[string]bool{viewer: false, operator: false, provider: true} {
			a := b.ask(secret, "GET", path, nil)
			if a.status != http.StatusOK || strings.Contains(a.body, "globex-1") != all || strings.Contains(a.body, "hunter2") != (all && !strings.Contains(path, "/runs/")) {
				t.Errorf("%s, all tenants: %t: %d %s", path, all, a.status, a.body)
			}
			if path == "/v1/schedules" && !all && (!strings.Contains(a.body, `"left_out":["limit","vars.db_password"]`) || !strings.Contains(a.body, "for ticket 7") || !strings.Contains(a.body, "acme-2") || !strings.Contains(a.body, "mine")) {
				t.Errorf("%s: %s", path, a.body)
			}
		}
	}
	refused := catalog.Schedule{Scope: ledger.AllTenants(), Status: schedule.Status{State: schedule.State{Last: []schedule.Result{{Reason: core.Because(core.Refused, "refused: globex-1 lacks facts")}}}}}
	for scope, shown := range map[string]bool{everyTenant: true, "acme": false} {
		by := caller{scope: ledger.Tenants(scope)}
		if scope == everyTenant {
			by.scope = ledger.AllTenants()
		}
		if s := scheduleOf(by, &refused); strings.Contains(s.LastSkip, "globex-1") != shown || s.LastSkip == "" {
			t.Errorf("%s reads %q", scope, s.LastSkip)
		}
	}
}
