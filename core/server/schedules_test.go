package server

import (
	"database/sql"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
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
			} else if damaged = append(damaged, s.Name); !strings.Contains(s.Damaged, "remove it with turnus schedules rm acme:"+s.Name) || !s.Next.IsZero() {
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
