package controller_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/encrypted"
)

// outcomes are those of a run by index, as the ledger has them.
func (l *lab) outcomes(run string) map[int]core.Outcome {
	l.Helper()
	list, err := l.ledger.Ended(l.Context(), run)
	if err != nil {
		l.Fatal(err)
	}
	got := map[int]core.Outcome{}
	for _, e := range list {
		for i := range e.Count {
			got[e.Index+i] = e.Outcome
		}
	}
	return got
}

// unrecorded has some jobs of a run end while no server is there to record it, and the queue be
// lost with that.
func (l *lab) unrecorded(one *launch.Launch, jobs int) {
	l.Helper()
	c, stop := l.server("s1", l.queue())
	l.put(c, one)
	l.until("it is in the queue", func() bool { return l.run(one.Run.ID).Phase == ledger.PhaseActive })
	stop()
	node := l.node(l.queue(), 2)
	l.until("some have ended", func() bool { _, n := l.times(one.Run.ID); return n >= jobs })
	node()
	l.newQueue()
}

// A person cancels a run whose queue was lost: jobs that may have begun there are lost, whether
// their run was paused or not. Jobs in no released wave, or not due, are cancelled.
func TestFaultR5CancelAfterTheQueueWasLost(t *testing.T) {
	for _, uses := range []string{"flash", "look"} {
		t.Run(uses, func(t *testing.T) {
			fake(t, func(l *lab) {
				one := l.launch(spec{id: "r1", hosts: 9, uses: uses, more: "strategy: {waves: [6, 100%]}\n"})
				one.Run.Segments = []queue.Segment{{Count: 4}, {Count: 5, Due: time.Now().Add(time.Hour)}}
				l.unrecorded(one, 4)
				c, stop := l.server("s2", l.queue())
				defer stop()
				l.until("it is in the next queue", func() bool { return len(l.said(controller.RunEnqueued)) == 2 })
				if r := l.run("r1"); r.Recorded != 0 || (r.Phase == ledger.PhasePaused) != (uses == "flash") {
					t.Fatalf("%+v", r)
				}
				if _, _, err := c.Cancel(l.Context(), ledger.AllTenants(), "bob", "r1", "enough"); err != nil {
					t.Fatal(err)
				}
				l.complete("r1")
				for i, o := range l.outcomes("r1") {
					if want := map[bool]core.Outcome{true: core.Lost, false: core.Cancelled}[i < 4]; o != want {
						t.Errorf("job %d is %s, expected %s", i, o, want)
					}
				}
				l.until("its end is told", func() bool { return len(l.said(controller.RunEnded)) == 1 })
				if reported := l.said(controller.RunEnded)[0].Status.Outcomes; reported[core.Lost] != 4 || reported[core.Cancelled] != 5 {
					t.Errorf("reported: %v, expected what the ledger has", reported)
				}
				l.sound()
			})
		})
	}
}

// Jobs that run again after their queue was lost have that outcome; jobs that were recorded before
// keep theirs.
func TestFaultR5TheTrueOutcomeStays(t *testing.T) {
	fake(t, func(l *lab) {
		l.unrecorded(l.launch(spec{id: "r1", hosts: 6, bad: 1, more: "strategy: {waves: [4, 100%]}\n"}), 4)
		c, stop := l.server("s2", l.queue())
		defer stop()
		node := l.node(l.queue(), 2)
		l.until("some ran again", func() bool { return l.run("r1").Recorded >= 2 })
		node()
		if _, _, err := c.Cancel(l.Context(), ledger.AllTenants(), "bob", "r1", "enough"); err != nil {
			t.Fatal(err)
		}
		defer l.node(l.queue(), 2)() // any node's turn recovers what was leased
		l.complete("r1")
		got := l.outcomes("r1")
		if got[0] != core.Changed || got[1] != core.Changed || got[4] != core.Cancelled || got[5] != core.Cancelled {
			t.Errorf("%v", got)
		}
		l.sound()
	})
}

// The queue came back without the run, and a person cancels it before a server has put it in again.
func TestFaultR5CancelBeforeTheRunIsBackInTheQueue(t *testing.T) {
	fake(t, func(l *lab) {
		dead, err := controller.New(controller.Config{Name: "dead", Ledger: l.ledger, Queue: l.queue(), Board: l.queue(), Types: types})
		if err != nil {
			t.Fatal(err)
		}
		l.unrecorded(l.launch(spec{id: "r1", hosts: 3}), 2)
		if err := l.ledger.Unqueue(l.Context(), "r1", l.run("r1").Incarnation); err != nil {
			t.Fatal(err)
		}
		if r, _, err := dead.Cancel(l.Context(), ledger.AllTenants(), "bob", "r1", "enough"); err != nil || r.Complete() {
			t.Fatalf("%+v, %v", r, err)
		}
		_, stop := l.server("s2", l.queue())
		defer stop()
		l.complete("r1")
		if r := l.run("r1"); r.Outcomes[core.Lost] != 3 || r.Reason != "enough" {
			t.Errorf("%+v", r)
		}
		l.sound()
	})
}

// A run whose queue was lost, and that cannot be read back, ends, and reports that its jobs may
// have run.
func TestFaultR5ARefusedRunMayHaveRun(t *testing.T) {
	fake(t, func(l *lab) {
		_, _, err := l.ledger.Accept(l.Context(), ledger.NewRun{ID: "odd", Playbook: "patch", LaunchedBy: "alice", Jobs: []ledger.JobHost{{Host: "h"}, {Host: "i"}}, Snapshot: []byte("no snapshot")})
		if err != nil {
			t.Fatal(err)
		}
		claim, err := l.ledger.Claim(l.Context(), "s1", "odd", "q1", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.ledger.Enqueued(l.Context(), "q1", claim); err != nil {
			t.Fatal(err)
		}
		_, stop := l.server("s2", l.queue())
		defer stop()
		l.complete("odd")
		if r := l.run("odd"); r.Phase != ledger.PhaseCancelled || r.Outcomes[core.Lost] != 2 || len(l.said(controller.RunRefused)) != 1 {
			t.Errorf("%+v, reported %d times", r, len(l.said(controller.RunRefused)))
		}
	})
}

// A worker dies with a job that may be repeated, and its run is cancelled before it is: its steps
// may all have succeeded.
func TestFaultR5CancelAfterAWorkerDied(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		defer stop()
		l.took = time.Hour
		node := l.node(l.queue(), 1)
		l.accept(c, spec{id: "r1", hosts: 2})
		l.until("it has begun", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.leased) == 1 })
		node()
		<-time.After(queue.SessionTTL + time.Second)
		s, err := l.queue().Open(l.Context(), "other")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.queue().Turn(l.Context(), queue.Turn{Session: s}); err != nil { // recovers it, and leases nothing
			t.Fatal(err)
		}
		if _, _, err := c.Cancel(l.Context(), ledger.AllTenants(), "bob", "r1", "enough"); err != nil {
			t.Fatal(err)
		}
		l.complete("r1")
		if got := l.outcomes("r1"); got[0] != core.Lost || got[1] != core.Cancelled {
			t.Errorf("%v", got)
		}
		why, _, err := l.ledger.Jobs(l.Context(), ledger.AllTenants(), "r1", ledger.JobFilter{}, ledger.Page{})
		if err != nil || !strings.Contains(why[0].Reason, "worker node was silent") {
			t.Errorf("%+v, %v", why, err)
		}
	})
}

// Workers may be at work under leases of a queue that was emptied, and the locks of their hosts
// went with it: no run begins anything in the next one for as long as a session lives. An empty
// queue that followed none holds nothing up. Red without calm.
func TestFaultNothingBeginsBesideJobsOfALostQueue(t *testing.T) {
	fake(t, func(l *lab) {
		began := time.Now()
		l.unrecorded(l.launch(spec{id: "r1", hosts: 6}), 2)
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the first queue did nothing for %v", took)
		}
		l.mu.Lock()
		clear(l.leased)
		l.mu.Unlock()
		c, stop := l.server("s2", l.queue())
		defer stop()
		defer l.node(l.queue(), 2)()
		lost := time.Now()
		l.accept(c, spec{id: "r2", hosts: 1})
		l.until("something begins", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.leased) > 0 })
		if after := time.Since(lost); after < queue.SessionTTL || after > queue.SessionTTL+2*time.Second {
			t.Errorf("it began %v after the queue was lost", after)
		}
		l.complete("r1", "r2")
	})
}

// stragglers has a run whose server ends when one job of the first wave has not ended, and all of
// the second have begun. It returns the progress that the ledger had of the run when the queue
// heard that the second wave is released.
func (l *lab) stragglers(one *launch.Launch) (writtenDown string) {
	l.Helper()
	q := &releasing{Backend: l.queue(), hear: func() { writtenDown = l.run(one.Run.ID).Progress }}
	c, stop := l.server("s1", q)
	l.put(c, one)
	s, err := q.Open(l.Context(), "node")
	if err != nil {
		l.Fatal(err)
	}
	var first []queue.Lease
	turn := func(acks ...queue.Ack) int {
		res, err := q.Turn(l.Context(), queue.Turn{Session: s, Acks: acks, Want: 10})
		if err != nil {
			l.Fatal(err)
		}
		first = append(first, res.Leases...)
		return len(first)
	}
	l.until("the first wave has begun", func() bool { return turn() == 4 })
	var acks []queue.Ack
	for _, lease := range first {
		if lease.Host == one.Hosts[0].Name {
			continue
		}
		detail, err := launch.EncodeResult(core.Result{Job: lease.Job, Host: lease.Host, Outcome: core.Changed, Attempt: lease.Attempt, Worker: "node"})
		if err != nil {
			l.Fatal(err)
		}
		acks = append(acks, queue.Ack{Job: lease.Job, Token: lease.Token, Kind: queue.AckDone, Outcome: core.Changed, Detail: detail})
	}
	turn(acks...)
	l.until("the second wave has begun", func() bool { return turn() == 9 })
	stop()
	return writtenDown
}

// releasing is a queue that calls hear before it releases a wave.
type releasing struct {
	encrypted.Backend
	hear func()
}

func (q *releasing) Adjust(ctx context.Context, runs ...queue.Adjust) []error {
	for _, r := range runs {
		if r.Limit != nil {
			q.hear()
		}
	}
	return q.Backend.Adjust(ctx, runs...)
}

// The second wave did not wait for a straggler of the first: its jobs are also lost with the queue.
func TestWhatFollowedAStragglerIsLostWithTheQueue(t *testing.T) {
	fake(t, func(l *lab) {
		one := l.launch(spec{id: "r1", hosts: 12, uses: "flash", more: "strategy: {waves: [4, 9, 100%], next_wave_at: 75%}\n"})
		if written := l.stragglers(one); written != `{"limit":9}` {
			t.Errorf("when the queue heard of the release, the ledger had %q", written)
		}
		l.newQueue()
		c, stop := l.server("s2", l.queue())
		defer stop()
		l.until("it is in the next queue", func() bool { return len(l.said(controller.RunEnqueued)) == 2 })
		if _, _, err := c.Cancel(l.Context(), ledger.AllTenants(), "bob", "r1", "enough"); err != nil {
			t.Fatal(err)
		}
		l.complete("r1")
		for i, o := range l.outcomes("r1") {
			want := core.Lost
			switch {
			case i >= 9: // of a wave that was not released
				want = core.Cancelled
			case 0 < i && i < 4:
				want = core.Changed
			}
			if o != want {
				t.Errorf("job %d is %s, expected %s", i, o, want)
			}
		}
		l.sound()
	})
}

// A failover lost the last changes: the queue knows of no job in flight. Jobs that may have begun
// are doubted whatever became of the run, its handlers stay pending, and a run that continues is
// paused. The control is a queue that lost nothing.
func TestWhatAFailoverLostIsDoubted(t *testing.T) {
	for name, c := range map[string]struct {
		older     bool
		end       func(*lab) error
		phase     ledger.Phase
		uncertain int
	}{
		"it continues":     {older: true, phase: ledger.PhasePaused, uncertain: 9},
		"it was cancelled": {older: true, end: (*lab).cancelled, phase: ledger.PhaseCancelled, uncertain: 9},
		"nothing was lost": {phase: ledger.PhaseActive},
	} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(l *lab) {
				one := l.launch(spec{id: "r1", hosts: 12, uses: "flash, notify: [restart]", more: "strategy: {waves: [4, 9, 100%], next_wave_at: 75%}\nhandlers: [{name: restart, uses: look}]\n"})
				l.stragglers(one)
				if c.end != nil {
					if err := c.end(l); err != nil {
						t.Fatal(err)
					}
				}
				compared := make(chan bool)
				tell := sync.OnceFunc(func() { close(compared) })
				q := &hooked{Backend: l.queue(), trust: tell, hold: tell, doubt: func() queue.Doubt {
					select {
					case <-compared:
						return queue.Doubt{}
					default:
						return queue.Doubt{ID: "x", Older: c.older}
					}
				}}
				q.poll = func(sights []queue.Sight) []queue.Sight {
					for i := range sights {
						sights[i].Status.InFlight = 0
					}
					return sights
				}
				_, stop := l.server("s2", q)
				defer stop()
				<-compared
				l.until("it is doubted", func() bool { r := l.run("r1"); return r.Uncertain == c.uncertain && r.Phase == c.phase })
				full, err := l.ledger.FullRun(t.Context(), ledger.AllTenants(), "r1", false)
				if want := map[bool]int{false: 3, true: 9}[c.older]; err != nil || full.Handlers != want { // three hosts have a result without handlers
					t.Errorf("%d handlers are pending, %v, expected %d", full.Handlers, err, want)
				}
				l.sound()
			})
		})
	}
}

// cancelled has a person cancel run r1 while no server is there.
func (l *lab) cancelled() error {
	_, err := l.ledger.Cancel(l.Context(), ledger.AllTenants(), "bob", "r1", "enough")
	return err
}
