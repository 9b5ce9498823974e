package queuetest

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var finishedTests = []test{
	{name: "SettledIsNeitherLeasedNorRecorded", run: finishedRest},
	{name: "SettledWholeRunIsComplete", run: finishedWhole},
	{name: "SettledSpendsTheBudget", run: finishedThreshold},
	{name: "SettledSpendsAPartOfTheBudget", run: finishedPart},
	{name: "SettledCutsSegments", run: finishedSegments},
	{name: "SettledCountsInWaves", run: finishedWaves},
	{name: "SettledIsNotCancelledAgain", run: finishedCancel},
	{name: "SettledIsNoContent", run: finishedContent},
	{name: "SettledInThousandsOfRanges", run: finishedMany},
	{name: "SubmitRefusesBadSettled", run: finishedInvalid},
	{name: "PausedFromTheStart", run: pausedStart},
}

func finished(r queue.Run, list ...queue.FinishedJobs) queue.Run {
	r.FinishedJobs = list
	return r
}

// indexes are those of leases, ascending.
func indexes(leases []queue.Lease) []int {
	list := core.Map(leases, func(l queue.Lease) int { return l.Job.Index })
	slices.Sort(list)
	return list
}

func (f *fixture) leasesOnly(session string, want ...int) []queue.Lease {
	f.Helper()
	got := f.lease(session, queue.MaxLeasesTurn)
	if !slices.Equal(indexes(got), want) {
		f.Fatalf("leased %v, expected %v", indexes(got), want)
	}
	return got
}

func (f *fixture) outcomesAre(want map[core.Outcome]int) {
	f.Helper()
	if st := f.status("a"); !maps.Equal(st.Outcomes, want) {
		f.Fatalf("outcomes are %v, expected %v", st.Outcomes, want)
	}
}

func finishedRest(f *fixture) {
	f.submit(finished(run("a", 10), queue.FinishedJobs{Index: 1, Count: 2, Outcome: core.Changed}, queue.FinishedJobs{Index: 3, Count: 1, Outcome: core.Failed}, queue.FinishedJobs{Index: 8, Count: 2, Outcome: core.Skipped}))
	st := f.status("a")
	eq(f, "pending", st.Pending, 5)
	eq(f, "total", st.Total, 10)
	f.outcomesAre(map[core.Outcome]int{core.Changed: 2, core.Failed: 1, core.Skipped: 2})
	for index, outcome := range map[int]core.Outcome{1: core.Changed, 2: core.Changed, 3: core.Failed, 8: core.Skipped, 9: core.Skipped} {
		ex := f.explain("a", index)
		eq(f, "state", ex.State, core.Done)
		eq(f, "reason", ex.Reason, queue.WhyFinished(outcome))
	}
	for _, index := range []int{0, 4, 7} {
		eq(f, "state", f.explain("a", index).State, core.Pending)
	}
	s := f.open("n")
	leases := f.leasesOnly(s, 0, 4, 5, 6, 7)
	for _, l := range leases {
		eq(f, "host", l.Host, l.Job.String()) // a cut does not move the others' data
	}
	f.ack(s, allDone(leases, core.Changed)...)
	st = f.status("a")
	eq(f, "phase", st.Phase, queue.Finished)
	eq(f, "complete", st.Complete, true)
	f.outcomesAre(map[core.Outcome]int{core.Changed: 7, core.Failed: 1, core.Skipped: 2})
	if got := f.outcomes(); len(got) != 5 {
		f.Errorf("records are of %v, expected those of 5 jobs", got)
	}
	if reason := f.explain("a", 4).Reason; reason != core.Because("", "ended as changed") {
		f.Errorf("job 4 %s", reason)
	}
}

func finishedWhole(f *fixture) {
	r := finished(run("a", 5), queue.FinishedJobs{Count: 4, Outcome: core.Changed}, queue.FinishedJobs{Index: 4, Count: 1, Outcome: core.Cancelled})
	r.Paused = true
	r.Segments = []queue.Segment{{Count: 2}, {Due: time.Now().Add(time.Hour), Count: 3}}
	f.submit(r)
	st := f.status("a")
	eq(f, "phase", st.Phase, queue.Finished)
	eq(f, "complete", st.Complete, true)
	eq(f, "deferred", st.Deferred, 0)
	eq(f, "records", len(f.records("a")), 0)
	s := f.open("n")
	f.none(s, "all of the run is settled")
	stats, err := f.q.Stats(f.ctx)
	f.must(err)
	eq(f, "open runs", stats.Runs, 0)
	eq(f, "timed", stats.Timed, 0)
	created, err := queue.SubmitOne(f.ctx, f.q, r)
	f.must(err)
	eq(f, "created", created, false)
}

func finishedThreshold(f *fixture) {
	s := f.open("n")
	for id, tc := range map[string]struct {
		finished []queue.FinishedJobs
		reason   string // none: the threshold holds
	}{
		"two failed":             {[]queue.FinishedJobs{{Index: 1, Count: 1, Outcome: core.Failed}, {Index: 3, Count: 1, Outcome: core.RolledBack}}, "the failure threshold is reached: 2 failed, stop_after is 2"},
		"three unreachable":      {[]queue.FinishedJobs{{Index: 1, Count: 3, Outcome: core.Unreachable}}, "the failure threshold is reached: 3 unreachable, stop_unreachable is 3"},
		"one lost":               {[]queue.FinishedJobs{{Index: 0, Count: 1, Outcome: core.Changed}, {Index: 2, Count: 2, Outcome: core.Lost}}, "job one lost/2 ended as lost"},
		"all, and the threshold": {[]queue.FinishedJobs{{Index: 0, Count: 6, Outcome: core.Failed}}, "the failure threshold is reached: 6 failed, stop_after is 2"},
		"one failed":             {[]queue.FinishedJobs{{Index: 1, Count: 1, Outcome: core.Failed}, {Index: 2, Count: 2, Outcome: core.Unreachable}, {Index: 4, Count: 1, Outcome: core.Cancelled}}, ""},
	} {
		r := finished(run(id, 6), tc.finished...)
		r.StopAfter, r.StopUnreachable, r.Paused = 2, 3, true
		f.submit(r)
		st := f.status(id)
		if tc.reason == "" {
			eq(f, "phase of "+id, st.Phase, queue.Paused)
			f.must(queue.AdjustOne(f.ctx, f.q, id, queue.Adjust{Paused: new(false)}))
			f.leasesOnly(s, 0, 5)
			continue
		}
		eq(f, "phase of "+id, st.Phase, queue.Stopped)
		eq(f, "reason of "+id, st.Reason.Text(), tc.reason)
		st = f.completes(s, id)
		ended := 0
		for _, k := range tc.finished {
			ended += k.Count
		}
		eq(f, "cancelled of "+id, st.Outcomes[core.Cancelled], 6-ended)
	}
}

// finishedPart: what was spent before the queue was lost is spent.
func finishedPart(f *fixture) {
	r := finished(run("a", 6), queue.FinishedJobs{Index: 0, Count: 2, Outcome: core.Failed})
	r.StopAfter = 3
	f.submit(r)
	s := f.open("n")
	f.ack(s, done(f.one(s), core.Changed))
	f.ack(s, done(f.one(s), core.Failed))
	f.none(s, "the third failure spends the budget")
	st := f.completes(s, "a")
	eq(f, "phase", st.Phase, queue.Stopped)
	f.outcomesAre(map[core.Outcome]int{core.Failed: 3, core.Changed: 1, core.Cancelled: 2})
}

func finishedSegments(f *fixture) {
	later := time.Now().Add(time.Hour)
	r := finished(run("a", 20),
		queue.FinishedJobs{Index: 0, Count: 3, Outcome: core.Changed}, // all of the first, one of the second
		queue.FinishedJobs{Index: 4, Count: 4, Outcome: core.Changed}, // from within the third to its end
		queue.FinishedJobs{Index: 9, Count: 1, Outcome: core.Changed}, // within the fourth
		queue.FinishedJobs{Index: 12, Count: 5, Outcome: core.Failed}, // over three of them
		queue.FinishedJobs{Index: 19, Count: 1, Outcome: core.Failed})
	r.Segments = []queue.Segment{{Count: 2}, {Due: later, Count: 2}, {Count: 4}, {Due: later, Count: 3}, {Due: later.Add(time.Hour), Count: 3}, {Count: 1}, {Due: later, Count: 5}}
	r.Limit = 19
	f.submit(r)
	st := f.status("a")
	eq(f, "deferred", st.Deferred, 1+2+1+2) // 3; 8, 10; 11; 17, 18
	eq(f, "pending", st.Pending, 6)
	s := f.open("n")
	f.none(s, "none of the due targets is left") // 12 … 14 and 0, 1, 4 … 7 are finished
	eq(f, "until", f.explain("a", 8).Until.Unix(), later.Unix())
	eq(f, "until", f.explain("a", 11).Until.Unix(), later.Add(time.Hour).Unix())
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Limit: new(0)}))
	eq(f, "deferred", f.status("a").Deferred, 6)
	f.must(f.q.Cancel(f.ctx, "a", "enough"))
	got := f.outcomes()
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, []int{3, 8, 10, 11, 17, 18}) {
		f.Errorf("cancelled %v", keys)
	}
}

func finishedWaves(f *fixture) {
	r := finished(run("a", 10), queue.FinishedJobs{Index: 0, Count: 3, Outcome: core.Changed}, queue.FinishedJobs{Index: 6, Count: 1, Outcome: core.Changed})
	r.Limit = 4
	f.submit(r)
	s := f.open("n")
	f.ack(s, allDone(f.leasesOnly(s, 3), core.Changed)...)
	f.none(s, "the wave is over")
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Limit: new(7)}))
	f.ack(s, allDone(f.leasesOnly(s, 4, 5), core.Changed)...)
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Limit: new(8)}))
	f.ack(s, allDone(f.leasesOnly(s, 7), core.Changed)...)
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Limit: new(0)}))
	f.ack(s, allDone(f.leasesOnly(s, 8, 9), core.Changed)...)
	eq(f, "complete", f.status("a").Complete, true)
}

func finishedCancel(f *fixture) {
	f.submit(finished(run("a", 6), queue.FinishedJobs{Index: 1, Count: 1, Outcome: core.Changed}, queue.FinishedJobs{Index: 4, Count: 2, Outcome: core.Lost}))
	f.must(f.q.Cancel(f.ctx, "a", "enough"))
	st := f.status("a")
	eq(f, "phase", st.Phase, queue.Cancelled)
	eq(f, "complete", st.Complete, true)
	f.outcomesAre(map[core.Outcome]int{core.Changed: 1, core.Lost: 2, core.Cancelled: 3})
	if keys := slices.Sorted(maps.Keys(f.outcomes())); !slices.Equal(keys, []int{0, 2, 3}) {
		f.Errorf("recorded are %v", keys)
	}
}

func finishedContent(f *fixture) {
	r := run("a", 4)
	f.submit(r)
	s := f.open("n")
	l := f.one(s)
	again := finished(r, queue.FinishedJobs{Count: 4, Outcome: core.Lost})
	again.Paused = true
	created, err := queue.SubmitOne(f.ctx, f.q, again)
	f.must(err)
	eq(f, "created", created, false)
	eq(f, "phase", f.status("a").Phase, queue.Active)
	f.ack(s, done(l, core.Changed))
	f.ack(s, allDone(f.leasesOnly(s, 1, 2, 3), core.Changed)...)
	f.outcomesAre(map[core.Outcome]int{core.Changed: 4})
	again.Targets = again.Targets[:3]
	again.FinishedJobs = again.FinishedJobs[:0]
	if _, err := queue.SubmitOne(f.ctx, f.q, again); !errors.Is(err, core.ErrConflict) {
		f.Errorf("other targets: %v, expected core.ErrConflict", err)
	}
}

// finishedMany: every other target; the rest starts in order, and a cancel ends the rest.
func finishedMany(f *fixture) {
	const n = 12_000
	r := run("a", n)
	for i := 1; i < n; i += 2 {
		r.FinishedJobs = append(r.FinishedJobs, queue.FinishedJobs{Index: i, Count: 1, Outcome: core.Changed})
	}
	r.Segments = []queue.Segment{{Count: n - 1000}, {Due: time.Now().Add(time.Hour), Count: 1000}}
	f.submit(r)
	st := f.status("a")
	eq(f, "deferred", st.Deferred, 500)
	eq(f, "changed", st.Outcomes[core.Changed], n/2)
	s := f.open("n")
	for page := range 4 {
		leases := f.lease(s, 250)
		for i, l := range leases {
			eq(f, "index", l.Job.Index, 2*(250*page+i))
		}
		f.ack(s, allDone(leases, core.Changed)...)
	}
	for index, state := range map[int]core.State{1: core.Done, 1998: core.Done, 2000: core.Pending, n - 1001: core.Done, n - 1002: core.Pending, n - 2: core.Pending, n - 1: core.Done} {
		eq(f, "state", f.explain("a", index).State, state)
	}
	eq(f, "reason", f.explain("a", n-3).Reason, queue.WhyFinished(core.Changed))
	if f.explain("a", n-4).Reason.Code() != core.NotDue {
		f.Errorf("job %d %s", n-4, f.explain("a", n-4).Reason)
	}
	f.clean()
	f.must(f.q.Cancel(f.ctx, "a", "enough"))
	st = f.status("a")
	eq(f, "complete", st.Complete, true)
	eq(f, "cancelled", st.Outcomes[core.Cancelled], n/2-1000)
}

func finishedInvalid(f *fixture) {
	ok := core.Changed
	many := make([]queue.FinishedJobs, queue.MaxFinished+1)
	for i := range many {
		many[i] = queue.FinishedJobs{Index: i, Count: 1, Outcome: ok}
	}
	const huge = int(^uint(0) >> 1)
	for what, list := range map[string][]queue.FinishedJobs{
		"before the first": {{Index: -1, Count: 2, Outcome: ok}},
		"behind the last":  {{Index: 9, Count: 1, Outcome: ok}},
		"over the end":     {{Index: 8, Count: 2, Outcome: ok}},
		"huge":             {{Index: 1, Count: huge, Outcome: ok}},
		"empty":            {{Index: 1, Outcome: ok}},
		"negative":         {{Index: 1, Count: -1, Outcome: ok}},
		"unsorted":         {{Index: 4, Count: 1, Outcome: ok}, {Index: 2, Count: 1, Outcome: ok}},
		"twice":            {{Index: 4, Count: 1, Outcome: ok}, {Index: 4, Count: 1, Outcome: ok}},
		"overlapping":      {{Index: 4, Count: 3, Outcome: ok}, {Index: 6, Count: 1, Outcome: ok}},
		"no outcome":       {{Index: 4, Count: 1}},
		"unknown outcome":  {{Index: 4, Count: 1, Outcome: "fine"}},
		"too many":         many,
	} {
		if _, err := queue.SubmitOne(f.ctx, f.q, finished(run("a", 9), list...)); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "finished") {
			f.Errorf("%s: %v, expected core.ErrInvalid that names the finished jobs", what, err)
		}
	}
	f.submit(finished(run("a", 9), queue.FinishedJobs{Index: 7, Count: 1, Outcome: ok}, queue.FinishedJobs{Index: 8, Count: 1, Outcome: ok}))
}

func pausedStart(f *fixture) {
	r := run("a", 3)
	r.Paused = true
	r.Segments = []queue.Segment{{Count: 2}, {Due: time.Now().Add(time.Hour), Count: 1}}
	f.submit(r)
	st := f.status("a")
	eq(f, "phase", st.Phase, queue.Paused)
	eq(f, "deferred", st.Deferred, 1)
	s := f.open("n")
	f.none(s, "the run is paused")
	if why := f.explain("a", 0).Reason; why.Code() != core.RunPaused {
		f.Errorf("job 0 %s", why)
	}
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Paused: new(false)}))
	f.leasesOnly(s, 0, 1)
}
