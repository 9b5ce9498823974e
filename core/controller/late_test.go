package controller_test

import (
	"testing"
	"time"

	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// A cancel that no queue has yet reports that, and any server that reaches the queue brings it
// there soon. Red without the cancel in share: the follower is in its backoff, or on a server that
// is cut off.
func TestFaultCancelWhileTheQueueIsAway(t *testing.T) {
	for name, c := range map[string]struct {
		servers int
		away    time.Duration
		back    bool // the first server reaches the queue again
	}{"back": {1, 12 * time.Second, true}, "away from one": {2, 2 * time.Second, false}} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(l *lab) {
				q := &flaky{Backend: l.queue()}
				asked, stop := l.server("s1", q)
				defer stop()
				for range c.servers - 1 {
					_, stop := l.server("s2", l.queue())
					defer stop()
				}
				l.took = time.Minute
				defer l.node(l.queue(), 1)()
				runs := ids("r", 6)
				for _, id := range runs {
					l.accept(asked, spec{id: id, hosts: 5})
				}
				l.until("all are in the queue", func() bool { return len(l.said(controller.RunEnqueued)) == len(runs) })
				<-time.After(20 * time.Second) // the server that follows them does
				q.set(true)
				<-time.After(c.away)
				for _, id := range runs {
					if r, late, err := asked.Cancel(l.Context(), ledger.AllTenants(), "bob", id, "enough"); err != nil || !late || r.Phase != ledger.PhaseCancelled {
						t.Fatalf("%+v, late %v, %v", r, late, err)
					}
				}
				q.set(!c.back)
				<-time.After(2500 * time.Millisecond)
				for _, id := range runs {
					if s, err := l.queue().Status(l.Context(), id); err != nil || s.Phase != queue.Cancelled {
						t.Errorf("%s is %s in the queue, %v", id, s.Phase, err)
					}
				}
				q.set(false)
			})
		})
	}
}
