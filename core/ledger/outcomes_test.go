package ledger_test

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

func testOutcomesCountOnce(t *testing.T, b *backend) {
	l := b.open(t)
	accept(t, l, newRun("r1", "", 10))
	first := []ledger.Outcome{
		{Index: 0, Outcome: core.Changed, Attempt: 1, Detail: []byte("first")},
		{Index: 1, Outcome: core.Failed, Attempt: 1, Reason: "no"},
		{Index: 0, Outcome: core.Failed, Attempt: 1}, // in the same batch
	}
	if got := record(t, l, "r1", first...); got.New != 2 || got.Repeated != 1 {
		t.Errorf("recorded %+v", got)
	}
	again := []ledger.Outcome{{Index: 0, Outcome: core.Lost}, {Index: 1, Outcome: core.Changed}, {Index: 2, Outcome: core.Skipped}}
	for i := range 3 {
		got := record(t, l, "r1", again...)
		if want := map[bool]int{true: 1}[i == 0]; got.New != want || got.Repeated != 0 { // none began again
			t.Errorf("delivery %d: %+v", i, got)
		}
	}
	r := read(t, l, "r1")
	if want := map[core.Outcome]int{core.Changed: 1, core.Failed: 1, core.Skipped: 1}; !reflect.DeepEqual(r.Outcomes, want) || r.Recorded != 3 {
		t.Errorf("counts %v of %d, expected %v", r.Outcomes, r.Recorded, want)
	}
	if d, err := l.Detail(t.Context(), ledger.AllTenants(), core.JobID{Run: "r1"}); err != nil || string(d) != "first" {
		t.Errorf("detail %q, %v", d, err)
	}
	sound(t, l)
}

// A record that is read again is the recorded execution. Another worker, start, attempt or outcome
// is another execution, unless the job never began.
func testRepeatedJobsAreCounted(t *testing.T, b *backend) {
	l := b.open(t)
	accept(t, l, newRun("r1", "", 10))
	first := ledger.Outcome{Outcome: core.Changed, Attempt: 1, Worker: "w1", Started: time.Unix(1000, 7000), Took: time.Second, Reason: "done"}
	for name, c := range map[string]struct {
		change func(*ledger.Outcome)
		want   int
	}{
		"the same":                   {func(*ledger.Outcome) {}, 0},
		"never began":                {func(o *ledger.Outcome) { *o = ledger.Outcome{Outcome: core.Cancelled} }, 0},
		"another start":              {func(o *ledger.Outcome) { o.Started = o.Started.Add(time.Millisecond) }, 1},
		"another worker":             {func(o *ledger.Outcome) { o.Worker = "w2" }, 1},
		"another attempt":            {func(o *ledger.Outcome) { o.Attempt = 2 }, 1},
		"began, and its worker died": {func(o *ledger.Outcome) { *o = ledger.Outcome{Outcome: core.Lost, Attempt: 1} }, 1},
	} {
		record(t, l, "r1", first)
		again := first
		c.change(&again)
		if got := record(t, l, "r1", again, ledger.Outcome{Index: 1, Outcome: core.Skipped, Attempt: 1}); got.Repeated != c.want {
			t.Errorf("%s: %d jobs are repeated, expected %d", name, got.Repeated, c.want)
		}
	}
	sound(t, l)
}

// The negative control of the two tests around it: if outcomes were inserted without a check of the
// rows, the same deliveries would count twice, and the same test would fail.
func TestCountingTwiceIsNoticed(t *testing.T) {
	l := onSQLite().open(t)
	accept(t, l, newRun("r1", "", 3))
	for range 2 {
		record(t, l, "r1", ledger.Outcome{Index: 0, Outcome: core.Changed})
	}
	sound(t, l)
	// A ledger without the guard would have done this at the second delivery.
	if err := l.Raw(t.Context(), `UPDATE runs SET changed = changed + 1, recorded = recorded + 1 WHERE id = 'r1'`); err != nil {
		t.Fatal(err)
	}
	if found, err := l.Check(t.Context(), false); err != nil || len(found) == 0 {
		t.Errorf("an outcome that counts twice is not noticed: %v, %v", found, err)
	}
}

// Two servers deliver everything, in batches that overlap, several goroutines each.
func testTwoServersRecord(t *testing.T, b *backend) {
	url := b.fresh(t)
	servers := []*ledger.Ledger{b.at(t, url), b.at(t, url)}
	const runs, jobs, batch = 3, 120, 25
	for r := range runs {
		accept(t, servers[0], newRun(fmt.Sprint("r", r), "", jobs))
	}
	var mu sync.Mutex
	fresh := 0
	var wg sync.WaitGroup
	for s := range 4 {
		wg.Go(func() {
			for from := 0; from < jobs; from += batch - 5*(s%2) { // other borders
				var batches []ledger.Batch
				for r := range runs {
					// Servers hold the runs in different orders: no deadlock.
					b := ledger.Batch{Run: fmt.Sprint("r", (r+s)%runs)}
					for i := from; i < min(from+batch, jobs); i++ {
						b.Outcomes = append(b.Outcomes, ledger.Outcome{Index: i, Outcome: core.Changed, Attempt: 1, Detail: []byte("x")})
					}
					batches = append(batches, b)
				}
				got, err := servers[s%2].Record(t.Context(), batches...)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, g := range got {
					fresh += g.New
					if g.Repeated > 0 {
						t.Errorf("records that are read twice count as repeated: %+v", g)
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if fresh != runs*jobs {
		t.Errorf("%d were new, expected %d", fresh, runs*jobs)
	}
	for r := range runs {
		if got := read(t, servers[r%2], fmt.Sprint("r", r)); got.Outcomes[core.Changed] != jobs || got.Phase != ledger.PhaseFinished {
			t.Errorf("%+v", got)
		}
	}
	sound(t, servers[0])
}

func enqueue(tb testing.TB, l *ledger.Ledger, run, incarnation string) ledger.Run {
	tb.Helper()
	c, err := l.Claim(tb.Context(), "server", run, incarnation, time.Minute)
	if err != nil {
		tb.Fatal(err)
	}
	r, err := enqueued(tb.Context(), l, c, incarnation)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func testCursor(t *testing.T, b *backend) {
	l := b.open(t)
	accept(t, l, newRun("r1", "", 5))
	enqueue(t, l, "r1", "q1")
	put := func(incarnation, from, to string, outcomes ...ledger.Outcome) ledger.Recorded {
		t.Helper()
		got, err := l.Record(t.Context(), ledger.Batch{Run: "r1", Cursor: &ledger.Cursor{Incarnation: incarnation, From: from, To: to}, Outcomes: outcomes})
		if err != nil {
			t.Fatal(err)
		}
		return got[0]
	}
	lost := ledger.Outcome{Index: 0, Outcome: core.Lost, Reason: "three crashes"}
	if got := put("q1", "", "1", lost); got.Err != nil || got.New != 1 || got.Position != "1" {
		t.Errorf("%+v", got)
	}
	got := put("q1", "", "1", lost)
	wantErr(t, got.Err, core.ErrConflict, "the same batch again")
	if got.Position != "1" || got.New != 0 {
		t.Errorf("%+v", got)
	}
	// A second record of the job changes nothing.
	if got := put("q1", "1", "2", ledger.Outcome{Index: 0, Outcome: core.Changed, Attempt: 1}); got.Err != nil || got.New != 0 || got.Repeated != 1 {
		t.Errorf("%+v", got)
	}
	if r := read(t, l, "r1"); r.Outcomes[core.Lost] != 1 || r.Recorded != 1 || r.Position != "2" {
		t.Errorf("%+v", r)
	}
	// The queue is lost, and another one has the run: its records begin again, and the old one's are
	// refused.
	enqueue(t, l, "r1", "q2")
	wantErr(t, put("q1", "2", "3", ledger.Outcome{Index: 1, Outcome: core.Failed}).Err, core.ErrConflict, "records of a lost queue")
	if got := put("q2", "", "1", ledger.Outcome{Index: 1, Outcome: core.Changed}); got.Err != nil || got.New != 1 {
		t.Errorf("%+v", got)
	}
	sound(t, l)
}

// Two servers read the same records from the same place, and both hand them in: the cursor refuses
// the second delivery, and without it the outcomes that are there do.
func TestRecordsAreTakenOnceByTheirCursor(t *testing.T) {
	for _, compare := range []bool{true, false} {
		l := onSQLite().open(t)
		const jobs, batch = 12, 4
		accept(t, l, newRun("r1", "", jobs+1)) // one is left, or the run would be over
		enqueue(t, l, "r1", "q1")
		fresh, refused := 0, 0
		for from := 0; from < jobs; from += batch {
			b := ledger.Batch{Run: "r1", Cursor: &ledger.Cursor{Incarnation: "q1", To: fmt.Sprint(from + batch)}}
			if from > 0 {
				b.Cursor.From = fmt.Sprint(from)
			}
			for i := range batch {
				b.Outcomes = append(b.Outcomes, ledger.Outcome{Index: from + i, Outcome: core.Changed})
			}
			for range 2 {
				if !compare {
					if err := l.Raw(t.Context(), `UPDATE runs SET position = $1 WHERE id = 'r1'`, b.Cursor.From); err != nil {
						t.Fatal(err)
					}
				}
				got, err := l.Record(t.Context(), b)
				if err != nil {
					t.Fatal(err)
				}
				fresh += got[0].New
				if errors.Is(got[0].Err, core.ErrConflict) {
					refused++
				}
			}
		}
		if want := map[bool]int{true: jobs / batch}[compare]; fresh != jobs || refused != want {
			t.Errorf("%d outcomes counted of %d jobs, %d batches refused, expected %d", fresh, jobs, refused, want)
		}
		sound(t, l)
	}
}

func testRanges(t *testing.T, b *backend) {
	l := b.open(t)
	accept(t, l, newRun("r1", "", 100_000))
	cancel := func(first, count, fresh int) {
		t.Helper()
		got := record(t, l, "r1", ledger.Outcome{Index: first, Count: count, Outcome: core.Cancelled, Reason: "enough"})
		if got.New != fresh || got.Repeated != 0 {
			t.Errorf("%d from %d: %+v, expected %d new", count, first, got, fresh)
		}
	}
	record(t, l, "r1", ledger.Outcome{Index: 10, Outcome: core.Changed}, ledger.Outcome{Index: 12, Outcome: core.Changed})
	cancel(5, 10, 8)  // 5–9, 11, 13–14
	cancel(5, 10, 0)  // the same again
	cancel(0, 20, 10) // around it
	cancel(20, 1000, 1000)
	cancel(1000, 1000, 980) // 20 of them were in the one before
	if got := record(t, l, "r1", ledger.Outcome{Index: 7, Outcome: core.Changed, Attempt: 1}); got.New != 0 || got.Repeated != 1 {
		t.Errorf("an outcome of a job that was cancelled: %+v", got)
	}
	cancel(0, 100_000, 98_000)
	r := read(t, l, "r1")
	if r.Recorded != 100_000 || r.Outcomes[core.Changed] != 2 || r.Phase != ledger.PhaseFinished {
		t.Errorf("%+v", r)
	}
	for i, want := range map[int]core.Outcome{0: core.Cancelled, 9: core.Cancelled, 10: core.Changed, 11: core.Cancelled, 12: core.Changed, 99_999: core.Cancelled} {
		if j := must[ledger.Job](t)(l.Job(t.Context(), ledger.AllTenants(), core.JobID{Run: "r1", Index: i})); j.Outcome != want || j.Host != fmt.Sprint("host-", i) {
			t.Errorf("job %d: %+v, expected %s", i, j, want)
		}
	}
	_, err := l.Job(t.Context(), ledger.AllTenants(), core.JobID{Run: "r1", Index: 100_000})
	wantErr(t, err, core.ErrNotFound, "a job beyond the run")
	sound(t, l)
}

func testRecordRefuses(t *testing.T, b *backend) {
	l := b.open(t)
	accept(t, l, newRun("r1", "", 5))
	ok := ledger.Outcome{Index: 0, Outcome: core.Changed}
	for _, tc := range []struct {
		name string
		b    ledger.Batch
		want error
	}{
		{"no such run", ledger.Batch{Run: "none", Outcomes: []ledger.Outcome{ok}}, core.ErrNotFound},
		{"index below 0", ledger.Batch{Run: "r1", Outcomes: []ledger.Outcome{ok, {Index: -1, Outcome: core.Changed}}}, core.ErrInvalid},
		{"index beyond", ledger.Batch{Run: "r1", Outcomes: []ledger.Outcome{ok, {Index: 5, Outcome: core.Changed}}}, core.ErrInvalid},
		{"range beyond", ledger.Batch{Run: "r1", Outcomes: []ledger.Outcome{{Index: 3, Count: 3, Outcome: core.Changed}}}, core.ErrInvalid},
		{"range that overflows", ledger.Batch{Run: "r1", Outcomes: []ledger.Outcome{{Index: 3, Count: 1<<63 - 1, Outcome: core.Changed}}}, core.ErrInvalid},
		{"negative range", ledger.Batch{Run: "r1", Outcomes: []ledger.Outcome{{Index: 3, Count: -1, Outcome: core.Changed}}}, core.ErrInvalid},
		{"unknown outcome", ledger.Batch{Run: "r1", Outcomes: []ledger.Outcome{ok, {Index: 1, Outcome: "great"}}}, core.ErrInvalid},
		{"range with a detail", ledger.Batch{Run: "r1", Outcomes: []ledger.Outcome{{Index: 1, Count: 2, Detail: []byte("x"), Outcome: core.Changed}}}, core.ErrInvalid},
	} {
		// One bad batch does not keep the others out.
		got, err := l.Record(t.Context(), tc.b, ledger.Batch{Run: "r1", Outcomes: []ledger.Outcome{{Index: 4, Outcome: core.Skipped}}})
		if err != nil || len(got) != 2 || got[1].Err != nil {
			t.Fatal(tc.name, got, err)
		}
		wantErr(t, got[0].Err, tc.want, tc.name)
	}
	if r := read(t, l, "r1"); r.Recorded != 1 || r.Outcomes[core.Skipped] != 1 {
		t.Errorf("%+v", r)
	}
	if got, err := l.Record(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("nothing to record: %v, %v", got, err)
	}
	sound(t, l)
}
