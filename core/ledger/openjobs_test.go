package ledger_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// openJobs lists all open jobs of a host, as RUN/INDEX, and how many each page has.
func openJobs(t *testing.T, l *ledger.Ledger, s ledger.Scope, host string, limit int) (ids []string, pages []int) {
	t.Helper()
	for p := (ledger.Page{Limit: limit}); ; {
		some, next, err := l.OpenJobs(t.Context(), s, host, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range some {
			if ids = append(ids, j.String()); j.Host != host || j.Of.ID != j.Run || j.Playbook != "patch" || j.Outcome != "" {
				t.Errorf("%+v", j)
			}
		}
		if pages = append(pages, len(some)); next == "" || len(pages) > 100 {
			return ids, pages
		}
		p.Cursor = next
	}
}

// The open jobs of a host are those without an outcome, of runs of all tenants, where the host is
// of a tenant in scope.
func testOpenJobs(t *testing.T, b *backend) {
	l := b.open(t)
	accept(t, l, newRun("few", "a", 3))
	accept(t, l, newRun("others", "a", 1))
	accept(t, l, newRun("many", "", 5000)) // their list is compressed
	accept(t, l, newRun("recorded", "b", 3))
	record(t, l, "recorded", ledger.Outcome{Index: 1, Outcome: core.Changed, Attempt: 1})
	accept(t, l, newRun("range", "b", 3))
	record(t, l, "range", ledger.Outcome{Index: 1, Count: 2, Outcome: core.Cancelled})
	accept(t, l, newRun("over", "b", 2))
	record(t, l, "over", ledger.Outcome{Index: 0, Count: 2, Outcome: core.Cancelled})
	dry := newRun("dry", "b", 2)
	dry.Check = true
	accept(t, l, dry)
	all := []string{"many/1", "few/1", "dry/1"} // a page checks one run more than it may have jobs
	for _, s := range []ledger.Scope{ledger.AllTenants(), ledger.Tenants("b"), ledger.Tenants("b", "c")} {
		for limit, want := range map[int][]int{0: {3}, 3: {2, 1}, 2: {2, 1}, 1: {1, 1, 1}} {
			if got, pages := openJobs(t, l, s, "host-1", limit); !slices.Equal(got, all) || !slices.Equal(pages, want) {
				t.Errorf("limit %d: %v on pages of %v, expected %v on pages of %v", limit, got, pages, all, want)
			}
		}
	}
	for _, s := range []ledger.Scope{ledger.Tenants("a"), ledger.Tenants("c"), {}} { // host-1 is b's
		if got, _ := openJobs(t, l, s, "host-1", 0); len(got) != 0 {
			t.Errorf("another tenant sees %v", got)
		}
	}
	for host, want := range map[string][]string{"host-4999": {"many/4999"}, "host-": nil, "ost-1": nil, "a": nil, "": nil, "host-11": {"many/11"}, "host-0": {"many/0", "few/0", "others/0", "recorded/0", "range/0", "dry/0"}} {
		if got, _ := openJobs(t, l, ledger.AllTenants(), host, 0); !slices.Equal(got, want) {
			t.Errorf("host %q: %v, expected %v", host, got, want)
		}
	}
	jobs, _, err := l.OpenJobs(t.Context(), ledger.AllTenants(), "host-1", ledger.Page{})
	if err != nil || len(jobs) != 3 || jobs[0].Check || !jobs[2].Check || jobs[0].Tenant != "b" || jobs[1].Of.Tenant != "a" {
		t.Errorf("%+v, %v", jobs, err)
	}
	_, _, err = l.OpenJobs(t.Context(), ledger.AllTenants(), "host-1", ledger.Page{Cursor: "x"})
	wantErr(t, err, core.ErrInvalid, "a cursor that is none")
	// The same lists of hosts find jobs that ended.
	done, _, err := l.Jobs(t.Context(), ledger.AllTenants(), "range", ledger.JobFilter{Host: "host-1"}, ledger.Page{})
	if err != nil || len(done) != 1 || done[0].Index != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	done, _, err = l.Jobs(t.Context(), ledger.AllTenants(), "recorded", ledger.JobFilter{Host: "host-1"}, ledger.Page{})
	if err != nil || len(done) != 1 || done[0].Index != 1 {
		t.Errorf("%+v, %v", done, err)
	}
}

// A page searches 10,000 runs, and no further one behind 4 million hosts. Complete runs, and how
// many there are, do not count. Control: one search of all runs would be one page.
func testOpenJobsBounded(t *testing.T, b *backend) {
	l := b.open(t)
	accept(t, l, newRun("first", "a", 2))
	manyRuns(t, l, 30_000)
	if err := l.Raw(t.Context(), `UPDATE runs SET ended = 0, phase = 'active', recorded = 0, unchanged = 0 WHERE id LIKE 'x%' AND seq % 3 <> 0`); err != nil {
		t.Fatal(err)
	}
	one := append(binary.AppendUvarint([]byte{0}, 6), "host-x\x01a"...)
	if err := l.Raw(t.Context(), `INSERT INTO materials (run, hosts) SELECT seq, $1 FROM runs WHERE id LIKE 'x%'`, one); err != nil {
		t.Fatal(err)
	}
	accept(t, l, newRun("last", "", 2))
	analyze(t, l, "runs")
	analyze(t, l, "materials")
	both := []string{"last/1", "first/1"}
	if got, pages := openJobs(t, l, ledger.AllTenants(), "host-1", 0); !slices.Equal(got, both) || len(pages) != 3 {
		t.Errorf("%v on pages of %v, expected %v on 3", got, pages, both)
	}
	first, err := ledger.First(t.Context(), 20, func(ctx context.Context, p ledger.Page) ([]ledger.OpenJob, string, error) {
		return l.OpenJobs(ctx, ledger.AllTenants(), "host-x", p)
	})
	if err != nil || len(first) != 20 {
		t.Errorf("%d jobs, %v", len(first), err)
	}
	search, read, err := l.PlanOfOpenJobs(t.Context())
	if err != nil || strings.Count(search, "runs_standing") != 1 || strings.Contains(read, "SCAN m") || strings.Contains(read, "Seq Scan on materials") {
		t.Errorf("plans:\n%s\n%s\n%v", search, read, err)
	}
	for i := range 6 { // two of them have 4 million hosts
		if err := l.Raw(t.Context(), fmt.Sprintf(`UPDATE runs SET total = 2000000 WHERE id = 'x%d'`, 100+3*i)); err != nil {
			t.Fatal(err)
		}
	}
	if got, pages := openJobs(t, l, ledger.AllTenants(), "host-1", 0); !slices.Equal(got, both) || len(pages) != 5 {
		t.Errorf("large runs: %v on pages of %v, expected %v on 5", got, pages, both)
	}
}
