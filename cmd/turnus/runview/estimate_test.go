package runview

import (
	"testing"
	"time"
)

func TestPaceMeansNothingAtFirstAndAtTheEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		p    pace
		want time.Duration
	}{
		{"steady", pace{total: 100, done: 40, running: 10, released: 100, finished: 40, since: 40 * time.Second}, time.Minute},
		{"hosts in windows do not count", pace{total: 100, done: 40, running: 10, waiting: 30, released: 100, finished: 40, since: 40 * time.Second}, 30 * time.Second},
		{"fewer have finished than run", pace{total: 100, done: 9, running: 10, released: 100, finished: 9, since: 40 * time.Second}, 0},
		{"two of a slow run", pace{total: 100, done: 2, running: 1, released: 100, finished: 2, since: 40 * time.Second}, 0},
		{"just begun", pace{total: 100, done: 40, running: 10, released: 100, finished: 40, since: time.Second}, 0},
		{"later waves hold most hosts", pace{total: 100, done: 8, running: 1, released: 10, finished: 8, since: 40 * time.Second}, 0},
		{"the last ones run", pace{total: 100, done: 90, running: 10, released: 100, finished: 90, since: 40 * time.Second}, 0},
	} {
		if got := c.p.left(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// An estimate does not grow while what is measured goes up and down, and is replaced when it stays
// wrong.
func TestEstimateDoesNotGrow(t *testing.T) {
	var e estimate
	now := time.Unix(1_700_000_000, 0)
	last := e.update(now, 100*time.Second)
	if last != 100*time.Second {
		t.Fatalf("the first estimate is %v", last)
	}
	for i := range 400 {
		now = now.Add(200 * time.Millisecond)
		measured := time.Duration(100-i/5) * time.Second * time.Duration(8+i%5) / 10 // 80 % to 120 %
		got := e.update(now, measured)
		if got > last || last-got > 30*time.Second {
			t.Fatalf("after %d frames %v follows %v", i, got, last)
		}
		last = got
	}
	for range 5 * int(estimateWrong/time.Second) {
		now = now.Add(200 * time.Millisecond)
		if got := e.update(now, 10*time.Minute); got > last {
			t.Fatalf("%v follows %v immediately", got, last)
		}
	}
	now = now.Add(time.Second)
	if got := e.update(now, 10*time.Minute); got != 10*time.Minute {
		t.Errorf("a wrong estimate stays: %v", got)
	}
	if got := e.update(now, 0); got != 0 {
		t.Errorf("%v where nothing is known", got)
	}
}

func TestRoundUp(t *testing.T) {
	for _, c := range [][2]time.Duration{
		{time.Millisecond, 5 * time.Second},
		{11 * time.Second, 15 * time.Second},
		{3*time.Minute + time.Second, 3*time.Minute + 30*time.Second},
		{11*time.Minute + time.Second, 12 * time.Minute},
		{61 * time.Minute, 65 * time.Minute},
	} {
		if got := roundUp(c[0]); got != c[1] {
			t.Errorf("%v: %v, want %v", c[0], got, c[1])
		}
	}
}
