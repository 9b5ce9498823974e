package ledger_test

import (
	"encoding/base64"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

func indexes(jobs []ledger.Job) (all []int) {
	for _, j := range jobs {
		all = append(all, j.Index)
	}
	return all
}

func testJobList(t *testing.T, b *backend) {
	l := b.open(t)
	accept(t, l, newRun("r1", "provider", 12))
	record(t, l, "r1",
		ledger.Outcome{Index: 0, Outcome: core.Changed, Reason: core.Because(core.Rescued, "rescued: step a: no")},
		ledger.Outcome{Index: 5, Outcome: core.Failed},
		ledger.Outcome{Index: 3, Count: 4, Outcome: core.Cancelled}, // 3, 4, 6
		ledger.Outcome{Index: 9, Outcome: core.Cancelled},
		ledger.Outcome{Index: 10, Outcome: core.Changed, Reason: core.Because(core.Unchecked, "step b")},
		ledger.Outcome{Index: 11, Outcome: core.Changed, Reason: core.Because(core.Rescued, "rescued: step c: no")})
	for _, tc := range []struct {
		name  string
		scope ledger.Scope
		f     ledger.JobFilter
		want  []int
	}{
		{"all", ledger.AllTenants(), ledger.JobFilter{}, []int{0, 3, 4, 5, 6, 9, 10, 11}},
		{"the run's tenant", ledger.Tenants("provider"), ledger.JobFilter{}, []int{0, 3, 4, 5, 6, 9, 10, 11}},
		{"a host's customer", ledger.Tenants("a"), ledger.JobFilter{}, []int{0, 4, 6, 10}},
		{"changed", ledger.AllTenants(), ledger.JobFilter{Outcome: core.Changed}, []int{0, 10, 11}},
		{"cancelled", ledger.AllTenants(), ledger.JobFilter{Outcome: core.Cancelled}, []int{3, 4, 6, 9}},
		{"a customer's cancelled", ledger.Tenants("b"), ledger.JobFilter{Outcome: core.Cancelled}, []int{3, 9}},
		{"host", ledger.AllTenants(), ledger.JobFilter{Host: "host-6"}, []int{6}},
		{"rescued", ledger.AllTenants(), ledger.JobFilter{ReasonCode: core.Rescued}, []int{0, 11}},
		{"a customer's rescued", ledger.Tenants("a"), ledger.JobFilter{ReasonCode: core.Rescued}, []int{0}},
		{"rescued and cancelled", ledger.AllTenants(), ledger.JobFilter{Outcome: core.Cancelled, ReasonCode: core.Rescued}, nil},
		{"lost", ledger.AllTenants(), ledger.JobFilter{Outcome: core.Lost}, nil},
	} {
		for _, limit := range []int{1, 3, 100} {
			got := pages(t, limit, func(p ledger.Page) ([]ledger.Job, string, error) { return l.Jobs(t.Context(), tc.scope, "r1", tc.f, p) })
			if !reflect.DeepEqual(indexes(got), tc.want) {
				t.Errorf("%s by %d: %v, expected %v", tc.name, limit, indexes(got), tc.want)
			}
			for _, j := range got {
				if one := must[ledger.Job](t)(l.Job(t.Context(), tc.scope, j.JobID)); !reflect.DeepEqual(one, j) {
					t.Errorf("%s: listed as %+v, read as %+v", tc.name, j, one)
				}
			}
		}
	}
	testAllJobs(t, l)
	j := must[ledger.Job](t)(l.Job(t.Context(), ledger.Tenants("b"), core.JobID{Run: "r1", Index: 1}))
	if j.Outcome != "" || j.Host != "host-1" || !j.Recorded.IsZero() {
		t.Errorf("a job without an outcome: %+v", j)
	}
	_, _, err := l.Jobs(t.Context(), ledger.AllTenants(), "none", ledger.JobFilter{}, ledger.Page{})
	wantErr(t, err, core.ErrNotFound, "jobs of no run")
	_, _, err = l.Jobs(t.Context(), ledger.AllTenants(), "r1", ledger.JobFilter{Outcome: "great"}, ledger.Page{})
	wantErr(t, err, core.ErrInvalid, "an outcome that is none")
	for _, index := range []int64{math.MinInt64, -2, ledger.MaxJobs, math.MaxInt64} {
		p := ledger.Page{Cursor: base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"l":"jobs","k":[%d]}`, index))}
		_, _, err = l.Jobs(t.Context(), ledger.AllTenants(), "r1", ledger.JobFilter{}, p)
		wantErr(t, err, core.ErrInvalid, fmt.Sprint("jobs after ", index))
		_, _, err = l.AllJobs(t.Context(), ledger.AllTenants(), "r1", "", false, p)
		wantErr(t, err, core.ErrInvalid, fmt.Sprint("all jobs after ", index))
	}
}

// testAllJobs lists the jobs of testJobList's run with those that have no outcome.
func testAllJobs(t *testing.T, l *ledger.Ledger) {
	for _, tc := range []struct {
		name  string
		scope ledger.Scope
		host  string
		open  bool
		want  []int
	}{
		{"all", ledger.AllTenants(), "", false, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		{"open", ledger.AllTenants(), "", true, []int{1, 2, 7, 8}},
		{"the run's tenant", ledger.Tenants("provider"), "", true, []int{1, 2, 7, 8}},
		{"a host's customer", ledger.Tenants("a"), "", true, []int{2, 8}},
		{"of a customer all", ledger.Tenants("b"), "", false, []int{1, 3, 5, 7, 9, 11}},
		{"host", ledger.AllTenants(), "host-7", false, []int{7}},
		{"a host that is done", ledger.AllTenants(), "host-6", true, nil},
		{"no host", ledger.AllTenants(), "host-77", false, nil},
	} {
		for _, limit := range []int{1, 3, 12, 100} {
			got := pages(t, limit, func(p ledger.Page) ([]ledger.Job, string, error) {
				return l.AllJobs(t.Context(), tc.scope, "r1", tc.host, tc.open, p)
			})
			if !reflect.DeepEqual(indexes(got), tc.want) {
				t.Errorf("%s by %d: %v, expected %v", tc.name, limit, indexes(got), tc.want)
			}
			for _, j := range got {
				if one := must[ledger.Job](t)(l.Job(t.Context(), tc.scope, j.JobID)); !reflect.DeepEqual(one, j) {
					t.Errorf("%s: listed as %+v, read as %+v", tc.name, j, one)
				}
			}
		}
	}
	_, _, err := l.AllJobs(t.Context(), ledger.Tenants("other"), "r1", "", false, ledger.Page{})
	wantErr(t, err, core.ErrNotFound, "all jobs of another tenant's run")
	_, _, err = l.AllJobs(t.Context(), ledger.AllTenants(), "r1", "", false, ledger.Page{Cursor: "x"})
	wantErr(t, err, core.ErrInvalid, "a cursor that was not given out")
}

func testHostHistory(t *testing.T, b *backend) {
	l := b.open(t)
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l.SetClock(func() time.Time { return at })
	for i := range 5 {
		id := fmt.Sprint("r", i)
		accept(t, l, newRun(id, "", 3))
		record(t, l, id, ledger.Outcome{Index: 1, Outcome: core.Changed, Attempt: 1}, ledger.Outcome{Index: 2, Outcome: core.Failed, Attempt: 1})
		if i%2 == 1 { // two at each instant
			at = at.Add(time.Minute)
		}
	}
	record(t, l, "r0", ledger.Outcome{Index: 0, Count: 3, Outcome: core.Cancelled})
	for _, limit := range []int{1, 2, 100} {
		got := pages(t, limit, func(p ledger.Page) ([]ledger.Job, string, error) {
			return l.HostHistory(t.Context(), ledger.Tenants("b"), "host-1", p)
		})
		runs := ""
		for _, j := range got {
			runs += j.Run + " "
			if j.Host != "host-1" || j.Playbook != "patch" || j.Outcome != core.Changed {
				t.Errorf("%+v", j)
			}
		}
		if runs != "r4 r3 r2 r1 r0 " {
			t.Errorf("by %d: %s", limit, runs)
		}
	}
	for _, tc := range []struct {
		scope ledger.Scope
		host  string
	}{{ledger.Tenants("a"), "host-1"}, {ledger.AllTenants(), "host-9"}, {ledger.AllTenants(), "host-0"}} {
		if got, _, err := l.HostHistory(t.Context(), tc.scope, tc.host, ledger.Page{}); err != nil || len(got) != 0 {
			t.Errorf("%s: %v, %v: expected nothing", tc.host, got, err)
		}
	}
}

func testAttempts(t *testing.T, b *backend) {
	l := b.open(t)
	accept(t, l, newRun("r1", "", 2))
	id := core.JobID{Run: "r1", Index: 1}
	if got := must[[]ledger.Attempt](t)(l.Attempts(t.Context(), ledger.AllTenants(), id)); len(got) != 0 {
		t.Errorf("%v", got)
	}
	record(t, l, "r1", ledger.Outcome{Index: 1, Outcome: core.Lost, Reason: "no word", Attempt: 2, Worker: "w1", Took: time.Second})
	record(t, l, "r1", ledger.Outcome{Index: 1, Outcome: core.Changed, Attempt: 3, Worker: "w2"}) // too late
	got := must[[]ledger.Attempt](t)(l.Attempts(t.Context(), ledger.AllTenants(), id))
	if len(got) != 1 || got[0].Reason != "no word" || got[0].Took != time.Second {
		t.Errorf("%+v", got)
	}
	sound(t, l)
}

func testEnded(t *testing.T, b *backend) {
	l := b.open(t)
	accept(t, l, newRun("r1", "", 20))
	ended := func() []ledger.Ended { return must[[]ledger.Ended](t)(l.Ended(t.Context(), "r1")) }
	if got := ended(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	record(t, l, "r1",
		ledger.Outcome{Index: 0, Outcome: core.Changed}, ledger.Outcome{Index: 1, Outcome: core.Lost},
		ledger.Outcome{Index: 3, Outcome: core.Changed}, ledger.Outcome{Index: 2, Count: 3, Outcome: core.Cancelled},
		ledger.Outcome{Index: 7, Outcome: core.Changed}, ledger.Outcome{Index: 18, Count: 2, Outcome: core.Cancelled})
	want := []ledger.Ended{
		{0, 1, core.Changed}, {1, 1, core.Lost}, {2, 1, core.Cancelled}, {3, 1, core.Changed}, {4, 1, core.Cancelled},
		{7, 1, core.Changed}, {18, 2, core.Cancelled},
	}
	if got := ended(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
}
