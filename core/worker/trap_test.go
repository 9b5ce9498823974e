package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/plugins/host"
)

func TestTrapPrefetchStrandsWork(t *testing.T) { // machinery#559
	inLab(t, func(l *lab) {
		l.plugins.do = sleep(3 * time.Second)
		f := &flaky{Worker: l.q}
		c := l.config()
		c.Queue = f
		la := l.submit("r", 30, oneStep)
		n := l.start(c)
		other := l.config()
		other.Name = "node-2"
		pass(time.Second)
		m := l.start(other) // what is beyond the concurrency of the first must be there for the second
		pass(time.Second)
		if s, _ := l.q.Status(l.t.Context(), "r"); s.InFlight != 8 {
			t.Errorf("%d in flight on two nodes of concurrency 4", s.InFlight)
		}
		l.exactlyOnce(la, l.results(la))
		n.drain()
		m.drain()
		for i, turn := range f.turns {
			if turn.Want > c.Concurrency {
				t.Errorf("turn %d wanted %d jobs with %d slots", i, turn.Want, c.Concurrency)
			}
		}
		if l.plugins.most > 8 {
			t.Errorf("%d jobs at the same time on a concurrency of 8", l.plugins.most)
		}
	})
}

func TestTrapRollingRestartStrandsJobs(t *testing.T) { // sidekiq#4635
	inLab(t, func(l *lab) {
		l.plugins.do = sleep(10 * time.Second)
		la := l.submit("r", 8, `
steps:
  - {name: a, uses: command, with: {run: x}}
  - {name: b, uses: command, with: {run: x}}
`)
		n := l.start(l.config())
		pass(5 * time.Second)
		stopped := time.Now()
		n.drain()
		if took := time.Since(stopped); took != 5*time.Second+coalesce && took != 5*time.Second {
			t.Errorf("drain took %v: expected the rest of the step that ran", took)
		}
		if s, _ := l.q.Status(l.t.Context(), "r"); s.InFlight != 0 || s.Total-s.Pending != s.Suspended+s.Waiting {
			t.Errorf("after the drain: %+v", s)
		}
		c := l.config()
		c.Name = "node-2"
		m := l.start(c)
		res := l.results(la)
		m.drain()
		l.exactlyOnce(la, res)
		if got := count(res); got[core.Changed] != 8 {
			t.Errorf("outcomes %v", got)
		}
		if got := len(l.plugins.seen()); got != 16 {
			t.Errorf("%d calls for 8 jobs of 2 steps: a finished step ran again", got)
		}
	})
}

func TestTrapHandlerIgnoresCancel(t *testing.T) { // river#1258
	inLab(t, func(l *lab) {
		free := make(chan struct{})
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			if c.Host.Name == "h00000" {
				<-free
			}
			return host.Outcome{}, nil
		}
		la := l.submit("r", 2, "steps: [{name: a, uses: command, with: {run: x}, timeout: 5s}]")
		n := l.start(l.config())
		res := l.results(la)
		if got := count(res); got[core.Lost] != 1 || got[core.Unchanged] != 1 {
			t.Errorf("outcomes %v", got)
		}
		n.stop()
		if err := <-n.done; !errors.Is(err, core.ErrTimeout) || !strings.Contains(err.Error(), `r/0 on h00000 in step "a"`) {
			t.Errorf("Run returned %v, expected it to name the job that did not end", err)
		}
		close(free)
		synctest.Wait()
		l.exactlyOnce(la, l.results(la))
	})
}

func TestTrapHealthyLongJobIsNotRunAgain(t *testing.T) { // oban#1141
	inLab(t, func(l *lab) {
		l.plugins.do = sleep(5 * time.Hour)
		la := l.submit("r", 2, safeStep)
		n := l.start(l.config())
		c := l.config()
		c.Name = "node-2"
		m := l.start(c)
		res := l.results(la)
		n.drain()
		m.drain()
		l.exactlyOnce(la, res)
		if got := len(l.plugins.seen()); got != 2 {
			t.Errorf("%d calls for 2 jobs", got)
		}
	})
}

func TestTrapPoisonJobIsDeadAtThree(t *testing.T) { // sidekiq#4633
	inLab(t, func(l *lab) {
		la := l.submit("r", 1, safeStep)
		l.plugins.do = sleep(time.Hour)
		// The nodes die with the job: from the queue's side they fall silent.
		for i := range 3 {
			f := &flaky{Worker: l.q}
			c := l.config()
			c.Queue, c.Name = f, fmt.Sprintf("victim-%d", i)
			n := l.start(c)
			for len(l.plugins.seen()) == i {
				pass(100 * time.Millisecond)
			}
			f.set(away)
			n.Kill()
			<-n.done
			n.stop()
			// Somebody must turn to see that the victim is gone; it leases nothing.
			s, _ := l.q.Open(l.t.Context(), "watcher")
			for range 10 {
				pass(time.Second)
				if _, err := l.q.Turn(l.t.Context(), queue.Turn{Session: s}); err != nil {
					t.Fatal(err)
				}
			}
		}
		res := l.results(la)
		if len(res) != 1 || res[0].Outcome != core.Lost {
			t.Errorf("%+v", res)
		}
		if got := len(l.plugins.seen()); got != 3 {
			t.Errorf("%d nodes got it, expected 3", got)
		}
	})
}

func TestTrapLateWorkerAckIsRefused(t *testing.T) { // bull#308
	inLab(t, func(l *lab) {
		// The job ignores that its lease has ended, and ends in success much later.
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			if len(l.plugins.seen()) > 1 {
				return host.Outcome{}, nil
			}
			pass(9 * time.Second)
			return host.Outcome{Changed: true}, nil
		}
		f := &flaky{Worker: l.q}
		c := l.config()
		c.Queue, c.Grace = f, 10*time.Second
		la := l.submit("r", 1, safeStep)
		n := l.start(c)
		pass(100 * time.Millisecond)
		f.set(away)
		other := l.config()
		other.Name = "node-2"
		m := l.start(other)
		pass(8 * time.Second)
		f.set(nil)
		res := l.results(la)
		pass(10 * time.Second)
		res = append(res, l.results(la)[len(res):]...)
		n.drain()
		m.drain()
		l.exactlyOnce(la, res)
		if res[0].Worker != "node-2" {
			t.Errorf("recorded was %+v", res[0])
		}
		for _, turn := range f.turns {
			if len(turn.Acks) > 0 {
				t.Errorf("the late worker acknowledged with session %s: %+v", turn.Session, turn.Acks)
			}
		}
	})
}
