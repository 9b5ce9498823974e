package ledger_test

import (
	"context"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// The handlers that a job saves are replaced by those that it saves later, and by its outcome.
func testSavedHandlers(t *testing.T, b *backend) {
	l, ctx := b.open(t), t.Context()
	n := newRun("r1", "a", 2)
	run, host := accept(t, l, n), n.Jobs[0].Host
	owed := func() []string {
		t.Helper()
		all, err := hostHandlers(ctx, l, "a", n.Playbook)
		if err != nil {
			t.Fatal(err)
		}
		return all[host].Pending
	}
	for _, saved := range [][]string{{"web"}, {"log", "web"}, {"log"}} {
		if err := l.ReplaceHandlers(ctx, run, host, core.Handlers{Pending: saved}); err != nil {
			t.Fatal(err)
		}
		if got := owed(); !reflect.DeepEqual(got, saved) {
			t.Errorf("saved %v, owed %v", saved, got)
		}
	}
	record(t, l, "r1", ledger.Outcome{Index: 0, Outcome: core.Changed, Attempt: 1, Handlers: &core.Handlers{}})
	if got := owed(); len(got) != 0 {
		t.Errorf("owed %v after all of them ran", got)
	}
}

// A server claims the runs that it names, and no others.
func testClaimOf(t *testing.T, b *backend) {
	l, ctx := b.open(t), t.Context()
	for _, id := range []string{"r1", "r2", "r3"} {
		accept(t, l, newRun(id, "a", 1))
	}
	claims, err := l.ClaimOf(ctx, "me", "q", time.Minute, []string{"r3", "r1", "none"})
	if err != nil || len(claims) != 2 || claims[0].Run.ID != "r1" || claims[1].Run.ID != "r3" {
		t.Fatalf("%+v, %v", claims, err)
	}
	if claims, err := l.ClaimOf(ctx, "you", "q", time.Minute, []string{"r1"}); err != nil || len(claims) != 0 {
		t.Errorf("claimed twice: %+v, %v", claims, err)
	}
	if claims, err := l.ClaimNext(ctx, "you", "q", time.Minute, 10, 1000); err != nil || len(claims) != 1 || claims[0].Run.ID != "r2" { // the negative control
		t.Errorf("%+v, %v", claims, err)
	}
}

func openPrivate(t *testing.T, broken func(error)) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(context.Background(), "sqlite:"+filepath.Join(t.TempDir(), "l.db"), ledger.Options{Private: true, Broken: broken})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// A person's own ledger has no audit log, and nothing to send. Handlers that were imported are
// taken over whatever the run's tenant.
func TestPrivateLedger(t *testing.T) {
	t.Parallel()
	l, ctx := openPrivate(t, nil), t.Context()
	n := newRun("r1", "a", 1)
	host := n.Jobs[0].Host
	imported := ledger.PendingHandler{Playbook: n.Playbook, Host: host, Handler: "web", Run: "old", Since: time.Unix(1, 0)}
	for range 2 {
		if err := l.ImportHandlers(ctx, []ledger.PendingHandler{imported}); err != nil {
			t.Fatal(err)
		}
	}
	owed, err := hostHandlers(ctx, l, "a", n.Playbook)
	if want := (map[string]core.Handlers{host: {From: []string{"old"}, Pending: []string{"web"}}}); err != nil || !reflect.DeepEqual(owed, want) {
		t.Errorf("owed %+v, %v", owed, err)
	}
	accept(t, l, n)
	record(t, l, "r1", ledger.Outcome{Index: 0, Outcome: core.Changed, Attempt: 1, Handlers: &core.Handlers{From: []string{"old"}}})
	if owed, err := hostHandlers(ctx, l, "a", n.Playbook); err != nil || len(owed) > 0 {
		t.Errorf("owed %+v, %v", owed, err)
	}
	if entries, _, err := l.AuditLog(ctx, ledger.AllTenants(), ledger.AuditFilter{}, ledger.Page{}); err != nil || len(entries) > 0 {
		t.Errorf("%+v, %v", entries, err)
	}
	if news, err := l.Happenings(ctx, 10); err != nil || len(news) > 0 {
		t.Errorf("%+v, %v", news, err)
	}
}

// A storage that is full is reported; a mistake of the caller is not.
func TestBrokenStorageIsReported(t *testing.T) {
	t.Parallel()
	var reported []error
	l := openPrivate(t, func(err error) { reported = append(reported, err) })
	ctx := t.Context()
	if _, err := l.Cancel(ctx, ledger.AllTenants(), "", "none", ""); err == nil || len(reported) > 0 {
		t.Errorf("%v, reported %v", err, reported)
	}
	if err := l.Raw(ctx, `PRAGMA max_page_count = 1`); err != nil { // what it has stays
		t.Fatal(err)
	}
	for i := 0; len(reported) == 0 && i < 1000; i++ {
		n := newRun("r"+time.Duration(i).String(), "a", 1)
		n.Snapshot = make([]byte, 4<<10)
		for j := range n.Snapshot {
			n.Snapshot[j] = byte(i*j*j + j>>3) // packs badly
		}
		if _, _, err := l.Accept(ctx, n); err != nil && len(reported) == 0 {
			t.Fatalf("no report of %v", err)
		}
	}
	if len(reported) == 0 {
		t.Error("it never got full")
	}
}
