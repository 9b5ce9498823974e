package queuetest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

var inspectTests = []test{
	{name: "StatusAddsUp", run: statusSums},
	{name: "ServedIsWorkerTime", run: servedTime},
	{name: "Explain", run: explainTexts},
	{name: "Leased", run: leasedJobs},
	{name: "Stats", run: statsCounts},
	{name: "Load", run: loadCounts},
	{name: "CheckAndRepairOfASoundQueue", run: checkSound},
}

func statusSums(f *fixture) {
	s := f.open("n")
	l := f.everywhere(s) // f.status checks the sum
	f.status("a")
	f.ack(s, done(l, core.Failed))
	f.status("a")
	f.completes(s, "a")
	st := f.status("a")
	eq(f, "total", st.Total, 20)
}

func servedTime(f *fixture) {
	f.submit(run("a", 2))
	s := f.open("n")
	got := f.leaseN(s, 2)
	<-time.After(60 * time.Millisecond)
	f.ack(s, done(got[0], core.Changed), retry(got[1], time.Hour))
	if served := f.status("a").Served; served < 110*time.Millisecond {
		f.Errorf("served %v, expected two times 60ms", served)
	}
}

func explainTexts(f *fixture) {
	s := f.open("worker-7")
	leased := f.everywhere(s)
	for index, want := range map[int]struct {
		state core.State
		code  core.ReasonCode
		text  string
	}{
		0:  {core.Leased, "", "worker-7"},
		1:  {core.Retrying, core.NextAttempt, ""},
		2:  {core.Suspended, "", "e"},
		3:  {core.Suspended, "", ""},
		4:  {core.Blocked, core.LockHeld, "held"},
		5:  {core.Retrying, core.NextAttempt, ""},
		7:  {core.Done, "", "changed"},
		8:  {core.Pending, core.NoSlot, ""},
		12: {core.Pending, core.NotDue, ""},
		19: {core.Pending, core.WaveClosed, ""},
	} {
		ex := f.explain("a", index)
		eq(f, "job", ex.Job, core.JobID{Run: "a", Index: index})
		eq(f, "state of "+ex.Job.String(), ex.State, want.state)
		eq(f, "code of "+ex.Job.String(), ex.Reason.Code(), want.code)
		if want.state == core.Suspended { // the queue does not know what an event means
			eq(f, "event and reason of "+ex.Job.String(), ex.Event+string(ex.Reason), want.text)
		} else if ex.Event != "" || ex.Reason == "" || !strings.Contains(ex.Reason.Text(), want.text) {
			f.Errorf("Explain(%v) reports %+v, expected %q in its reason", ex.Job, ex, want.text)
		}
	}
	if ex, idle := f.explain("a", 0), f.explain("a", 1); ex.Node != "worker-7" || idle.Node != "" || ex.Since.IsZero() || time.Since(ex.Since) > time.Minute || !idle.Since.IsZero() {
		f.Errorf("Explain reports %+v of a leased job and %+v of another, expected which node began the lease, and when", ex, idle)
	}
	if ex := f.explain("a", 4); ex.Holder != "holder/0" || strings.Contains(ex.Reason.Text(), "holder") {
		f.Errorf("Explain reports %+v, expected who holds the host, apart from the reason", ex)
	}
	for _, timed := range []int{1, 3, 5, 12} {
		if f.explain("a", timed).Until.IsZero() {
			f.Errorf("Explain(a/%d) does not report until when", timed)
		}
	}
	f.must(queue.AdjustOne(f.ctx, f.q, "a", queue.Adjust{Paused: new(true)}))
	if ex := f.explain("a", 8); ex.Reason.Code() != core.RunPaused {
		f.Errorf("Explain reports %q of a paused run", ex.Reason)
	}
	f.ack(s, done(leased, core.Failed))
	f.completes(s, "a")
	if ex := f.explain("a", 15); ex.State != core.Done || !strings.Contains(ex.Reason.Text(), "cancelled") || ex.Reason.Code() != core.ThresholdReached {
		f.Errorf("Explain reports %+v of a cancelled job", ex)
	}
}

// leasedJobs expects the jobs of one run that nodes work on, and none in another state.
func leasedJobs(f *fixture) {
	s := f.open("worker-7")
	first := f.everywhere(s) // which has a job of another run
	other := f.open("worker-8")
	f.leaseN(other, 2)
	leased := func() []queue.Leased {
		all, err := f.q.Leased(f.ctx, "a")
		f.must(err)
		return all
	}
	all := leased()
	eq(f, "leased jobs", len(all), f.status("a").InFlight)
	eq(f, "leased jobs", len(all), 3)
	eq(f, "the longest one", all[0].Index, first.Job.Index)
	eq(f, "its node", all[0].Node, "worker-7")
	for i, l := range all {
		eq(f, "state of a leased job", f.explain("a", l.Index).State, core.Leased)
		if l.Since.IsZero() || i > 0 && (l.Node != "worker-8" || l.Since.Before(all[i-1].Since)) {
			f.Errorf("%+v are leased, expected the longest ones first, with their nodes", all)
		}
	}
	f.ack(s, suspend(first, "e"))
	eq(f, "leased jobs after a suspension", len(leased()), 2)
	_, err := f.q.Leased(f.ctx, "no")
	if !errors.Is(err, core.ErrNotFound) {
		f.Errorf("leases of a run that is not there: %v", err)
	}
	f.submit(on("idle", "h"))
	if all, err = f.q.Leased(f.ctx, "idle"); err != nil || len(all) != 0 {
		f.Errorf("leases of a run that waits: %+v, %v", all, err)
	}
}

func statsCounts(f *fixture) {
	eq(f, "runs", f.stats().Runs, 0)
	s := f.open("n")
	f.open("n2")
	for _, id := range []string{"a", "b", "c"} {
		r := run(id, 3)
		r.Tenant = map[string]string{"a": "x", "b": "x", "c": "y"}[id]
		f.submit(r)
	}
	later := run("later", 2)
	later.Segments = []queue.Segment{{Due: time.Now().Add(time.Hour), Count: 1}, {Due: time.Now().Add(2 * time.Hour), Count: 1}}
	f.submit(later)
	got := f.leaseN(s, 4)
	st := f.stats()
	eq(f, "runs", st.Runs, 4)
	ids, err := f.q.Runs(f.ctx)
	f.must(err)
	eq(f, "runs listed", len(ids), 4)
	if !slices.Contains(ids, later.ID) {
		f.Errorf("the runs are listed as %v, without %s", ids, later.ID)
	}
	eq(f, "tenants", st.Tenants, 3)
	eq(f, "ready", st.Ready, 3)
	eq(f, "in flight", st.InFlight, 4)
	eq(f, "sessions", st.Sessions, 2)
	eq(f, "timed", st.Timed, 2)
	f.ack(s, retry(got[0], time.Hour), suspend(got[1], "e"))
	st = f.stats()
	if st.Timed < 3 || st.Timed > 4 {
		f.Errorf("timed is %d, expected the two segments and the retry", st.Timed)
	}
	eq(f, "in flight", st.InFlight, 2)
	before := st
	f.turn(s, 0)
	st = f.stats()
	eq(f, "turns", st.Turns-before.Turns, 1)
	eq(f, "empty turns", st.EmptyTurns-before.EmptyTurns, 1)
	if f.stats().Oldest < 0 {
		f.Error("the oldest overdue job is negative")
	}
}

func checkSound(f *fixture) {
	s := f.open("n")
	l := f.everywhere(s)
	f.clean()
	findings, err := f.q.Check(f.ctx, true)
	f.must(err)
	if len(findings) != 0 {
		f.Errorf("a sound queue has findings: %v", findings)
	}
	f.ack(s, done(l, core.Failed))
	f.completes(s, "a")
	if ids, err := f.q.Runs(f.ctx); err != nil || slices.Contains(ids, "a") {
		f.Errorf("a complete run is listed: %v, %v", ids, err)
	}
}
