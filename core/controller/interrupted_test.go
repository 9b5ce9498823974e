package controller_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
)

// alone starts a controller that drives its own runs, on a queue of its own.
func (l *lab) alone(name string) (c *controller.Controller, q *memory.Queue, stop func()) {
	l.Helper()
	q = memory.New(memory.Options{})
	c, err := controller.New(controller.Config{Name: name, Ledger: l.ledger, Queue: q, Board: q, Alone: true, Types: types})
	if err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = c.Run(ctx) })
	return c, q, sync.OnceFunc(func() { cancel(); wg.Wait(); q.Shutdown() })
}

// Processes that share a ledger drive their own runs. One that died leaves its run as it was, until
// somebody ends it.
func TestAloneDrivesItsOwnRunsOnly(t *testing.T) {
	fake(t, func(l *lab) {
		one, _, stopOne := l.alone("one")
		two, q2, stopTwo := l.alone("two")
		defer stopTwo()
		defer l.node(q2, 10)()
		l.accept(one, spec{id: "r1", hosts: 3})
		l.until("the run is in its queue", func() bool { return l.run("r1").Phase == ledger.PhaseActive })
		stopOne()
		l.accept(two, spec{id: "r2", hosts: 1})
		l.complete("r2")
		never, _, stopNever := l.alone("never")
		stopNever()
		l.accept(never, spec{id: "r3", hosts: 1})
		<-time.After(time.Minute)
		if r := l.run("r1"); r.Phase != ledger.PhaseActive || r.Recorded != 0 {
			t.Errorf("another's run is %s with %d outcomes", r.Phase, r.Recorded)
		}
		if r := l.run("r3"); r.Phase != ledger.PhaseQueued {
			t.Errorf("a run that its process did not begin is %s", r.Phase)
		}
		for id, want := range map[string]core.Outcome{"r1": core.Lost, "r3": core.Cancelled} {
			for range 2 {
				if err := two.EndInterrupted(t.Context(), id, "interrupted", false, time.Now()); err != nil {
					t.Fatal(err)
				}
			}
			if r := l.run(id); !r.Complete() || r.Phase != ledger.PhaseCancelled || r.Outcomes[want] != r.Total {
				t.Errorf("%s: %s, %v", id, r.Phase, r.Outcomes)
			}
		}
		if r := l.run("r2"); r.Phase != ledger.PhaseFinished {
			t.Errorf("r2: %s", r.Phase)
		}
	})
}

// Hosts that are due later than the process lived have not begun, whenever the run is ended.
func TestInterruptedBeforeHostsWereDue(t *testing.T) {
	fake(t, func(l *lab) {
		one, _, stopOne := l.alone("one")
		made := map[string]*launch.Launch{}
		for _, id := range []string{"known", "unknown"} {
			made[id] = l.launch(spec{id: id, hosts: 3})
			made[id].Run.Segments = []queue.Segment{{Count: 1}, {Due: time.Now().Add(2 * time.Hour), Count: 2}}
			l.put(one, made[id])
			l.until("the run is in its queue", func() bool { return l.run(id).Phase == ledger.PhaseActive })
		}
		stopOne()
		died := time.Now()
		<-time.After(3 * time.Hour)
		two, _, stopTwo := l.alone("two")
		defer stopTwo()
		for id, until := range map[string]time.Time{"known": died, "unknown": time.Now()} {
			if err := two.EndInterrupted(t.Context(), id, "interrupted", false, until); err != nil {
				t.Fatal(err)
			}
		}
		for id, lost := range map[string]int{"known": 1, "unknown": 3} {
			if r := l.run(id); r.Outcomes[core.Lost] != lost || r.Outcomes[core.Cancelled] != 3-lost {
				t.Errorf("%s: %v", id, r.Outcomes)
			}
		}
	})
}

// The negative control: a server takes what an ended one left.
func TestServersTakeWhatAnotherLeft(t *testing.T) {
	fake(t, func(l *lab) {
		never, _, stop := l.alone("never")
		stop()
		l.accept(never, spec{id: "r1", hosts: 1})
		_, stopServer := l.server("s1", l.queue())
		defer stopServer()
		defer l.node(l.queue(), 10)()
		l.complete("r1")
	})
}

// In a queue that others work on, nobody knows which steps changed a host: all handlers become
// pending.
func TestInterruptedOnASharedQueueLeavesItsHandlers(t *testing.T) {
	fake(t, func(l *lab) {
		one, _, stop := l.alone("one")
		l.accept(one, spec{id: "r1", hosts: 2, uses: "look, notify: [restart]", more: "handlers: [{name: restart, uses: look}]\n"})
		l.until("the run is in its queue", func() bool { return l.run("r1").Phase == ledger.PhaseActive })
		stop()
		two, _, stopTwo := l.alone("two")
		stopTwo()
		if err := two.EndInterrupted(t.Context(), "r1", "interrupted", true, time.Now()); err != nil {
			t.Fatal(err)
		}
		if full, err := l.ledger.FullRun(t.Context(), ledger.AllTenants(), "r1", false); err != nil || full.Handlers != 2 {
			t.Errorf("%d handlers are pending, %v", full.Handlers, err)
		}
	})
}
