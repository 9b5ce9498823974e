package queuetest

import (
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var recoveryTests = []test{
	{name: "HoldLeasesNothingForTheLifeOfASession", ttl: shortTTL, run: holdLeasesNothing},
	{name: "DroppedRunIsSubmittedAgain", run: droppedAgain},
	{name: "DropKeepsWhatGoesOn", run: dropKeeps},
}

// The control is that the same session is leased the same job afterwards, without a change of the
// run.
func holdLeasesNothing(f *fixture) {
	began := time.Now()
	f.must(f.q.Hold(f.ctx))
	f.submit(run("r", 1))
	s := f.open("n")
	if d, err := f.q.Doubt(f.ctx); err != nil || d.ID != "" {
		f.Fatalf("an emptied queue is doubted: %+v, %v", d, err)
	}
	f.leaseN(s, 1)
	if took := time.Since(began); took < f.ttl {
		f.Errorf("a job was leased after %v, expected none before %v", took, f.ttl)
	}
}

func droppedAgain(f *fixture) {
	r := run("r", 3)
	f.submit(r)
	s := f.open("n")
	l := f.leaseN(s, 1)
	f.ack(s, done(l[0], core.Changed))
	yes := true
	f.must(queue.AdjustOne(f.ctx, f.q, "r", queue.Adjust{Paused: &yes}))
	if gone, err := f.q.Drop(f.ctx, "r", 2); err != nil || !gone {
		f.Fatalf("Drop of a run that is behind: %t, %v", gone, err)
	}
	if gone, err := f.q.Drop(f.ctx, "r", 2); err != nil || !gone {
		f.Fatalf("Drop of a run that is not there: %t, %v", gone, err)
	}
	r.FinishedJobs = []queue.FinishedJobs{{Index: 0, Count: 2, Outcome: core.Changed}}
	f.submit(r)
	if got := f.lease(s, 3); len(got) != 1 || got[0].Job.Index != 2 {
		f.Errorf("leased %v, expected the one job that is not recorded", got)
	}
}

// A run that is active, has a job in flight, or is not behind, stays.
func dropKeeps(f *fixture) {
	f.submit(run("r", 3))
	s := f.open("n")
	l := f.leaseN(s, 2)
	keeps := func(what string, recorded int) {
		f.Helper()
		if gone, err := f.q.Drop(f.ctx, "r", recorded); err != nil || gone {
			f.Errorf("Drop of a run that %s: %t, %v", what, gone, err)
		}
	}
	keeps("is active", 2)
	yes := true
	f.must(queue.AdjustOne(f.ctx, f.q, "r", queue.Adjust{Paused: &yes}))
	keeps("has jobs in flight", 2)
	f.ack(s, done(l[0], core.Changed), done(l[1], core.Changed))
	keeps("has the outcomes that are recorded", 2)
	no := false
	f.must(queue.AdjustOne(f.ctx, f.q, "r", queue.Adjust{Paused: &no}))
	f.ack(s, done(f.leaseN(s, 1)[0], core.Changed))
}
