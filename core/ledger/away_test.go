package ledger_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts/servers"
)

// A PostgreSQL that is gone is core.ErrUnavailable, whatever is asked, and no hang.
func TestPostgresAway(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	l := open(t, server.Database(t))
	accept(t, l, newRun("r1", "", 2))
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 {
		_, err := l.Run(ctx, ledger.AllTenants(), "r1")
		wantErr(t, err, core.ErrUnavailable, "read")
		_, _, err = l.Accept(ctx, newRun("r2", "", 2))
		wantErr(t, err, core.ErrUnavailable, "write")
		_, err = l.Record(ctx, ledger.Batch{Run: "r1", Outcomes: []ledger.Outcome{{Outcome: core.Changed}}})
		wantErr(t, err, core.ErrUnavailable, "record")
		wantErr(t, l.Ping(ctx), core.ErrUnavailable, "ping")
	}
}

// SQLite would continue with a file that was removed or replaced, and everything accepted since
// would be lost with the process.
func TestASQLiteFileThatIsGoneTakesNothing(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, file string){
		"removed": func(*testing.T, string) {},
		"replaced": func(t *testing.T, file string) {
			t.Helper()
			wantErr(t, os.WriteFile(file, nil, 0o600), nil, "replace")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "ledger.db")
			l := open(t, "sqlite:"+file)
			accept(t, l, newRun("r1", "", 2))
			wantErr(t, os.Rename(file, file+".away"), nil, "rename")
			lose(t, file)
			_, _, err := l.Accept(t.Context(), newRun("r2", "", 2))
			wantErr(t, err, core.ErrUnavailable, "accept")
			_, err = l.Record(t.Context(), ledger.Batch{Run: "r1", Outcomes: []ledger.Outcome{{Outcome: core.Changed}}})
			wantErr(t, err, core.ErrUnavailable, "record")
			wantErr(t, l.Ping(t.Context()), core.ErrUnavailable, "ping")
			wantErr(t, os.Rename(file+".away", file), nil, "put it back")
			accept(t, l, newRun("r2", "", 2))
			wantErr(t, l.Ping(t.Context()), nil, "ping of the file that came back")
		})
	}
}

// A PostgreSQL that takes no writes, as a standby or one that somebody set read-only, is
// core.ErrUnavailable for writes: later they may succeed. It answers reads.
func TestFaultReadOnlyPostgresIsUnavailable(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgres(t)
	url := server.Database(t)
	l := open(t, url)
	accept(t, l, newRun("r1", "", 2))
	server.Exec(t, url, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`)
	if err := server.Disconnect(t); err != nil { // the setting is of new connections
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); l.Ping(t.Context()) != nil; {
		if time.Now().After(deadline) {
			t.Fatal("no new connection within two minutes")
		}
	}
	_, err := l.Run(t.Context(), ledger.AllTenants(), "r1")
	wantErr(t, err, nil, "read")
	_, _, err = l.Accept(t.Context(), newRun("r2", "", 2))
	wantErr(t, err, core.ErrUnavailable, "accept")
	_, err = l.Record(t.Context(), ledger.Batch{Run: "r1", Outcomes: []ledger.Outcome{{Outcome: core.Changed}}})
	wantErr(t, err, core.ErrUnavailable, "record")
	_, err = l.ClaimNext(t.Context(), "server", "queue", time.Minute, 10, 1000)
	wantErr(t, err, core.ErrUnavailable, "claim")
	wantRefused(t, l.Ping(t.Context()), "after a write was refused, ping asks for one")
	server.Exec(t, url, `BEGIN READ WRITE; DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET default_transaction_read_only', current_database()); END $$; COMMIT`)
	if err := server.Disconnect(t); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); l.Ping(t.Context()) != nil; {
		if time.Now().After(deadline) {
			t.Fatal("no writes within two minutes")
		}
	}
	accept(t, l, newRun("r2", "", 2))
}

// A SQLite file that may not grow answers reads, and its error shows what to do about writes.
func TestAFullSQLiteIsRefused(t *testing.T) {
	t.Parallel()
	l := onSQLite().open(t)
	accept(t, l, newRun("r1", "", 2))
	wantErr(t, l.Writable(t.Context()), nil, "the control: it takes writes")
	wantErr(t, l.Raw(t.Context(), "PRAGMA max_page_count = 1"), nil, "limit the file") // as small as it is
	wantErr(t, l.Ping(t.Context()), nil, "ping before a write was refused")
	large := newRun("r2", "", 2)
	large.Snapshot = make([]byte, 1<<20)
	_, _ = rand.Read(large.Snapshot) // never fails
	_, _, err := l.Accept(t.Context(), large)
	wantRefused(t, err, "accept")
	_, err = l.Run(t.Context(), ledger.AllTenants(), "r1")
	wantErr(t, err, nil, "read")
}

// wantRefused also checks that the error has a hint.
func wantRefused(t *testing.T, err error, what string) {
	t.Helper()
	wantErr(t, err, core.ErrUnavailable, what)
	var refused *ledger.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "\nhint: ") {
		t.Errorf("%s: %v", what, err)
	}
}

// A context that has ended changes nothing, and is no database that is away.
func TestCancelledContext(t *testing.T) {
	l := onSQLite().open(t)
	accept(t, l, newRun("r1", "", 2))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := l.Accept(ctx, newRun("r2", "", 2))
	wantErr(t, err, context.Canceled, "accept")
	_, err = l.Run(ctx, ledger.AllTenants(), "r1")
	wantErr(t, err, context.Canceled, "read")
	_, err = l.Run(t.Context(), ledger.AllTenants(), "r2")
	wantErr(t, err, core.ErrNotFound, "what was cancelled")
}

// A plan that was made while a table was empty must not outlive that state.
func TestPostgresPlansEachTime(t *testing.T) {
	l, err := ledger.Open(t.Context(), servers.StartPostgres(t).Database(t), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := l.Raw(t.Context(), `DO $$ BEGIN IF current_setting('plan_cache_mode') <> 'force_custom_plan' THEN RAISE 'plans are kept'; END IF; END $$`); err != nil {
		t.Error(err)
	}
}

// A commit after the end of its context was cancelled; without that end its result is unknown.
func TestCommitAfterTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	if err := ledger.TranslateCommit(ended, "x", sql.ErrTxDone); !errors.Is(err, context.Canceled) || errors.Is(err, core.ErrUnknown) {
		t.Errorf("got %v, expected that it was cancelled", err)
	}
	if err := ledger.TranslateCommit(t.Context(), "x", sql.ErrTxDone); !errors.Is(err, core.ErrUnknown) {
		t.Errorf("got %v, expected that nobody knows", err)
	}
}

// If the answer to a commit is lost, the row may name the new object: neither object is removed.
func TestAnUnknownCommitLosesNoOutput(t *testing.T) {
	t.Parallel()
	ctx, id := t.Context(), core.JobID{Run: "r1"}
	v := &vault{t, "sqlite:" + filepath.Join(t.TempDir(), "ledger.db"), t.TempDir()}
	plain := v.open(nil)
	accept(t, plain, newRun("r1", "", 1))
	plain.LoseAnswers()
	_, err := plain.PutOutput(ctx, id, "x", strings.NewReader(large))
	wantErr(t, err, core.ErrUnknown, "put")
	whole := func(l *ledger.Ledger, after string) {
		t.Helper()
		r, _, err := l.OpenOutput(ctx, ledger.AllTenants(), id, "x", 0, -1)
		if err != nil {
			t.Fatalf("%s: %v", after, err)
		}
		defer func() { _ = r.Close() }()
		if got, err := io.ReadAll(r); err != nil || string(got) != large {
			t.Errorf("%s: %d bytes, %v, expected %d", after, len(got), err, len(large))
		}
	}
	whole(plain, "put")
	ring, _ := newRing(t, keyring.Options{AcceptPlain: true})
	migrating := v.open(ring)
	migrating.LoseAnswers()
	err = core.ErrUnknown
	failed := 0
	for errors.Is(err, core.ErrUnknown) { // each value takes one call: its commit happens
		var done ledger.Reencrypted
		done, err = migrating.Reencrypt(ctx, nil)
		failed += done.Failed
	}
	if err != nil || failed != 1 {
		t.Fatalf("the object's commit got an answer: %d failed, %v", failed, err)
	}
	whole(migrating, "re-encrypt")
}
