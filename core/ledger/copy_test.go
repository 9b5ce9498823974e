package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

func names(runs []ledger.Run) (text string) {
	for _, r := range runs {
		text += r.ID + " "
	}
	return text
}

// copied is a copy in memory.
type copied struct {
	version int
	tables  []ledger.Table
	rows    map[string][][]any
}

func readCopy(tb testing.TB, url string) copied {
	tb.Helper()
	all := copied{rows: map[string][][]any{}}
	err := ledger.ReadCopy(tb.Context(), url, func(ctx context.Context, c *ledger.Copy) error {
		all.version, all.tables = c.Version, c.Tables
		for _, t := range c.Tables {
			_, err := c.Rows(ctx, t, func(row []any) error {
				all.rows[t.Name] = append(all.rows[t.Name], slices.Clone(row))
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

// load fills an empty ledger; after so many rows it breaks off, 0 is never.
func (c copied) load(ctx context.Context, url string, after int) error {
	n := 0
	return ledger.Load(ctx, url, c.version, "copy-1", func(ctx context.Context, l *ledger.Loader) error {
		for _, t := range c.tables {
			rows := c.rows[t.Name]
			_, err := l.Table(ctx, t, func() ([]any, error) {
				if n++; n == after {
					return nil, errBroken
				}
				if len(rows) == 0 {
					return nil, io.EOF
				}
				row := rows[0]
				rows = rows[1:]
				return row, nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

var errBroken = errors.New("broken off")

// text is all rows of a copy but what loading changes.
func (c copied) text() string {
	var b strings.Builder
	for _, t := range c.tables {
		fmt.Fprintln(&b, t.Name, t.Columns, t.Serial, t.Last)
		for _, row := range c.rows[t.Name] {
			if t.Name == "documents" && row[0] == "ledger" {
				continue
			}
			if t.Name == "schedules" {
				row = slices.Clone(row)
				row[slices.IndexFunc(t.Columns, func(c ledger.Column) bool { return c.Name == "passed" })] = int64(0)
			}
			fmt.Fprintf(&b, "  %q\n", row)
		}
	}
	return b.String()
}

// everything puts something into each table; runs are complete or wait for an approval.
func everything(tb testing.TB, l *ledger.Ledger) {
	tb.Helper()
	ctx := tb.Context()
	accept(tb, l, newRun("done", "a", 5))
	record(tb, l, "done", ledger.Outcome{Index: 0, Outcome: core.Lost, Attempt: 1, Reason: "wörd \"quoted\"\n\u2028", Detail: []byte("detail\x00\xff"), Handlers: &core.Handlers{Pending: []string{"restart"}},
		Facts: core.Gathered(map[string]any{"kernel": "6.12"}, time.Now())}, ledger.Outcome{Index: 1, Count: 4, Outcome: core.Cancelled})
	done, err := l.Run(ctx, ledger.AllTenants(), "done")
	if err == nil {
		_, _, err = l.ElectOnce(ctx, &done, 2, 1)
	}
	if err != nil {
		tb.Fatal(err)
	}
	if err := l.KeepOnce(ctx, &done, 2, 1, []byte("result")); err != nil {
		tb.Fatal(err)
	}
	n := newRun("waits", "b", 2)
	n.Approvals, n.Key = 2, "key"
	accept(tb, l, n)
	if _, err := l.Decide(ctx, ledger.AllTenants(), "waits", ledger.Decision{Wave: -1, By: "carol", Approved: true}); err != nil {
		tb.Fatal(err)
	}
	if _, err := l.PutOutput(ctx, core.JobID{Run: "done"}, "0/stdout", strings.NewReader("hello")); err != nil {
		tb.Fatal(err)
	}
	if _, _, err := l.NewToken(ctx, "root", ledger.Token{Name: "x", AllTenants: true, Roles: []string{"admin"}}); err != nil {
		tb.Fatal(err)
	}
	if _, err := l.PutDocument(ctx, ledger.AllTenants(), "ann", ledger.Document{Kind: "k", Tenant: "a", Name: "n", Data: []byte(strings.Repeat("data ", 99))}, 0); err != nil {
		tb.Fatal(err)
	}
	if _, err := l.ChangeSchedules(ctx, []ledger.ScheduleChange{{Schedule: ledger.Schedule{Tenant: "a", Name: "s", Data: []byte("data")}, Put: true}}); err != nil {
		tb.Fatal(err)
	}
	if _, err := l.NewNotification(ctx, "ann", message("n1", "test:n1")); err != nil {
		tb.Fatal(err)
	}
	accept(tb, l, newRun("pruned", "", 1)) // its number never comes again
	record(tb, l, "pruned", ledger.Outcome{Outcome: core.Changed})
	if p, err := l.Prune(ctx, "pruned", 99); err != nil || p.More {
		tb.Fatal(p, err)
	}
}

func testCopy(t *testing.T, b *backend) {
	ctx := t.Context()
	from := b.fresh(t)
	l := open(t, from)
	everything(t, l)
	all := readCopy(t, from)
	for _, table := range all.tables {
		if len(all.rows[table.Name]) == 0 {
			t.Errorf("table %s is empty: this test would not see that it is left out", table.Name)
		}
	}
	into := b.fresh(t)
	if err := all.load(ctx, into, 7); !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	if err := all.load(ctx, into, 0); err != nil { // what was broken off has left nothing
		t.Fatal(err)
	}
	if got, want := readCopy(t, into).text(), all.text(); got != want {
		t.Errorf("the copy of the copy:\n%s\nexpected:\n%s", got, want)
	}
	wantErr(t, all.load(ctx, into, 0), core.ErrInvalid, "a ledger that is not empty")

	second := open(t, into)
	sound(t, second)
	if at, id, err := second.Restored(ctx); err != nil || id != "copy-1" || time.Since(at) > time.Hour {
		t.Errorf("restored %v from %q, %v", at, id, err)
	}
	if at, _, err := l.Restored(ctx); err != nil || !at.IsZero() {
		t.Errorf("the first one was restored at %v, %v", at, err)
	}
	// The guards are back, and numbers continue behind those that were given out.
	for _, harm := range []string{`UPDATE audit SET who = 'x'`, `DELETE FROM audit_head`, `UPDATE audit_head SET seq = seq + 2`} {
		if err := second.Raw(ctx, harm); err == nil {
			t.Errorf("%s is let through", harm)
		}
	}
	accept(t, second, newRun("new", "", 1))
	accept(t, l, newRun("new", "", 1))
	if got, want := readCopy(t, into).rows["runs"][2][0], readCopy(t, from).rows["runs"][2][0]; got != want {
		t.Errorf("the next run has the number %v, expected %v", got, want)
	}

	all.version++
	wantErr(t, all.load(ctx, b.fresh(t), 0), core.ErrInvalid, "a copy of a newer program")
	all.version = 1
	wantErr(t, all.load(ctx, b.fresh(t), 0), core.ErrInvalid, "tables that the version has not")
}

// A run that was in a queue, or about to be, comes back as of a queue that was lost.
func testCopyHoldsRuns(t *testing.T, b *backend) {
	ctx := t.Context()
	from, into := b.fresh(t), b.fresh(t)
	l := open(t, from)
	for _, id := range []string{"queued", "active", "paused"} {
		accept(t, l, newRun(id, "", 2))
	}
	enqueue(t, l, "active", "q1")
	if _, err := l.SetPhase(ctx, ledger.AllTenants(), "bob", "paused", ledger.PhasePaused, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Claim(ctx, "s1", "queued", "q1", time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := readCopy(t, from).load(ctx, into, 0); err != nil {
		t.Fatal(err)
	}
	second := open(t, into)
	for id, phase := range map[string]ledger.Phase{"queued": ledger.PhaseActive, "active": ledger.PhaseActive, "paused": ledger.PhasePaused} {
		if r := read(t, second, id); r.Phase != phase || r.Incarnation == "" || r.Incarnation == "q1" {
			t.Errorf("%s is %s in queue %q, expected %s in another than before", id, r.Phase, r.Incarnation, phase)
		}
	}
	if claims, err := second.ClaimNext(ctx, "s2", "q1", time.Hour, 9, 1000); err != nil || len(claims) != 3 {
		t.Errorf("%d of 3 runs can be put into the queue again, %v", len(claims), err)
	}
}

// A copy of one database fills the other, and of an earlier version of the tables one of this
// version.
func TestCopyCrossesDatabasesAndVersions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pg := onPostgres(t)
	from, middle, to := onSQLite().fresh(t), pg.fresh(t), onSQLite().fresh(t)
	everything(t, open(t, from))
	first := readCopy(t, from)
	if err := first.load(ctx, middle, 0); err != nil {
		t.Fatal(err)
	}
	second := readCopy(t, middle)
	if err := second.load(ctx, to, 0); err != nil {
		t.Fatal(err)
	}
	if got := second.text(); got != first.text() {
		t.Errorf("in PostgreSQL:\n%s\nexpected:\n%s", got, first.text())
	}
	if got := readCopy(t, to).text(); got != first.text() {
		t.Errorf("back in SQLite:\n%s\nexpected:\n%s", got, first.text())
	}
	sound(t, open(t, to))

	for name, b := range map[string]*backend{"sqlite": onSQLite(), "postgres": pg} {
		url := b.fresh(t)
		if err := ledger.MigrateTo(ctx, url, 1); err != nil {
			t.Fatal(err)
		}
		old, err := ledger.Connect(url)
		if err != nil {
			t.Fatal(err)
		}
		if err := old.Raw(ctx, `INSERT INTO runs (id, tenant, playbook, revision, launched_by, created, criticality, phase, request, total) VALUES ('old', 'a', 'p', '', 'x', 1, 0, 'queued', '', 3)`); err != nil {
			t.Fatal(err)
		}
		_ = old.Close()
		c := readCopy(t, url)
		if c.version != 1 {
			t.Errorf("%s: version %d", name, c.version)
		}
		into := b.fresh(t)
		if err := c.load(ctx, into, 0); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r := read(t, open(t, into), "old"); r.Total != 3 || r.Tenant != "a" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	err := ledger.ReadCopy(ctx, onSQLite().fresh(t), func(context.Context, *ledger.Copy) error { return nil })
	wantErr(t, err, core.ErrInvalid, "no ledger at all")
}
