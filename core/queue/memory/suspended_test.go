package memory_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
)

// again is a restart as a kill makes it; without is one that forgets what jobs were suspended for.
func (s *site) again(without bool) {
	s.Helper()
	suspended, err := memory.Suspended(s.dir)
	if err != nil {
		s.Fatal(err)
	}
	if without {
		suspended = nil
	}
	m := memory.New(memory.Options{SessionTTL: 1000 * time.Hour, Suspended: suspended})
	s.Cleanup(m.Shutdown)
	if s.q, err = memory.NewStates(m, s.dir); err != nil {
		s.Fatal(err)
	}
	s.fill()
}

// hours lets time pass in a queue that nobody asks meanwhile.
func hours(n int) { <-time.After(time.Duration(n) * time.Hour) }

// leased gives index=state of what can be leased now.
func (s *site) leased() map[int]queue.Lease {
	s.Helper()
	return s.turn(3)
}

func (s *site) wants(what string, got map[int]queue.Lease, want ...int) {
	s.Helper()
	for _, i := range want {
		if _, ok := got[i]; !ok {
			s.Errorf("%s: job %d is not leased", what, i)
		}
	}
	if len(got) != len(want) {
		s.Errorf("%s: %d jobs are leased, expected %v", what, len(got), want)
	}
}

// suspendAll suspends job 0 for 2 h, job 1 for an event, and job 2 for either, as their second
// attempts.
func (s *site) suspendAll() {
	s.Helper()
	s.again(false)
	leases := s.leased()
	s.turn(0, retryNow(leases[0]), retryNow(leases[1]), retryNow(leases[2]))
	leases = s.leased()
	s.turn(0, suspended(leases[0], 2*time.Hour, "", false), suspended(leases[1], 0, "e", true), suspended(leases[2], 3*time.Hour, "f", false))
}

func retryNow(l queue.Lease) queue.Ack {
	a := ack(l, queue.AckRetry, "first")
	a.After = 0
	return a
}

func suspended(l queue.Lease, after time.Duration, event string, keep bool) queue.Ack {
	a := ack(l, queue.AckSuspend, "suspended on "+l.Host)
	a.After, a.Event, a.KeepLocks = after, event, keep
	return a
}

func newSuspendedSite(t *testing.T) *site {
	t.Helper()
	return &site{T: t, dir: filepath.Join(t.TempDir(), "states")}
}

// The wait of a suspended job holds over a kill: the rest of its time, and its event.
func TestFaultW3SuspensionsOutliveAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSuspendedSite(t)
		s.suspendAll()
		hours(1)
		s.again(false)
		s.wants("an hour later, killed", s.leased())
		if st := s.status(); st.Suspended != 3 {
			t.Errorf("after a kill: %+v", st)
		}
		other := queue.Run{ID: "other", Targets: []queue.Target{{Host: "b"}}}
		if _, err := queue.SubmitOne(t.Context(), s.q, other); err != nil {
			t.Fatal(err)
		}
		s.wants("on a host whose lock is kept", s.leased())
		hours(1)
		got := s.leased()
		s.wants("after its time", got, 0)
		if l := got[0]; string(l.State) != "suspended on a" || l.Attempt != 2 {
			t.Errorf("continues as %+v", l)
		}
		s.again(false) // killed while it works: it is not suspended any more
		s.wants("killed at work", s.leased(), 0)
		if n, err := s.q.Signal(t.Context(), "r/1", "e"); n != 1 || err != nil {
			t.Errorf("signalled %d, %v", n, err)
		}
		s.again(false) // killed before it is leased
		s.wants("woken and killed", s.leased(), 0, 1)
		hours(1)
		s.again(false)
		s.wants("when its time came while nothing ran", s.leased(), 0, 1, 2)
	})
}

// Negative control: a queue without that knowledge continues with all of them immediately.
func TestFaultW3AQueueThatIsNotToldGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSuspendedSite(t)
		s.suspendAll()
		s.again(true)
		s.wants("not told", s.leased(), 0, 1, 2)
	})
}

// The signal of one job, a dismissal and a cancel are known after a kill as well, and nothing is
// left of them.
func TestFaultW3WhatEndsASuspensionIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSuspendedSite(t)
		s.suspendAll()
		if ok, err := s.q.SignalJob(t.Context(), s.job(1), "f"); ok || err != nil {
			t.Errorf("it continues after another event: %v, %v", ok, err)
		}
		if ok, err := s.q.SignalJob(t.Context(), s.job(1), "e"); !ok || err != nil {
			t.Errorf("it does not continue: %v, %v", ok, err)
		}
		if n, err := s.q.Dismiss(t.Context(), "r/1", "f", "not wanted"); n != 1 || err != nil {
			t.Errorf("dismissed %d, %v", n, err)
		}
		s.again(false)
		s.wants("woken, and dismissed but not recorded", s.leased(), 1, 2)
		s.suspendAll()
		if err := s.q.Cancel(context.Background(), "r/1", "enough"); err != nil {
			t.Fatal(err)
		}
		if n := s.files(); n != 0 {
			t.Errorf("%d files are left", n)
		}
	})
}

// A file that cannot be read is named, with what to do; nothing is guessed.
func TestFaultW3AnUnreadableSuspensionIsNamed(t *testing.T) {
	t.Parallel()
	s := newSuspendedSite(t)
	name := filepath.Join(s.dir, "r", "0.wait")
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := memory.Suspended(s.dir); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "r/0") || !strings.Contains(err.Error(), "hint: ") {
		t.Errorf("%v", err)
	}
}

// A cleanup of a cancelled run outlives a kill, and nothing is left of it in the end.
func TestACleanupOutlivesAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSuspendedSite(t)
		s.again(false)
		leases := s.leased()
		cleaning := suspended(leases[0], 2*time.Hour, "", false)
		cleaning.Cleanup = true
		s.turn(0, cleaning, suspended(leases[1], 2*time.Hour, "", false), ack(leases[2], queue.AckDone, ""))
		cancel := func() {
			t.Helper()
			if err := s.q.Cancel(t.Context(), "r/1", "enough"); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		s.again(false) // killed before the cleanup was leased
		cancel()
		got := s.leased()
		s.wants("after the kill", got, 0)
		if l := got[0]; l.Over != "enough" || string(l.State) != "suspended on a" {
			t.Errorf("leased as %+v", l)
		}
		s.turn(0, ack(got[0], queue.AckDone, ""))
		if left, err := os.ReadDir(s.dir); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}
