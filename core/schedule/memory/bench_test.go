package memory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/schedule/memory"
	"github.com/turnus/turnus/core/schedule/scheduletest"
)

// BenchmarkStorm measures 10,000 schedules that are due at one moment under three servers, two of
// which are killed then.
func BenchmarkStorm(b *testing.B) {
	for b.Loop() {
		s := memory.New()
		took, runs := scheduletest.Storm(b, []schedule.Store{s, s, s}, 10_000, 2)
		if runs.Count() != 10_000 {
			b.Fatalf("%d launched", runs.Count())
		}
		b.ReportMetric(took.Seconds(), "s-to-the-last")
	}
}

// BenchmarkTakeOfAMillion measures an empty Take and one that takes 256 beside a million schedules
// that are not due.
func BenchmarkTakeOfAMillion(b *testing.B) {
	s := memory.New()
	far := time.Now().Add(24 * time.Hour)
	var changes []schedule.Change
	for i := range 1_000_000 {
		id := schedule.ID{Tenant: "acme", Name: fmt.Sprintf("s-%d", i)}
		changes = append(changes, schedule.Change{ID: id, Due: far.Add(time.Duration(i) * time.Millisecond)})
		if len(changes) == schedule.MaxBatch || i == 999_999 {
			if _, err := s.Write(b.Context(), changes); err != nil {
				b.Fatal(err)
			}
			changes = changes[:0]
		}
	}
	for b.Loop() {
		if _, err := s.Take(b.Context(), schedule.MaxBatch, time.Second); err != nil {
			b.Fatal(err)
		}
	}
}
