package ledger_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts/servers"
)

// hostHandlers returns the handlers that one playbook's runs of a tenant take over.
func hostHandlers(ctx context.Context, l *ledger.Ledger, tenant, playbook string) (map[string]core.Handlers, error) {
	of := ledger.HandlersOf{Tenant: tenant, Playbook: playbook}
	all, err := l.HostHandlers(ctx, of)
	return all[of], err
}

// Handlers that runs leave and take over, in the transaction of the outcome.
func testHandlers(t *testing.T, b *backend) {
	l, ctx := b.open(t), t.Context()
	owes := func(h *core.Handlers) ledger.Outcome {
		return ledger.Outcome{Index: 0, Outcome: core.Failed, Attempt: 1, Handlers: h}
	}
	left := func(run string) string {
		t.Helper()
		all, _, err := l.PendingHandlers(ctx, ledger.AllTenants(), ledger.HandlerFilter{Run: run}, ledger.Page{})
		if err != nil {
			t.Fatal(err)
		}
		out := ""
		for _, h := range slices.Backward(all) {
			out += fmt.Sprint(h.Host, ":", h.Handler, " ")
		}
		if full, err := l.FullRun(ctx, ledger.AllTenants(), run, false); err != nil || full.Handlers != len(all) {
			t.Errorf("run %s: counted %d of %d, %v", run, full.Handlers, len(all), err)
		}
		return out
	}
	first := newRun("r1", "a", 2)
	host, other := first.Jobs[0].Host, first.Jobs[1].Host
	accept(t, l, first)
	for range 2 { // delivered twice
		record(t, l, "r1", owes(&core.Handlers{Pending: []string{"web"}, Armed: []string{"log"}}))
	}
	if got, want := left("r1"), host+":log "+host+":web "; got != want {
		t.Errorf("left %q, expected %q", got, want)
	}
	owed, err := hostHandlers(ctx, l, "a", first.Playbook)
	if want := (map[string]core.Handlers{host: {From: []string{"r1"}, Pending: []string{"log", "web"}}}); err != nil || !reflect.DeepEqual(owed, want) {
		t.Errorf("owed %+v, %v; expected %+v", owed, err, want)
	}
	accept(t, l, newRun("r9", "c", 1))
	record(t, l, "r9", owes(&core.Handlers{Pending: []string{"db"}}))
	of := func(tenant string) ledger.HandlersOf {
		return ledger.HandlersOf{Tenant: tenant, Playbook: first.Playbook}
	}
	both, err := l.HostHandlers(ctx, of("c"), of("b"), of("a"), of("a"), ledger.HandlersOf{Tenant: "c", Playbook: "another"})
	if want := (map[ledger.HandlersOf]map[string]core.Handlers{of("a"): owed, of("c"): {host: {From: []string{"r9"}, Pending: []string{"db"}}}}); err != nil || !reflect.DeepEqual(both, want) {
		t.Errorf("owed %+v, %v; expected %+v", both, err, want)
	}
	for _, foreign := range [][2]string{{"b", first.Playbook}, {"a", "another"}} {
		if owed, err := hostHandlers(ctx, l, foreign[0], foreign[1]); err != nil || len(owed) > 0 {
			t.Errorf("%v owes %+v, %v", foreign, owed, err)
		}
	}

	// A run that knew nothing of them clears nothing; one that took them over leaves its own in their
	// place.
	accept(t, l, newRun("r2", "a", 2))
	record(t, l, "r2", ledger.Outcome{Index: 0, Outcome: core.Unchanged, Attempt: 1, Handlers: &core.Handlers{}})
	accept(t, l, newRun("r3", "a", 2))
	record(t, l, "r3", owes(&core.Handlers{From: []string{"r1"}, Pending: []string{"web"}}))
	if left("r1") != "" || left("r2") != "" || left("r3") != host+":web " {
		t.Errorf("left %q, %q, %q", left("r1"), left("r2"), left("r3"))
	}

	// After the queue of a run was lost, before its jobs end.
	run := accept(t, l, newRun("r4", "a", 2))
	for range 2 {
		if err := l.LeaveHandlers(ctx, run, []string{host, other}, []string{"web"}); err != nil {
			t.Fatal(err)
		}
	}
	record(t, l, "r4", ledger.Outcome{Index: 1, Outcome: core.Changed, Attempt: 1, Handlers: &core.Handlers{From: []string{"r4"}}})
	if got := left("r4"); got != host+":web " {
		t.Errorf("left %q", got)
	}

	// Dropping asks for a playbook, keeps to the scope, and is written down.
	if _, err := l.DropHandlers(ctx, ledger.AllTenants(), "ann", ledger.HandlerFilter{}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("without a playbook: %v", err)
	}
	if _, err := l.DropHandlers(ctx, ledger.Tenants("b"), "eve", ledger.HandlerFilter{Playbook: first.Playbook}); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("of another tenant: %v", err)
	}
	dropped, err := l.DropHandlers(ctx, ledger.Tenants("a"), "ann", ledger.HandlerFilter{Playbook: first.Playbook, Host: host})
	if err != nil || len(dropped) != 2 || left("r3")+left("r4") != "" {
		t.Errorf("dropped %+v, %v; left %q, %q", dropped, err, left("r3"), left("r4"))
	}
	entries, _, err := l.AuditLog(ctx, ledger.Tenants("a"), ledger.AuditFilter{}, ledger.Page{Limit: 1})
	if err != nil || len(entries) != 1 || entries[0].Action != "handlers.drop" || entries[0].Who != "ann" {
		t.Errorf("%+v, %v", entries, err)
	}
}

// DropHandlers locks all rows before it locks the audit log. In the other order it could wait for a
// row of a transaction that waits for the audit log.
func TestPostgresDropHandlersLocksTheAuditLogLast(t *testing.T) {
	t.Parallel()
	url := servers.StartPostgres(t).Database(t)
	l, ctx := open(t, url), t.Context()
	run := accept(t, l, newRun("r1", "a", 1))
	var hosts []string
	for i := range 50 { // several entries of the audit log
		hosts = append(hosts, fmt.Sprint("host-", i))
	}
	if err := l.LeaveHandlers(ctx, run, hosts, []string{"web"}); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	other, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback() }()
	do := func(query string) {
		t.Helper()
		if _, err := other.ExecContext(ctx, query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	do(`SELECT 1 FROM handlers ORDER BY seq DESC LIMIT 1 FOR UPDATE`)
	dropped := make(chan error, 1)
	go func() {
		_, err := l.DropHandlers(ctx, ledger.AllTenants(), "ann", ledger.HandlerFilter{Playbook: run.Playbook})
		dropped <- err
	}()
	for waits := false; !waits; {
		select {
		case err := <-dropped:
			t.Fatalf("it did not wait for the row: %v", err)
		default:
		}
		if err := other.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))) FROM pg_sleep(0.01)`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	do(`SELECT 1 FROM audit_head WHERE one = 1 FOR UPDATE NOWAIT`)
	if err := errors.Join(other.Rollback(), <-dropped); err != nil {
		t.Fatal(err)
	}
	entries, _, err := l.AuditLog(ctx, ledger.AllTenants(), ledger.AuditFilter{Action: "handlers.drop"}, ledger.Page{})
	if err != nil || len(entries) != 3 {
		t.Errorf("%d entries, %v, expected 3: %+v", len(entries), err, entries)
	}
}
