package ledger_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// largeBatch is a batch of so many outcomes, enough for many turns of the one writer.
func largeBatch(run string, jobs int) ledger.Batch {
	b := ledger.Batch{Run: run, Cursor: &ledger.Cursor{Incarnation: "q1", To: "9"}}
	for i := range jobs {
		b.Outcomes = append(b.Outcomes, ledger.Outcome{Index: i, Outcome: core.Changed, Attempt: 1, Detail: detail})
	}
	return b
}

// beside accepts one run after the other, with run in their names, until done is closed, and calls
// poll between them.
func beside(t *testing.T, l *ledger.Ledger, run string, done <-chan struct{}, poll func()) {
	t.Helper()
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		default:
			accept(t, l, newRun(fmt.Sprint("small-", run, i), "", 1))
			poll()
		}
	}
}

// Runs are accepted while a large batch is recorded, between its parts. On a busy machine nobody
// may look while one batch is recorded; then another one is.
func TestALargeBatchLetsOthersWrite(t *testing.T) {
	l := onSQLite().open(t)
	parts := 0
	for i := 0; i < 20 && parts == 0; i++ {
		parts = partsSeen(t, l, fmt.Sprint("r", i))
	}
	if parts == 0 {
		t.Error("nobody saw a part of a batch")
	}
	sound(t, l)
}

// partsSeen records a large batch of a run of its own, and returns how often somebody who accepts
// runs meanwhile saw another part of it.
func partsSeen(t *testing.T, l *ledger.Ledger, run string) (parts int) {
	t.Helper()
	const jobs = 10_000
	accept(t, l, newRun(run, "", jobs))
	enqueue(t, l, run, "q1")
	done := make(chan struct{})
	var got []ledger.Recorded
	var err error
	go func() {
		defer close(done)
		got, err = l.Record(t.Context(), largeBatch(run, jobs))
	}()
	last := 0
	beside(t, l, run, done, func() {
		r := read(t, l, run)
		if n := r.Recorded; n > last && n < jobs {
			parts++
			if r.Position != "" {
				t.Errorf("with %d of %d outcomes the ledger stands at %q", n, jobs, r.Position)
			}
		}
		last = r.Recorded
	})
	if err != nil || got[0].Err != nil || got[0].New != jobs || !got[0].Complete || got[0].Position != "9" {
		t.Fatalf("%+v, %v", got, err)
	}
	if r := read(t, l, run); r.Recorded != jobs || r.Outcomes[core.Changed] != jobs || r.Position != "9" || r.Phase != ledger.PhaseFinished {
		t.Errorf("%+v", r)
	}
	return parts
}

// Two servers hand in the same large batch while others write: parts of both take turns, each
// outcome counts once.
func TestALargeBatchByTwoServers(t *testing.T) {
	const jobs = 5000
	url := "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
	servers := []*ledger.Ledger{open(t, url), open(t, url)}
	accept(t, servers[0], newRun("r1", "", jobs))
	enqueue(t, servers[0], "r1", "q1")
	done := make(chan struct{})
	all, errs := make([]ledger.Recorded, len(servers)), make([]error, len(servers))
	var wg sync.WaitGroup
	for i, l := range servers {
		wg.Go(func() {
			got, err := l.Record(t.Context(), largeBatch("r1", jobs))
			if errs[i] = err; err == nil {
				all[i] = got[0]
			}
		})
	}
	go func() { wg.Wait(); close(done) }()
	beside(t, servers[0], "", done, func() {})
	fresh, refused := 0, 0
	for i, one := range all {
		fresh += one.New
		switch {
		case errs[i] != nil:
			t.Fatal(errs[i])
		case errors.Is(one.Err, core.ErrConflict):
			refused++
		case one.Err != nil:
			t.Error(one.Err)
		}
	}
	if fresh != jobs || refused > 1 {
		t.Errorf("%d outcomes counted of %d jobs, %d of two batches refused", fresh, jobs, refused)
	}
	if r := read(t, servers[0], "r1"); r.Outcomes[core.Changed] != jobs || r.Position != "9" {
		t.Errorf("%+v", r)
	}
	sound(t, servers[0])
}

// A server that ends between two parts has moved only outcomes; the server that continues from the
// ledger's state counts the rest. As above, a batch may be recorded before anybody looked.
func TestALargeBatchThatIsLeft(t *testing.T) {
	l := onSQLite().open(t)
	left := false
	for i := 0; i < 20 && !left; i++ {
		left = leftBetweenParts(t, l, fmt.Sprint("r", i))
	}
	if !left {
		t.Error("no batch was left between two parts")
	}
	sound(t, l)
}

// leftBetweenParts records a large batch of a run of its own, ends that as soon as a part is seen,
// and records the batch again. It returns whether the batch was left before its end.
func leftBetweenParts(t *testing.T, l *ledger.Ledger, run string) bool {
	t.Helper()
	const jobs = 10_000
	accept(t, l, newRun(run, "", jobs))
	enqueue(t, l, run, "q1")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		_, err = l.Record(ctx, largeBatch(run, jobs))
	}()
	beside(t, l, run, done, func() {
		if read(t, l, run).Recorded > 0 {
			leave()
		}
	})
	before := read(t, l, run)
	if before.Recorded == jobs {
		return false
	}
	if err == nil || before.Recorded == 0 || before.Position != "" {
		t.Fatalf("it ended with %v: %+v", err, before)
	}
	sound(t, l)
	got, err := l.Record(t.Context(), largeBatch(run, jobs))
	if err != nil || got[0].Err != nil || got[0].New != jobs-before.Recorded || got[0].Repeated != 0 || got[0].Position != "9" {
		t.Errorf("%+v, %v after %d", got, err, before.Recorded)
	}
	return true
}

// The server that records keeps SQLite's log short, beside the one that writes.
func TestTheLogStaysShort(t *testing.T) {
	l := onSQLite().open(t)
	const jobs, batch = 10_000, 500
	accept(t, l, newRun("r1", "", jobs))
	longest := 0
	for from := 0; from < jobs; from += batch {
		record(t, l, "r1", outcomesOf(from, from+batch)...)
		pages, done, err := l.LogPages(t.Context())
		if err != nil || pages-done >= ledger.CheckpointPages {
			t.Fatalf("after %d outcomes the log has %d pages, %d of them are in the file: %v", from+batch, pages, done, err)
		}
		longest = max(longest, pages)
	}
	if longest < ledger.CheckpointPages || longest > 2*ledger.CheckpointPages {
		t.Errorf("the log had %d pages at most, expected it to be written again after little more than %d", longest, ledger.CheckpointPages)
	}
}

// Where nobody records, commits keep SQLite's log from growing.
func TestTheLogIsBoundedWithoutARecorder(t *testing.T) {
	l := onSQLite().open(t)
	const most = 4 * ledger.CheckpointPages
	snapshot := make([]byte, 256<<10) // 64 pages
	rand.Read(snapshot)               // never fails, see crypto/rand
	longest := 0
	for i := range 3 * most / 64 {
		n := newRun(fmt.Sprint("r", i), "", 1)
		n.Snapshot = snapshot
		accept(t, l, n)
		pages, _, err := l.LogPages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, pages)
	}
	if longest < most || longest > most+200 {
		t.Errorf("the log had %d pages at most, expected it to be written again after little more than %d", longest, most)
	}
}
