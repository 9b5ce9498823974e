package server

import (
	"database/sql"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// A record that cannot be read keeps only its own host from the failed step, and the refusal names
// the host. Control: the other hosts continue.
func TestRetryBesideADamagedRecord(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger.db")
	b := newBedOn(t, "sqlite:"+file)
	b.apply(twoSteps())
	run := b.launch("acme", api.NewRun{})
	b.failSecond(run, func(*core.Result) {})
	db, err := sql.Open("sqlite", file)
	must(t, err)
	_, err = db.ExecContext(t.Context(), `UPDATE attempts SET detail = x'ff01' WHERE idx = 0`)
	must(t, err)
	must(t, db.Close())
	operator, path := b.token("acme", Operator), "/v1/runs/"+run.ID+"/retry"
	a := b.ask(operator, "POST", path, api.Retry{From: api.FromFailedStep})
	if a.status != http.StatusConflict || !strings.Contains(a.body, "1 of 3 hosts cannot continue at the failed step: acme-1: its record cannot be read") {
		t.Errorf("%d %s", a.status, a.body)
	}
	again := want[api.Run](t, b.ask(operator, "POST", path, api.Retry{From: api.FromFailedStep, Else: api.ElseRestart}), http.StatusCreated).Retried
	if again.Resumed != 2 || len(again.Restarted) != 1 || again.Restarted[0].Host != "acme-1" {
		t.Errorf("%+v", again)
	}
	want[any](t, b.ask(operator, "GET", "/v1/runs/"+run.ID+"/jobs/0/attempts", nil), http.StatusOK)
}
