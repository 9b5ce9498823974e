package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

// hostJobs lists the open jobs of a host, in pages of so many.
func (b *bed) hostJobs(secret, host, limit string) (all []api.Job, pages int) {
	b.t.Helper()
	for next := ""; ; {
		l := want[struct {
			Items []api.Job
			Next  string
		}](b.t, b.ask(secret, "GET", "/v1/hosts/"+host+"/jobs?limit="+limit+"&cursor="+next, nil), http.StatusOK)
		all, pages = append(all, l.Items...), pages+1
		if next = l.Next; next == "" {
			return all, pages
		}
	}
}

// The open jobs of a host are those of all runs that are not complete, with their states. A tenant
// sees the provider's runs on its hosts, and another tenant nothing.
func TestOpenJobsOfAHost(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	acme, provider := b.token("acme", Viewer), b.token(everyTenant, Viewer)
	const runs = 30
	for range runs {
		b.launch("acme", api.NewRun{})
	}
	ended := b.launch("acme", api.NewRun{})
	b.finish(ended)
	b.launch("globex", api.NewRun{})
	theirs := want[api.Run](t, b.ask(b.token(everyTenant, Operator), "POST", "/v1/runs", api.NewRun{Playbook: "everywhere"}), http.StatusCreated)
	for limit, pages := range map[string]int{"100": 1, "10": 4} {
		all, read := b.hostJobs(acme, "acme-1", limit)
		if len(all) != runs+1 || read != pages || all[0].Run != theirs.ID || all[0].Playbook != "everywhere" {
			t.Fatalf("limit %s: %d jobs on %d pages, expected %d on %d: %+v", limit, len(all), read, runs+1, pages, all)
		}
		for _, j := range all {
			if j.Host != "acme-1" || j.Outcome != "" || j.State != api.JobQueued || j.ReasonCode != core.NotQueued || j.Run == ended.ID {
				t.Errorf("%+v", j)
			}
		}
	}
	b.work()
	until(t, "all runs are in the queue", func() bool {
		all, _ := b.hostJobs(provider, "acme-1", "100")
		for _, j := range all {
			if j.State != core.Pending {
				return false
			}
		}
		return len(all) == runs+1
	})
	must(t, b.ledger.Doubt(t.Context(), theirs.ID, 1))
	for _, j := range first(b.hostJobs(acme, "acme-1", "100")) {
		if j.MayHaveBegun != (j.Run == theirs.ID) {
			t.Errorf("%+v", j)
		}
	}
	if a := b.ask(b.token("globex", Viewer), "GET", "/v1/hosts/acme-1/jobs", nil); a.status != http.StatusNotFound {
		t.Errorf("another tenant's: %d %s", a.status, a.body)
	}
	if a := b.ask(b.token("globex", Viewer), "GET", "/v1/hosts/acme-1/jobs?limit=1", nil); a.status != http.StatusNotFound || strings.Contains(a.body, "next") {
		t.Errorf("a page of another tenant's: %d %s", a.status, a.body)
	}
	if a := b.ask(provider, "GET", "/v1/hosts/nosuch/jobs", nil); a.status != http.StatusNotFound {
		t.Errorf("no such host: %d %s", a.status, a.body)
	}
	_, err := b.ledger.Record(t.Context(), ledger.Batch{Run: theirs.ID, Outcomes: []ledger.Outcome{{Index: 0, Count: theirs.Total, Outcome: core.Cancelled}}})
	must(t, err)
	if all, _ := b.hostJobs(acme, "acme-1", "100"); len(all) != runs {
		t.Errorf("%d jobs after a run has ended, expected %d", len(all), runs)
	}
}

func first[T any](all T, _ int) T { return all }
