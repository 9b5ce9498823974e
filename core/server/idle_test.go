package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// A server without workers reports that to people who ask why nothing happens; with one it does
// not.
func TestRunsThatNobodyWorksOnReportWhy(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.work()
	run := b.launch("acme", api.NewRun{})
	viewer := b.token("acme", Viewer)
	check := func() api.Run { return want[api.Run](t, b.ask(viewer, "GET", "/v1/runs/"+run.ID, nil), http.StatusOK) }
	var code core.ReasonCode
	explain := func() string {
		e := want[api.Explanation](t, b.ask(viewer, "GET", "/v1/runs/"+run.ID+"/jobs/0/explain", nil), http.StatusOK)
		code = e.ReasonCode
		return e.Reason
	}
	waitsFor := func(code core.ReasonCode) bool {
		all := want[struct{ Items []api.Wait }](t, b.ask(viewer, "GET", "/v1/runs/"+run.ID+"/waits", nil), http.StatusOK).Items
		return slices.ContainsFunc(all, func(w api.Wait) bool { return w.Code == code })
	}
	until(t, "the queue has it", func() bool { return check().Live != nil })
	if !waitsFor(core.NoWorker) {
		t.Error("no host waits for a worker")
	}
	if l := check().Live; l.StopAfter != 3 || l.StopUnreachable != 3 {
		t.Errorf("thresholds %d and %d, expected 3 and 3", l.StopAfter, l.StopUnreachable)
	}
	if r, why := check(), explain(); r.Reason != nobodyWorks || r.ReasonCode != core.NoWorker || !strings.HasPrefix(why, nobodyWorks+"; ") || code != core.NoWorker {
		t.Errorf("%+v; %q, %q", r, why, code)
	}
	_, err := b.queue.Post(t.Context(), api.WorkerDocument("w1"), asJSON(api.Worker{Name: "w1", State: api.WorkerReady}), api.WorkerKeep)
	must(t, err)
	if r, why := check().Reason, explain(); r != "" || strings.Contains(why, nobodyWorks) || why == "" || code != core.NoSlot {
		t.Errorf("with a worker: %q; %q, %q", r, why, code)
	}
	jobs := func() api.Job {
		return want[struct{ Items []api.Job }](t, b.ask(viewer, "GET", "/v1/hosts/acme-1/jobs", nil), http.StatusOK).Items[0]
	}
	if j := jobs(); strings.Contains(j.Reason, "worker of this pool") || j.ReasonCode != core.NoSlot {
		t.Errorf("with a worker, a host's job has the reason %q, %q", j.Reason, j.ReasonCode)
	}
	for _, state := range []string{api.WorkerOverloaded, api.WorkerCordoned, api.WorkerDraining} {
		_, err := b.queue.Post(t.Context(), api.WorkerDocument("w1"), asJSON(api.Worker{Name: "w1", State: state, Concurrency: 256}), api.WorkerKeep)
		must(t, err)
		full := "every worker of this pool is " + state + ": see turnus admin workers ls"
		if r, why, j := check(), explain(), jobs(); r.Reason != full || !strings.HasPrefix(why, full+"; ") || code != core.NoWorker || !strings.HasPrefix(j.Reason, full+"; ") || j.ReasonCode != core.NoWorker {
			t.Errorf("%s: run %q; explain %q, %q; job %q, %q", state, r.Reason, why, code, j.Reason, j.ReasonCode)
		}
	}
	_, err = b.queue.Post(t.Context(), api.WorkerDocument("w1"), asJSON(api.Worker{Name: "w1", State: api.WorkerReady}), api.WorkerKeep)
	must(t, err)
	if waitsFor(core.NoWorker) || !waitsFor(core.NoSlot) {
		t.Error("with a worker, a host waits for one")
	}
}
