package ledger_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// Details of a run come by index, of the wanted jobs only; an error of the reader ends it.
func testDetails(t *testing.T, b *backend) {
	l := b.open(t)
	accept(t, l, newRun("r", "acme", 100))
	accept(t, l, newRun("other", "acme", 2))
	record(t, l, "other", ledger.Outcome{Index: 0, Outcome: core.Changed, Attempt: 1, Detail: []byte("of another run")})
	var all []ledger.Outcome
	for i := range 90 {
		o := ledger.Outcome{Index: i, Outcome: core.Changed, Attempt: 2, Detail: fmt.Appendf(nil, "detail %d", i)}
		if i == 3 {
			o.Detail = nil
		}
		all = append(all, o)
	}
	record(t, l, "r", all...)
	run, err := l.Run(t.Context(), ledger.AllTenants(), "r")
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	read := func(index int, detail []byte, unreadable error) error {
		got += fmt.Sprintf("%d=%s ", index, detail)
		if unreadable != nil {
			got += "unreadable "
		}
		return nil
	}
	if err := l.Details(t.Context(), &run, []int{80, 95, 3, 0, 2}, read); err != nil {
		t.Fatal(err)
	}
	if want := "0=detail 0 2=detail 2 80=detail 80 "; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	full := errors.New("full")
	if err := l.Details(t.Context(), &run, []int{1}, func(int, []byte, error) error { return full }); !errors.Is(err, full) {
		t.Errorf("%v, expected %v", err, full)
	}
	// One that is damaged hides no other.
	if err := l.Raw(t.Context(), `UPDATE attempts SET detail = $1 WHERE idx = 2`, []byte{255, 1}); err != nil {
		t.Fatal(err)
	}
	got = ""
	if err := l.Details(t.Context(), &run, []int{0, 2, 80}, read); err != nil || got != "0=detail 0 2= unreadable 80=detail 80 " {
		t.Errorf("with a damaged one: %s, %v", got, err)
	}
}

// Jobs come with their details, also those that ended in a range or have none; jobs without an
// outcome, and those of other runs, do not. Each is what JobDetail reads.
func testJobDetails(t *testing.T, b *backend) {
	l := b.open(t)
	accept(t, l, newRun("r", "acme", 1000))
	accept(t, l, newRun("other", "acme", 2))
	record(t, l, "other", ledger.Outcome{Index: 1, Outcome: core.Changed, Attempt: 1, Detail: []byte("of another run")})
	record(t, l, "r",
		ledger.Outcome{Index: 7, Outcome: core.Failed, Attempt: 2, Reason: "no", Detail: []byte("seven")},
		ledger.Outcome{Index: 70, Outcome: core.Lost, Attempt: 1},
		ledger.Outcome{Index: 700, Outcome: core.Failed, Attempt: 1, Detail: []byte("seven hundred")},
		ledger.Outcome{Index: 800, Count: 100, Outcome: core.Cancelled, Reason: "stopped"})
	run, err := l.Run(t.Context(), ledger.AllTenants(), "r")
	if err != nil {
		t.Fatal(err)
	}
	all, err := l.JobDetails(t.Context(), &run, []int{850, 700, 1, 7, 70, 799, 900, 5000})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(all)), []int{7, 70, 700, 850}; !slices.Equal(got, want) {
		t.Fatalf("jobs %v, expected %v", got, want)
	}
	for index, got := range all {
		job, detail, err := l.JobDetail(t.Context(), ledger.AllTenants(), core.JobID{Run: "r", Index: index})
		if err != nil {
			t.Fatal(err)
		}
		if got.JobID != job.JobID || got.Outcome != job.Outcome || got.Attempt != job.Attempt || got.Reason != job.Reason || !got.Recorded.Equal(job.Recorded) || string(got.Detail) != string(detail) {
			t.Errorf("%+v, expected %+v with %q", got, job, detail)
		}
	}
	// One that is damaged hides no other, and no list of attempts.
	if err := l.Raw(t.Context(), `UPDATE attempts SET detail = $1 WHERE idx = 7`, []byte{255, 1}); err != nil {
		t.Fatal(err)
	}
	all, err = l.JobDetails(t.Context(), &run, []int{7, 700})
	if err != nil || all[7].Unreadable == nil || all[7].Outcome != core.Failed || all[700].Unreadable != nil || string(all[700].Detail) != "seven hundred" {
		t.Errorf("with a damaged one: %+v, %v", all, err)
	}
	if tries, err := l.Attempts(t.Context(), ledger.AllTenants(), core.JobID{Run: "r", Index: 7}); err != nil || len(tries) != 1 || tries[0].Reason != "no" {
		t.Errorf("attempts of a damaged one: %+v, %v", tries, err)
	}
}
