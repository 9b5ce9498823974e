package controller_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// Two servers check at the same time: each run is put into the queue by one of them. The negative
// control: without the compare-and-set of the claim both do it.
func TestEachRunIsPutIntoTheQueueByOneServer(t *testing.T) {
	for _, careless := range []bool{false, true} {
		fake(t, func(l *lab) {
			q := &flaky{Backend: l.queue(), hold: make(chan struct{})} // the server that submits waits until both have looked
			c, err := controller.New(controller.Config{Name: "client", Ledger: l.ledger, Queue: q, Board: q, Types: types})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.queue().Post(l.Context(), board.Incarnation, []byte("first"), board.MaxKeep); err != nil { // of two that name it at the same time the later one puts all in again
				t.Fatal(err)
			}
			runs := ids("r", 3)
			for _, id := range runs {
				l.accept(c, spec{id: id, hosts: 2})
			}
			change := func(c *controller.Controller) {
				if careless {
					c.WithoutClaims()
				}
			}
			_, stop1 := l.server("s1", q, change)
			defer stop1()
			_, stop2 := l.server("s2", q, change)
			defer stop2()
			synctest.Wait()
			close(q.hold)
			defer l.node(l.queue(), 10)()
			l.complete(runs...)
			times := map[string]int{}
			for _, e := range l.said(controller.RunEnqueued) {
				times[e.Run]++
			}
			twice := 0
			for _, id := range runs {
				if times[id] > 1 {
					twice++
				}
			}
			if !careless && (twice > 0 || len(times) != len(runs)) {
				t.Errorf("put into the queue: %v, expected each once", times)
			}
			if careless && twice == 0 {
				t.Error("negative control: without the compare-and-set nothing is put in twice: this test cannot fail")
			}
			l.sound()
		})
	}
}

// After an attempt that took long the next claim outlasts another such. Otherwise two servers that
// are slow take over each other's claims, and none of them puts a run in.
func TestAClaimOutlastsTheLastAttempt(t *testing.T) {
	fake(t, func(l *lab) {
		ends := make(chan time.Time, 2) // of the claims, by the database's clock, which is not that of the test
		q := &hooked{Backend: l.queue(), submit: func() error { <-time.After(5 * time.Minute); return nil }}
		c, stop := l.server("s1", q, func(c *controller.Controller) {
			c.OnClaim(func(claim ledger.Claim) { ends <- claim.Until() })
		})
		defer stop()
		l.accept(c, spec{id: "r1", hosts: 1})
		first := <-ends
		l.accept(c, spec{id: "r2", hosts: 1})
		if more := (<-ends).Sub(first); more < 58*time.Second {
			t.Errorf("the second claim ends %v after the first, expected at least the minute instead of the 2 s", more)
		}
		l.until("both are queued", func() bool { return len(l.said(controller.RunEnqueued)) == 2 })
	})
}

// A queue is lost that had many runs: the most critical come back first, by the word of their
// playbooks.
func TestMostCriticalFirstAfterTheQueueWasLost(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		const n = 300 // more than one claim takes
		far := time.Now().Add(24 * time.Hour)
		critical := map[string]int{}
		var runs []string
		random := rand.New(rand.NewPCG(1, 5))
		for _, id := range ids("r", n) {
			critical[id] = random.IntN(10) * 100
			one := l.launch(spec{id: id, hosts: 1, more: fmt.Sprintf("criticality: %d\n", critical[id])})
			one.Run.Segments = []queue.Segment{{Due: far, Count: 1}}
			l.put(c, one)
			runs = append(runs, id)
		}
		l.until("all are queued", func() bool { return len(l.said(controller.RunEnqueued)) == n })
		stop()
		l.newQueue()
		_, stop = l.server("s2", l.queue())
		defer stop()
		l.until("all are queued again", func() bool { return len(l.said(controller.RunEnqueued)) == 2*n })
		var order []string
		for _, e := range l.said(controller.RunEnqueued)[n:] {
			order = append(order, e.Run)
		}
		want := slices.Clone(runs)
		slices.SortStableFunc(want, func(a, b string) int { return critical[b] - critical[a] })
		if !slices.Equal(order, want) {
			t.Errorf("put back as\n%v, expected\n%v", order, want)
		}
	})
}
