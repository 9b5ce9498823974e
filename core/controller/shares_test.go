package controller_test

import (
	"context"
	"sync"
	"testing"

	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/encrypted"
)

// adjusted is a queue that notes the shares that it gets.
type adjusted struct {
	encrypted.Backend
	mu   sync.Mutex
	said []queue.Adjust
}

func (a *adjusted) Adjust(ctx context.Context, runs ...queue.Adjust) []error {
	a.mu.Lock()
	for _, one := range runs {
		if one.Weight != nil || one.MaxInFlight != nil {
			a.said = append(a.said, one)
		}
	}
	a.mu.Unlock()
	return a.Backend.Adjust(ctx, runs...)
}

func (a *adjusted) shares() (said []queue.Adjust) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append(said, a.said...)
}

// The weight and max_in_flight that a live run was given outlast the queue. The negative control is
// a run that was given none.
func TestSharesOutlastTheQueue(t *testing.T) {
	for _, given := range []bool{true, false} {
		fake(t, func(l *lab) {
			c, stop := l.server("s1", l.queue())
			l.accept(c, spec{id: "r1", hosts: 20})
			l.until("the run is in the queue", func() bool { return l.run("r1").Incarnation != "" })
			if given {
				r, err := c.SetShares(l.Context(), ledger.AllTenants(), "r1", ledger.Shares{MaxInFlight: new(2)})
				if err != nil || *r.Shares.MaxInFlight != 2 || r.Shares.Weight != nil {
					t.Fatalf("%+v, %v", r, err)
				}
				if _, err := c.SetShares(l.Context(), ledger.AllTenants(), "r1", ledger.Shares{Weight: new(7)}); err != nil {
					t.Fatal(err)
				}
			}
			leases(l, given)
			stop()
			l.newQueue()
			q := &adjusted{Backend: l.queue()}
			_, stop = l.server("s2", q)
			defer stop()
			l.until("the run is in the new queue", func() bool {
				s, err := l.queue().Status(l.Context(), "r1")
				return err == nil && s.Phase == queue.Active
			})
			leases(l, given)
			said := q.shares()
			if len(said) > 0 != given || given && (*said[0].Weight != 7 || *said[0].MaxInFlight != 2) {
				t.Errorf("the new queue got the weights %+v", said)
			}
		})
	}
}

// leases checks that as many jobs are leased at the same time as the run may have: two, or all that
// are asked for. A new queue leases none while workers of the lost one may be at work.
func leases(l *lab, bounded bool) {
	l.Helper()
	l.until("jobs are leased", func() bool {
		s, err := l.queue().Open(l.Context(), "node")
		if err != nil {
			l.Fatal(err)
		}
		got, err := l.queue().Turn(l.Context(), queue.Turn{Session: s, Want: 10})
		if err != nil || bounded && len(got.Leases) > 2 || !bounded && len(got.Leases)%10 != 0 {
			l.Errorf("%d leases, %v", len(got.Leases), err)
		}
		if err := l.queue().Close(l.Context(), s); err != nil {
			l.Error(err)
		}
		return len(got.Leases) >= 2
	})
}
