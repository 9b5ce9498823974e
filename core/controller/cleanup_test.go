package controller_test

import (
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/encrypted"
)

// A cancelled run ends in the ledger once the cleanup of its suspended host has ended. The server
// and the node die before it is leased, and another node dies in it.
func TestACancelledRunEndsAfterItsCleanup(t *testing.T) {
	fake(t, func(l *lab) { l.cleansUp(l.queue) })
}

// cleansUp is that test, of processes that open the queue each.
func (l *lab) cleansUp(open func() encrypted.Backend) {
	l.Helper()
	ctx, q := l.Context(), open()
	c, stop := l.server("s1", open())
	l.accept(c, spec{id: "r1", hosts: 3})
	s, err := q.Open(ctx, "n1")
	if err != nil {
		l.Fatal(err)
	}
	turn := func(session string, want int, acks ...queue.Ack) (leases []queue.Lease) {
		l.Helper()
		res, err := q.Turn(ctx, queue.Turn{Session: session, Want: want, Acks: acks})
		if err != nil || len(res.Stale) > 0 {
			l.Fatal(res, err)
		}
		return res.Leases
	}
	lease := func(session string, n int) (leases []queue.Lease) {
		l.Helper()
		l.until("jobs are leased", func() bool {
			leases = append(leases, turn(session, n-len(leases))...)
			return len(leases) == n
		})
		return leases
	}
	got := lease(s, 2)
	for i := range got {
		turn(s, 0, queue.Ack{Job: got[i].Job, Token: got[i].Token, Kind: queue.AckSuspend, Event: "e", State: []byte(`{"v":1}`), Cleanup: i == 0})
	}
	if err := q.Close(ctx, s); err != nil {
		l.Fatal(err)
	}
	if _, late, err := c.Cancel(ctx, ledger.AllTenants(), "alice", "r1", "enough"); late || err != nil {
		l.Fatal(late, err)
	}
	l.until("the others are recorded", func() bool { return l.run("r1").Recorded == 2 })
	stop()
	_, stop = l.server("s2", open())
	defer stop()
	dead, err := q.Open(ctx, "n2")
	if err != nil {
		l.Fatal(err)
	}
	lease(dead, 1)
	l.until("the session of the dead node ends", func() bool { _, err := q.Adopt(ctx, dead); return err != nil })
	if s, err = q.Open(ctx, "n3"); err != nil {
		l.Fatal(err)
	}
	last := lease(s, 1)[0]
	if last.Job != got[0].Job || last.Over.Text() != "enough" {
		l.Errorf("leased %+v", last)
	}
	if r := l.run("r1"); r.Complete() || r.Phase != ledger.PhaseCancelled {
		l.Errorf("before the cleanup has ended: %+v", r)
	}
	detail, err := launch.EncodeResult(core.Result{Job: last.Job, Host: last.Host, Outcome: core.Cancelled, Reason: last.Over.Text(), Worker: "n3"})
	if err != nil {
		l.Fatal(err)
	}
	turn(s, 0, queue.Ack{Job: last.Job, Token: last.Token, Kind: queue.AckDone, Outcome: core.Cancelled, Detail: detail})
	l.complete("r1")
	if r := l.run("r1"); r.Outcomes[core.Cancelled] != 3 || r.Phase != ledger.PhaseCancelled {
		l.Errorf("in the end: %+v", r)
	}
	if err := q.Close(ctx, s); err != nil {
		l.Error(err)
	}
	l.sound()
}
