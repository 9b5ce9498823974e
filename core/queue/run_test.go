package queue_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// TestUnfinishedLeavesOutWhatIsFinished compares with a walk over each target.
func TestUnfinishedLeavesOutWhatIsFinished(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r queue.Run
		var due []int // of each target
		if rapid.Bool().Draw(t, "segments") {
			for i, n := range rapid.SliceOfN(rapid.IntRange(1, 5), 1, 6).Draw(t, "counts") {
				r.Segments = append(r.Segments, queue.Segment{Due: time.Unix(int64(i), 0), Count: n})
				for range n {
					due = append(due, i)
				}
			}
		} else {
			due = make([]int, rapid.IntRange(1, 20).Draw(t, "targets"))
		}
		for range due {
			r.Targets = append(r.Targets, queue.Target{Host: "h"})
		}
		open := make([]bool, len(due))
		for i := 0; i < len(due); {
			n := min(rapid.IntRange(1, 6).Draw(t, "run of targets"), len(due)-i)
			if rapid.Bool().Draw(t, "settled") {
				r.FinishedJobs = append(r.FinishedJobs, queue.FinishedJobs{Index: i, Count: n, Outcome: core.Changed})
			} else {
				for k := range n {
					open[i+k] = true
				}
			}
			i += n
		}
		r.ID = "r"
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		last, visits := 0, 0
		r.Unfinished(func(at time.Time, from, to int) {
			visits++
			if from < last || from >= to {
				t.Fatalf("visits %d … %d after %d", from, to, last)
			}
			for i := from; i < to; i++ {
				if !open[i] || (r.Segments != nil && at.Unix() != int64(due[i])) {
					t.Fatalf("visits target %d, due at %v", i, at)
				}
				open[i] = false
			}
			last = to
		})
		for i := range open {
			if open[i] {
				t.Fatalf("target %d is not visited", i)
			}
		}
		if most := len(r.Segments) + len(r.FinishedJobs) + 1; visits > most {
			t.Fatalf("%d visits, expected at most %d", visits, most)
		}
	})
}

// Texts count one job as one, and give how long a lease has lasted.
func TestReasonsForPeople(t *testing.T) {
	for want, got := range map[string]core.Reason{
		"leased by w1 for 2s":                                           queue.WhyLeased("w1", 2*time.Second),
		"its run has 1 job in flight, max_in_flight is 1":               queue.WhyPending(core.RunFull, 1, 1),
		"its run has 2 jobs in flight, max_in_flight is 2":              queue.WhyPending(core.RunFull, 2, 2),
		"waits for its turn: its run has 1 job in flight, its tenant 3": queue.WhyPending(core.NoSlot, 1, 3),
	} {
		if got.Text() != want {
			t.Errorf("%q, expected %q", got.Text(), want)
		}
	}
}
