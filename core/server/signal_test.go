package server

import (
	"net/http"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/queue"
)

// An event signals the one job that is named, or all that wait for it; the service's own events are
// not people's to send.
func TestSignal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator := b.token("acme", Operator)
	run := b.launch("acme", api.NewRun{})
	path := "/v1/runs/" + run.ID + "/wake"
	wakes := func(w api.Signal, n int) {
		t.Helper()
		if got := want[api.Signalled](t, b.ask(operator, "POST", path, w), http.StatusOK); got.Jobs != n {
			t.Errorf("%+v reached %d jobs, expected %d", w, got.Jobs, n)
		}
	}
	wakes(api.Signal{Event: "go"}, 0) // it is not in the queue yet
	b.work()
	session, err := b.queue.Open(t.Context(), "w")
	must(t, err)
	suspend := func() {
		t.Helper()
		until(t, "a job is parked", func() bool { // of its first wave, which has one
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
	wakes(api.Signal{Event: "went"}, 0)
	wakes(api.Signal{Event: "go", Job: &second}, 0)
	wakes(api.Signal{Event: "go", Job: &first}, 1)
	wakes(api.Signal{Event: "go", Job: &first}, 0)
	suspend()
	wakes(api.Signal{Event: "go", Reason: "by hand"}, 1)
	beyond := run.Total
	for name, w := range map[string]api.Signal{
		"no event": {}, "the worker's own": {Event: queue.EventWindow}, "the service's": {Event: "turnus:turn/0/0"}, "no such job": {Event: "go", Job: &beyond},
	} {
		if a := b.ask(operator, "POST", path, w); a.status/100 != 4 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}
