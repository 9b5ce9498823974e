package launch

import (
	"reflect"
	"testing"
	"time"
)

// Another run of a launch is what preparing it would have made.
func TestAgainIsAsPrepared(t *testing.T) {
	p := parse(t, `
targets: host.labels.role == "web"
tenant: acme
strategy: {waves: [1, 100%]}
`+command)
	at := time.Date(2026, 3, 3, 1, 0, 0, 0, time.UTC)
	prepared := func(run string, now time.Time) *Launch {
		l, err := Prepare(p, fleet(20), Options{RunID: run, Now: now, Types: types, LaunchedBy: "schedule:" + run, Trace: run, Place: "here"})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first := prepared("r-1", at)
	if !first.Repeatable() {
		t.Fatal("it is not repeatable")
	}
	again, err := first.Again("r-2", "schedule:r-2", "r-2", at.Add(time.Hour))
	if want := prepared("r-2", at.Add(time.Hour)); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("%+v, %v\nexpected %+v", again, err, want)
	}
	if first.Run.ID != "r-1" || first.Snapshot.Run != "r-1" {
		t.Errorf("the first one was changed: %+v", first.Snapshot)
	}
}
