package queuetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var sessionTests = []test{
	{name: "SessionIDsAreNew", run: sessionIDs},
	{name: "UnknownSessionIsGone", run: sessionUnknown},
	{name: "AdoptListsWhatIsHeld", run: adopt},
	{name: "CloseGivesBack", run: closeGivesBack},
	{name: "ReapedJobsAreRetried", ttl: shortTTL, run: reapRetry},
	{name: "ReapedHoldIsLost", ttl: shortTTL, run: reapHold},
	{name: "ReapedTooOftenIsDead", ttl: shortTTL, run: reapDead},
	{name: "ReapedInCancelledRunIsLost", ttl: shortTTL, run: reapCancelled},
	{name: "FaultR5ReapedIsNotCancelledWithItsRun", ttl: shortTTL, run: reapThenStopped},
	{name: "ReapedFreesLocks", ttl: shortTTL, run: reapLocks},
	{name: "TurnAndBeatKeepAlive", ttl: shortTTL, run: keepAlive},
	{name: "WaitIsWokenByRecovery", ttl: shortTTL, run: waitRecovery},
}

func sessionIDs(f *fixture) {
	seen := map[string]bool{}
	for range 50 {
		s := f.open("same")
		if s == "" || seen[s] {
			f.Fatalf("session id %q is empty or was given out before", s)
		}
		seen[s] = true
	}
}

// gone expects that every method of the session returns ErrSessionGone.
func (f *fixture) gone(s string) {
	f.Helper()
	wants := func(what string, err error) {
		f.Helper()
		if !errors.Is(err, core.ErrSessionGone) {
			f.Errorf("%s: error %v, expected core.ErrSessionGone", what, err)
		}
	}
	_, err := f.q.Turn(f.ctx, queue.Turn{Session: s, Want: 1})
	wants("Turn", err)
	_, err = f.q.Beat(f.ctx, s)
	wants("Beat", err)
	_, err = f.q.Adopt(f.ctx, s)
	wants("Adopt", err)
	wants("Close", f.q.Close(f.ctx, s))
}

func sessionUnknown(f *fixture) {
	f.submit(run("a", 1))
	f.gone("never opened")
	f.gone("")
	s := f.open("n")
	f.must(f.q.Close(f.ctx, s))
	f.gone(s)
	eq(f, "pending", f.status("a").Pending, 1)
}

func adopt(f *fixture) {
	r := run("a", 5)
	for i := range r.Targets {
		r.Targets[i].Data = fmt.Append(nil, "data ", i)
	}
	f.submit(r)
	s, other := f.open("n"), f.open("n")
	got := f.leaseN(s, 4)
	f.leaseN(other, 1)
	a := retry(got[0], 0)
	a.State = []byte("state")
	f.ack(s, a, done(got[1], core.Changed))
	again := f.one(s)
	held, err := f.q.Adopt(f.ctx, s)
	f.must(err)
	slices.SortFunc(held, func(a, b queue.Lease) int { return a.Job.Index - b.Job.Index })
	want := []queue.Lease{again, got[2], got[3]}
	eq(f, "held", len(held), 3)
	for i := range want {
		eq(f, "lease", fmt.Sprintf("%+v", held[i]), fmt.Sprintf("%+v", want[i]))
	}
	f.ack(s, allDone(held, core.Changed)...)
	held, err = f.q.Adopt(f.ctx, s)
	f.must(err)
	eq(f, "held after acks", len(held), 0)
}

func closeGivesBack(f *fixture) {
	f.submit(run("a", 300))
	s := f.open("n")
	got := f.leaseN(s, 300)
	f.must(f.q.Close(f.ctx, s))
	f.gone(s)
	s = f.open("n")
	again := f.leaseN(s, 300)
	for _, l := range again {
		eq(f, "attempt", l.Attempt, 1)
	}
	res := f.turn(s, 0, done(got[0], core.Changed))
	eq(f, "stale", len(res.Stale), 1)
}

// expire lets a session that was silent pass its time. It opens a new one and returns it.
func (f *fixture) expire(old string) string {
	f.Helper()
	f.eventually("the session to expire", func() bool {
		<-time.After(f.ttl / 10)
		_, err := f.q.Adopt(f.ctx, old)
		if err != nil && !errors.Is(err, core.ErrSessionGone) {
			f.Fatal(err)
		}
		return err != nil
	})
	return f.open("rescuer")
}

func reapRetry(f *fixture) {
	f.submit(run("a", 100))
	s := f.open("victim")
	got := f.leaseN(s, 100)
	before := f.stats().Reaped
	s2 := f.expire(s)
	f.gone(s)
	again := f.leaseN(s2, 100)
	for _, l := range again {
		eq(f, "attempt", l.Attempt, 2)
		if l.Token <= got[99].Token {
			f.Fatalf("token %d is not above the one before", l.Token)
		}
	}
	eq(f, "reaped sessions", f.stats().Reaped-before, 1)
	f.ack(s2, allDone(again, core.Changed)...)
	eq(f, "complete", f.status("a").Complete, true)
	eq(f, "attempts recorded", f.records("a")[0].Attempt, 2)
}

func reapHold(f *fixture) {
	r := run("a", 3)
	r.OnLost = queue.LostHold
	f.submit(r)
	s := f.open("victim")
	l := f.leaseN(s, 1)
	s = f.expire(s)
	st := f.completes(s, "a")
	eq(f, "lost", st.Outcomes[core.Lost], 1)
	eq(f, "cancelled", st.Outcomes[core.Cancelled], 2)
	eq(f, "phase", st.Phase, queue.Stopped)
	for _, rec := range f.records("a") {
		if rec.Reason == "" {
			f.Errorf("record %+v has no reason", rec)
		}
		if rec.Outcome == core.Lost {
			eq(f, "index", rec.Index, l[0].Job.Index)
			eq(f, "attempt", rec.Attempt, 1)
		}
	}
}

func reapDead(f *fixture) {
	r := run("a", 3)
	r.MaxInFlight = 1
	f.submit(r)
	s := f.open("victim")
	a := retry(f.one(s), 0) // a retry is no crash
	a.State = []byte("kept")
	f.ack(s, a)
	for i := range queue.MaxCrashes {
		l := f.one(s)
		eq(f, "job", l.Job.Index, 0)
		eq(f, "attempt", l.Attempt, 2+i)
		eq(f, "state survives a crash", string(l.State), "kept")
		s = f.expire(s)
	}
	st := f.completes(s, "a")
	eq(f, "lost", st.Outcomes[core.Lost], 1)
	eq(f, "phase", st.Phase, queue.Stopped)
	eq(f, "cancelled", st.Outcomes[core.Cancelled], 2)
	if ex := f.explain("a", 0); ex.State != core.Done || ex.Reason.Code() != core.WorkerLost || !strings.Contains(ex.Reason.Text(), "died 3 times") {
		f.Errorf("explained as %+v", ex)
	}
}

func reapCancelled(f *fixture) {
	f.submit(run("a", 2))
	s := f.open("victim")
	f.one(s)
	f.must(f.q.Cancel(f.ctx, "a", "enough"))
	s = f.expire(s)
	st := f.completes(s, "a")
	eq(f, "lost: it had begun, and is not tried again", st.Outcomes[core.Lost], 1)
	eq(f, "cancelled", st.Outcomes[core.Cancelled], 1)
	eq(f, "phase", st.Phase, queue.Cancelled)
}

// A job whose worker died waits for its next attempt, or was given back unstarted, when its run
// ends: its steps may all have succeeded. Only of one that a worker spoke of since is it known that
// it was cut short.
func reapThenStopped(f *fixture) {
	r := run("a", 4)
	f.submit(r)
	s := f.open("victim")
	f.leaseN(s, 3)
	s = f.expire(s)
	back := f.leaseN(s, 3)
	for i, l := range back {
		switch l.Job.Index {
		case 0:
			f.ack(s, queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckReturn, After: time.Hour})
		case 1:
			f.ack(s, queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckSuspend, After: time.Hour})
		case 2: // it is given back when the run has ended
			defer func() {
				f.ack(s, giveBack(back[i]))
				got := f.outcomes()
				eq(f, "waits after a crash", got[0], core.Lost)
				eq(f, "spoken of since", got[1], core.Cancelled)
				eq(f, "given back after a crash", got[2], core.Lost)
				eq(f, "never begun", got[3], core.Cancelled)
				for _, rec := range f.records("a") {
					if rec.Outcome == core.Lost && rec.Reason.Text() != "worker victim was silent past its lease while it held the job, and the run had ended: enough" {
						f.Errorf("job %d is lost because %q", rec.Index, rec.Reason)
					}
				}
			}()
		}
	}
	f.must(f.q.Cancel(f.ctx, "a", "enough"))
}

func reapLocks(f *fixture) {
	r := on("a", "h")
	r.OnLost = queue.LostHold
	f.submit(r)
	s := f.open("victim")
	f.one(s)
	f.submit(on("b", "h"))
	s = f.expire(s)
	eq(f, "host is free again", f.one(s).Job.Run, "b")
}

func keepAlive(f *fixture) {
	f.submit(run("a", 1))
	s := f.open("n")
	l := f.one(s)
	// Four lives long: half by Turn, half by Beat.
	until := time.Now().Add(4 * shortTTL)
	for beat := false; time.Now().Before(until); beat = !beat {
		if beat {
			b, err := f.q.Beat(f.ctx, s)
			f.must(err)
			if left := b.Until.Sub(b.Now); left != shortTTL {
				f.Fatalf("Beat promises %v, expected %v", left, shortTTL)
			}
		} else {
			f.turn(s, 0)
		}
		<-time.After(shortTTL / 20)
	}
	eq(f, "in flight", f.status("a").InFlight, 1)
	f.ack(s, done(l, core.Changed))
}

func waitRecovery(f *fixture) {
	f.submit(run("a", 1))
	f.one(f.open("victim"))
	// A node that only waits, at most a second at a time as nodes do, gets the job.
	s := f.open("rescuer")
	f.eventually("the job of the dead node", func() bool {
		res := f.turn(s, 1)
		if len(res.Leases) == 1 {
			return true
		}
		f.must(f.q.Wait(f.ctx, s, res.Now.Add(shortTTL/2)))
		return false
	})
}
