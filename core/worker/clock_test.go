package worker

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
)

func TestClockIsTheQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock{beat: queue.BeatEvery}
		if _, _, known := c.now(); known {
			t.Fatal("known before the queue answered")
		}
		real := func() time.Time { return time.Now().Add(-3 * time.Hour) } // the node's clock is off
		report := func(took time.Duration) {
			sent := time.Now()
			pass(took / 2)
			said := real()
			pass(took - took/2)
			c.report(sent, said, 0)
		}
		holds := func(what string, spread time.Duration) {
			t.Helper()
			early, late, known := c.now()
			if !known || early.After(real()) || late.Before(real()) || late.Sub(early) != spread {
				t.Errorf("%s: between %v and %v (known %v), it is %v", what, early, late, known, real())
			}
		}
		report(800 * time.Millisecond)
		holds("a slow answer", 800*time.Millisecond)
		report(10 * time.Millisecond)
		holds("a quick one", 10*time.Millisecond)
		report(2 * time.Second)
		holds("a slow one after it", 10*time.Millisecond)
		pass(clockKeep)
		report(2 * time.Second)
		holds("a slow one, when the quick one is old", 2*time.Second)
		pass(clockAge*queue.BeatEvery + time.Second)
		if _, _, known := c.now(); known {
			t.Error("known although the queue has long been silent")
		}
		report(0)
		c.report(time.Now().Add(-4*time.Second), real().Add(time.Hour), 0) // the queue's clock was set
		if early, late, _ := c.now(); early.After(real()) || !late.Equal(real().Add(time.Hour+4*time.Second)) {
			t.Errorf("after it was set: between %v and %v", early, late)
		}
		c.report(time.Now(), time.Time{}, 0)
		if early, _, _ := c.now(); early.IsZero() {
			t.Error("an answer without a time was believed")
		}
	})
}

// A virtual machine that was suspended must not take the time of before for the time of now.
func TestClockOfAMachineThatSleptIsUnknown(t *testing.T) {
	for _, tc := range []struct {
		wall, monotonic time.Duration
		want            bool
	}{
		{time.Minute, time.Minute, false},
		{time.Minute, time.Minute + clockStep, false},
		{2 * time.Hour, time.Second, true},
		{-time.Hour, time.Second, true},
	} {
		if apart(tc.wall, tc.monotonic) != tc.want {
			t.Errorf("%v on the wall, %v by the monotonic clock: %v", tc.wall, tc.monotonic, !tc.want)
		}
	}
}

// Suspended time is measured again as soon as wall clock and monotonic clock have parted, whichever
// way, and not before: each step of each job asks several times.
func TestSuspendedTimeIsMeasuredWhenTheClocksPart(t *testing.T) {
	measured, calls := time.Duration(0), 0
	s := newSuspension(func() time.Duration { calls++; return measured })
	for i, tc := range []struct {
		ahead, suspended, want time.Duration
		calls                  int
	}{
		{0, time.Minute, time.Minute, 1},                             // the first
		{500 * time.Microsecond, 0, time.Minute, 1},                  // noise of two readings
		{10 * time.Minute, 11 * time.Minute, 11 * time.Minute, 2},    // ten minutes of sleep
		{10 * time.Minute, 0, 11 * time.Minute, 2},                   // and no more
		{0, 11 * time.Minute, 11 * time.Minute, 3},                   // somebody set the wall clock back
		{2 * time.Second, 11*time.Minute + 1, 11*time.Minute + 1, 4}, // a short sleep
		{2*time.Second + time.Millisecond, time.Hour, time.Hour, 5},  // the shortest that counts
		{2*time.Second + time.Millisecond, 2 * time.Hour, time.Hour, 5},
	} {
		measured = tc.suspended
		if got := s.at(tc.ahead); got != tc.want || calls != tc.calls {
			t.Errorf("%d: %v after %d measurements, expected %v after %d", i, got, calls, tc.want, tc.calls)
		}
	}
	real := newSuspension(suspended)
	if first, second := real.total(), suspended(); (second - first).Abs() > time.Second {
		t.Errorf("suspended for %v, and %v when measured immediately", first, second)
	}
}

// A leap is what the queue's clock is off from the time that passed here, and no slow answer, drift
// or sleep.
func TestFaultR2ALeapIsReportedFromASlowAnswer(t *testing.T) {
	for _, tc := range []struct {
		went, passed, spread, want time.Duration
	}{
		{2 * time.Second, 2 * time.Second, 0, 0},
		{2 * time.Second, time.Second, 3 * time.Second, 0}, // a slow answer
		{time.Hour + 3*time.Second, time.Hour, 0, 0},       // clocks drift
		{302 * time.Second, 2 * time.Second, 0, 300 * time.Second},
		{-298 * time.Second, 2 * time.Second, time.Second, -300 * time.Second},
		{time.Hour, 2 * time.Hour, 0, -time.Hour},
	} {
		if got := leaped(tc.went, tc.passed, tc.spread); got != tc.want {
			t.Errorf("%v went while %v passed, known to %v: %v, expected %v", tc.went, tc.passed, tc.spread, got, tc.want)
		}
	}
}

// Each leap is reported once, also on the board, and a machine that was suspended reports none. Red
// without heard's report.
func TestFaultR2ALeapIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var off, suspended atomic.Int64
		l := &lab{t: t, plugins: &script{}}
		l.q = memory.New(memory.Options{Now: func() time.Time { return time.Now().Add(time.Duration(off.Load())) }})
		defer l.q.Shutdown()
		var r *Reporter
		c := l.config()
		events := c.Events
		c.Events = func(e Event) { events(e); r.Event(e) }
		n := l.startWith(c, func(w *Worker) {
			w.suspended = func() time.Duration { return time.Duration(suspended.Load()) }
			r = NewReporter(ReportConfig{Worker: w, Board: l.q})
		})
		ctx, stop := context.WithCancel(t.Context())
		reported := make(chan struct{})
		go func() { r.Run(ctx); close(reported) }()
		pass(time.Minute)
		synctest.Wait() // nobody reads one of the two clocks before the other is set
		off.Add(int64(3 * time.Second))
		suspended.Add(int64(3 * time.Second))
		pass(time.Minute)
		if got := l.said(ClockLeaped); len(got) != 0 {
			t.Errorf("a suspended machine: %v", got)
		}
		off.Add(int64(5 * time.Second)) // less than a session lives
		pass(time.Minute)
		if got := l.said(ClockLeaped); len(got) != 1 || n.Stats().ClockLeaps != 1 {
			t.Errorf("reported %v, counted %d", got, n.Stats().ClockLeaps)
		}
		text, _, err := l.q.Posted(t.Context(), api.LeapDocument, 0)
		var leap api.Leap
		if err == nil {
			err = json.Unmarshal(text, &leap)
		}
		if err != nil || leap.By.Round(time.Second) != 5*time.Second || leap.Worker != "node-1" {
			t.Errorf("on the board: %+v, %v", leap, err)
		}
		n.drain()
		stop()
		<-reported
	})
}

// After a leap both readings count, until the clock leaps back or the node's own clock confirms it.
func TestFaultR2BothReadingsCountAfterALeap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tc := range map[string]struct {
			before, after time.Duration // what the queue's clock is off from the node's
			early, late   time.Duration // and what counts
		}{
			"forward":               {0, 5 * time.Minute, 0, 5 * time.Minute},
			"back":                  {0, -5 * time.Minute, -5 * time.Minute, 0},
			"set right, forward":    {-5 * time.Minute, 0, 0, 0},
			"set right, back":       {time.Hour, 0, 0, 0},
			"no leap, but far off":  {time.Hour, time.Hour, time.Hour, time.Hour},
			"both ways, far enough": {time.Hour, 2 * time.Hour, time.Hour, 2 * time.Hour},
		} {
			c := clock{beat: queue.BeatEvery}
			at := func(off time.Duration) {
				pass(time.Second)
				c.report(time.Now(), time.Now().Add(off), 0)
			}
			holds := func(when string, early, late time.Duration) {
				t.Helper()
				a, b, known := c.now()
				if off := func(t time.Time, want time.Duration) bool { return (time.Until(t) - want).Abs() > 2*time.Millisecond }; !known || off(a, early) || off(b, late) {
					t.Errorf("%s, %s: between %v and %v of the node's clock, expected %v and %v", name, when, time.Until(a), time.Until(b), early, late)
				}
			}
			at(tc.before)
			holds("before", tc.before, tc.before)
			at(tc.after)
			at(tc.after)
			holds("after", tc.early, tc.late)
			if tc.early == tc.late && tc.before != tc.after {
				continue // the node's clock has confirmed it
			}
			at(tc.before)
			holds("when it was back", tc.before, tc.before)
		}
	})
}

// Redis' clock leaps to the inside of a window that is not open yet. Red with the queue's clock
// taken at its word: the step begins immediately.
func TestFaultR2ALeapOpensNoWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leap atomic.Int64
		l := &lab{t: t, plugins: &script{}}
		l.q = memory.New(memory.Options{Now: func() time.Time { return time.Now().Add(time.Duration(leap.Load())) }})
		defer l.q.Shutdown()
		starts := l.starts(time.Minute)
		pass(21*time.Hour + 55*time.Minute)
		n := l.start(l.windowedConfig())
		pass(2 * time.Minute)
		l.windowed("r", 1, night, flash)
		synctest.Wait() // the job is suspended and nobody's: the queue in memory loses its sessions at a leap
		leap.Store(int64(5 * time.Minute))
		pass(30 * time.Minute)
		n.drain()
		if len(*starts) != 1 {
			t.Fatalf("%d starts, expected one", len(*starts))
		}
		if at := (*starts)[0].at; at.Hour() != 22 || at.Minute() > 15 {
			t.Errorf("began at %v, expected soon after the window opens at 22:00", at)
		}
	})
}

// While the clock is in doubt no window may be long enough: the job waits until it is known, and is
// not ended for want of one. Red where the doubt counts as time that the step needs for good.
func TestFaultR2ALeapEndsNoJobForWantOfAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leap atomic.Int64
		l := &lab{t: t, plugins: &script{}}
		l.q = memory.New(memory.Options{Now: func() time.Time { return time.Now().Add(time.Duration(leap.Load())) }})
		defer l.q.Shutdown()
		starts := l.starts(time.Second)
		pass(21*time.Hour + 55*time.Minute)
		n := l.start(l.windowedConfig())
		pass(time.Minute)
		la := l.windowed("r", 1, strings.Replace(night, "+1d 02:00", "22:02", 1), strings.Replace(flash, "30m", "1m", 1))
		synctest.Wait()
		leap.Store(int64(5 * time.Minute))
		pass(4*time.Minute + 30*time.Second)
		leap.Store(0) // what is due in a memory queue waits for a clock that was set back, so this window may pass
		res := l.results(la)
		n.drain()
		if res[0].Outcome != core.Changed || len(*starts) != 1 {
			t.Fatalf("%+v, %d starts", res[0], len(*starts))
		}
		if at := (*starts)[0].at; at.Hour() != 22 || at.Minute() > 0 {
			t.Errorf("began at %v, expected in a window, with a minute left", at)
		}
	})
}
