package queuetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var lockTests = []test{
	{name: "OneJobTouchesAHost", run: hostLock},
	{name: "HAGroupOfDisruptiveRuns", run: haLock},
	{name: "PerGroup", run: perGroup},
	{name: "BlockedLetOthersPass", run: blockedPass},
	{name: "BlockedFirstIsNext", run: blockedFirst},
	{name: "PausedWaiterBarsNobody", run: pausedWaiter},
	{name: "CancelledWaiterBarsNobody", run: cancelledWaiter},
	{name: "CappedWaiterBarsNobody", run: cappedWaiter},
	{name: "AllKeptLocksAreGivenBack", run: keptGivenBack},
	{name: "SameHostTwiceInARun", run: sameHostTwice},
	{name: "LeasedLosesItsPlace", run: leasedLosesPlace},
}

func hostLock(f *fixture) {
	f.submit(on("a", "h1", "h2"))
	f.submit(on("b", "h2", "h1"))
	s, s2 := f.open("n"), f.open("n2")
	got := append(f.lease(s, 10), f.lease(s2, 10)...)
	eq(f, "leases", len(got), 2)
	hosts := map[string]bool{}
	for _, l := range got {
		if hosts[l.Host] {
			f.Fatalf("host %s is held twice", l.Host)
		}
		hosts[l.Host] = true
	}
	eq(f, "blocked", f.status("a").Blocked+f.status("b").Blocked, 2)
	for _, l := range got {
		session := s
		if res := f.turn(s, 0, done(l, core.Changed)); len(res.Stale) > 0 {
			session = s2
			f.ack(s2, done(l, core.Changed))
		}
		eq(f, "freed host", f.one(session).Host, l.Host)
	}
}

func haLock(f *fixture) {
	pair := func(id string, disruptive bool, host string) queue.Run {
		return queue.Run{ID: id, Disruptive: disruptive, Targets: []queue.Target{{Host: host, HAGroup: "pair"}}}
	}
	s := f.open("n")
	f.submit(pair("a", true, "h1"))
	first := f.one(s)
	f.submit(pair("b", true, "h2"))
	f.none(s, "its peer is worked on")
	ex := f.explain("b", 0)
	eq(f, "state", ex.State, core.Blocked)
	if h := f.holders("h1", "pair"); len(h) != 2 || h[0].HAGroup || !h[1].HAGroup || h[0].Job.String() != "a/0" || h[1].Job.String() != "a/0" || h[1].Since.IsZero() || time.Since(h[0].Since) > time.Minute {
		f.Errorf("Holders reports %+v, expected a/0 for both, since its lease began", h)
	}
	eq(f, "locks of a host that waits", len(f.holders("h2", "")), 0)
	if !strings.Contains(ex.Reason.Text(), "pair") || ex.Holder != "a/0" || strings.Contains(ex.Reason.Text(), "a/0") {
		f.Errorf("Explain reports %+v, expected the HA group, and its holder apart", ex)
	}
	f.submit(pair("c", false, "h3"))
	eq(f, "a run that disrupts nothing", f.one(s).Job.Run, "c")
	f.ack(s, done(first, core.Changed))
	if h := f.holders("h2", "pair"); len(h) != 1 || !h[0].HAGroup || !h[0].Kept || h[0].Job.String() != "b/0" || !h[0].Since.IsZero() {
		f.Errorf("Holders reports %+v, expected that the lock is kept for b/0", h)
	}
	last := f.one(s)
	eq(f, "freed", last.Job.Run, "b")
	f.ack(s, queue.Ack{Job: last.Job, Token: last.Token, Kind: queue.AckSuspend, After: time.Hour, KeepLocks: true})
	if h := f.holders("h2", "pair"); len(h) != 2 || h[0].Kept || !h[0].Since.IsZero() {
		f.Errorf("Holders reports %+v, expected both locks of a job that keeps them while it is suspended", h)
	}
}

func perGroup(f *fixture) {
	r := queue.Run{ID: "a", PerGroup: 2}
	for i := range 10 {
		r.Targets = append(r.Targets, queue.Target{Host: fmt.Sprint("h", i), Group: []string{"x", "y"}[i/5]})
	}
	r.Targets = append(r.Targets, queue.Target{Host: "free"})
	other := queue.Run{ID: "b", Targets: []queue.Target{{Host: "b1", Group: "x"}, {Host: "b2", Group: "x"}, {Host: "b3", Group: "x"}}}
	f.submit(r)
	s := f.open("n")
	got := f.lease(s, 20)
	if want := []string{"a/0", "a/1", "a/5", "a/6", "a/10"}; !slices.Equal(ids(got), want) {
		f.Fatalf("leased %v, expected %v", ids(got), want)
	}
	eq(f, "blocked", f.status("a").Blocked, 6)
	f.submit(other)
	eq(f, "the limit is the run's own", len(f.lease(s, 20)), 3)
	got2 := f.turn(s, 20, done(got[0], core.Changed), done(got[4], core.Changed)).Leases
	if want := []string{"a/2"}; !slices.Equal(ids(got2), want) {
		f.Fatalf("leased %v, expected %v", ids(got2), want)
	}
	all := append(slices.Clone(got[1:4]), got2...)
	for len(all) > 0 {
		inX := 0
		for _, l := range all {
			if l.Job.Index < 5 {
				inX++
			}
		}
		if inX > 2 {
			f.Fatalf("%d of group x in flight", inX)
		}
		f.ack(s, done(all[0], core.Changed))
		all = append(all[1:], f.lease(s, 20)...)
	}
	eq(f, "complete", f.status("a").Complete, true)
}

func blockedPass(f *fixture) {
	f.submit(on("a", "h"))
	s := f.open("n")
	held := f.one(s)
	b := on("b", "h", "x", "y")
	b.MaxInFlight = 2
	f.submit(b)
	got := f.lease(s, 10)
	if want := []string{"b/1", "b/2"}; !slices.Equal(ids(got), want) {
		f.Fatalf("leased %v, expected %v: a blocked job does not count against max_in_flight of its run", ids(got), want)
	}
	eq(f, "blocked", f.status("b").Blocked, 1)
	f.ack(s, allDone(got, core.Changed)...)
	eq(f, "complete", f.status("b").Complete, false)
	f.ack(s, done(held, core.Changed))
	f.ack(s, done(f.one(s), core.Changed))
	eq(f, "complete", f.status("b").Complete, true)
}

func blockedFirst(f *fixture) {
	s := f.open("n")
	f.submit(on("holder", "h"))
	held := f.one(s)
	for i := range 5 {
		f.submit(on(fmt.Sprint("w", i), "h"))
		f.none(s, "the host is held")
	}
	// Newcomers of a weight that puts them first must not overtake.
	for i := range 5 {
		vip := on(fmt.Sprint("vip", i), "h")
		vip.Weight, vip.Priority = queue.MaxWeight, queue.MaxPriority
		f.submit(vip)
		res := f.turn(s, 5, done(held, core.Changed))
		eq(f, "leases", len(res.Leases), 1)
		held = res.Leases[0]
		eq(f, "next", held.Job.Run, fmt.Sprint("w", i))
	}
	for i := range 5 {
		f.ack(s, done(held, core.Changed))
		held = f.one(s)
		eq(f, "next", held.Job.Run, fmt.Sprint("vip", i))
	}
}

func pausedWaiter(f *fixture) {
	s := f.open("n")
	f.submit(on("holder", "h"))
	held := f.one(s)
	f.submit(on("first", "h"))
	f.none(s, "held")
	f.submit(on("second", "h"))
	f.none(s, "held")
	yes, no := true, false
	f.must(queue.AdjustOne(f.ctx, f.q, "first", queue.Adjust{Paused: &yes}))
	f.ack(s, done(held, core.Changed))
	held = f.one(s)
	eq(f, "next", held.Job.Run, "second")
	f.submit(on("third", "h"))
	f.none(s, "held")
	f.must(queue.AdjustOne(f.ctx, f.q, "first", queue.Adjust{Paused: &no}))
	f.none(s, "held")
	f.ack(s, done(held, core.Changed))
	held = f.one(s)
	eq(f, "it kept its place", held.Job.Run, "first")

	// Paused after the lock came free, before it was leased.
	f.ack(s, giveBack(held)) // hands the lock to third
	f.must(queue.AdjustOne(f.ctx, f.q, "third", queue.Adjust{Paused: &yes}))
	eq(f, "a lock kept for a paused run is passed on", f.one(s).Job.Run, "first")
}

func cancelledWaiter(f *fixture) {
	s := f.open("n")
	f.submit(on("holder", "h"))
	held := f.one(s)
	for _, id := range []string{"first", "second", "third"} {
		f.submit(on(id, "h"))
		f.none(s, "held")
	}
	f.must(f.q.Cancel(f.ctx, "first", "no"))
	f.completes(s, "first")
	f.ack(s, done(held, core.Changed)) // kept for second
	f.must(f.q.Cancel(f.ctx, "second", "no"))
	f.completes(s, "second")
	eq(f, "next", f.one(s).Job.Run, "third")
}

func cappedWaiter(f *fixture) {
	s := f.open("n")
	f.submit(on("holder", "h"))
	held := f.one(s)
	capped := on("capped", "h", "x")
	capped.MaxInFlight = 1
	f.submit(capped)
	eq(f, "the second host of the capped run", f.one(s).Host, "x")
	f.submit(on("second", "h"))
	f.none(s, "held")
	f.ack(s, done(held, core.Changed))
	eq(f, "next: the capped run could not lease", f.one(s).Job.Run, "second")
}

// keptGivenBack: a run that cannot lease any more gives back every lock that is kept for it.
func keptGivenBack(f *fixture) {
	const n = 150
	hosts := make([]string, n)
	for i := range hosts {
		hosts[i] = fmt.Sprint("h", i)
	}
	s := f.open("n")
	f.submit(on("holder", hosts...))
	held := f.lease(s, n)
	eq(f, "leases", len(held), n)
	f.submit(on("first", hosts...))
	f.none(s, "all hosts are held")
	eq(f, "blocked", f.status("first").Blocked, n)
	f.ack(s, allDone(held, core.Changed)...)
	f.must(queue.AdjustOne(f.ctx, f.q, "first", queue.Adjust{Paused: new(true)}))
	f.submit(on("second", hosts...))
	eq(f, "leases of a run behind a paused one", len(f.lease(s, n)), n)
}

func sameHostTwice(f *fixture) {
	f.submit(on("a", "h", "h", "h"))
	s := f.open("n")
	for i := range 3 {
		l := f.one(s)
		eq(f, "index", l.Job.Index, i)
		f.none(s, "the host is held by the run's own job")
		f.ack(s, done(l, core.Changed))
	}
	eq(f, "complete", f.status("a").Complete, true)
}

func leasedLosesPlace(f *fixture) {
	s := f.open("n")
	for _, id := range []string{"holder", "first", "second", "third"} {
		f.submit(on(id, "h"))
	}
	held := f.one(s)
	eq(f, "holder", held.Job.Run, "holder")
	f.none(s, "the others block, in order")
	f.ack(s, done(held, core.Changed))
	first := f.one(s)
	eq(f, "next", first.Job.Run, "first")
	f.ack(s, suspend(first, "e"))
	held = f.one(s)
	eq(f, "next", held.Job.Run, "second")
	_, err := f.q.Signal(f.ctx, "first", "e")
	f.must(err)
	f.none(s, "first blocks anew, behind third")
	for _, want := range []string{"third", "first"} {
		f.ack(s, done(held, core.Changed))
		held = f.one(s)
		eq(f, "next", held.Job.Run, want)
	}
}
