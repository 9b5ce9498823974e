package ledger_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// manyRuns adds complete runs by SQL, of the tenants b, a and a in this order, each
// with one job that ended as unchanged.
func manyRuns(t *testing.T, l *ledger.Ledger, n int) {
	t.Helper()
	if err := l.Raw(t.Context(), fmt.Sprintf(`INSERT INTO runs (id, tenant, playbook, revision, launched_by, created, ended, criticality, phase, request, total, recorded, unchanged)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		SELECT 'x' || i, CASE WHEN i %% 3 = 0 THEN 'b' ELSE 'a' END, 'patch', '', 'alice', i, i, 5, 'finished', '', 1, 1, 1 FROM n`, n)); err != nil {
		t.Fatal(err)
	}
	analyze(t, l, "runs")
}

// analyze does what PostgreSQL does automatically elsewhere; SQLite never does.
func analyze(t *testing.T, l *ledger.Ledger, table string) {
	t.Helper()
	if l.Database() == "postgres" {
		if err := l.Raw(t.Context(), `ANALYZE `+table); err != nil {
			t.Fatal(err)
		}
	}
}

// pagesOf reads a list to its end, and returns how many entries each page has.
func pagesOf[T any](t *testing.T, list func(context.Context, ledger.Page) ([]T, string, error)) (all []T, pages []int) {
	t.Helper()
	for p := (ledger.Page{Limit: ledger.MaxPage}); ; {
		some, next, err := list(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if all, pages = append(all, some...), append(pages, len(some)); next == "" || len(pages) > 100 {
			return all, pages
		}
		p.Cursor = next
	}
}

// A page checks at most 10,000 rows by a filter that no index has: the oldest of 25,001 is on the
// third page. All pages together have each entry once. Control: the filter of an index finds it on
// the first page.
func testSiftedPages(t *testing.T, b *backend) {
	l := b.open(t)
	manyRuns(t, l, 25_000)
	if err := l.Raw(t.Context(), `UPDATE runs SET launched_by = 'bob', playbook = 'rare', lost = 1 WHERE id = 'x1'`); err != nil {
		t.Fatal(err)
	}
	analyze(t, l, "runs")
	a, several := ledger.Tenants("a"), ledger.Tenants("a", "none")
	for name, c := range map[string]struct {
		scope ledger.Scope
		f     ledger.RunFilter
		pages int
	}{
		"launched by":                 {ledger.AllTenants(), ledger.RunFilter{By: "bob"}, 3},
		"launched by, of a tenant":    {a, ledger.RunFilter{By: "bob"}, 2}, // of 16,667 runs
		"launched by, of tenants":     {several, ledger.RunFilter{By: "bob"}, 3},
		"with an outcome":             {ledger.AllTenants(), ledger.RunFilter{By: "bob", Outcome: core.Unchanged}, 3},
		"that finished":               {ledger.AllTenants(), ledger.RunFilter{By: "bob", Phase: ledger.PhaseFinished}, 3},
		"of a playbook":               {ledger.AllTenants(), ledger.RunFilter{By: "bob", Playbook: "rare"}, 1},
		"control: an outcome":         {ledger.AllTenants(), ledger.RunFilter{Outcome: core.Lost}, 1},
		"control: a tenant's outcome": {a, ledger.RunFilter{Outcome: core.Lost}, 1},
	} {
		list := func(ctx context.Context, p ledger.Page) ([]ledger.Run, string, error) {
			return l.Runs(ctx, c.scope, c.f, p)
		}
		found, pages := pagesOf(t, list)
		if len(found) != 1 || found[0].ID != "x1" || len(pages) != c.pages || pages[len(pages)-1] != 1 {
			t.Errorf("%s: %v on pages of %v, expected x1 on the last of %d", name, names(found), pages, c.pages)
		}
		if first, err := ledger.First(t.Context(), 5, list); err != nil || len(first) != 1 {
			t.Errorf("%s: the first ones are %v, %v", name, names(first), err)
		}
		if plan, err := l.PlanOfRuns(t.Context(), c.scope, c.f); err != nil || strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "Sort") {
			t.Errorf("%s: the rows are sorted: %s, %v", name, plan, err)
		}
	}
	for name, f := range map[string]ledger.RunFilter{"nobody": {By: "nobody"}, "an outcome that never occurs": {Outcome: core.Failed, By: "bob"}} {
		all, pages := pagesOf(t, func(ctx context.Context, p ledger.Page) ([]ledger.Run, string, error) {
			return l.Runs(ctx, several, f, p)
		})
		if len(all) != 0 || len(pages) > 3 {
			t.Errorf("%s: %v on pages of %v", name, names(all), pages)
		}
	}
	testCursorsAreOfOwnRuns(t, l)
	all, pages := pagesOf(t, func(ctx context.Context, p ledger.Page) ([]ledger.Run, string, error) {
		return l.Runs(ctx, ledger.Tenants("b", "none"), ledger.RunFilter{}, p)
	})
	for i := range all {
		if want := fmt.Sprint("x", 24_999-3*i); all[i].ID != want {
			t.Fatalf("run %d of a tenant is %s, expected %s; pages of %v", i, all[i].ID, want, pages)
		}
	}
	if len(all) != 8333 {
		t.Errorf("%d runs of a tenant, expected 8333", len(all))
	}
}

// A cursor of a tenant has the time and the number of a run of that tenant only, though 10,000 rows
// end at one of another: every third run is b's. All of its runs are listed, and pages of a tenant
// without runs end. Control: a cursor of all tenants is behind the last row that was checked.
func testCursorsAreOfOwnRuns(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	for tenant, pages := range map[string]int{"b": 3, "none": 1} {
		for name, f := range map[string]ledger.RunFilter{"a playbook": {Playbook: "patch", By: "nobody"}, "an outcome": {Outcome: core.Unchanged, By: "nobody"}} {
			all, next, n := []ledger.Run{}, "", 0
			for n == 0 || next != "" {
				some, after, err := l.Runs(t.Context(), ledger.Tenants(tenant), f, ledger.Page{Cursor: next})
				if err != nil {
					t.Fatal(err)
				}
				all, next, n = append(all, some...), after, n+1
				if at := keyOf(t, next); next != "" && (at[0]%3 != 0 || at[1] != at[0]+1) {
					t.Errorf("%s: a cursor of tenant %s is at %v", name, tenant, at)
				}
			}
			if len(all) != 0 || n != pages {
				t.Errorf("%s: tenant %s has %v on %d pages, expected %d", name, tenant, names(all), n, pages)
			}
		}
	}
	_, next, err := l.Runs(t.Context(), ledger.AllTenants(), ledger.RunFilter{Playbook: "patch", By: "nobody"}, ledger.Page{})
	if at := keyOf(t, next); err != nil || at[0] != 15_001 || at[0] != at[1] {
		t.Errorf("the cursor of all tenants is at %v, %v", at, err)
	}
}

// keyOf returns the numbers of a cursor; nil of "".
func keyOf(t *testing.T, cursor string) []int64 {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	var at struct{ K []int64 }
	if err == nil && cursor != "" {
		err = json.Unmarshal(data, &at)
	}
	if err != nil {
		t.Fatal(err)
	}
	return at.K
}

// The filters of lists that a page of the web shows have an index: the oldest entry is found behind
// many others. Those without one are bounded.
func testListsByIndex(t *testing.T, b *backend) {
	l := b.open(t)
	accept(t, l, newRun("r1", "a", 1)) // with an entry in the audit log
	for _, sql := range []string{
		`INSERT INTO handlers (tenant, playbook, host, handler, run, since) SELECT 'a', 'p', 'h' || i, 'restart', 'r', i FROM n`,
		`INSERT INTO notifications (id, service, tenant, channel, medium, kind, subject, run, state, made, begun, due, settled) SELECT 'n' || i, 0, 'a', 'c', 'mail', 'k', 's', '', CASE WHEN i = 1 THEN 'dead' ELSE 'sent' END, i, i, i, i FROM n`,
		`INSERT INTO audit (seq, at, who, tenant, action, kind, subject, before, after, hash) SELECT (SELECT max(seq) FROM audit) + i, i, 'alice', 'a', 'run.x', 'run', 'x', '', '', '' FROM n`,
	} {
		into, from, _ := strings.Cut(sql, ") ")
		if err := l.Raw(t.Context(), into+`) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10500) `+from); err != nil {
			t.Fatal(err)
		}
	}
	analyze(t, l, "handlers")
	analyze(t, l, "notifications")
	analyze(t, l, "audit")
	for _, s := range []ledger.Scope{ledger.AllTenants(), ledger.Tenants("a"), ledger.Tenants("a", "b")} {
		handlers := func(f ledger.HandlerFilter) []int {
			_, pages := pagesOf(t, func(ctx context.Context, p ledger.Page) ([]ledger.PendingHandler, string, error) {
				return l.PendingHandlers(ctx, s, f, p)
			})
			return pages
		}
		notices := func(f ledger.NotificationFilter) []int {
			_, pages := pagesOf(t, func(ctx context.Context, p ledger.Page) ([]ledger.Notification, string, error) {
				return l.Notifications(ctx, s, f, p)
			})
			return pages
		}
		entries := func(f ledger.AuditFilter) []int {
			_, pages := pagesOf(t, func(ctx context.Context, p ledger.Page) ([]ledger.Entry, string, error) {
				return l.AuditLog(ctx, s, f, p)
			})
			return pages
		}
		for what, c := range map[string]struct{ got, want []int }{
			"handlers of a host":            {handlers(ledger.HandlerFilter{Host: "h1"}), []int{1}},
			"handlers of nobody's playbook": {handlers(ledger.HandlerFilter{Playbook: "q"}), []int{0, 0}},
			"dead-lettered":                 {notices(ledger.NotificationFilter{State: ledger.NotificationDeadLettered}), []int{1}},
			"of a channel that is none":     {notices(ledger.NotificationFilter{Channel: "none"}), []int{0, 0}},
			"about a run":                   {entries(ledger.AuditFilter{Kind: "run", Subject: "r1"}), []int{1}},
			"by the one of the oldest":      {entries(ledger.AuditFilter{Action: "run.accept"}), []int{0, 1}},
		} {
			if fmt.Sprint(c.got) != fmt.Sprint(c.want) {
				t.Errorf("%s: pages of %v, expected %v", what, c.got, c.want)
			}
		}
	}
}
