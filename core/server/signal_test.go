package server

import (
	"database/sql"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// An event signals the one job that is named, or all that wait for it; the service's own events are
// not people's to send.
func TestSignal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator := b.token("acme", Operator)
	run := b.launch("acme", api.NewRun{})
	path := "/v1/runs/" + run.ID + "/signal"
	reaches := func(w api.Signal, n int) {
		t.Helper()
		if got := want[api.Signalled](t, b.ask(operator, "POST", path, w), http.StatusOK); got.Jobs != n {
			t.Errorf("%+v reached %d jobs, expected %d", w, got.Jobs, n)
		}
	}
	reaches(api.Signal{Event: "go"}, 0) // it is not in the queue yet
	b.work()
	session, err := b.queue.Open(t.Context(), "w")
	must(t, err)
	suspend := func() {
		t.Helper()
		until(t, "a job is suspended", func() bool { // of its first wave, which has one
			r, err := b.queue.Turn(t.Context(), queue.Turn{Session: session, Want: 1})
			must(t, err)
			for _, l := range r.Leases {
				_, err := b.queue.Turn(t.Context(), queue.Turn{Session: session, Acks: []queue.Ack{{Job: l.Job, Token: l.Token, Kind: queue.AckSuspend, Event: "go"}}})
				must(t, err)
			}
			return len(r.Leases) > 0
		})
	}
	first, second := 0, 1
	suspend()
	reaches(api.Signal{Event: "went"}, 0)
	reaches(api.Signal{Event: "go", Job: &second}, 0)
	reaches(api.Signal{Event: "go", Job: &first}, 1)
	reaches(api.Signal{Event: "go", Job: &first}, 0)
	suspend()
	reaches(api.Signal{Event: "go", Reason: "by hand"}, 1)
	beyond := run.Total
	for name, w := range map[string]api.Signal{
		"no event": {}, "the worker's own": {Event: queue.EventWindow}, "the service's": {Event: "turnus:turn/0/0"}, "no such job": {Event: "go", Job: &beyond},
	} {
		if a := b.ask(operator, "POST", path, w); a.status/100 != 4 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

// A change that the audit log cannot have does not happen. The control is the same change once the
// log can be written.
func TestNothingHappensWithoutAnEntry(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger.db")
	b := newBedOn(t, "sqlite:"+file)
	operator := b.token("acme", Operator)
	run := b.launch("acme", api.NewRun{})
	b.work()
	session, err := b.queue.Open(t.Context(), "w")
	must(t, err)
	until(t, "a job waits", func() bool {
		r, err := b.queue.Turn(t.Context(), queue.Turn{Session: session, Want: 1})
		must(t, err)
		for _, l := range r.Leases {
			_, err := b.queue.Turn(t.Context(), queue.Turn{Session: session, Acks: []queue.Ack{{Job: l.Job, Token: l.Token, Kind: queue.AckSuspend, Event: "go"}}})
			must(t, err)
		}
		return len(r.Leases) > 0
	})
	kept := func() ledger.Run {
		t.Helper()
		r, err := b.ledger.Run(t.Context(), ledger.AllTenants(), run.ID)
		must(t, err)
		return r
	}
	until(t, "the run is in the queue", func() bool { return kept().Incarnation != "" })
	db, err := sql.Open("sqlite", file)
	must(t, err)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(t.Context(), `CREATE TRIGGER no_audit BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`)
	must(t, err)
	signal, path := api.Signal{Event: "go"}, "/v1/runs/"+run.ID
	for what, a := range map[string]answer{
		"a signal": b.ask(operator, "POST", path+"/signal", signal),
		"a weight": b.ask(operator, "PATCH", path, api.ChangeRun{Weight: new(7)}),
	} {
		if a.status < 400 {
			t.Errorf("%s without an entry: %d %s", what, a.status, a.body)
		}
	}
	if w := kept().Shares.Weight; w != nil {
		t.Errorf("the weight is %d", *w)
	}
	_, err = db.ExecContext(t.Context(), `DROP TRIGGER no_audit`)
	must(t, err)
	if got := want[api.Signalled](t, b.ask(operator, "POST", path+"/wake", signal), http.StatusOK); got.Jobs != 1 { // by the former path
		t.Errorf("%d jobs wait, expected 1: the signal without an entry took effect", got.Jobs)
	}
	want[api.Run](t, b.ask(operator, "PATCH", path, api.ChangeRun{Weight: new(7)}), http.StatusOK)
	if w := kept().Shares.Weight; w == nil || *w != 7 {
		t.Errorf("the weight is %v", w)
	}
}
