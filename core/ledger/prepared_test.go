package ledger

import (
	"path/filepath"
	"strings"
	"testing"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// Queries of a server are prepared once, whatever the bounds are. Control: with a
// parameter alone as the bound SQLite prepares it each time.
func TestStatementsArePreparedOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "l.db")
	l, err := Open(t.Context(), "sqlite:"+file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx := t.Context()
	for what, ask := range map[string]func() error{
		"runs":       func() error { _, _, err := l.Runs(ctx, AllTenants(), RunFilter{}, Page{}); return err },
		"phase":      func() error { _, _, err := l.Runs(ctx, AllTenants(), RunFilter{Phase: "running"}, Page{}); return err },
		"cancelled":  func() error { _, err := l.Ending(ctx); return err },
		"claims":     func() error { _, err := l.ClaimNext(ctx, "s", "i", 1, 1, 1); return err },
		"happenings": func() error { _, err := l.Happenings(ctx, 1); return err },
		"schedules":  func() error { _, err := l.DueSchedules(ctx, 1); return err },
	} {
		if err := ask(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	bounded := 0
	l.db.statements.Range(func(text, _ any) bool {
		query := text.(string)
		if n := preparedAgain(t, file, preparedOnce(query)); n > 0 {
			t.Errorf("prepared %d times more: %s", n, query)
		}
		if strings.Contains(query, "LIMIT $") {
			bounded++
			if preparedAgain(t, file, query) == 0 {
				t.Errorf("the control is prepared once: %s", query)
			}
		}
		return true
	})
	if bounded < 4 {
		t.Errorf("only %d statements have a bound: what is tested?", bounded)
	}
}

// preparedAgain executes a query three times, each with other values, and returns how often SQLite
// prepared it after the first time. The driver does not report it, so it asks below the driver.
func preparedAgain(t *testing.T, file, query string) int32 {
	t.Helper()
	tls := libc.NewTLS()
	defer tls.Close()
	pointers := libc.Xcalloc(tls, 2, 8)
	defer libc.Xfree(tls, pointers)
	name, err := libc.CString(file)
	if err != nil {
		t.Fatal(err)
	}
	defer libc.Xfree(tls, name)
	text, err := libc.CString(query)
	if err != nil {
		t.Fatal(err)
	}
	defer libc.Xfree(tls, text)
	at := func(offset uintptr) uintptr { return libc.AtomicLoadPUintptr(pointers + offset) }
	if rc := sqlite3.Xsqlite3_open_v2(tls, name, pointers, sqlite3.SQLITE_OPEN_READWRITE, 0); rc != sqlite3.SQLITE_OK {
		t.Fatalf("open: %d", rc)
	}
	defer sqlite3.Xsqlite3_close_v2(tls, at(0))
	if rc := sqlite3.Xsqlite3_prepare_v2(tls, at(0), text, -1, pointers+8, 0); rc != sqlite3.SQLITE_OK {
		t.Fatalf("prepare: %d: %s", rc, query)
	}
	stmt := at(8)
	defer sqlite3.Xsqlite3_finalize(tls, stmt)
	for value := range int64(3) {
		for i := range sqlite3.Xsqlite3_bind_parameter_count(tls, stmt) {
			sqlite3.Xsqlite3_bind_int64(tls, stmt, i+1, value+1)
		}
		sqlite3.Xsqlite3_step(tls, stmt)
		sqlite3.Xsqlite3_reset(tls, stmt)
	}
	return sqlite3.Xsqlite3_stmt_status(tls, stmt, sqlite3.SQLITE_STMTSTATUS_REPREPARE, 0)
}
