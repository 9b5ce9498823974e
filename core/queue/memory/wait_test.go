package memory_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
)

func openSession(tb testing.TB, q queue.Node) string {
	tb.Helper()
	s, err := q.Open(tb.Context(), "n")
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// waiters blocks n nodes in Wait for an hour and counts those that returned.
func waiters(t *testing.T, q *memory.Queue, n int) *atomic.Int32 {
	t.Helper()
	var returned atomic.Int32
	for range n {
		s := openSession(t, q)
		go func() {
			if err := q.Wait(t.Context(), s, time.Now().Add(time.Hour)); err != nil {
				t.Error(err)
			}
			returned.Add(1)
		}()
	}
	synctest.Wait()
	return &returned
}

func TestOneJobSignalsOneNode(t *testing.T) {
	for _, tc := range []struct {
		name string
		due  time.Duration
	}{{"new", 0}, {"due", time.Minute}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := memory.New(memory.Options{SessionTTL: 24 * time.Hour})
				returned := waiters(t, q, 8)
				r := bulk("a", 1)
				if tc.due > 0 {
					r.Segments = []queue.Segment{{Due: time.Now().Add(tc.due), Count: 1}}
				}
				submit(t, q, r)
				<-time.After(tc.due) // fake time
				synctest.Wait()
				if n := returned.Load(); n != 1 {
					t.Errorf("one job signalled %d nodes", n)
				}
				q.Shutdown()
				synctest.Wait()
				if n := returned.Load(); n != 8 {
					t.Errorf("after Shutdown %d of 8 nodes returned", n)
				}
			})
		})
	}
}

// A bulk run signals a chain: a node that leases less than all signals the next.
func TestTurnPassesTheWakeOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{SessionTTL: 24 * time.Hour})
		defer q.Shutdown()
		s := openSession(t, q)
		returned := waiters(t, q, 3)
		submit(t, q, bulk("a", 3))
		for i := int32(1); i <= 3; i++ {
			synctest.Wait()
			if n := returned.Load(); n != i {
				t.Fatalf("%d nodes were signalled after %d turns", n, i-1)
			}
			turn(t, q, s, 1, nil)
		}
	})
}

// A node that is signalled just as it leaves does not take the signal with it.
func TestWakeOfALeavingNodeIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{SessionTTL: 24 * time.Hour})
		defer q.Shutdown()
		leaving, leave := context.WithCancel(t.Context())
		s := openSession(t, q)
		go func() {
			if err := q.Wait(leaving, s, time.Now().Add(time.Hour)); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		returned := waiters(t, q, 1)
		leave()
		submit(t, q, bulk("a", 1))
		synctest.Wait()
		if n := returned.Load(); n != 1 {
			t.Errorf("%d nodes that stay were signalled, expected 1", n)
		}
	})
}

func TestCompleteRunsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{SessionTTL: 1000 * time.Hour, Retain: time.Hour})
		defer q.Shutdown()
		s := openSession(t, q)
		submit(t, q, bulk("a", 1))
		l := turn(t, q, s, 1, nil).Leases[0]
		<-time.After(2 * time.Hour)
		turn(t, q, s, 0, []queue.Ack{{Job: l.Job, Token: l.Token, Kind: queue.AckDone, Outcome: core.Changed}})
		if created, err := queue.SubmitOne(t.Context(), q, bulk("a", 1)); created || err != nil {
			t.Fatalf("within the retention: created %t, %v", created, err)
		}
		<-time.After(time.Hour)
		turn(t, q, s, 0, nil)
		if _, err := q.Status(t.Context(), "a"); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("after the retention: %v, expected core.ErrNotFound", err)
		}
		submit(t, q, bulk("a", 2)) // its id is free
		if f, err := q.Check(t.Context(), false); err != nil || len(f) > 0 {
			t.Errorf("Check: %v, %v", f, err)
		}
	})
}

// The queue's clock stops while the machine's is set back.
func TestTrapClockGoesBack(t *testing.T) { // db-scheduler#433
	now := time.Unix(1000, 0)
	q := memory.New(memory.Options{Now: func() time.Time { return now }})
	s := openSession(t, q)
	first := turn(t, q, s, 0, nil).Now
	now = now.Add(-time.Hour)
	if got := turn(t, q, s, 0, nil).Now; got.Before(first) {
		t.Errorf("the clock went from %v to %v", first, got)
	}
	now = now.Add(time.Hour + time.Second)
	if got := turn(t, q, s, 0, nil).Now; !got.After(first) {
		t.Errorf("the clock stands still at %v", got)
	}
}

// A bulk run costs the same few allocations whatever its size.
func TestSubmitAllocatesNothingPerJob(t *testing.T) {
	allocs := func(n int) float64 {
		runs := make([]queue.Run, 0, 11)
		for i := range cap(runs) {
			runs = append(runs, bulk(string(rune('a'+i)), n))
		}
		q := memory.New(memory.Options{})
		i := 0
		return testing.AllocsPerRun(10, func() {
			submit(t, q, runs[i])
			i++
		})
	}
	if small, big := allocs(10), allocs(10_000); big > small+5 {
		t.Errorf("a run of 10,000 took %v allocations, one of 10 took %v", big, small)
	}
}

// A node that waits for an hour is signalled when another falls silent.
func TestTrapSilentNodeSignalsAWaiter(t *testing.T) { // asynq#334
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{})
		defer q.Shutdown()
		submit(t, q, bulk("a", 1))
		turn(t, q, openSession(t, q), 1, nil)
		start := time.Now()
		if err := q.Wait(t.Context(), "whoever", start.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("the job of a silent node came free after %v, expected at most 10s", took)
		}
		turn(t, q, openSession(t, q), 1, nil)
	})
}

// After a node that is signalled and dies before its turn, the next job signals another.
func TestSignalledNodeThatDiesStopsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{SessionTTL: 24 * time.Hour})
		defer q.Shutdown()
		returned := waiters(t, q, 2)
		for i, id := range []string{"a", "b"} {
			submit(t, q, bulk(id, 1))
			synctest.Wait()
			if n := returned.Load(); n != int32(i+1) {
				t.Fatalf("%d nodes were signalled by %d jobs", n, i+1)
			}
		}
	})
}
