package queuetest

import (
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var deferredTests = []test{
	{name: "SegmentsAreEntriesOfTheirOwn", run: segmentsApart},
	{name: "LimitCutsASegment", run: limitCuts},
	{name: "LimitReleasesManySegments", run: limitMany},
	{name: "DeferredCountsSegmentsThatAreNotDue", run: deferredSegments},
	{name: "DeferredEndsWhenTheTimeComes", run: deferredDue},
	{name: "DeferredCountsClosedWindows", run: deferredWindows},
	{name: "DeferredKeepsOutOtherWaiting", run: deferredOthers},
	{name: "DeferredEndsWithTheRun", run: deferredOver},
	{name: "DeferredSurvivesACrash", ttl: shortTTL, run: deferredCrash},
	{name: "WakeOfManyJobs", run: signalMany},
	{name: "WakeEndsThoughJobsWaitAgain", run: signalAgain},
}

const days = 24 * time.Hour

// part is a segment: a count, and when it is due from now on; 0 is immediately.
type part struct {
	n  int
	in time.Duration
}

// parted is a run of hosts of its own, in segments.
func parted(id string, parts ...part) queue.Run {
	var segments []queue.Segment
	n := 0
	for _, p := range parts {
		s := queue.Segment{Count: p.n}
		if p.in != 0 {
			s.Due = time.Now().Add(p.in)
		}
		segments = append(segments, s)
		n += p.n
	}
	r := run(id, n)
	r.Segments = segments
	return r
}

func (f *fixture) deferred(run string, want int) {
	f.Helper()
	eq(f, "deferred of "+run, f.status(run).Deferred, want)
}

func (f *fixture) indexes(leases []queue.Lease) []int {
	list := core.Map(leases, func(l queue.Lease) int { return l.Job.Index })
	slices.Sort(list)
	return list
}

func forWindow(l queue.Lease, after time.Duration) queue.Ack {
	a := suspend(l, queue.EventWindow)
	a.After = after
	return a
}

// segmentsApart: what is due in three days does not keep what follows it from starting now.
func segmentsApart(f *fixture) {
	f.submit(parted("a", part{10, 3 * days}, part{5, 0}, part{3, days}, part{2, -time.Hour}))
	s := f.open("n")
	got := f.lease(s, 30)
	if want := []int{10, 11, 12, 13, 14, 18, 19}; !slices.Equal(f.indexes(got), want) {
		f.Fatalf("leased %v, expected jobs %v", ids(got), want)
	}
	f.deferred("a", 13)
	f.ack(s, allDone(got, core.Changed)...)
	f.none(s, "the others are due in days")
	eq(f, "complete", f.status("a").Complete, false)
	eq(f, "pending", f.status("a").Pending, 13)
}

func limitCuts(f *fixture) {
	r := parted("a", part{10, 3 * days}, part{5, 0}, part{4, days})
	r.Limit = 8 // in the first segment
	f.submit(r)
	s := f.open("n")
	f.none(s, "what is due is not released")
	f.deferred("a", 8)
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Limit: new(12)})) // in the second
	f.deferred("a", 10)
	got := f.lease(s, 30)
	if want := []int{10, 11}; !slices.Equal(f.indexes(got), want) {
		f.Fatalf("leased %v, expected jobs %v", ids(got), want)
	}
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Limit: new(12)})) // again
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Limit: new(3)}))  // never back
	f.deferred("a", 10)
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Limit: new(16)})) // in the third
	f.deferred("a", 11)
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Limit: new(17)}))
	f.deferred("a", 12)
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Limit: new(0)}))
	f.deferred("a", 14)
	got = f.lease(s, 30)
	if want := []int{12, 13, 14}; !slices.Equal(f.indexes(got), want) {
		f.Fatalf("leased %v, expected jobs %v", ids(got), want)
	}
}

// limitMany: more segments than one step releases.
func limitMany(f *fixture) {
	const n = 3000
	r := run("a", n)
	for i := range n {
		r.Segments = append(r.Segments, queue.Segment{Count: 1})
		if i%3 != 0 {
			r.Segments[i].Due = time.Now().Add(days + time.Duration(i*7%n)*time.Minute)
		}
	}
	r.Limit = 1
	f.submit(r)
	f.deferred("a", 0)
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Limit: new(2500)}))
	eq(f, "limit", f.status("a").Limit, 2500)
	f.deferred("a", 1666)
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Limit: new(0)}))
	eq(f, "limit", f.status("a").Limit, n)
	f.deferred("a", 2000)
	f.clean()
	s := f.open("n")
	eq(f, "leases", len(f.lease(s, n)), 1000)
	f.must(f.q.Cancel(f.ctx, "a", ""))
	f.deferred("a", 0)
}

func deferredSegments(f *fixture) {
	f.submit(parted("all", part{4, days}, part{3, 0}))
	f.deferred("all", 4)
	f.submit(run("none", 4))
	f.deferred("none", 0)
	r := parted("wave", part{4, days}, part{3, 0}, part{2, days})
	r.Limit = 2
	f.submit(r)
	f.deferred("wave", 2)
	f.must(queue.AdjustOne(f.ctx, f.q, "wave", queue.Adjust{Paused: new(true)}))
	f.deferred("wave", 2) // a paused run waits for its times as well
	large := parted("large", part{20_000, days}, part{10_000, 0}, part{20_000, days})
	large.Limit = 31_000
	f.submit(large)
	f.deferred("large", 21_000)
	f.must(queue.AdjustOne(f.ctx, f.q, "large", queue.Adjust{Limit: new(40_000)}))
	f.deferred("large", 30_000)
}

// deferredDue: no turn is needed for a job to be deferred no more, and none counts it twice.
func deferredDue(f *fixture) {
	s := f.open("n")
	f.submit(run("w", 2))
	got := f.leaseN(s, 2)
	const soon = 150 * time.Millisecond
	r := parted("a", part{2, soon}, part{1, days}, part{3, soon}, part{2, soon})
	r.Limit = 7
	f.submit(r)
	f.ack(s, forWindow(got[0], soon), forWindow(got[1], days))
	f.eventually("the segments to be due", func() bool { return f.status("a").Deferred == 1 })
	f.eventually("the window to open", func() bool { return f.status("w").Deferred == 1 })
	f.clean()
	f.turn(s, 0) // now they are ready
	f.deferred("a", 1)
	f.deferred("w", 1)
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Limit: new(0)}))
	f.deferred("a", 1)
	eq(f, "leases", len(f.lease(s, 20)), 8)
	f.deferred("a", 1)
}

func deferredWindows(f *fixture) {
	r := run("a", 6)
	r.Limit = 5
	f.submit(r)
	s := f.open("n")
	got := f.leaseN(s, 5)
	f.ack(s, forWindow(got[0], 0), forWindow(got[1], days), forWindow(got[2], 0))
	f.deferred("a", 3)
	eq(f, "suspended", f.status("a").Suspended, 3)
	for index, timed := range []bool{false, true} {
		ex := f.explain("a", index)
		eq(f, "state", ex.State, core.Suspended)
		eq(f, "event", ex.Event, queue.EventWindow)
		eq(f, "says until when", !ex.Until.IsZero(), timed)
	}
	n, err := f.q.Signal(f.ctx, "a", queue.EventWindow)
	f.must(err)
	eq(f, "signalled", n, 3)
	f.deferred("a", 0)
	again := f.leaseN(s, 3)
	f.deferred("a", 0)
	f.ack(s, forWindow(again[0], days), done(again[1], core.Changed), retry(again[2], days))
	f.deferred("a", 1)
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Limit: new(0)}))
	f.deferred("a", 1)
	f.ack(s, done(got[3], core.Changed), done(got[4], core.Changed))
	f.deferred("a", 1)
}

// deferredOthers: a reboot, a pause between attempts, a lock are no windows.
func deferredOthers(f *fixture) {
	f.submit(on("holder", "held"))
	s := f.open("n")
	f.one(s)
	r := run("a", 6)
	r.Targets[5].Host = "held"
	f.submit(r)
	got := f.leaseN(s, 5)
	timed, back := suspend(got[0], ""), giveBack(got[3])
	timed.After, back.After = days, days
	other := suspend(got[2], queue.EventWindow+"s") // begins like it
	f.ack(s, timed, suspend(got[1], "e"), other, back, retry(got[4], days))
	f.none(s, "its host is held")
	st := f.status("a")
	eq(f, "deferred", st.Deferred, 0)
	eq(f, "suspended", st.Suspended, 3)
	eq(f, "waiting", st.Waiting, 2)
	eq(f, "blocked", st.Blocked, 1)
}

func deferredOver(f *fixture) {
	s := f.open("n")
	for _, id := range []string{"stopped", "cancelled"} {
		r := parted(id, part{4, 0}, part{5, days}, part{3, 2 * days})
		r.StopAfter, r.Limit = 1, 10
		f.submit(r)
		got := f.leaseN(s, 3)
		f.ack(s, forWindow(got[0], 0), forWindow(got[1], days))
		f.deferred(id, 8)
		if id == "stopped" {
			f.turn(s, 0, done(got[2], core.Failed))
		} else {
			f.must(f.q.Cancel(f.ctx, id, ""))
			f.ack(s, forWindow(got[2], days)) // ends as cancelled
		}
		f.deferred(id, 0)
		f.clean()
		f.completes(s, id)
		f.deferred(id, 0)
	}
}

// deferredCrash: what waits stays as it is when a node dies, and what the node held is not
// deferred.
func deferredCrash(f *fixture) {
	s := f.open("n")
	f.submit(parted("a", part{3, 0}, part{4, days}))
	got := f.leaseN(s, 3)
	f.ack(s, forWindow(got[0], days), forWindow(got[1], 0))
	f.deferred("a", 6)
	f.eventually("the crashed job to be recovered", func() bool {
		other := f.open("n2")
		f.turn(other, 0)
		return f.status("a").InFlight == 0
	})
	f.deferred("a", 6)
	n, err := f.q.Signal(f.ctx, "a", queue.EventWindow)
	f.must(err)
	eq(f, "signalled", n, 2)
	f.deferred("a", 4)
}

// signalMany: 3000 hosts whose window opens, while another run continues.
func signalMany(f *fixture) {
	const n = 3000
	f.submit(run("a", n))
	s := f.open("n")
	for left := n; left > 0; {
		res := f.turn(s, min(left, 200))
		left -= len(res.Leases)
		acks := core.Map(res.Leases, func(l queue.Lease) queue.Ack { return forWindow(l, days) })
		f.ack(s, acks...)
	}
	f.deferred("a", n)
	f.submit(run("b", 5))
	other := f.leaseN(s, 5)
	signalled, err := f.q.Signal(f.ctx, "a", queue.EventWindow)
	f.must(err)
	eq(f, "signalled", signalled, n)
	f.deferred("a", 0)
	eq(f, "pending", f.status("a").Pending, n)
	f.ack(s, allDone(other, core.Changed)...)
	eq(f, "leases", len(f.lease(s, n)), n)
}

// signalAgain: a node suspends a signalled job immediately, because its window is still closed:
// each job is signalled once a call.
func signalAgain(f *fixture) {
	const n = 600
	f.submit(run("a", n))
	s, node := f.open("n"), f.open("n2")
	for _, l := range f.lease(s, n) {
		f.ack(s, forWindow(l, days))
	}
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			res, err := f.q.Turn(f.ctx, queue.Turn{Session: node, Want: 256})
			acks := core.Map(res.Leases, func(l queue.Lease) queue.Ack { return forWindow(l, days) })
			if err == nil {
				_, err = f.q.Turn(f.ctx, queue.Turn{Session: node, Acks: acks})
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	for range 3 {
		signalled, err := f.q.Signal(f.ctx, "a", queue.EventWindow)
		f.must(err)
		if signalled > n {
			f.Errorf("%d were signalled, the run has %d jobs", signalled, n)
		}
	}
	close(stop)
	f.must(<-ended)
	f.turn(node, 0)
}
