package queuetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// trapTests are the bugs of peers that concern the contract, each with its thread.
var trapTests = []test{
	{name: "TrapResumedRunIsLeasedOnce", run: trapResumed},
	{name: "TrapDueRunIsLeasedOnce", run: trapDuePart},
	{name: "TrapRecoverersRace", ttl: shortTTL, run: trapRecoverers},                // asynq#717, river#1302
	{name: "TrapLateWorkerAckIsRefused", ttl: shortTTL, run: trapLateAck},           // bull#308, bull#1416
	{name: "TrapHealthyLongJobIsNotRescued", ttl: shortTTL, run: trapLongJob},       // oban#1141
	{name: "TrapReusedNodeNameHidesNoOrphans", ttl: shortTTL, run: trapNodeName},    // oban#862
	{name: "TrapCountersDoNotDrift", run: trapDrift},                                // gocraft/work#192, hatchet#4494
	{name: "TrapLostReplyLosesNoJob", run: trapLostReply},                           // sidekiq#843, machinery#586, go-redis#2339
	{name: "TrapPoisonJobIsDeadAtThree", ttl: shortTTL, run: trapPoison},            // sidekiq#4633
	{name: "TrapRollingRestartStrandsNothing", run: trapRestart},                    // sidekiq#4635
	{name: "TrapManyDueAtOnce", run: trapManyDue},                                   // bullmq#422
	{name: "TrapManyExpiredAtOnce", ttl: shortTTL, run: trapManyExpired},            // bullmq#422
	{name: "TrapRetriesDoNotDelaySchedules", run: trapRetriesDelay},                 // sidekiq#3889
	{name: "TrapTerminalPathsFreeTheLock", run: trapTerminal},                       // asynq#492
	{name: "TrapIdempotencyOutlivesTheRun", run: trapIdempotency},                   // asynq#369
	{name: "TrapNamesWithBraces", run: opaqueNames},                                 // asynq#480
	{name: "TrapCappedFlowFirstDoesNotBlock", run: trapCapped},                      // pg-boss#756
	{name: "TrapBlockedFlowFirstDoesNotBlock", run: trapBlockedHead},                // pg-boss#756
	{name: "TrapNoPrefetchBeyondFreeSlots", run: wantIsBound},                       // machinery#559
	{name: "TrapBulkCancelIsBounded", run: trapBulkCancel},                          // bull#2357
	{name: "TrapActiveWithoutLeaseCannotBe", ttl: shortTTL, run: trapActiveNoLease}, // asynq#1051, #1144, #799
}

func trapRecoverers(f *fixture) {
	const jobs, reapers = 200, 8
	f.submit(run("a", jobs))
	victim := f.open("victim")
	late := f.leaseN(victim, jobs)
	f.expire(victim)
	var wg sync.WaitGroup
	errs := make(chan error, reapers+1)
	for i := range reapers {
		s := f.open(fmt.Sprint("reaper", i))
		wg.Go(func() {
			var acks []queue.Ack
			for idle := 0; idle < 3; {
				res, err := f.q.Turn(f.ctx, queue.Turn{Session: s, Acks: acks, Want: 8})
				if errors.Is(err, core.ErrSessionGone) {
					return // a stall on a loaded machine; its jobs are recovered below
				}
				if err != nil {
					errs <- err
					return
				}
				acks = allDone(res.Leases, core.Changed)
				if len(acks) == 0 && !res.More {
					idle++
				}
			}
		})
	}
	wg.Go(func() {
		for _, l := range late { // the victim acknowledges between scan and requeue
			_, err := f.q.Turn(f.ctx, queue.Turn{Session: victim, Acks: []queue.Ack{done(l, core.Failed)}})
			if !errors.Is(err, core.ErrSessionGone) {
				errs <- fmt.Errorf("ack of a reaped session: %v, expected core.ErrSessionGone", err) //nolint:errorlint // err may be nil
				return
			}
		}
	})
	wg.Wait()
	close(errs)
	for err := range errs {
		f.must(err)
	}
	f.eventually("the rest", func() bool {
		s := f.open("last")
		f.turn(s, 0, allDone(f.lease(s, 64), core.Changed)...)
		return f.status("a").Complete
	})
	eq(f, "outcomes", len(f.outcomes()), jobs)
	eq(f, "changed", f.status("a").Outcomes[core.Changed], jobs)
}

func trapLateAck(f *fixture) {
	f.submit(run("a", 1))
	old := f.open("n")
	l := f.one(old)
	s := f.expire(old) // SIGSTOP past the lease
	again := f.one(s)
	if _, err := f.q.Turn(f.ctx, queue.Turn{Session: old, Acks: []queue.Ack{done(l, core.Failed)}}); !errors.Is(err, core.ErrSessionGone) {
		f.Errorf("late ack: error %v, expected core.ErrSessionGone", err)
	}
	// Not through its new session either, with the old token.
	fresh := f.open("n")
	eq(f, "stale", len(f.turn(fresh, 0, done(l, core.Failed)).Stale), 1)
	eq(f, "stale even for the session that holds it", len(f.turn(s, 0, done(l, core.Failed)).Stale), 1)
	f.ack(s, done(again, core.Changed))
	eq(f, "outcome", f.outcomes()[0], core.Changed)
}

func trapLongJob(f *fixture) {
	f.submit(run("a", 1))
	s := f.open("n")
	l := f.one(s)
	other := f.open("other")
	until := time.Now().Add(5 * shortTTL)
	for time.Now().Before(until) {
		if _, err := f.q.Beat(f.ctx, s); err != nil {
			f.Fatal(err)
		}
		eq(f, "leases of another node", len(f.turn(other, 1).Leases), 0)
		<-time.After(shortTTL / 20)
	}
	f.ack(s, done(l, core.Changed))
	eq(f, "attempt", f.records("a")[0].Attempt, 1)
}

func trapNodeName(f *fixture) {
	f.submit(run("a", 2))
	old := f.open("pod-0")
	f.leaseN(old, 2)
	// The node restarts immediately under its old name and keeps beating.
	young := f.open("pod-0")
	f.eventually("the orphans to be recovered", func() bool {
		if len(f.turn(young, 0).Leases) > 0 {
			f.Fatal("leases without want")
		}
		return f.status("a").InFlight == 0
	})
	eq(f, "leases", len(f.leaseN(young, 2)), 2)
}

func trapDrift(f *fixture) {
	// A run with a cap takes every way out of flight, many times over.
	r := run("a", 200)
	r.MaxInFlight = 5
	f.submit(r)
	s := f.open("n")
	for i := 0; !f.status("a").Complete; i++ {
		got := f.lease(s, 5)
		if len(got) == 0 {
			f.Fatalf("the run is stuck: %+v", f.status("a"))
		}
		if i%7 == 3 {
			f.must(f.q.Close(f.ctx, s))
			s = f.open("n")
			continue
		}
		for k, l := range got {
			switch (i + k) % 5 {
			case 0:
				f.ack(s, retry(l, 0))
			case 1:
				f.ack(s, giveBack(l))
			case 2:
				f.ack(s, suspend(l, "e"))
				_, err := f.q.Signal(f.ctx, "a", "e")
				f.must(err)
			case 3:
				f.turn(s, 0, done(l, core.Changed), done(l, core.Changed))
			default:
				f.turn(s, 0, done(l, core.Changed))
			}
		}
		if i%10 == 0 {
			f.clean()
		}
	}
	eq(f, "in flight", f.stats().InFlight, 0)
}

func trapLostReply(f *fixture) {
	f.submit(run("a", 4))
	s := f.open("n")
	got := f.leaseN(s, 2)
	acks := allDone(got, core.Changed)
	f.turn(s, 2, acks...) // its reply is lost
	held, err := f.q.Adopt(f.ctx, s)
	f.must(err)
	eq(f, "adopted", len(held), 2)
	res := f.turn(s, 0, acks...)
	eq(f, "acks that had been applied come back as stale", len(res.Stale), 2)
	f.ack(s, allDone(held, core.Changed)...)
	eq(f, "complete", f.status("a").Complete, true)
	eq(f, "outcomes", len(f.outcomes()), 4)
}

func trapPoison(f *fixture) {
	r := run("a", 1) // lost at the third crash
	f.submit(r)
	for crash := 1; crash <= 3; crash++ {
		s := f.open("victim")
		f.eventually("the poison job", func() bool {
			s = f.open("victim")
			got := f.turn(s, 1).Leases
			if len(got) == 1 {
				eq(f, "attempt", got[0].Attempt, crash)
			}
			return len(got) == 1
		})
		f.expire(s)
	}
	s := f.open("n")
	st := f.completes(s, "a")
	eq(f, "lost", st.Outcomes[core.Lost], 1)
	f.none(s, "a dead job kills no more nodes")
}

func trapRestart(f *fixture) {
	f.submit(run("a", 30))
	for range 20 { // nodes come and go, each finishes one and then gets the order to leave
		s := f.open("n")
		got := f.lease(s, 5)
		f.ack(s, done(got[0], core.Changed))
		f.must(f.q.Close(f.ctx, s))
	}
	s := f.open("n")
	rest := f.leaseN(s, 10)
	for _, l := range rest {
		eq(f, "attempt", l.Attempt, 1)
	}
	f.ack(s, allDone(rest, core.Changed)...)
	eq(f, "complete", f.status("a").Complete, true)
}

const many = 20_000

func trapManyDue(f *fixture) {
	s := f.open("n")
	due := f.turn(s, 0).Now.Add(500 * time.Millisecond)
	r := run("a", many)
	for range many {
		r.Segments = append(r.Segments, queue.Segment{Due: due, Count: 1})
	}
	f.submit(r)
	f.drain(s, "a", due)
}

// drain leases and acknowledges the rest of the run, none before due.
func (f *fixture) drain(s, id string, due time.Time) {
	f.Helper()
	var acks []queue.Ack
	for {
		res := f.turn(s, queue.MaxLeasesTurn, acks...)
		if len(res.Leases) > 0 && res.Now.Before(due) {
			f.Fatalf("leased %v early", due.Sub(res.Now))
		}
		acks = allDone(res.Leases, core.Changed)
		if len(acks) > 0 || res.More {
			continue
		}
		if f.status(id).Complete {
			return
		}
		f.must(f.q.Wait(f.ctx, s, res.Now.Add(time.Second)))
		f.must(f.ctx.Err())
	}
}

func trapManyExpired(f *fixture) {
	f.submit(run("a", many))
	victim := f.open("victim")
	f.leaseN(victim, many)
	s := f.expire(victim)
	f.drain(s, "a", time.Time{})
	eq(f, "changed", f.status("a").Outcomes[core.Changed], many)
}

func trapRetriesDelay(f *fixture) {
	const retries = 5000
	f.submit(run("noisy", retries))
	s := f.open("n")
	for left := retries; left > 0; {
		got := f.lease(s, min(left, queue.MaxLeasesTurn))
		acks := core.Map(got, func(l queue.Lease) queue.Ack { return retry(l, time.Millisecond) })
		f.turn(s, 0, acks...)
		left -= len(got)
	}
	timed := run("timed", 1)
	due := f.turn(s, 0).Now.Add(50 * time.Millisecond)
	timed.Segments = []queue.Segment{{Due: due, Count: 1}}
	f.submit(timed)
	before := 0
	f.eventually("the timed job", func() bool {
		res := f.turn(s, 8)
		for _, l := range res.Leases {
			if l.Job.Run == "timed" {
				return true
			}
		}
		if !res.Now.Before(due) {
			before += len(res.Leases)
		}
		return false
	})
	// Bounded activation may let a few batches of retries go first, never all of them.
	if before > retries/2 {
		f.Errorf("%d retries went before a due job of another run", before)
	}
}

func trapTerminal(f *fixture) {
	s := f.open("n")
	for i, end := range []func(id string, l queue.Lease){
		func(_ string, l queue.Lease) { f.ack(s, done(l, core.Changed)) },
		func(_ string, l queue.Lease) { f.ack(s, done(l, core.Lost)) },
		func(id string, l queue.Lease) { f.must(f.q.Cancel(f.ctx, id, "x")); f.ack(s, giveBack(l)) },
		func(id string, l queue.Lease) { f.must(f.q.Cancel(f.ctx, id, "x")); f.ack(s, retry(l, time.Hour)) },
		func(_ string, l queue.Lease) { f.ack(s, retry(l, time.Hour)) },
		func(_ string, l queue.Lease) { f.ack(s, suspend(l, "e")) },
	} {
		id := fmt.Sprint("r", i)
		r := queue.Run{ID: id, Disruptive: true, Targets: []queue.Target{{Host: "h", HAGroup: "ha"}}}
		f.submit(r)
		end(id, f.one(s))
	}
}

func trapIdempotency(f *fixture) {
	f.submit(run("a", 1))
	s := f.open("n")
	f.ack(s, done(f.one(s), core.Changed))
	eq(f, "complete", f.status("a").Complete, true)
	created, err := queue.SubmitOne(f.ctx, f.q, run("a", 1))
	f.must(err)
	eq(f, "created", created, false)
	if _, err := queue.SubmitOne(f.ctx, f.q, run("a", 2)); !errors.Is(err, core.ErrConflict) {
		f.Errorf("error %v, expected core.ErrConflict", err)
	}
	f.none(s, "the run was done")
}

func trapCapped(f *fixture) {
	capped := run("capped", 100)
	capped.MaxInFlight, capped.Priority, capped.Weight = 1, queue.MaxPriority, queue.MaxWeight
	f.submit(capped)
	f.submit(run("other", 10))
	s := f.open("n")
	f.wantShares(f.lease(s, 20), map[string]int{"capped": 1, "other": 10})
}

func trapBlockedHead(f *fixture) {
	f.submit(on("holder", "h"))
	s := f.open("n")
	f.one(s)
	blocked := on("blocked", strings.Split(strings.Repeat("h ", 2000)+"h", " ")...)
	blocked.Priority, blocked.Weight = queue.MaxPriority, queue.MaxWeight
	f.submit(blocked)
	f.submit(run("other", 10))
	eq(f, "leases of the other run", len(f.lease(s, 20)), 10)
	eq(f, "blocked", f.status("blocked").Blocked, 2001)
}

func trapBulkCancel(f *fixture) {
	r := run("a", many)
	for i := range many { // the worst case: a segment each
		r.Segments = append(r.Segments, queue.Segment{Due: time.Now().Add(time.Hour + time.Duration(i)*time.Second), Count: 1})
	}
	f.submit(r)
	s := f.open("n")
	f.must(f.q.Cancel(f.ctx, "a", "x"))
	st := f.completes(s, "a")
	eq(f, "cancelled", st.Outcomes[core.Cancelled], many)
}

func trapActiveNoLease(f *fixture) {
	f.submit(run("a", 3))
	for range 3 { // nodes die between every two calls
		s := f.open("n")
		f.turn(s, 1)
		f.expire(s)
	}
	s := f.open("n")
	f.eventually("all jobs to be leasable again", func() bool {
		s = f.open("n")
		f.turn(s, 0)
		return f.status("a").InFlight == 0
	})
	got := f.lease(s, 3)
	f.turn(s, 0, allDone(got, core.Changed)...)
}

// trapResumed: a run that was paused and resumed before anything of it was leased is leased once,
// with those that were submitted with it.
func trapResumed(f *fixture) {
	for _, id := range []string{"a", "b", "c", "d"} {
		f.submit(on(id, id))
	}
	for _, id := range []string{"b", "c", "c"} {
		f.must(queue.AdjustOne(f.ctx, f.q, id, queue.Adjust{Paused: new(true)}))
		f.must(queue.AdjustOne(f.ctx, f.q, id, queue.Adjust{Paused: new(false)}))
	}
	s := f.open("n")
	got := ids(f.turn(s, 9).Leases)
	slices.Sort(got)
	eq(f, "leases", fmt.Sprint(got), "[a/0 b/0 c/0 d/0]")
	f.none(s, "all are leased")
}

// trapDuePart: a run of few hosts that becomes due and is leased in part by the same turn.
func trapDuePart(f *fixture) {
	due := time.Now().Add(300 * time.Millisecond)
	for _, id := range []string{"a", "b", "c"} {
		r := queue.Run{ID: id, Tenant: "t", Disruptive: true, OnLost: queue.LostHold, Paused: true}
		for i := range 4 {
			r.Targets = append(r.Targets, queue.Target{Host: fmt.Sprint(id, i), HAGroup: fmt.Sprint("pair", i)})
		}
		r.Segments = []queue.Segment{{Due: due, Count: 4}}
		f.submit(r)
		f.must(queue.AdjustOne(f.ctx, f.q, id, queue.Adjust{Paused: new(false)}))
	}
	s, other := f.open("n"), f.open("m")
	seen := map[core.JobID]int{}
	held := map[string]core.JobID{}
	var mine, theirs []queue.Lease
	f.eventually("all to end", func() bool {
		for who, at := range map[string]*[]queue.Lease{s: &mine, other: &theirs} {
			acks := core.Map(*at, func(l queue.Lease) queue.Ack {
				return queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckDone, Outcome: core.Changed}
			})
			for _, l := range *at {
				delete(held, l.Host[1:])
			}
			*at = f.turn(who, 2, acks...).Leases
			for _, l := range *at {
				if seen[l.Job]++; seen[l.Job] > 1 {
					f.Errorf("%s is leased %d times", l.Job, seen[l.Job])
				}
				if by, is := held[l.Host[1:]]; is {
					f.Errorf("%s is leased beside %s of one HA group", l.Job, by)
				}
				held[l.Host[1:]] = l.Job
			}
		}
		return f.status("a").Complete && f.status("b").Complete && f.status("c").Complete
	})
	f.clean()
}
