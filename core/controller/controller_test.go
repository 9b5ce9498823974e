package controller_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

func TestRunIsAcceptedDrivenAndRecorded(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		defer stop()
		defer l.node(l.queue(), 10)()
		if r := l.accept(c, spec{id: "r1", hosts: 30, bad: 2, more: "criticality: 7\nstrategy: {waves: [1, 10, 100%]}\n"}); r.Phase != ledger.PhaseQueued || r.Criticality != 7 {
			t.Errorf("%+v", r)
		}
		l.complete("r1")
		if r := l.run("r1"); r.Phase != ledger.PhaseFinished || r.Outcomes[core.Changed] != 28 || r.Outcomes[core.Failed] != 2 {
			t.Errorf("%+v", r)
		}
		if most, sum := l.times("r1"); most != 1 || sum != 30 {
			t.Errorf("jobs ran %d times at most, %d in all", most, sum)
		}
		l.sound()
	})
}

// A server that dies after Accept returned, before anything else, has lost nothing.
func TestServerDiesBetweenLedgerAndQueue(t *testing.T) {
	fake(t, func(l *lab) {
		dead, err := controller.New(controller.Config{Name: "dead", Ledger: l.ledger, Queue: l.queue(), Board: l.queue(), Types: types})
		if err != nil {
			t.Fatal(err)
		}
		l.accept(dead, spec{id: "r1", hosts: 5})
		// Another died while it held the claim.
		l.accept(dead, spec{id: "r2", hosts: 5})
		if _, err := l.ledger.Claim(l.Context(), "dead too", "r2", "q", 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		_, stop := l.server("s1", l.queue())
		defer stop()
		defer l.node(l.queue(), 10)()
		l.complete("r1", "r2")
		l.sound()
	})
}

// The embedded queue forgets everything at a restart; what is recorded is not run again.
func TestEmbeddedQueueIsLost(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		node := l.node(l.queue(), 4)
		l.accept(c, spec{id: "r1", hosts: 40, more: "strategy: {waves: [10, 100%], stop_after: 30}\n", bad: 5})
		l.until("a part is recorded", func() bool { r := l.run("r1"); return r.Recorded >= 13 })
		stop()
		node()
		done := l.run("r1").Recorded
		l.newQueue()
		_, stop = l.server("s2", l.queue())
		defer stop()
		defer l.node(l.queue(), 4)()
		l.complete("r1")
		if most, sum := l.times("r1"); sum > 40+8 || most > 2 { // two turns may have been acknowledged and not recorded
			t.Errorf("%d jobs were recorded before the queue was lost; then jobs ran %d times at most, %d in all", done, most, sum)
		}
		if r := l.run("r1"); r.Outcomes[core.Changed] != 35 || r.Outcomes[core.Failed] != 5 || r.Phase != ledger.PhaseFinished {
			t.Errorf("%+v", r)
		}
		l.sound()
	})
}

// A run that must not be repeated is paused after its queue was lost, until somebody decides.
func TestHoldsWhatMustNotBeRepeated(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		node := l.node(l.queue(), 2)
		l.accept(c, spec{id: "r1", hosts: 10, uses: "flash"})
		l.accept(c, spec{id: "r2", hosts: 10})
		l.until("both have begun", func() bool { return l.run("r1").Recorded > 0 && l.run("r2").Recorded > 0 })
		stop()
		node()
		l.newQueue()
		c, stop = l.server("s2", l.queue())
		defer stop()
		defer l.node(l.queue(), 2)()
		l.complete("r2") // that may be repeated
		r := l.run("r1")
		if r.Phase != ledger.PhasePaused || !strings.Contains(r.Reason.Text(), "check the hosts") || len(l.said(controller.RunPaused)) != 1 {
			t.Fatalf("%+v", r)
		}
		if s, err := l.queue().Status(l.Context(), "r1"); err != nil || s.Phase != queue.Paused || s.InFlight > 0 {
			t.Errorf("%+v, %v", s, err)
		}
		if _, _, err := c.Resume(l.Context(), ledger.AllTenants(), "bob", "r1", "looked at them"); err != nil {
			t.Fatal(err)
		}
		l.complete("r1")
		l.sound()
	})
}

func TestAcceptsWhileTheQueueIsAway(t *testing.T) {
	fake(t, func(l *lab) {
		q := &flaky{Backend: l.queue()}
		q.set(true)
		c, stop := l.server("s1", q)
		defer stop()
		defer l.node(l.queue(), 10)()
		l.until("it is noticed", func() bool { return c.Away() != nil })
		if r := l.accept(c, spec{id: "r1", hosts: 3}); r.Phase != ledger.PhaseQueued {
			t.Errorf("%+v", r)
		}
		l.accept(c, spec{id: "r2", hosts: 3})
		if r, _, err := c.Cancel(l.Context(), ledger.AllTenants(), "bob", "r2", "no"); err != nil || r.Outcomes[core.Cancelled] != 3 {
			t.Errorf("a run that no queue has is cancelled immediately: %+v, %v", r, err)
		}
		<-time.After(time.Minute)
		if r := l.run("r1"); r.Phase != ledger.PhaseQueued {
			t.Errorf("%+v", r)
		}
		q.set(false)
		l.complete("r1")
		if l.run("r2").Outcomes[core.Cancelled] != 3 || len(l.said(controller.QueueAway)) != 1 || len(l.said(controller.QueueBack)) != 1 {
			t.Errorf("%v", l.events)
		}
		l.sound()
	})
}

// The most critical come back first after a queue was lost.
func TestMostCriticalFirst(t *testing.T) {
	fake(t, func(l *lab) {
		c, err := controller.New(controller.Config{Name: "dead", Ledger: l.ledger, Queue: l.queue(), Board: l.queue(), Types: types})
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range []int{3, 900, 0, 50, 900} {
			a := controller.Acceptance{Launch: l.launch(spec{id: string(rune('a' + i)), hosts: 1}), By: "alice", Criticality: &n}
			if _, _, err := c.Accept(l.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		_, stop := l.server("s1", l.queue())
		defer stop()
		l.until("all are queued", func() bool { return len(l.said(controller.RunEnqueued)) == 5 })
		var order string
		for _, e := range l.said(controller.RunEnqueued) {
			order += e.Run
		}
		if order != "bedac" {
			t.Errorf("put into the queue as %s, expected bedac", order)
		}
	})
}

func TestSeveralServersAtOnce(t *testing.T) {
	fake(t, func(l *lab) {
		l.took = 300 * time.Millisecond
		c, stop1 := l.server("s1", l.queue())
		_, stop2 := l.server("s2", l.queue())
		_, stop3 := l.server("s3", l.queue())
		defer stop1()
		defer stop3()
		defer l.node(l.queue(), 50)()
		runs := ids("r", 20)
		for _, id := range runs {
			l.accept(c, spec{id: id, hosts: 20, more: "strategy: {waves: [1, 100%]}\n"})
		}
		l.until("some is recorded", func() bool { return l.run("r7").Recorded > 0 })
		stop2() // its runs go to the others
		l.complete(runs...)
		for _, id := range runs {
			if most, sum := l.times(id); most != 1 || sum != 20 || l.run(id).Outcomes[core.Changed] != 20 {
				t.Errorf("run %s: jobs ran %d times at most, %d in all; %v", id, most, sum, l.run(id).Outcomes)
			}
		}
		l.sound()
	})
}

// Cancel returns while a server is about to put the run into the queue: no job of it starts. The
// control: without the cancel all of them do.
func TestCancelWhileItIsBeingQueued(t *testing.T) {
	for _, cancelled := range []bool{true, false} {
		fake(t, func(l *lab) {
			q := &flaky{Backend: l.queue(), hold: make(chan struct{})}
			c, stop := l.server("s1", q)
			defer stop()
			defer l.node(l.queue(), 10)()
			l.accept(c, spec{id: "r1", hosts: 5})
			synctest.Wait() // the server waits in Submit
			starts := 5
			if cancelled {
				if _, _, err := c.Cancel(l.Context(), ledger.AllTenants(), "bob", "r1", "no"); err != nil {
					t.Fatal(err)
				}
				starts = 0
			}
			close(q.hold)
			l.complete("r1")
			if r := l.run("r1"); r.Outcomes[core.Cancelled] != 5-starts || len(l.leased) != starts {
				t.Errorf("%+v; %d jobs were leased, expected %d", r, len(l.leased), starts)
			}
			l.sound()
		})
	}
}

func TestPausedFromTheStart(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		defer stop()
		defer l.node(l.queue(), 10)()
		run, _, err := c.Accept(l.Context(), controller.Acceptance{Launch: l.launch(spec{id: "r1", hosts: 3}), By: "alice", Paused: true})
		if err != nil || run.Phase != ledger.PhasePaused {
			t.Fatalf("%+v, %v", run, err)
		}
		<-time.After(time.Minute)
		if len(l.leased) > 0 {
			t.Error("a paused run started")
		}
		if _, _, err := c.Resume(l.Context(), ledger.AllTenants(), "bob", "r1", ""); err != nil {
			t.Fatal(err)
		}
		l.complete("r1")
	})
}

// A run is released while a server is about to put it into the queue as paused.
func TestResumeWhileItIsBeingQueued(t *testing.T) {
	fake(t, func(l *lab) {
		q := &flaky{Backend: l.queue(), hold: make(chan struct{})}
		c, stop := l.server("s1", q)
		defer stop()
		defer l.node(l.queue(), 10)()
		if _, _, err := c.Accept(l.Context(), controller.Acceptance{Launch: l.launch(spec{id: "r1", hosts: 3}), By: "alice", Paused: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, _, err := c.Resume(l.Context(), ledger.AllTenants(), "bob", "r1", ""); err != nil {
			t.Fatal(err)
		}
		close(q.hold)
		l.complete("r1")
	})
}

// A run waits for a queue that is away, and somebody who sees that nothing happens lets it
// continue: no queue was lost with it.
func TestResumeWhileTheQueueIsAway(t *testing.T) {
	fake(t, func(l *lab) {
		q := &flaky{Backend: l.queue()}
		q.set(true)
		c, stop := l.server("s1", q)
		defer stop()
		defer l.node(l.queue(), 10)()
		l.accept(c, spec{id: "r1", hosts: 3, uses: "flash"})
		if r, _, err := c.Resume(l.Context(), ledger.AllTenants(), "bob", "r1", ""); err != nil || r.Phase != ledger.PhaseQueued {
			t.Errorf("%+v, %v", r, err)
		}
		q.set(false)
		l.complete("r1")
		if held := l.said(controller.RunPaused); len(held) > 0 {
			t.Errorf("%v", held)
		}
	})
}

// A wave waits for a person longer than the server follows the run closely, and over a restart of
// the server.
func TestWaveWaitsForAPerson(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		defer l.node(l.queue(), 10)()
		l.accept(c, spec{id: "r1", hosts: 4, more: "strategy: {waves: [1, 100%], pause_between: approve}\n"})
		asks := func() (n int) {
			for _, e := range l.said(controller.RunEvent) {
				if e.Engine.Kind == engine.EventAsk {
					n++
				}
			}
			return n
		}
		l.until("it asks", func() bool { return asks() == 1 })
		<-time.After(time.Hour)
		if asks() != 1 {
			t.Errorf("asked %d times", asks())
		}
		stop()
		c, stop = l.server("s2", l.queue())
		defer stop()
		<-time.After(time.Minute)
		if l.run("r1").Recorded != 1 {
			t.Errorf("%+v", l.run("r1"))
		}
		if _, err := c.Decide(l.Context(), ledger.AllTenants(), "r1", ledger.Decision{Wave: 1, By: "bob", Approved: true}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		l.complete("r1")
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the wave came %v after it was approved", took)
		}
	})
}

// A wave that a person refuses cancels its run, also in the ledger.
func TestARefusedWaveCancelsItsRun(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		defer stop()
		defer l.node(l.queue(), 10)()
		l.accept(c, spec{id: "r1", hosts: 4, more: "strategy: {waves: [1, 100%], pause_between: approve}\n"})
		l.until("its first wave has ended", func() bool { return l.run("r1").Recorded == 1 })
		if _, err := c.Decide(l.Context(), ledger.AllTenants(), "r1", ledger.Decision{Wave: 1, By: "bob", Comment: "not today"}); err != nil {
			t.Fatal(err)
		}
		l.complete("r1")
		if r := l.run("r1"); r.Phase != ledger.PhaseCancelled || r.Reason.Code() != core.WaveRefused || r.Outcomes[core.Cancelled] != 3 {
			t.Errorf("%+v", r)
		}
		l.sound()
	})
}

func TestPauseBetweenWaves(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		defer stop()
		defer l.node(l.queue(), 10)()
		began := time.Now()
		l.accept(c, spec{id: "r1", hosts: 4, more: "strategy: {waves: [1, 100%], pause_between: 30m}\n"})
		<-time.After(30*time.Minute - 5*time.Second)
		if l.run("r1").Recorded != 1 {
			t.Errorf("before the pause has ended: %+v", l.run("r1"))
		}
		l.complete("r1")
		if took := time.Since(began); took < 30*time.Minute || took > 31*time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

// Runs that wait for days cost neither goroutine nor hosts in memory, and start on time.
func TestWaitingRuns(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		defer stop()
		defer l.node(l.queue(), 200)()
		const n = 100
		at := time.Now().Add(40 * time.Minute)
		for _, id := range ids("r", n) {
			one := l.launch(spec{id: id, hosts: 3, more: "strategy: {waves: [1, 100%]}\n"})
			one.Run.Segments = []queue.Segment{{Due: at, Count: 3}}
			if _, _, err := c.Accept(l.Context(), controller.Acceptance{Launch: one, By: "alice"}); err != nil {
				t.Fatal(err)
			}
		}
		l.until("all are known", func() bool { return c.Load().Watched == n && len(l.said(controller.RunEnqueued)) == n })
		<-time.After(time.Minute)
		before := c.Load().Polls
		<-time.After(10 * time.Minute)
		if polls := c.Load().Polls - before; polls > 0 {
			t.Errorf("%d polls of %d runs in 10 min in which nothing happens", polls, n)
		}
		if _, _, err := c.Cancel(l.Context(), ledger.AllTenants(), "bob", "r3", "no"); err != nil {
			t.Fatal(err)
		}
		l.until("a resting run is cancelled", func() bool { return l.run("r3").Outcomes[core.Cancelled] == 3 })
		<-time.After(time.Until(at))
		l.complete(ids("r", n)...)
		if took := time.Since(at); took > 2*time.Minute {
			t.Errorf("they took %v", took)
		}
		l.sound()
	})
}

// Jobs that wait for windows are signalled when those change, whichever server follows their run,
// with or without news.
func TestSignalWindows(t *testing.T) {
	fake(t, func(l *lab) {
		c1, stop1 := l.server("s1", l.queue())
		c2, stop2 := l.server("s2", l.queue())
		defer stop1()
		defer stop2()
		runs := ids("r", 6)
		for _, id := range runs {
			l.accept(c1, spec{id: id, hosts: 1})
		}
		q := l.queue()
		s, err := q.Open(l.Context(), "node")
		if err != nil {
			t.Fatal(err)
		}
		waiting := map[core.JobID]bool{}
		suspend := func() bool { // at first, a server asks those once more that were suspended before it
			turn, err := q.Turn(l.Context(), queue.Turn{Session: s, Want: 10})
			if err != nil {
				t.Fatal(err)
			}
			var acks []queue.Ack
			for _, lease := range turn.Leases {
				acks = append(acks, queue.Ack{Job: lease.Job, Token: lease.Token, Kind: queue.AckSuspend, Event: queue.EventWindow})
				waiting[lease.Job] = true
			}
			if _, err := q.Turn(l.Context(), queue.Turn{Session: s, Acks: acks}); err != nil {
				t.Fatal(err)
			}
			return len(waiting) == 6
		}
		l.until("all wait for their window", suspend)
		for range 300 { // until both servers check them rarely
			<-time.After(200 * time.Millisecond)
			suspend()
		}
		if c1.Load().Watched+c2.Load().Watched != 6 {
			t.Fatalf("%+v %+v", c1.Load(), c2.Load())
		}
		c1.SignalWindows()
		c2.SignalWindows()
		woken := 0
		l.until("all are woken", func() bool {
			turn, err := q.Turn(l.Context(), queue.Turn{Session: s, Want: 10})
			if err != nil {
				t.Fatal(err)
			}
			woken += len(turn.Leases)
			return woken == 6
		})
	})
}

func TestAmend(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		defer stop()
		defer l.node(l.queue(), 10)()
		run, _, err := c.Accept(l.Context(), controller.Acceptance{Launch: l.launch(spec{id: "r1", hosts: 3}), By: "alice", Approvals: 1})
		if err != nil {
			t.Fatal(err)
		}
		run, err = c.Amend(l.Context(), ledger.AllTenants(), "alice", "r1", run.Version, controller.Acceptance{Launch: l.launch(spec{id: "r1", hosts: 5}), By: "alice", Approvals: 1})
		if err != nil || run.Total != 5 {
			t.Fatalf("%+v, %v", run, err)
		}
		if _, err := c.Decide(l.Context(), ledger.AllTenants(), "r1", ledger.Decision{Wave: ledger.WholeRun, By: "bob", Approved: true}); err != nil {
			t.Fatal(err)
		}
		l.complete("r1")
		if r := l.run("r1"); r.Outcomes[core.Changed] != 5 {
			t.Errorf("%+v", r)
		}
		_, err = c.Amend(l.Context(), ledger.AllTenants(), "alice", "r1", l.run("r1").Version, controller.Acceptance{Launch: l.launch(spec{id: "r1", hosts: 6}), By: "alice"})
		if !errors.Is(err, core.ErrConflict) {
			t.Errorf("a run that has started was amended: %v", err)
		}
	})
}

// A server has put a run into the queue, and does not learn of it. The run is amended: what was
// accepted last is what runs. With an approval that it needs now, nothing runs before.
func TestAmendedAfterAnAnswerWasLost(t *testing.T) {
	for _, approvals := range []int{0, 1} {
		fake(t, func(l *lab) {
			inQueue := make(chan bool)
			lost := sync.OnceFunc(func() { close(inQueue) })
			q := &hooked{Backend: l.queue(), forget: func() bool { lost(); return true }}
			c, stop := l.server("s1", q)
			defer func() { stop() }()
			l.accept(c, spec{id: "r1", hosts: 3})
			<-inQueue
			stop()
			c, err := controller.New(controller.Config{Name: "editor", Ledger: l.ledger, Queue: l.queue(), Board: l.queue(), Types: types})
			if err != nil {
				t.Fatal(err)
			}
			l.until("its claim has ended", func() bool {
				_, err = c.Amend(l.Context(), ledger.AllTenants(), "alice", "r1", l.run("r1").Version,
					controller.Acceptance{Launch: l.launch(spec{id: "r1", hosts: 5}), By: "alice", Approvals: approvals})
				return !errors.Is(err, core.ErrConflict)
			})
			if err != nil {
				t.Fatal(err)
			}
			c, stop = l.server("s2", l.queue())
			defer l.node(l.queue(), 10)()
			if approvals > 0 {
				<-time.After(time.Hour)
				if r := l.run("r1"); r.Recorded > 0 || r.Phase != ledger.PhaseAwaiting {
					t.Fatalf("it did not wait for its approval: %+v", r)
				}
				if _, err := c.Decide(l.Context(), ledger.AllTenants(), "r1", ledger.Decision{Wave: ledger.WholeRun, By: "bob", Approved: true}); err != nil {
					t.Fatal(err)
				}
			}
			l.complete("r1")
			if r := l.run("r1"); r.Outcomes[core.Changed] != 5 {
				t.Errorf("%+v", r)
			}
			l.sound()
		})
	}
}

// A server puts a run in after its claim has ended. Another server has put the amended run in
// since, and that stays.
func TestAnEndedClaimReplacesNothing(t *testing.T) {
	fake(t, func(l *lab) {
		submits, continues := make(chan bool), make(chan bool)
		begun := sync.OnceFunc(func() { close(submits) })
		slow, stop := l.server("s1", &hooked{Backend: l.queue(), submit: func() error { begun(); <-continues; return nil }})
		defer stop()
		launched := func(hosts int) controller.Acceptance {
			return controller.Acceptance{Launch: l.launch(spec{id: "r1", hosts: hosts}), By: "alice", Paused: true}
		}
		if _, _, err := slow.Accept(l.Context(), launched(3)); err != nil {
			t.Fatal(err)
		}
		<-submits
		l.until("its claim has ended", func() bool {
			_, err := slow.Amend(l.Context(), ledger.AllTenants(), "alice", "r1", l.run("r1").Version, launched(5))
			return err == nil
		})
		_, stop2 := l.server("s2", l.queue())
		defer stop2()
		l.until("the other server has put it in", func() bool { return len(l.said(controller.RunEnqueued)) == 1 })
		close(continues)
		<-time.After(5 * time.Second)
		if s, err := l.queue().Status(l.Context(), "r1"); err != nil || s.Total != 5 {
			t.Errorf("the queue has %d jobs of it, expected the 5 of the amended run: %v", s.Total, err)
		}
	})
}

// A run whose threshold is reached is also stopped in the ledger, though its last outcomes come
// at the same moment.
func TestStoppedRun(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		defer stop()
		defer l.node(l.queue(), 10)()
		l.accept(c, spec{id: "r1", hosts: 40, bad: 40, more: "strategy: {stop_after: 3}\n"})
		l.complete("r1")
		if r := l.run("r1"); r.Phase != ledger.PhaseStopped || r.Reason == "" || r.Outcomes[core.Failed] != 10 {
			t.Errorf("%+v", r)
		}
		if n := l.stops(); n != 1 {
			t.Errorf("the stop was reported %d times", n)
		}
	})
}
