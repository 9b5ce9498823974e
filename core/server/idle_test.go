package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
)

// A server without workers says so to whoever asks why nothing happens; with one it does not.
func TestRunsThatNobodyWorksOnReportWhy(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.work()
	run := b.launch("acme", api.NewRun{})
	viewer := b.token("acme", Viewer)
	check := func() api.Run { return want[api.Run](t, b.ask(viewer, "GET", "/v1/runs/"+run.ID, nil), http.StatusOK) }
	explain := func() string {
		return want[api.Explanation](t, b.ask(viewer, "GET", "/v1/runs/"+run.ID+"/jobs/0/explain", nil), http.StatusOK).Reason
	}
	until(t, "the queue has it", func() bool { return check().Live != nil })
	if r, why := check().Reason, explain(); r != nobodyWorks || !strings.HasPrefix(why, nobodyWorks+"; ") {
		t.Errorf("%q; %q", r, why)
	}
	_, err := b.queue.Post(t.Context(), api.WorkerDocument("w1"), asJSON(api.Worker{Name: "w1", State: api.WorkerReady}), api.WorkerKeep)
	must(t, err)
	if r, why := check().Reason, explain(); r != "" || strings.Contains(why, nobodyWorks) || why == "" {
		t.Errorf("with a worker: %q; %q", r, why)
	}
}
