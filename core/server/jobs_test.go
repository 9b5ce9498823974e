package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/encrypted"
)

// mute is a queue that does not report where jobs are.
type mute struct{ encrypted.Backend }

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
				b.t.Errorf("job %d is %s without a reason", j.Index, j.State)
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
	before := time.Now()
	until(t, "a job is leased", func() bool {
		r, err := b.queue.Turn(t.Context(), queue.Turn{Session: session, Want: 3})
		must(t, err)
		leased = append(leased, r.Leases...)
		return len(leased) > 0
	})
	check("one runs", "all", "0 leased", "1 pending", "2 pending")
	for index, atWork := range []bool{true, false} {
		of := fmt.Sprintf("/v1/runs/%s/jobs/%d", run.ID, index)
		job, e := want[api.Job](t, b.ask(viewer, "GET", of, nil), http.StatusOK), want[api.Explanation](t, b.ask(viewer, "GET", of+"/explain", nil), http.StatusOK)
		host := want[api.Timeline](t, b.ask(viewer, "GET", fmt.Sprintf("/v1/runs/%s/timeline?wave=%d", run.ID, index+1), nil), http.StatusOK).OfWave.Hosts[0]
		if atWork && (job.Started.Before(before) || !e.Since.Equal(job.Started) || !host.From.Equal(job.Started)) || !atWork && (!job.Started.IsZero() || !e.Since.IsZero()) {
			t.Errorf("job %d started %v, explained since %v, drawn from %v: expected the begin of its lease after %v", index, job.Started, e.Since, host.From, before)
		}
	}
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

// The reason of a job that waits for a host names the run that holds it only for those who may see
// that run. Control: the provider, who may.
func TestFaultS15ExplainNamesNoOtherTenantsRun(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.work()
	enqueued := func(run api.Run) api.Run {
		until(t, "the run is in the queue", func() bool {
			kept, err := b.ledger.Run(t.Context(), ledger.AllTenants(), run.ID)
			return err == nil && kept.Incarnation != "" && kept.Phase == ledger.PhaseActive
		})
		return run
	}
	session, err := b.queue.Open(t.Context(), "w")
	must(t, err)
	lease := func() []queue.Lease {
		r, err := b.queue.Turn(t.Context(), queue.Turn{Session: session, Want: 8})
		must(t, err)
		return r.Leases
	}
	theirs := enqueued(want[api.Run](t, b.ask(b.token(everyTenant, Operator), "POST", "/v1/runs", api.NewRun{Playbook: "everywhere"}), http.StatusCreated))
	until(t, "the provider's run holds the hosts", func() bool { return len(lease()) > 0 })
	mine := enqueued(b.launch("acme", api.NewRun{}))
	path := "/v1/runs/" + mine.ID + "/jobs/0"
	explain := func(tenant string) api.Explanation {
		return want[api.Explanation](t, b.ask(b.token(tenant, Viewer), "GET", path+"/explain", nil), http.StatusOK)
	}
	until(t, "the tenant's job is blocked", func() bool { lease(); return explain("acme").State == core.Blocked })
	if e := explain(everyTenant); !strings.Contains(e.Reason, theirs.ID) {
		t.Errorf("control: the provider sees %q", e.Reason)
	}
	for _, a := range []answer{b.ask(b.token("acme", Viewer), "GET", path+"/explain", nil), b.ask(b.token("acme", Viewer), "GET", path, nil), b.ask(b.token("acme", Viewer), "GET", "/v1/runs/"+mine.ID+"/jobs", nil)} {
		if a.status != http.StatusOK || strings.Contains(a.body, theirs.ID) || !strings.Contains(a.body, "held by another job") {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	locks := func(tenant string) []api.Lock {
		return want[struct{ Items []api.Lock }](t, b.ask(b.token(tenant, Viewer), "GET", "/v1/hosts/"+explain("acme").Host+"/locks", nil), http.StatusOK).Items
	}
	if all := locks(everyTenant); len(all) != 1 || all[0].Run != theirs.ID || all[0].Host != explain("acme").Host || all[0].Since.IsZero() {
		t.Errorf("control: the provider sees the locks %+v", all)
	}
	if all := locks("acme"); len(all) != 1 || all[0].Run+all[0].Playbook+all[0].Host != "" || all[0].Since.IsZero() {
		t.Errorf("the tenant sees the locks %+v", all)
	}
}

// After the queue was lost, the record names every host that may have been touched, and no other.
func TestFaultW13JobsThatMayHaveBegunAreNamed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.launch("acme", api.NewRun{})
	viewer := b.token("acme", Viewer)
	named := func() (hosts []string) {
		for _, j := range want[struct{ Items []api.Job }](t, b.ask(viewer, "GET", "/v1/runs/"+run.ID+"/jobs?state=uncertain", nil), http.StatusOK).Items {
			hosts = append(hosts, j.Host)
		}
		return hosts
	}
	if hosts := named(); hosts != nil {
		t.Errorf("before: %v", hosts)
	}
	must(t, b.ledger.Doubt(t.Context(), run.ID, 2))
	if shown := want[api.Run](t, b.ask(viewer, "GET", "/v1/runs/"+run.ID, nil), http.StatusOK); shown.MayHaveBegun != 2 {
		t.Errorf("%+v", shown)
	}
	if hosts := named(); !slices.Equal(hosts, []string{"acme-1", "acme-2"}) {
		t.Errorf("lost: %v", hosts)
	}
	_, err := b.ledger.Record(t.Context(), ledger.Batch{Run: run.ID, Outcomes: []ledger.Outcome{{Index: 0, Outcome: core.Changed, Attempt: 1, Started: time.Now()}}})
	must(t, err)
	if hosts := named(); !slices.Equal(hosts, []string{"acme-2"}) {
		t.Errorf("one has run since: %v", hosts)
	}
	if jobs := want[struct{ Items []api.Job }](t, b.ask(viewer, "GET", "/v1/runs/"+run.ID+"/jobs", nil), http.StatusOK).Items; jobs[0].MayHaveBegun || !jobs[1].MayHaveBegun || jobs[2].MayHaveBegun {
		t.Errorf("all: %+v", jobs)
	}
}
