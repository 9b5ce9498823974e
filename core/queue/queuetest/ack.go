package queuetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var ackTests = []test{
	{name: "AcksAreFenced", run: acksFenced},
	{name: "RetryCountsAndHandsStateOn", run: retryCounts},
	{name: "ReturnCountsNoAttempt", run: returnCounts},
	{name: "SuspendWaitsForEvent", run: suspendEvent},
	{name: "SuspendWaitsForTime", run: suspendTime},
	{name: "SuspendedHoldsNoSlotAndNoLock", run: suspendFree},
	{name: "KeepLocks", run: keepLocks},
	{name: "WakeRefusesNoEvent", run: signalInvalid},
	{name: "AwaitedCountsByEvent", run: awaited},
	{name: "DismissEndsWhoWaitsAndNobodyElse", run: dismiss},
	{name: "DismissGivesKeptLocksFree", run: dismissLocks},
	{name: "DismissOfManyJobs", run: dismissMany},
}

func acksFenced(f *fixture) {
	f.submit(run("a", 2))
	s, other := f.open("n"), f.open("n")
	l := f.one(s)
	stale := func(what, session string, a queue.Ack) {
		f.Helper()
		res := f.turn(session, 0, a)
		if len(res.Stale) != 1 || res.Stale[0] != a.Job {
			f.Errorf("%s: stale is %v, expected %v", what, res.Stale, a.Job)
		}
	}
	before := f.stats().StaleAcks
	wrong := done(l, core.Failed)
	wrong.Token++
	stale("newer token", s, wrong)
	wrong.Token = 0
	stale("no token", s, wrong)
	stale("other session", other, done(l, core.Failed))
	pending := done(l, core.Failed)
	pending.Job.Index = 1
	stale("job that is not leased", s, pending)
	pending.Job.Index = 99
	stale("job outside the run", s, pending)
	pending.Job = core.JobID{Run: "no"}
	stale("unknown run", s, pending)
	eq(f, "in flight", f.status("a").InFlight, 1)

	res := f.turn(s, 0, done(l, core.Changed), done(l, core.Failed))
	eq(f, "stale of a double ack", len(res.Stale), 1)
	stale("after it is done", s, retry(l, 0))
	st := f.status("a")
	eq(f, "changed", st.Outcomes[core.Changed], 1)
	eq(f, "failed", st.Outcomes[core.Failed], 0)
	eq(f, "records", len(f.records("a")), 1)
	eq(f, "stale acks counted", f.stats().StaleAcks-before, 8)
}

func (f *fixture) stats() queue.Stats {
	f.Helper()
	st, err := f.q.Stats(f.ctx)
	f.must(err)
	return st
}

func retryCounts(f *fixture) {
	f.submit(run("a", 1))
	s := f.open("n")
	l := f.one(s)
	a := retry(l, 0)
	a.State = []byte("one")
	f.ack(s, a)
	l = f.one(s)
	eq(f, "attempt", l.Attempt, 2)
	eq(f, "state", string(l.State), "one")
	f.ack(s, giveBack(l))
	l = f.one(s)
	eq(f, "attempt after a return", l.Attempt, 2)
	eq(f, "state after a return", string(l.State), "one")
	f.ack(s, retry(l, 0))
	l = f.one(s)
	eq(f, "attempt", l.Attempt, 3)
	eq(f, "state is replaced, by none", len(l.State), 0)
	now := f.turn(s, 0).Now
	f.ack(s, retry(l, 200*time.Millisecond))
	eq(f, "waiting", f.status("a").Waiting, 1)
	for {
		res := f.turn(s, 1)
		if len(res.Leases) == 1 {
			if early := now.Add(200 * time.Millisecond).Sub(res.Now); early > 0 {
				f.Fatalf("retried %v early", early)
			}
			l = res.Leases[0]
			break
		}
		f.must(f.q.Wait(f.ctx, s, res.Now.Add(time.Second)))
	}
	eq(f, "attempt", l.Attempt, 4)
	f.ack(s, done(l, core.Failed))
	recs := f.records("a")
	eq(f, "records", len(recs), 1)
	eq(f, "attempts recorded", recs[0].Attempt, 4)
	eq(f, "outcome", recs[0].Outcome, core.Failed)
}

func returnCounts(f *fixture) {
	f.submit(run("a", 1))
	s := f.open("n")
	for range 5 {
		l := f.one(s)
		eq(f, "attempt", l.Attempt, 1)
		f.ack(s, giveBack(l))
	}
	l := f.one(s)
	a := giveBack(l)
	a.After = time.Hour
	f.ack(s, a)
	f.none(s, "it was given back for an hour")
	st := f.status("a")
	eq(f, "waiting", st.Waiting, 1)
	ex := f.explain("a", 0)
	eq(f, "state", ex.State, core.Retrying)
	if ex.Until.IsZero() {
		f.Error("Explain does not report until when")
	}
}

func suspendEvent(f *fixture) {
	f.submit(run("a", 3))
	f.submit(run("b", 1))
	s := f.open("n")
	var parked []queue.Lease
	for range 4 {
		l := f.one(s)
		a := suspend(l, "boot")
		if l.Job.Index == 2 {
			a.Event = "other"
		}
		a.State = []byte(l.Job.String())
		f.ack(s, a)
		parked = append(parked, l)
	}
	f.none(s, "all are suspended")
	st := f.status("a")
	eq(f, "suspended", st.Suspended, 3)
	eq(f, "in flight", st.InFlight, 0)
	n, err := f.q.Signal(f.ctx, "a", "nothing")
	f.must(err)
	eq(f, "signalled by an unknown event", n, 0)
	n, err = f.q.Signal(f.ctx, "a", "boot")
	f.must(err)
	eq(f, "signalled", n, 2)
	n, err = f.q.Signal(f.ctx, "a", "boot")
	f.must(err)
	eq(f, "signalled again", n, 0)
	got := f.lease(s, 10)
	eq(f, "leases", len(got), 2)
	for _, l := range got {
		eq(f, "run", l.Job.Run, "a")
		eq(f, "state", string(l.State), l.Job.String())
		eq(f, "attempt", l.Attempt, 1)
	}
	// An event that nobody waits for any more does not touch a job that runs.
	n, err = f.q.Signal(f.ctx, "a", "boot")
	f.must(err)
	eq(f, "signalled while leased", n, 0)
	for _, l := range parked {
		res := f.turn(s, 0, done(l, core.Failed))
		eq(f, "stale: the token is of the lease before", len(res.Stale), 1)
	}
}

func suspendTime(f *fixture) {
	f.submit(run("a", 3))
	s := f.open("n")
	got := f.leaseN(s, 3)
	now := f.turn(s, 0).Now
	timed := suspend(got[0], "")
	timed.After = 150 * time.Millisecond
	both := suspend(got[1], "e")
	both.After = 250 * time.Millisecond
	atOnce := suspend(got[2], "")
	f.ack(s, timed, both, atOnce)
	due := map[int]time.Duration{0: timed.After, 1: both.After, 2: 0}
	for first := true; len(due) > 0; first = false {
		res := f.turn(s, 3)
		if first && !slices.ContainsFunc(res.Leases, func(l queue.Lease) bool { return l.Job.Index == 2 }) { // beside what is due by then
			f.Fatalf("leased %v, expected the job that comes back immediately", ids(res.Leases))
		}
		for _, l := range res.Leases {
			if early := now.Add(due[l.Job.Index]).Sub(res.Now); early > 0 {
				f.Fatalf("job %v resumed %v early", l.Job, early)
			}
			delete(due, l.Job.Index)
			eq(f, "attempt", l.Attempt, 1)
		}
		f.must(f.q.Wait(f.ctx, s, res.Now.Add(time.Second)))
	}
	n, err := f.q.Signal(f.ctx, "a", "e")
	f.must(err)
	eq(f, "signalled after its time passed", n, 0)
}

func suspendFree(f *fixture) {
	f.submit(on("a", "h"))
	f.submit(on("b", "h"))
	s := f.open("n")
	l := f.one(s)
	f.none(s, "the host is held")
	f.ack(s, suspend(l, "e"))
	second := f.one(s)
	eq(f, "the other run has the host", second.Job.Run, "b")
	_, err := f.q.Signal(f.ctx, "a", "e")
	f.must(err)
	f.none(s, "the resumed job needs the host again")
	eq(f, "blocked", f.status("a").Blocked, 1)
	f.ack(s, done(second, core.Changed))
	eq(f, "resumed", f.one(s).Job.Run, "a")
}

func keepLocks(f *fixture) {
	a := queue.Run{ID: "a", Disruptive: true, PerGroup: 1, Targets: []queue.Target{{Host: "h1", HAGroup: "pair", Group: "g"}, {Host: "h3", Group: "g"}}}
	f.submit(a)
	s := f.open("n")
	l := f.one(s)
	waitUntil := suspend(l, "e")
	waitUntil.KeepLocks = true
	f.ack(s, waitUntil)
	f.submit(on("b", "h1"))
	c := queue.Run{ID: "c", Disruptive: true, Targets: []queue.Target{{Host: "h2", HAGroup: "pair"}}}
	f.submit(c)
	f.none(s, "host, HA group and the place in the group are kept")
	eq(f, "blocked", f.status("b").Blocked+f.status("c").Blocked+f.status("a").Blocked, 3)
	_, err := f.q.Signal(f.ctx, "a", "e")
	f.must(err)
	l = f.one(s)
	eq(f, "resumed with its locks", l.Job, core.JobID{Run: "a", Index: 0})
	f.none(s, "still held")
	f.ack(s, done(l, core.Changed))
	eq(f, "all three come free", len(f.lease(s, 10)), 3)

	// Cancel frees what a suspended job kept.
	f.submit(on("d", "h9"))
	l = f.one(s)
	waitUntil = suspend(l, "e")
	waitUntil.KeepLocks = true
	f.ack(s, waitUntil)
	f.submit(on("e", "h9"))
	f.none(s, "kept")
	f.must(f.q.Cancel(f.ctx, "d", "enough"))
	f.completes(s, "d")
	eq(f, "freed by cancel", f.one(s).Job.Run, "e")
}

func signalInvalid(f *fixture) {
	f.submit(run("a", 1))
	if _, err := f.q.Signal(f.ctx, "a", ""); !errors.Is(err, core.ErrInvalid) {
		f.Errorf("error %v, expected core.ErrInvalid", err)
	}
}

// awaited: also of more events than one step reads, and of names that begin alike.
func awaited(f *fixture) {
	const n = 600
	f.submit(run("a", n))
	f.submit(run("b", 1))
	s := f.open("n")
	want := map[string]int{}
	for _, l := range f.leaseN(s, n+1) {
		ack := suspend(l, fmt.Sprintf("%d/%d", l.Job.Index%2, l.Job.Index/3))
		switch {
		case l.Job.Run == "b":
			ack.Event = "other"
		case l.Job.Index >= 590:
			ack.Event, ack.After = "", time.Hour
		}
		if l.Job.Run == "a" && ack.Event != "" {
			want[ack.Event]++
		}
		f.ack(s, ack)
	}
	got := f.awaited("a").Awaited
	if !maps.Equal(got, want) {
		f.Fatalf("awaited %v, expected %v", got, want)
	}
	sight := f.awaited("b")
	eq(f, "partial", sight.Partial, false)
	eq(f, "of the other run", sight.Awaited["other"], 1)
	_, err := f.q.Signal(f.ctx, "b", "other")
	f.must(err)
	eq(f, "after it was signalled", len(f.awaited("b").Awaited), 0)
}

// awaited checks a run, what its suspended jobs wait for included.
func (f *fixture) awaited(run string) queue.Sight {
	f.Helper()
	s := f.q.Poll(f.ctx, 1, queue.Ask{Run: run, Awaited: true})[0]
	f.must(s.Err)
	return s
}

func dismiss(f *fixture) {
	r := run("a", 4)
	r.StopAfter = 1
	f.submit(r)
	s := f.open("n")
	got := f.leaseN(s, 4)
	timed := suspend(got[2], "e")
	timed.After = time.Hour
	f.ack(s, suspend(got[0], "e"), suspend(got[1], "f"), timed)
	if _, err := f.q.Dismiss(f.ctx, "a", "", "why"); !errors.Is(err, core.ErrInvalid) {
		f.Errorf("no event: %v, expected core.ErrInvalid", err)
	}
	if _, err := f.q.Dismiss(f.ctx, "no", "e", "why"); !errors.Is(err, core.ErrNotFound) {
		f.Errorf("unknown run: %v, expected core.ErrNotFound", err)
	}
	n, err := f.q.Dismiss(f.ctx, "a", "e", "a host before it failed")
	f.must(err)
	eq(f, "dismissed", n, 2)
	n, err = f.q.Dismiss(f.ctx, "a", "e", "again")
	f.must(err)
	eq(f, "dismissed again", n, 0)
	st := f.status("a")
	eq(f, "cancelled", st.Outcomes[core.Cancelled], 2)
	eq(f, "phase: no threshold is reached", st.Phase, queue.Active)
	f.ack(s, done(got[3], core.Changed))
	_, err = f.q.Signal(f.ctx, "a", "f")
	f.must(err)
	f.ack(s, done(f.one(s), core.Changed))
	eq(f, "complete", f.status("a").Complete, true)
	records := f.records("a")
	eq(f, "records", len(records), 4)
	for _, rec := range records[:2] {
		eq(f, "reason", rec.Reason, "a host before it failed")
		eq(f, "outcome", rec.Outcome, core.Cancelled)
	}
	f.clean()
}

func dismissLocks(f *fixture) {
	f.submit(on("a", "h"))
	s := f.open("n")
	waitUntil := suspend(f.one(s), "e")
	waitUntil.KeepLocks = true
	f.ack(s, waitUntil)
	f.submit(on("b", "h"))
	f.none(s, "the host is kept")
	n, err := f.q.Dismiss(f.ctx, "a", "e", "why")
	f.must(err)
	eq(f, "dismissed", n, 1)
	eq(f, "the last one ends its run", f.status("a").Complete, true)
	eq(f, "freed", f.one(s).Job.Run, "b")
}

func dismissMany(f *fixture) {
	const n = 1000
	f.submit(run("a", n))
	s := f.open("n")
	for _, l := range f.leaseN(s, n) {
		f.ack(s, suspend(l, "e"))
	}
	got, err := f.q.Dismiss(f.ctx, "a", "e", "why")
	f.must(err)
	eq(f, "dismissed", got, n)
	eq(f, "complete", f.status("a").Complete, true)
	f.clean()
}
