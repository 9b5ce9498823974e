package queuetest

import (
	"errors"
	"fmt"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var orderTests = []test{
	{name: "RunsShareEqually", run: shareRuns},
	{name: "WeightsShare", run: shareWeights},
	{name: "MaxInFlightOfALiveRun", run: mostOfLive},
	{name: "TenantsShareEqually", run: shareTenants},
	{name: "TenantWeightsShare", run: shareTenantWeights},
	{name: "ReweightCounts", run: reweight},
	{name: "NewcomerIsServedNext", run: newcomer},
	{name: "PriorityBreaksTies", run: priorityTies},
	{name: "PriorityIsBounded", run: priorityBounded},
	{name: "SubmissionBreaksTies", run: submissionTies},
	{name: "SubmissionBreaksTiesAfterAPause", run: pausedTies},
}

// shares counts leases by run.
func shares(leases []queue.Lease) map[string]int {
	n := map[string]int{}
	for _, l := range leases {
		n[l.Job.Run]++
	}
	return n
}

func (f *fixture) wantShares(leases []queue.Lease, want map[string]int) {
	f.Helper()
	got := shares(leases)
	for id, n := range want {
		if d := got[id] - n; d < -1 || d > 1 {
			f.Errorf("run %s has %d of %d leases, expected %d (all: %v)", id, got[id], len(leases), n, got)
		}
	}
}

func shareRuns(f *fixture) {
	for _, id := range []string{"a", "b", "c"} {
		f.submit(run(id, 100))
	}
	s := f.open("n")
	f.wantShares(f.leaseN(s, 60), map[string]int{"a": 20, "b": 20, "c": 20})
}

func shareWeights(f *fixture) {
	for i, w := range []int{1, 2, 5} {
		r := run(string(rune('a'+i)), 100)
		r.Weight = w
		f.submit(r)
	}
	s := f.open("n")
	f.wantShares(f.leaseN(s, 80), map[string]int{"a": 10, "b": 20, "c": 50})
}

func shareTenants(f *fixture) {
	for i := range 50 {
		r := run(fmt.Sprint("many", i), 20)
		r.Tenant = "many"
		f.submit(r)
	}
	one := run("one", 200)
	one.Tenant = "one"
	f.submit(one)
	s := f.open("n")
	got := f.leaseN(s, 100)
	f.wantShares(got, map[string]int{"one": 50, "many0": 1, "many49": 1})
}

func shareTenantWeights(f *fixture) {
	for i, w := range []int{1, 3} {
		r := run(fmt.Sprint("r", i), 100)
		r.Tenant, r.TenantWeight = fmt.Sprint("t", i), w
		f.submit(r)
	}
	s := f.open("n")
	f.wantShares(f.leaseN(s, 40), map[string]int{"r0": 10, "r1": 30})
	// The last submitted run decides its tenant's weight.
	again := run("again", 1)
	again.Tenant, again.TenantWeight = "t0", 3
	f.submit(again)
	f.wantShares(f.leaseN(s, 20), map[string]int{"r0": 19, "again": 1, "r1": 0})
}

func reweight(f *fixture) {
	f.submit(run("a", 100))
	f.submit(run("b", 100))
	s := f.open("n")
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Weight: new(3)}))
	f.wantShares(f.leaseN(s, 40), map[string]int{"a": 30, "b": 10})
}

// mostOfLive: how many jobs of a run are leased at the same time may change while it runs. Those
// that are leased continue.
func mostOfLive(f *fixture) {
	for _, n := range []int{4, 100} {
		id := fmt.Sprint("run-of-", n)
		r := run(id, n)
		r.MaxInFlight = 1
		f.submit(r)
		s := f.open("n")
		got := []queue.Lease{f.one(s)}
		f.none(s, "max_in_flight is 1")
		f.must(queue.AdjustOne(f.ctx, f.q, id, queue.Adjust{MaxInFlight: new(3)}))
		got = append(got, f.leaseN(s, 2)...)
		f.none(s, "max_in_flight is 3")
		f.must(queue.AdjustOne(f.ctx, f.q, id, queue.Adjust{MaxInFlight: new(2)}))
		f.ack(s, done(got[0], core.Changed))
		f.none(s, "two of three are leased, and max_in_flight is 2")
		if created, err := queue.SubmitOne(f.ctx, f.q, r); err != nil || created {
			f.Errorf("the run as it was submitted: created %t, %v", created, err)
		}
		f.must(queue.AdjustOne(f.ctx, f.q, id, queue.Adjust{MaxInFlight: new(0)}))
		got = append(got[1:], f.leaseN(s, n-3)...)
		for _, l := range got {
			f.ack(s, done(l, core.Changed))
		}
		eq(f, "complete", f.status(id).Complete, true)
		if err := queue.AdjustOne(f.ctx, f.q, id, queue.Adjust{MaxInFlight: new(-1)}); !errors.Is(err, core.ErrInvalid) {
			f.Errorf("max_in_flight -1: %v, expected core.ErrInvalid", err)
		}
		f.clean()
	}
}

func newcomer(f *fixture) {
	f.submit(run("alice", 3000))
	s := f.open("n")
	got := f.leaseN(s, 10)
	f.submit(run("bob", 4))
	for i := range 4 {
		res := f.turn(s, 1, done(got[i], core.Changed))
		eq(f, "run of the next lease", res.Leases[0].Job.Run, "bob")
	}
	res := f.turn(s, 1, done(got[4], core.Changed))
	eq(f, "run after bob has no more", res.Leases[0].Job.Run, "alice")
}

func priorityTies(f *fixture) {
	for _, p := range []int{0, -3, 10, 5} {
		r := run(fmt.Sprint("p", p), 1)
		r.Priority = p
		f.submit(r)
	}
	s := f.open("n")
	for _, p := range []int{10, 5, 0, -3} {
		eq(f, "next", f.one(s).Job.Run, fmt.Sprint("p", p))
	}
}

func priorityBounded(f *fixture) {
	vip := run("vip", 200)
	vip.Priority = queue.MaxPriority
	f.submit(vip)
	low := run("low", 200)
	low.Priority = -queue.MaxPriority
	f.submit(low)
	s := f.open("n")
	f.wantShares(f.leaseN(s, 100), map[string]int{"vip": 50, "low": 50})
}

func submissionTies(f *fixture) {
	for _, id := range []string{"z", "m", "a"} {
		r := run(id, 2)
		r.Tenant = "tenant " + id
		f.submit(r)
	}
	s := f.open("n")
	for _, id := range []string{"z", "m", "a", "z", "m", "a"} {
		eq(f, "next", f.one(s).Job.Run, id)
	}
}

// pausedTies: a run that was paused comes before one of equal rank that was submitted after it.
func pausedTies(f *fixture) {
	second := run("b", 1)
	second.Paused = true
	f.submit(run("a", 1))
	f.submit(second)
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Paused: new(true)}))
	for _, id := range []string{"a", "b"} {
		f.must(queue.AdjustOne(f.ctx, f.q, id, queue.Adjust{Paused: new(false)}))
	}
	s := f.open("n")
	eq(f, "the first", f.one(s).Job.Run, "a")
	eq(f, "the second", f.one(s).Job.Run, "b")
}
