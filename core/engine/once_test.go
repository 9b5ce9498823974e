package engine_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
)

// Each row is a run of ten hosts whose second step has once, and what follows in it.
func TestOnce(t *testing.T) {
	elect, called, result := snapshot.OnceEvent(1, snapshot.AwaitElect), snapshot.OnceEvent(1, snapshot.AwaitKeep), snapshot.OnceEvent(1, snapshot.AwaitResult)
	elected, known := []engine.Once{{Step: 1, Job: 3}}, []engine.Once{{Step: 1, Job: 3, Known: true}}
	ended := func(job int, o core.Outcome) []queue.FinishedJobs {
		return []queue.FinishedJobs{{Index: job, Count: 1, Outcome: o}}
	}
	for name, c := range map[string]struct {
		once     []engine.Once
		awaited  map[string]int
		recorded []queue.FinishedJobs
		phase    queue.Phase // Active when empty
		want     string
	}{
		"nobody is there":                {},
		"hosts came":                     {awaited: map[string]int{elect: 4}, want: "elect 1"},
		"hosts came after the election":  {once: elected, awaited: map[string]int{elect: 1, result: 3}, want: "share 1 " + elect},
		"they wait for the result":       {once: elected, awaited: map[string]int{result: 9}},
		"the host has called it":         {once: elected, awaited: map[string]int{called: 1, result: 9}, want: "keep 1"},
		"a ledger without the election":  {awaited: map[string]int{called: 1}, want: "keep 1"},
		"the result is known":            {once: known, awaited: map[string]int{called: 1, elect: 2, result: 6}, want: "share 1 " + called + ", share 1 " + elect + ", share 1 " + result},
		"nobody waits any more":          {once: known, awaited: map[string]int{result: 0}},
		"another step":                   {awaited: map[string]int{snapshot.OnceEvent(0, snapshot.AwaitElect): 1}, want: "elect 0"},
		"an event of a job type":         {awaited: map[string]int{"turnus:once/1/": 1, "once/1/elect": 1, "turnus:once/01/elect": 1}},
		"the host failed":                {once: elected, awaited: map[string]int{result: 9}, recorded: ended(3, core.Failed), want: "stop: step b is called once, by host h0003, which ended as failed: see to h0003, and retry the run"},
		"the host ended before the call": {once: elected, recorded: ended(3, core.Unreachable), want: "stop: step b is called once, by host h0003, which ended as unreachable: see to h0003, and retry the run"},
		"it failed later":                {once: known, recorded: ended(3, core.Failed)},
		"another host failed":            {once: elected, awaited: map[string]int{result: 8}, recorded: ended(2, core.Failed)},
		"the run has stopped":            {once: elected, awaited: map[string]int{result: 9}, recorded: ended(3, core.Failed), phase: queue.Stopped},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := launch.Prepare(parse(t, "targets: true\nsteps:\n  - {name: a, uses: file, with: {x: 1}}\n  - {name: b, uses: file, once: true, with: {x: 1}}\n"), fleet(10),
				launch.Options{RunID: "r", Types: types, Now: noon})
			if err != nil {
				t.Fatal(err)
			}
			in := engine.Input{Launch: l, Results: engine.NewResults(l, c.recorded...), Phase: engine.Active, Once: c.once, Awaited: c.awaited, Now: noon,
				Status: queue.Status{Phase: queue.Active, Total: 10, Limit: 10, Outcomes: map[core.Outcome]int{}}, Progress: engine.Progress{Stopped: true}}
			for _, r := range c.recorded {
				in.Status.Outcomes[r.Outcome]++
			}
			for n := range maps.Values(c.awaited) {
				in.Status.Suspended += n
			}
			if c.phase != "" {
				in.Status.Phase, in.Phase = c.phase, engine.Phase(c.phase)
			}
			_, actions := engine.Next(in)
			var got []string
			for _, a := range actions {
				if a.Kind == engine.Stop {
					got = append(got, "stop: "+a.Reason.Text())
					continue
				}
				got = append(got, strings.TrimSpace(fmt.Sprint(a.Kind, " ", a.Step, " ", a.Signal)))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("%s\nexpected %s", text, c.want)
			}
		})
	}
}

// A count of waiting jobs that is not of one moment is read again soon.
func TestOnceAsksAgain(t *testing.T) {
	l, err := launch.Prepare(parse(t, "targets: true\nsteps: [{name: b, uses: file, once: true, with: {x: 1}}]\n"), fleet(2), launch.Options{RunID: "r", Types: types, Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	p, actions := engine.Next(engine.Input{Launch: l, Results: engine.NewResults(l), Phase: engine.Active, Now: noon, Status: queue.Status{Phase: queue.Active, Total: 2, Limit: 2, Suspended: 2}})
	if len(actions) > 0 || p.Until.IsZero() {
		t.Errorf("%v, again at %v", actions, p.Until)
	}
}
