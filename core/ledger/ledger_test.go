package ledger_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

func openSQLite(tb testing.TB) *ledger.Ledger {
	tb.Helper()
	return open(tb, "sqlite:"+filepath.Join(tb.TempDir(), "ledger #1?.db"))
}

func open(tb testing.TB, url string) *ledger.Ledger {
	tb.Helper()
	l, err := ledger.Open(tb.Context(), url, ledger.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}

// newRun is a run of n jobs on hosts host-0 and so on, of the customers a and b in turn.
func newRun(id, tenant string, n int) ledger.NewRun {
	r := ledger.NewRun{
		ID: id, Tenant: tenant, Playbook: "patch", Revision: "4f1a", LaunchedBy: "alice",
		Snapshot: []byte("snapshot of " + id), Queue: []byte("queue of " + id),
	}
	for i := range n {
		r.Jobs = append(r.Jobs, ledger.JobHost{Host: fmt.Sprintf("host-%d", i), Tenant: string(rune('a' + i%2))})
	}
	return r
}

func TestAcceptRecordRead(t *testing.T) {
	l := openSQLite(t)
	ctx := t.Context()
	if _, created, err := l.Accept(ctx, newRun("r1", "a", 3)); err != nil || !created {
		t.Fatal(created, err)
	}
	got, err := l.Record(ctx, ledger.Batch{Run: "r1", Outcomes: []ledger.Outcome{
		{Index: 1, Outcome: core.Changed, Attempt: 1, Worker: "w1", Started: time.Now(), Took: time.Second, Detail: []byte(`{"steps":[]}`)},
		{Index: 0, Count: 3, Outcome: core.Cancelled, Reason: "enough"},
	}})
	if err != nil || got[0].New != 3 || got[0].Known != 1 || !got[0].Complete {
		t.Fatal(got, err)
	}
	r, err := l.Run(ctx, ledger.Tenants("a"), "r1")
	if err != nil || r.Phase != ledger.PhaseFinished || r.Outcomes[core.Changed] != 1 || r.Outcomes[core.Cancelled] != 2 {
		t.Fatal(r, err)
	}
	for i, want := range []core.Outcome{core.Cancelled, core.Changed, core.Cancelled} {
		j, err := l.Job(ctx, ledger.Tenants("a"), core.JobID{Run: "r1", Index: i})
		if err != nil || j.Outcome != want || j.Host != fmt.Sprint("host-", i) {
			t.Error(j, err)
		}
	}
	if d, err := l.Detail(ctx, ledger.AllTenants(), core.JobID{Run: "r1", Index: 1}); err != nil || string(d) != `{"steps":[]}` {
		t.Errorf("%q %v", d, err)
	}
}
