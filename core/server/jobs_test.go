package server

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// mute is a queue that does not say where jobs are.
type mute struct{ queue.Queue }

func (mute) Explain(context.Context, core.JobID) (queue.Explanation, error) {
	return queue.Explanation{}, fmt.Errorf("read: %w", core.ErrUnavailable)
}

// jobStates are the states and outcomes of a run's jobs, by index, read in pages.
func (b *bed) jobStates(secret, path string) (all []string) {
	b.t.Helper()
	for next := ""; ; {
		l := want[struct {
			Items []api.Job
			Next  string
		}](b.t, b.ask(secret, "GET", path+"&limit=2&cursor="+next, nil), http.StatusOK)
		for _, j := range l.Items {
			text := string(j.State) + string(j.Outcome)
			if j.State != "" && j.Reason == "" {
				b.t.Errorf("job %d is %s, and nobody says why", j.Index, j.State)
			}
			all = append(all, fmt.Sprint(j.Index, " ", text))
		}
		if next = l.Next; next == "" {
			return all
		}
	}
}

func TestJobsWithoutAnOutcomeAreListed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	viewer := b.token("acme", Viewer)
	run := b.launch("acme", api.NewRun{})
	path := "/v1/runs/" + run.ID + "/jobs?state="
	check := func(when, state string, want ...string) {
		t.Helper()
		if got := b.jobStates(viewer, path+state); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s, %s: %v, expected %v", when, state, got, want)
		}
	}
	check("before it is in the queue", "all", "0 queued", "1 queued", "2 queued")
	b.work()
	var leased []queue.Lease
	session, err := b.queue.Open(t.Context(), "w")
	must(t, err)
	until(t, "a job is leased", func() bool {
		r, err := b.queue.Turn(t.Context(), queue.Turn{Session: session, Want: 3})
		must(t, err)
		leased = append(leased, r.Leases...)
		return len(leased) > 0
	})
	check("one runs", "all", "0 leased", "1 pending", "2 pending")
	detail := ledger.Batch{Run: run.ID, Outcomes: []ledger.Outcome{{Index: 0, Outcome: core.Changed, Attempt: 1, Started: time.Now()}}}
	_, err = b.ledger.Record(t.Context(), detail)
	must(t, err)
	check("one is done", "all", "0 changed", "1 pending", "2 pending")
	check("one is done", "open", "1 pending", "2 pending")
	check("one is done", "done", "0 changed")
	if a := b.ask(viewer, "GET", path+"open&outcome=changed", nil); a.status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", a.status, a.body)
	}

	b.server.cfg.Queue = mute{b.queue}
	check("the queue is away", "all", "0 changed", "1 unknown", "2 unknown")
	if j := want[api.Job](t, b.ask(viewer, "GET", "/v1/runs/"+run.ID+"/jobs/1", nil), http.StatusOK); j.State != api.JobUnknown {
		t.Errorf("%+v", j)
	}
	if e := want[api.Explanation](t, b.ask(viewer, "GET", "/v1/runs/"+run.ID+"/jobs/1/explain", nil), http.StatusOK); e.State != api.JobUnknown {
		t.Errorf("%+v", e)
	}
	if got := b.jobStates(b.token(everyTenant, Viewer), path+"open"); len(got) != 2 {
		t.Errorf("%v", got)
	}
	if a := b.ask(b.token("globex", Viewer), "GET", path+"all", nil); a.status != http.StatusNotFound {
		t.Errorf("another tenant's: %d %s", a.status, a.body)
	}
}
