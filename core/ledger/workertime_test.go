package ledger_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

func testWorkerTimes(t *testing.T, b *backend) {
	l := b.open(t)
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := from.Add(-30 * time.Hour)
	l.SetClock(func() time.Time { return at })
	ended := func(run string, index int, took time.Duration) {
		t.Helper()
		record(t, l, run, ledger.Outcome{Index: index, Outcome: core.Changed, Attempt: 1, Started: at.Add(-took), Took: took})
	}
	accept(t, l, newRun("before", "a", 1))
	ended("before", 0, time.Hour)
	accept(t, l, newRun("old", "a", 3)) // open for more than a day
	ended("old", 0, time.Hour)
	at = from
	ended("old", 1, time.Minute)
	accept(t, l, newRun("other", "b", 5))
	ended("other", 0, time.Second)
	at = from.Add(time.Hour - time.Microsecond)
	ended("other", 1, 1500*time.Millisecond)
	at = from.Add(time.Hour)
	ended("other", 2, 3*time.Second)
	record(t, l, "other", ledger.Outcome{Index: 3, Count: 2, Outcome: core.Cancelled}) // never started
	at = from.Add(2 * time.Hour)
	accept(t, l, newRun("none", "", 1))
	ended("none", 0, time.Second)
	at = from.Add(3 * time.Hour) // not asked for
	ended("old", 2, time.Hour)

	text := func(spans, most int, all bool) string {
		t.Helper()
		list, whole, err := l.WorkerTimes(t.Context(), from, time.Hour, spans, most)
		if err != nil || whole != all {
			t.Fatalf("whole %v: %v", whole, err)
		}
		slices.SortFunc(list, func(a, b ledger.WorkerTime) int {
			return cmp.Or(cmp.Compare(a.Span, b.Span), cmp.Compare(a.Tenant, b.Tenant))
		})
		out := ""
		for _, one := range list {
			out += fmt.Sprintf("%d %q %v of %d; ", one.Span, one.Tenant, one.Took, one.Hosts)
		}
		return out
	}
	if got, want := text(3, 9, true), `0 "a" 1m0s of 1; 0 "b" 2.5s of 2; 1 "b" 3s of 1; 2 "" 1s of 1; `; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	if got, want := text(1, 9, true), `0 "a" 1m0s of 1; 0 "b" 2.5s of 2; `; got != want {
		t.Errorf("one span: %s, expected %s", got, want)
	}
	if got, want := text(3, 8, false), `0 "b" 2.5s of 2; 1 "b" 3s of 1; 2 "" 1s of 1; `; got != want {
		t.Errorf("without the oldest run: %s, expected %s", got, want)
	}
}
