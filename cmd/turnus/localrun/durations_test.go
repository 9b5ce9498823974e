package localrun

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
)

// ranOn is the report of a run whose one step took so long on each host.
func ranOn(run string, outcome core.Outcome, took ...time.Duration) runview.Report {
	r := runview.Report{Run: run, Playbook: "../fw", Results: []core.Result{}}
	for i, d := range took {
		r.Results = append(r.Results, core.Result{Host: fmt.Sprint(i), Steps: []core.StepResult{{Name: "go", Uses: "command", Outcome: outcome, Took: d}}})
	}
	return r
}

func minutes(n int) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = time.Duration(i+1) * time.Minute
	}
	return out
}

func keep(t *testing.T, r runview.Report) {
	t.Helper()
	if err := saveDurations(r); err != nil {
		t.Fatal(err)
	}
}

func TestDurationsAreLearned(t *testing.T) {
	t.Setenv("TURNUS_STATE", t.TempDir())
	if newHistory().Step("../fw", "go", "command") != nil {
		t.Error("something is known before the first run")
	}
	keep(t, ranOn("1", core.Changed, minutes(9)...))
	if newHistory().Step("../fw", "go", "command") != nil {
		t.Error("9 hosts are enough to learn from")
	}
	keep(t, ranOn("2", core.Changed, minutes(11)...))
	l := newHistory().Step("../fw", "go", "command")
	if l == nil || l.Runs != 2 || l.Hosts != 20 || len(l.All) != 20 {
		t.Fatalf("%+v", l)
	}
	// The p95 of 1 to 9 and 1 to 11 minutes is 10, and as much again to take it back.
	if need, ok := newHistory().need("../fw", "go", "command"); !ok || need != 20*time.Minute {
		t.Errorf("needs %s, %v", need, ok)
	}
	if newHistory().Step("../fw", "go", "script") != nil || newHistory().Step("fw", "go", "command") != nil {
		t.Error("another job type, or another playbook, has the same durations")
	}
}

func TestWhatChangedNothingSaysNothingOfTheNeed(t *testing.T) {
	t.Setenv("TURNUS_STATE", t.TempDir())
	quick := make([]time.Duration, 200)
	for i := range quick {
		quick[i] = time.Second
	}
	keep(t, ranOn("1", core.Unchanged, quick...))
	keep(t, ranOn("2", core.Failed, minutes(30)...))
	h := newHistory()
	if need, ok := h.need("../fw", "go", "command"); ok {
		t.Errorf("needs %s", need)
	}
	if l := h.Step("../fw", "go", "command"); l == nil || l.Hosts != 200 || l.Runs != 1 {
		t.Errorf("%+v", l)
	}
	keep(t, ranOn("3", core.Changed, minutes(10)...))
	if need, ok := newHistory().need("../fw", "go", "command"); !ok || need != 20*time.Minute {
		t.Errorf("needs %s, %v", need, ok)
	}
}

func TestDurationsKeptAreBounded(t *testing.T) {
	t.Setenv("TURNUS_STATE", t.TempDir())
	for i := range keptRuns + 5 {
		keep(t, ranOn(fmt.Sprintf("20260101-%06d", i), core.Changed, minutes(3000)...))
	}
	dir, err := durationsDir("../fw")
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != keptRuns {
		t.Errorf("%d runs are kept", len(files))
	}
	l := newHistory().Step("../fw", "go", "command")
	if l.Runs != keptRuns || len(l.All) != keptRuns*keptDurations || l.Hosts != keptRuns*3000 {
		t.Errorf("%d runs, %d durations, %d hosts", l.Runs, len(l.All), l.Hosts)
	}
	if got := p95(l.All); got < 2800*time.Minute || got > 2900*time.Minute {
		t.Errorf("p95 of 1 to 3000 minutes is %s", got)
	}
}

func TestRunsThatEndTogetherLoseNothing(t *testing.T) {
	t.Setenv("TURNUS_STATE", t.TempDir())
	var wg sync.WaitGroup
	for i := range keptRuns {
		wg.Go(func() {
			if err := saveDurations(ranOn(fmt.Sprintf("r-%d", i), core.Changed, minutes(10)...)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if l := newHistory().Step("../fw", "go", "command"); l == nil || l.Runs != keptRuns {
		t.Errorf("%+v", l)
	}
}

func TestBrokenDurationsTellNothing(t *testing.T) {
	t.Setenv("TURNUS_STATE", t.TempDir())
	keep(t, ranOn("1", core.Changed, minutes(10)...))
	dir, err := durationsDir("../fw")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"2.json": "{", "3.json": `{"playbook":"other","steps":[{"step":"go","uses":"command","changed_ns":[1]}]}`, ".4.json.17.part": "{}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if l := newHistory().Step("../fw", "go", "command"); l == nil || l.Runs != 1 || len(l.All) != 10 {
		t.Errorf("%+v", l)
	}
}
