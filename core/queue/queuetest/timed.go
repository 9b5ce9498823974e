package queuetest

import (
	"context"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var timeTests = []test{
	{name: "SegmentsBecomeDue", run: segmentsDue},
	{name: "PastIsDueAtOnce", run: pastDue},
	{name: "NextTellsTheNextDueTime", run: nextDue},
	{name: "WaitReturnsAtUntil", run: waitUntil},
	{name: "WaitEndsWithItsContext", run: waitContext},
	{name: "WaitIsWokenByNewWork", run: waitSignalled},
	{name: "WaitIsWokenByDueWork", run: waitDue},
	{name: "ClockIsTheQueuesOwn", run: ownClock},
}

// collect turns and waits until n jobs were leased, and reports when each was.
func (f *fixture) collect(s string, n int) map[core.JobID]time.Time {
	f.Helper()
	got := map[core.JobID]time.Time{}
	for len(got) < n {
		res := f.turn(s, min(n-len(got), queue.MaxLeasesTurn))
		for _, l := range res.Leases {
			got[l.Job] = res.Now
		}
		if len(res.Leases) == 0 && !res.More {
			f.must(f.q.Wait(f.ctx, s, res.Now.Add(time.Second)))
		}
		f.must(f.ctx.Err())
	}
	return got
}

func segmentsDue(f *fixture) {
	s := f.open("n")
	now := f.turn(s, 0).Now
	r := run("a", 6)
	// Not in order of time, and one that is due immediately.
	due := []time.Duration{300 * time.Millisecond, 100 * time.Millisecond, 0, 200 * time.Millisecond}
	counts := []int{1, 2, 2, 1}
	for i := range due {
		seg := queue.Segment{Due: now.Add(due[i]), Count: counts[i]}
		if due[i] == 0 {
			seg.Due = time.Time{}
		}
		r.Segments = append(r.Segments, seg)
	}
	f.submit(r)
	got := f.collect(s, 6)
	index := 0
	for i := range due {
		for range counts[i] {
			at := got[core.JobID{Run: "a", Index: index}]
			if early := now.Add(due[i]).Sub(at); early > 0 {
				f.Errorf("job %d was leased %v early", index, early)
			}
			index++
		}
	}
}

func pastDue(f *fixture) {
	s := f.open("n")
	r := run("a", 3)
	r.Segments = []queue.Segment{{Due: time.Unix(1, 0), Count: 1}, {Count: 1}, {Due: time.Now().Add(-time.Hour), Count: 1}}
	f.submit(r)
	eq(f, "leases", len(f.lease(s, 5)), 3)
}

func nextDue(f *fixture) {
	s := f.open("n")
	res := f.turn(s, 1)
	if !res.Next.IsZero() {
		f.Errorf("Next is %v in an empty queue", res.Next)
	}
	due := res.Now.Add(time.Hour).Truncate(time.Millisecond)
	r := run("a", 2)
	r.Segments = []queue.Segment{{Due: due.Add(time.Minute), Count: 1}, {Due: due, Count: 1}}
	f.submit(r)
	res = f.turn(s, 1)
	if off := res.Next.Sub(due).Abs(); off > 2*time.Millisecond {
		f.Errorf("Next is %v, expected %v", res.Next, due)
	}
	ex := f.explain("a", 1)
	eq(f, "state", ex.State, core.Pending)
	if off := ex.Until.Sub(due).Abs(); off > 2*time.Millisecond {
		f.Errorf("Explain reports until %v, expected %v", ex.Until, due)
	}
}

func waitUntil(f *fixture) {
	s := f.open("n")
	now := f.turn(s, 0).Now
	f.must(f.q.Wait(f.ctx, s, now.Add(-time.Second)))
	// It may return early, but a node that waits again gets there.
	f.eventually("until to pass", func() bool {
		f.must(f.q.Wait(f.ctx, s, now.Add(50*time.Millisecond)))
		return !f.turn(s, 0).Now.Before(now.Add(50 * time.Millisecond))
	})
}

func waitContext(f *fixture) {
	s := f.open("n")
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan error, 1)
	go func() { ended <- f.q.Wait(ctx, s, time.Now().Add(time.Hour)) }()
	cancel()
	if err := <-ended; err != nil {
		f.Errorf("Wait returned %v, expected nil: a context's end is no error", err)
	}
}

// given is a lease with the time at which the queue gave it.
type given struct {
	queue.Lease
	at time.Time
}

// waitingNode takes jobs as a node does: turn, then wait when nothing was there.
func (f *fixture) waitingNode(ctx context.Context, s string, got chan<- given) error {
	for ctx.Err() == nil {
		res, err := f.q.Turn(ctx, queue.Turn{Session: s, Want: 1})
		if err != nil {
			return err
		}
		for _, l := range res.Leases {
			got <- given{l, res.Now}
		}
		if len(res.Leases) == 0 && !res.More {
			if err := f.q.Wait(ctx, s, res.Now.Add(time.Hour)); err != nil {
				return err
			}
		}
	}
	return nil
}

// nodes runs n waiting nodes until the test is over with them.
func (f *fixture) nodes(n int) (got chan given, stop func()) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	got = make(chan given, 1000)
	ended := make(chan error, n)
	for i := range n {
		s := f.open(fmt.Sprint("node", i))
		go func() { ended <- f.waitingNode(ctx, s, got) }()
	}
	return got, func() {
		cancel()
		for range n {
			if err := <-ended; err != nil && ctx.Err() == nil {
				f.Error(err)
			}
		}
	}
}

func (f *fixture) receive(got <-chan given) given {
	f.Helper()
	select {
	case l := <-got:
		return l
	case <-time.After(30 * time.Second):
		f.Fatal("no node was signalled in half a minute")
		return given{}
	}
}

func waitSignalled(f *fixture) {
	got, stop := f.nodes(4)
	defer stop()
	for i := range 20 {
		f.submit(run(fmt.Sprint("a", i), 1))
		eq(f, "run", f.receive(got).Job.Run, fmt.Sprint("a", i))
	}
	// A chain: one submit of many jobs feeds all nodes.
	f.submit(run("bulk", 100))
	for range 100 {
		f.receive(got)
	}
}

func waitDue(f *fixture) {
	got, stop := f.nodes(3)
	defer stop()
	s := f.open("n")
	now := f.turn(s, 0).Now
	r := run("a", 5)
	for i := range 5 { // the last one first; those that are due together on a slow machine come in any order
		r.Segments = append(r.Segments, queue.Segment{Due: now.Add(time.Duration(250*(5-i)) * time.Millisecond), Count: 1})
	}
	f.submit(r)
	for range 5 {
		l := f.receive(got)
		if early := r.Segments[l.Job.Index].Due.Sub(l.at); early > 0 {
			f.Errorf("%v was leased %v early", l.Job, early)
		}
	}
	// A retry of a node that is busy elsewhere signals another node.
	f.submit(run("b", 1))
	l := f.receive(got)
	eq(f, "run", l.Job.Run, "b")
}

func ownClock(f *fixture) {
	s := f.open("n")
	last := f.turn(s, 0).Now
	for range 50 {
		now := f.turn(s, 0).Now
		if now.Before(last) {
			f.Fatalf("the clock went back by %v", last.Sub(now))
		}
		last = now
	}
	b, err := f.q.Beat(f.ctx, s)
	f.must(err)
	if b.Now.Before(last) {
		f.Errorf("Beat's clock is %v behind", last.Sub(b.Now))
	}
	if left := b.Until.Sub(b.Now); left > f.ttl || left < f.ttl-time.Second {
		f.Errorf("Beat promises %v, expected the session's %v", left, f.ttl)
	}
}
