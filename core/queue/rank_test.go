package queue_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core/queue"
)

const day = int64(24 * time.Hour / queue.TagUnit)

func TestRank(t *testing.T) {
	for _, tc := range []struct {
		name             string
		inFlight, weight int
		tag              int64
		want             int64
	}{
		{"idle", 0, 1, 0, 0},
		{"tag", 0, 1, 77, 77},
		{"one in flight", 1, 1, 0, 64 << 32},
		{"heavier", 1, 64, 5, 1<<32 + 5},
		{"share is floored", 1, 1000, 5, 5},
		{"no weight is 1", 1, 0, 0, 64 << 32},
		{"head start ends at 0", 0, 1, -500, 0},
		{"the last exact tag", 0, 1, 1<<31 - 1, 1<<31 - 1},
		{"behind it each doubling has 2^26 places", 0, 1, 1 << 31, 1 << 31},
		{"1000 days", 0, 1, 1000 * day, 1<<31 + 1<<27 + (1000*day-1<<33)>>7},
		{"2000 days", 0, 1, 2000 * day, 1<<31 + 1<<27 + 1<<26 + (2000*day-1<<34)>>8},
		{"any tag stays below a share", 0, 1, math.MaxInt64, 1<<32 - 1},
		{"share is clamped", math.MaxInt32, 1, 0, (1<<20 - 1) << 32},
	} {
		if got := queue.Rank(tc.inFlight, tc.weight, tc.tag); got != tc.want {
			t.Errorf("%s: %d, expected %d", tc.name, got, tc.want)
		}
	}
}

// A rank survives a double, grows with in flight and with the tag, and no tag outweighs a share. No
// tag is so large that flows behind it are alike.
func TestRankProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inFlight := rapid.IntRange(0, 1_000_000).Draw(t, "in flight")
		weight := rapid.IntRange(1, queue.MaxWeight).Draw(t, "weight")
		tag := rapid.Int64Range(-1<<40, 1<<rapid.IntRange(1, 62).Draw(t, "bits")).Draw(t, "tag")
		r := queue.Rank(inFlight, weight, tag)
		if r < 0 || r >= 1<<53 || int64(float64(r)) != r {
			t.Fatalf("rank %d is not exact in a double", r)
		}
		if queue.Rank(inFlight+1, weight, tag) < r || queue.Rank(inFlight, weight, tag+1) < r {
			t.Fatal("rank shrinks")
		}
		if tag >= 0 && queue.Rank(inFlight, weight, tag+tag>>26+1) <= r {
			t.Fatal("a tag that is larger by a 2^26th has the same rank")
		}
		if more := inFlight + (weight+63)/64; 64*more/weight < 1<<20-1 && queue.Rank(more, weight, -1<<40) <= queue.Rank(inFlight, weight, math.MaxInt64) {
			t.Fatal("a tag outweighs a share")
		}
	})
}

func TestHeadStartIsBounded(t *testing.T) {
	unit := int64(time.Second / queue.TagUnit)
	for p, want := range map[int]int64{0: 0, 1: unit, -3: -3 * unit, 10: 10 * unit, 99: 10 * unit, -99: -10 * unit} {
		if got := queue.HeadStart(p); got != want {
			t.Errorf("HeadStart(%d) is %d, expected %d", p, got, want)
		}
	}
}

// Recovery is promised in 10 s: a session's silence, the backstop of Wait, and a margin.
func TestRecoveryFitsThePromise(t *testing.T) {
	if queue.SessionTTL+time.Second+queue.BeatEvery >= 10*time.Second {
		t.Errorf("a session lives %v: recovery takes 10 s or more", queue.SessionTTL)
	}
	if queue.SessionTTL < 3*queue.BeatEvery {
		t.Errorf("two lost beats of %v end a session of %v", queue.BeatEvery, queue.SessionTTL)
	}
}
