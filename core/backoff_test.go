package core_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
)

func TestBackoffDelay(t *testing.T) {
	s := time.Second
	for _, tc := range []struct {
		name   string
		b      core.Backoff
		n      int
		random float64
		want   time.Duration
	}{
		{"none", core.Backoff{}, 5, 0.9, 0},
		{"first", core.Backoff{Interval: 10 * s}, 0, 0, 10 * s},
		{"doubles", core.Backoff{Interval: 10 * s}, 3, 0, 80 * s},
		{"is capped", core.Backoff{Interval: 10 * s, Max: 60 * s}, 3, 0, 60 * s},
		{"cap below the interval", core.Backoff{Interval: 10 * s, Max: 5 * s}, 0, 0, 5 * s},
		{"jitter adds", core.Backoff{Interval: 10 * s, Jitter: 0.2}, 0, 0.5, 11 * s},
		{"jitter over the cap", core.Backoff{Interval: 10 * s, Max: 60 * s, Jitter: 0.5}, 9, 0.5, 75 * s},
		{"doubling ends", core.Backoff{Interval: s}, 1000, 0, s << 16},
		{"negative attempt", core.Backoff{Interval: s}, -1, 0, s},
		{"overflow", core.Backoff{Interval: math.MaxInt64 / 2}, 16, 0, math.MaxInt64},
		{"overflow by jitter", core.Backoff{Interval: math.MaxInt64 / 2, Jitter: 1}, 1, 0.9, math.MaxInt64 - 1},
	} {
		if got := tc.b.Delay(tc.n, tc.random); got != tc.want {
			t.Errorf("%s: %v, expected %v", tc.name, got, tc.want)
		}
	}
}

// Delays never shrink with n, never are negative, and stay below cap plus jitter.
func TestBackoffIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := core.Backoff{
			Interval: time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "interval")),
			Max:      time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "max")),
			Jitter:   rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		n := rapid.IntRange(0, 40).Draw(t, "n")
		random := rapid.Float64Range(0, 0.999999).Draw(t, "random")
		d, next := b.Delay(n, random), b.Delay(n+1, random)
		if d < 0 || next < d {
			t.Fatalf("delay %d is %v, the next %v", n, d, next)
		}
		if b.Max > 0 && b.Delay(n, 0) > b.Max {
			t.Fatalf("delay %v is over the cap %v", b.Delay(n, 0), b.Max)
		}
		if b.Delay(n, 0) > d {
			t.Fatalf("jitter took something off: %v", d)
		}
		if w := b.Worst(n); w < 0 || (n > 0 && w < b.Delay(n-1, 0)) {
			t.Fatalf("worst of %d is %v", n, w)
		}
	})
}

func TestBackoffWorst(t *testing.T) {
	b := core.Backoff{Interval: time.Second, Max: 4 * time.Second, Jitter: 0.5}
	if got, want := b.Worst(4), (1500+3000+6000+6000)*time.Millisecond; got != want {
		t.Errorf("worst of 4 is %v, expected %v", got, want)
	}
	if got := b.Worst(0); got != 0 {
		t.Errorf("worst of none is %v", got)
	}
	if got := (core.Backoff{Interval: math.MaxInt64 / 2}).Worst(5); got != math.MaxInt64 {
		t.Errorf("worst overflows to %v", got)
	}
}
