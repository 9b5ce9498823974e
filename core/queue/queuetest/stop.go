package queuetest

import (
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var stopTests = []test{
	{name: "BudgetStopsInTheSameTurn", run: thresholdSameTurn},
	{name: "BudgetWithinManyAcks", run: thresholdManyAcks},
	{name: "UnreachableHasItsOwnBudget", run: thresholdUnreachable},
	{name: "GoodOutcomesSpendNoBudget", run: thresholdGood},
	{name: "LostStopsTheRun", run: lostStops},
	{name: "StoppedRunEndsEverything", run: stoppedEnds},
	{name: "AdjustStops", run: adjustStops},
	{name: "CancelEndsEverything", run: cancelEnds},
	{name: "CancelListsStop", run: cancelStop},
	{name: "CancelTwiceAndAfterTheEnd", run: cancelTwice},
	{name: "CancelOfAStoppedRun", run: cancelStopped},
	{name: "AdjustCannotReviveARun", run: adjustOver},
	{name: "LastAckSpendsTheBudget", run: thresholdLast},
}

func thresholdSameTurn(f *fixture) {
	r := run("a", 10)
	r.StopAfter = 2
	f.submit(r)
	s := f.open("n")
	got := f.leaseN(s, 3)
	eq(f, "leases after the first failure", len(f.turn(s, 1, done(got[0], core.Failed)).Leases), 1)
	res := f.turn(s, 5, done(got[1], core.RolledBack))
	eq(f, "leases in the turn that spends the budget", len(res.Leases), 0)
	st := f.status("a")
	eq(f, "phase", st.Phase, queue.Stopped)
	if st.Reason == "" {
		f.Error("Status does not report why the run was stopped")
	}
	eq(f, "in flight: stop lets them finish", st.InFlight, 2)
	if len(res.Stop) != 0 {
		f.Errorf("a stopped run lists %v to stop, expected none", res.Stop)
	}
}

func thresholdManyAcks(f *fixture) {
	r := run("a", 20)
	r.StopAfter = 2
	f.submit(r)
	f.submit(run("b", 20))
	s := f.open("n")
	got := f.leaseN(s, 12)
	var a, b []queue.Lease
	for _, l := range got {
		if l.Job.Run == "a" {
			a = append(a, l)
		} else {
			b = append(b, l)
		}
	}
	eq(f, "leases of a", len(a), 6)
	acks := []queue.Ack{
		done(a[0], core.Failed),
		retry(a[1], 0), // the threshold is not spent yet: granted, then cancelled by the stop
		done(b[0], core.Failed),
		done(a[2], core.Failed), // spends it
		retry(a[3], 0),          // not granted: ends as failed
		giveBack(a[4]),          // ends as cancelled
		suspend(a[5], "e"),      // ends as cancelled
	}
	res := f.turn(s, 5, acks...)
	for _, l := range res.Leases {
		eq(f, "leased of", l.Job.Run, "b")
	}
	st := f.completes(s, "a")
	eq(f, "failed", st.Outcomes[core.Failed], 3)
	eq(f, "cancelled", st.Outcomes[core.Cancelled], 17)
	out := f.outcomes()
	eq(f, "outcomes", len(out), 20)
	for i, want := range map[int]core.Outcome{0: core.Failed, 1: core.Cancelled, 2: core.Failed, 3: core.Failed, 4: core.Cancelled, 5: core.Cancelled} {
		eq(f, "outcome of "+a[i].Job.String(), out[a[i].Job.Index], want)
	}
}

func thresholdUnreachable(f *fixture) {
	r := run("a", 10)
	r.StopAfter, r.StopUnreachable = 1, 2
	f.submit(r)
	s := f.open("n")
	got := f.leaseN(s, 2)
	eq(f, "leases after one", len(f.turn(s, 1, done(got[0], core.Unreachable)).Leases), 1)
	eq(f, "leases after two", len(f.turn(s, 1, done(got[1], core.Unreachable)).Leases), 0)
	eq(f, "phase", f.status("a").Phase, queue.Stopped)
}

func thresholdGood(f *fixture) {
	r := run("a", 6)
	r.StopAfter, r.StopUnreachable = 1, 1
	f.submit(r)
	s := f.open("n")
	got := f.leaseN(s, 4)
	res := f.turn(s, 2, done(got[0], core.Changed), done(got[1], core.Unchanged), done(got[2], core.Skipped), done(got[3], core.Cancelled))
	eq(f, "leases", len(res.Leases), 2)
	// A retry granted is no outcome, whatever it would have been.
	eq(f, "leases after a retry", len(f.turn(s, 1, retry(res.Leases[0], 0)).Leases), 1)
	eq(f, "phase", f.status("a").Phase, queue.Active)
}

func lostStops(f *fixture) {
	f.submit(run("a", 10)) // no threshold at all
	s := f.open("n")
	got := f.leaseN(s, 2)
	eq(f, "leases after a lost host", len(f.turn(s, 1, done(got[0], core.Lost)).Leases), 0)
	f.ack(s, done(got[1], core.Changed))
	st := f.completes(s, "a")
	eq(f, "phase", st.Phase, queue.Stopped)
	eq(f, "cancelled", st.Outcomes[core.Cancelled], 8)
}

// everywhere makes a run with a job in every state. By index, 0 is leased, 1 waits, 2 is suspended
// for an event, 3 is suspended for a time, 4 is blocked and 5 is returned for later. Then 6 is
// ready again, 7 has ended, 8-11 are fresh, 12-13 are not yet due, and 14-19 are beyond the limit.
func (f *fixture) everywhere(s string) (leased queue.Lease) {
	f.Helper()
	f.submit(on("holder", "held"))
	f.one(s)
	r := run("a", 20)
	r.Targets[4].Host = "held"
	r.Limit, r.StopAfter = 14, 1
	r.Segments = []queue.Segment{{Count: 12}, {Due: time.Now().Add(time.Hour), Count: 2}, {Count: 6}}
	f.submit(r)
	got := f.leaseN(s, 7)
	byIndex := map[int]queue.Lease{}
	for _, l := range got {
		byIndex[l.Job.Index] = l
	}
	later := retry(byIndex[1], time.Hour)
	timed := suspend(byIndex[3], "")
	timed.After = time.Hour
	back := giveBack(byIndex[5])
	back.After = time.Hour
	f.ack(s, later, suspend(byIndex[2], "e"), timed, back, done(byIndex[7], core.Changed), retry(byIndex[6], 0))
	st := f.status("a")
	eq(f, "blocked", st.Blocked, 1)
	eq(f, "suspended", st.Suspended, 2)
	eq(f, "in flight", st.InFlight, 1)
	return byIndex[0]
}

func (f *fixture) endedEverywhere(first core.Outcome) {
	f.Helper()
	out := f.outcomes()
	eq(f, "outcomes", len(out), 20)
	for i, o := range out {
		want := core.Cancelled
		switch i {
		case 0:
			want = first
		case 7:
			want = core.Changed
		}
		eq(f, "outcome of "+(core.JobID{Run: "a", Index: i}).String(), o, want)
	}
	eq(f, "timed left", f.stats().Timed, 0)
}

func stoppedEnds(f *fixture) {
	s := f.open("n")
	leased := f.everywhere(s)
	f.ack(s, done(leased, core.Failed))
	st := f.completes(s, "a")
	eq(f, "phase", st.Phase, queue.Stopped)
	f.endedEverywhere(core.Failed)
	f.none(s, "the run was stopped")
}

func adjustStops(f *fixture) {
	s := f.open("n")
	leased := f.everywhere(s)
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Stop: "nobody succeeded"}))
	f.none(s, "the run was stopped")
	st := f.status("a")
	eq(f, "phase", st.Phase, queue.Stopped)
	eq(f, "reason", st.Reason, "nobody succeeded")
	eq(f, "in flight", st.InFlight, 1)
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Stop: "another reason"}))
	f.ack(s, done(leased, core.Changed))
	st = f.completes(s, "a")
	eq(f, "phase", st.Phase, queue.Stopped)
	eq(f, "reason", st.Reason, "nobody succeeded")
	f.endedEverywhere(core.Changed)
	f.must(f.q.Cancel(f.ctx, "a", "too late"))
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Stop: "too late"}))
	eq(f, "phase", f.status("a").Phase, queue.Stopped)
}

func cancelEnds(f *fixture) {
	s := f.open("n")
	leased := f.everywhere(s)
	f.must(f.q.Cancel(f.ctx, "a", "the customer called"))
	f.none(s, "the run is cancelled")
	eq(f, "phase", f.status("a").Phase, queue.Cancelled)
	if n, err := f.q.Signal(f.ctx, "a", "e"); err != nil || n > 1 {
		f.Errorf("Signal in a cancelled run: %d, %v", n, err)
	}
	f.none(s, "the run is cancelled")
	f.ack(s, retry(leased, 0))
	st := f.completes(s, "a")
	eq(f, "phase", st.Phase, queue.Cancelled)
	eq(f, "reason", st.Reason, "the customer called")
	f.endedEverywhere(core.Failed)
	for _, rec := range f.records("a") {
		if rec.Outcome == core.Cancelled && !strings.Contains(rec.Reason.Text(), "the customer called") {
			f.Errorf("record %+v does not carry the reason", rec)
		}
	}
}

func cancelStop(f *fixture) {
	f.submit(run("a", 10))
	f.submit(run("b", 10))
	s, other := f.open("n"), f.open("n2")
	got := f.leaseN(s, 6)
	f.leaseN(other, 1)
	f.must(f.q.Cancel(f.ctx, "a", "x"))
	var want []core.JobID
	var acks []queue.Ack
	for _, l := range got {
		if l.Job.Run == "a" {
			want = append(want, l.Job)
			acks = append(acks, suspend(l, "e"))
		}
	}
	sorted := func(list []core.JobID) []core.JobID {
		slices.SortFunc(list, func(a, b core.JobID) int { return strings.Compare(a.String(), b.String()) })
		return list
	}
	b, err := f.q.Beat(f.ctx, s)
	f.must(err)
	if !slices.Equal(sorted(b.Stop), sorted(want)) {
		f.Errorf("Beat stops %v, expected %v", b.Stop, want)
	}
	res := f.turn(s, 0)
	if !slices.Equal(sorted(res.Stop), want) {
		f.Errorf("Turn stops %v, expected %v", res.Stop, want)
	}
	for _, id := range f.turn(other, 0).Stop {
		if slices.Contains(want, id) {
			f.Errorf("another session is asked to stop %v", id)
		}
	}
	f.ack(s, acks...)
	if res := f.turn(s, 0); len(res.Stop) != 0 {
		f.Errorf("Turn stops %v after all were acknowledged", res.Stop)
	}
	eq(f, "suspended", f.status("a").Suspended, 0)
}

func cancelTwice(f *fixture) {
	f.submit(run("a", 2))
	s := f.open("n")
	f.must(f.q.Cancel(f.ctx, "a", "first"))
	f.must(f.q.Cancel(f.ctx, "a", "second"))
	st := f.completes(s, "a")
	eq(f, "reason", st.Reason, "first")
	eq(f, "outcomes", len(f.outcomes()), 2)

	f.submit(run("b", 1))
	f.ack(s, done(f.one(s), core.Changed))
	f.must(f.q.Cancel(f.ctx, "b", "too late"))
	st = f.status("b")
	eq(f, "phase", st.Phase, queue.Finished)
	eq(f, "records", len(f.records("b")), 1)
}

func cancelStopped(f *fixture) {
	r := run("a", 5)
	r.StopAfter = 1
	f.submit(r)
	s := f.open("n")
	got := f.leaseN(s, 2)
	f.ack(s, done(got[0], core.Failed))
	eq(f, "phase", f.status("a").Phase, queue.Stopped)
	f.must(f.q.Cancel(f.ctx, "a", "now"))
	eq(f, "phase", f.status("a").Phase, queue.Cancelled)
	res := f.turn(s, 0)
	if !slices.Equal(res.Stop, []core.JobID{got[1].Job}) {
		f.Errorf("Turn stops %v, expected %v", res.Stop, got[1].Job)
	}
	f.ack(s, done(got[1], core.Lost))
	st := f.completes(s, "a")
	eq(f, "phase: lost does not undo cancel", st.Phase, queue.Cancelled)
}

func adjustOver(f *fixture) {
	f.submit(run("a", 5))
	s := f.open("n")
	l := f.one(s)
	f.must(f.q.Cancel(f.ctx, "a", "x"))
	no := false
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Paused: &no, Limit: new(0), Weight: new(5)}))
	f.none(s, "resume does not revive a cancelled run")
	eq(f, "phase", f.status("a").Phase, queue.Cancelled)
	f.ack(s, done(l, core.Changed))
	f.completes(s, "a")
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Paused: new(true)}))
	eq(f, "phase", f.status("a").Phase, queue.Cancelled)
}

func thresholdLast(f *fixture) {
	r := run("a", 1)
	r.StopAfter = 1
	f.submit(r)
	s := f.open("n")
	f.ack(s, done(f.one(s), core.Failed))
	st := f.completes(s, "a")
	eq(f, "phase", st.Phase, queue.Stopped)
}
