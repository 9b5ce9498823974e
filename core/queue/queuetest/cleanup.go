package queuetest

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var cleanupTests = []test{
	{name: "CleanupOfACancelledRun", run: func(f *fixture) { cleanupEnds(f, f.cancel) }},
	{name: "CleanupOfAStoppedRun", run: func(f *fixture) { cleanupEnds(f, f.stop) }},
	{name: "CleanupAfterTheEnd", run: cleanupAfterEnd},
	{name: "CleanupGoesOn", run: cleanupGoesOn},
	{name: "CleanupIsAdopted", run: cleanupAdopted},
	{name: "CleanupKeepsToLocks", run: cleanupLocks},
	{name: "CleanupKeepsItsLocks", run: cleanupKeepsLocks},
	{name: "CleanupKeepsToMaxInFlight", run: cleanupMaxInFlight},
	{name: "CleanupOfManyJobs", run: cleanupMany},
	{name: "CleanupNotInAnOlderQueue", run: cleanupOlder},
	{name: "CleanupOutlivesItsWorker", ttl: shortTTL, run: cleanupReaped},
	{name: "CleanupOfACrashIsLost", ttl: shortTTL, run: cleanupUnheard},
	{name: "CleanupOnHoldIsLost", ttl: shortTTL, run: cleanupHold},
}

func (f *fixture) cancel(run string) {
	f.Helper()
	f.must(f.q.Cancel(f.ctx, run, "enough"))
}

func (f *fixture) stop(run string) {
	f.Helper()
	f.must(queue.AdjustOne(f.ctx, f.q, run, queue.Adjust{Stop: "enough"}))
}

// cleaning is an ack of a job that has a cleanup.
func cleaning(a queue.Ack) queue.Ack {
	a.Cleanup, a.State = true, []byte("half")
	return a
}

// cleanups leases n jobs for their cleanup, and nothing else.
func (f *fixture) cleanups(s string, n int) []queue.Lease {
	f.Helper()
	got := f.leaseN(s, n)
	for _, l := range got {
		eq(f, "why the run of "+l.Job.String()+" has ended", l.Over, "enough")
	}
	f.none(s, "no other job of the run has a cleanup")
	for _, id := range f.turn(s, 0).Stop {
		if slices.ContainsFunc(got, func(l queue.Lease) bool { return l.Job == id }) {
			f.Errorf("the cleanup of %v is to stop", id)
		}
	}
	return got
}

// Of jobs in every state those with a cleanup are leased once more, and all others end.
func cleanupEnds(f *fixture, end func(run string)) {
	f.submit(on("holder", "held"))
	s := f.open("n")
	holder := f.one(s)
	r := run("a", 14)
	r.Targets[4].Host = "held"
	r.Limit = 13
	f.submit(r)
	by := map[int]queue.Lease{}
	for _, l := range f.leaseN(s, 12) {
		by[l.Job.Index] = l
	}
	timed := suspend(by[2], "")
	timed.After = time.Hour
	f.ack(s, cleaning(retry(by[0], time.Hour)), cleaning(suspend(by[1], "e")), cleaning(timed), cleaning(suspend(by[3], "")), cleaning(suspend(by[5], "f")), // 3 is ready
		retry(by[6], time.Hour), suspend(by[7], "e"), suspend(by[8], ""), done(by[9], core.Changed))
	end("a")
	eq(f, "in flight", f.status("a").InFlight, 3)
	for _, i := range []int{0, 1, 2, 3, 5} {
		ex := f.explain("a", i)
		eq(f, "state", ex.State, core.Pending)
		eq(f, "reason", ex.Reason, queue.WhyCleanup())
	}
	if n, err := f.q.Signal(f.ctx, "a", "e"); err != nil || n != 0 {
		f.Errorf("Signal in a run that has ended: %d, %v", n, err)
	}
	f.clean()
	got := f.cleanups(s, 5)
	for _, l := range got {
		eq(f, "state", string(l.State), "half")
	}
	end("a") // again
	f.none(s, "they are leased")
	f.ack(s, allDone(got, core.Cancelled)...)
	f.ack(s, done(by[10], core.Changed), done(by[11], core.Changed), done(by[12], core.Changed), done(holder, core.Changed))
	f.completes(s, "a")
	out := f.outcomes()
	eq(f, "outcomes", len(out), 14)
	for i, o := range out {
		want := core.Cancelled
		if i >= 9 && i <= 12 {
			want = core.Changed
		}
		eq(f, "outcome of "+(core.JobID{Run: "a", Index: i}).String(), o, want)
	}
}

// The ack may come when its run has ended: also that of a job whose cleanup was known before.
func cleanupAfterEnd(f *fixture) {
	f.submit(run("a", 5))
	s := f.open("n")
	got := f.leaseN(s, 5)
	f.ack(s, cleaning(suspend(got[0], "e")))
	_, err := f.q.Signal(f.ctx, "a", "e")
	f.must(err)
	again := f.one(s)
	f.stop("a")
	timed := suspend(got[2], "")
	timed.After = time.Hour
	f.ack(s, giveBack(again), cleaning(retry(got[1], time.Hour)), cleaning(timed), cleaning(suspend(got[3], "e")), suspend(got[4], "e"))
	f.ack(s, allDone(f.cleanups(s, 4), core.Cancelled)...)
	f.completes(s, "a")
	eq(f, "cancelled", f.status("a").Outcomes[core.Cancelled], 5)
}

// A cleanup continues after a return, a retry and a suspension. It waits for times, and for nothing
// else, and ends where there is none.
func cleanupGoesOn(f *fixture) {
	f.submit(run("a", 1))
	s := f.open("n")
	f.ack(s, cleaning(suspend(f.one(s), "e")))
	f.cancel("a")
	f.ack(s, giveBack(f.cleanups(s, 1)[0]))
	a := cleaning(retry(f.cleanups(s, 1)[0], 0))
	a.State = []byte("two")
	f.ack(s, a)
	l := f.cleanups(s, 1)[0]
	eq(f, "state", string(l.State), "two")
	eq(f, "attempt", l.Attempt, 2)
	before := f.turn(s, 0).Now
	a = cleaning(suspend(l, "e"))
	a.After = 200 * time.Millisecond
	f.ack(s, a)
	l = f.one(s)
	if early := before.Add(a.After).Sub(f.turn(s, 0).Now); early > 0 {
		f.Errorf("leased %v early", early)
	}
	f.ack(s, cleaning(suspend(l, "e")))
	st := f.completes(s, "a")
	eq(f, "cancelled", st.Outcomes[core.Cancelled], 1)
	rec := f.records("a")[0]
	eq(f, "reason", rec.Reason, "enough")
	eq(f, "last state", string(rec.State), "half")
}

func cleanupAdopted(f *fixture) {
	f.submit(run("a", 2))
	s := f.open("n")
	got := f.leaseN(s, 2)
	f.ack(s, cleaning(suspend(got[0], "e")))
	f.cancel("a")
	l := f.cleanups(s, 1)[0]
	held, err := f.q.Adopt(f.ctx, s)
	f.must(err)
	eq(f, "held", len(held), 2)
	for _, h := range held {
		if h.Job == l.Job {
			eq(f, "why its run has ended", h.Over, "enough")
		} else {
			eq(f, "the job was leased before the end", h.Over, "")
		}
	}
	f.ack(s, allDone(held, core.Cancelled)...)
}

// A cleanup blocks like any job, keeps its place, and gets the lock before those that came later.
func cleanupLocks(f *fixture) {
	f.submit(on("a", "h"))
	s := f.open("n")
	f.ack(s, cleaning(suspend(f.one(s), "e")))
	f.submit(on("b", "h"))
	holder := f.one(s)
	f.cancel("a")
	f.none(s, "another job has the host")
	eq(f, "blocked", f.status("a").Blocked, 1)
	f.submit(on("c", "h"))
	f.none(s, "another job has the host")
	f.clean()
	f.ack(s, done(holder, core.Changed))
	f.clean()
	l := f.one(s)
	eq(f, "the first that blocked", l.Job.Run, "a")
	eq(f, "why its run has ended", l.Over, "enough")
	f.none(s, "the cleanup has the host")
	f.ack(s, done(l, core.Cancelled))
	eq(f, "the next", f.one(s).Job.Run, "c")
}

// Locks that a suspended job keeps stay its own until the cleanup has ended.
func cleanupKeepsLocks(f *fixture) {
	f.submit(on("a", "h"))
	s := f.open("n")
	a := cleaning(suspend(f.one(s), "e"))
	a.KeepLocks = true
	f.ack(s, a)
	f.submit(on("b", "h"))
	f.none(s, "the host is kept")
	f.cancel("a")
	l := f.cleanups(s, 1)[0]
	f.ack(s, done(l, core.Cancelled))
	eq(f, "freed", f.one(s).Job.Run, "b")
}

func cleanupMaxInFlight(f *fixture) {
	r := run("a", 2)
	r.MaxInFlight = 1
	f.submit(r)
	s := f.open("n")
	for range 2 {
		f.ack(s, cleaning(suspend(f.one(s), "e")))
	}
	f.cancel("a")
	f.ack(s, done(f.cleanups(s, 1)[0], core.Cancelled))
	f.ack(s, done(f.one(s), core.Cancelled))
	f.completes(s, "a")
}

// Many cleanups leave a part of each turn to other runs.
func cleanupMany(f *fixture) {
	const n = 600
	f.submit(run("a", n))
	s := f.open("n")
	for _, l := range f.leaseN(s, n) {
		f.ack(s, cleaning(suspend(l, "e")))
	}
	f.cancel("a")
	f.clean()
	f.submit(run("b", 1))
	first, others := f.turn(s, 100).Leases, 0
	for _, l := range first {
		if l.Job.Run == "b" {
			others++
		}
	}
	eq(f, "leases of another run", others, 1)
	got := append(first, f.leaseN(s, n+1-len(first))...)
	for acks := allDone(got, core.Cancelled); len(acks) > 0; {
		part := min(len(acks), queue.MaxAcksPerTurn)
		f.ack(s, acks[:part]...)
		acks = acks[part:]
	}
	eq(f, "cancelled", f.completes(s, "a").Outcomes[core.Cancelled], n)
}

// In a queue that came back older a job may have had its cleanup.
func cleanupOlder(f *fixture) {
	f.submit(run("a", 1))
	s := f.open("n")
	f.ack(s, cleaning(suspend(f.one(s), "e")))
	f.must(f.q.Cancel(f.ctx, "a", core.Because(core.QueueOlder, "older")))
	f.none(s, "the job may have had its cleanup")
	f.completes(s, "a")

	f.submit(run("b", 1))
	f.ack(s, cleaning(suspend(f.one(s), "e")))
	f.must(queue.AdjustOne(f.ctx, f.q, "b", queue.Adjust{Paused: new(true)}))
	gone, err := f.q.Drop(f.ctx, "b", 1)
	f.must(err)
	eq(f, "dropped", gone, true)
	f.none(s, "the run is submitted again")
}

// If a worker dies in a cleanup, the cleanup is tried again, until its attempts are used up.
func cleanupReaped(f *fixture) {
	f.submit(run("a", 1))
	s := f.open("n")
	f.ack(s, cleaning(suspend(f.one(s), "e")))
	f.cancel("a")
	for range queue.MaxCrashes {
		f.cleanups(s, 1)
		s = f.expire(s)
	}
	f.none(s, "it is dead")
	eq(f, "lost", f.completes(s, "a").Outcomes[core.Lost], 1)
}

// A job that crashed since it had a cleanup ends as lost: nobody knows what the host saw.
func cleanupUnheard(f *fixture) {
	f.submit(run("a", 1))
	s := f.open("n")
	f.ack(s, cleaning(suspend(f.one(s), "")))
	f.one(s)
	s = f.expire(s)
	f.eventually("the job to be recovered", func() bool { f.turn(s, 0); return f.status("a").InFlight == 0 })
	f.cancel("a")
	f.none(s, "nobody knows what the host saw")
	eq(f, "lost", f.completes(s, "a").Outcomes[core.Lost], 1)
}

func cleanupHold(f *fixture) {
	r := run("a", 1)
	r.OnLost = queue.LostHold
	f.submit(r)
	s := f.open("n")
	f.ack(s, cleaning(suspend(f.one(s), "e")))
	f.cancel("a")
	f.cleanups(s, 1)
	s = f.expire(s)
	f.none(s, "it must not be repeated")
	eq(f, "lost", f.completes(s, "a").Outcomes[core.Lost], 1)
}

// drawCleanup gives the job of an ack a cleanup. One of a run at MaxInFlight, or with locks, would
// wait for a time that counts here.
func (m *machine) drawCleanup(t *rapid.T, a *queue.Ack) {
	i := slices.IndexFunc(m.runs, func(r queue.Run) bool { return r.ID == a.Job.Run })
	if m.runs[i].MaxInFlight == 0 && !a.KeepLocks {
		a.Cleanup = rapid.Bool().Draw(t, "cleanup")
	}
}
