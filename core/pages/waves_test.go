package pages

import (
	"fmt"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// countsOf has waves of 10 hosts, of which the first ones are done: one step changed 9, and failed
// on one.
func countsOf(waves, done int) api.StepCounts {
	c := api.StepCounts{Steps: []api.GridStep{{Name: "look", Uses: "command"}}}
	for i := range waves {
		w := api.WaveCounts{Wave: i + 1, Hosts: 10, Steps: []map[core.Outcome]int{{}}}
		if i < done {
			w.Done, w.Steps[0] = 10, map[core.Outcome]int{core.Changed: 9, core.Failed: 1}
		}
		c.Waves = append(c.Waves, w)
	}
	return c
}

// Waves that have begun have a row each, up to a number; earlier ones are counted together, so that
// no host is left out.
func TestWavesOf(t *testing.T) {
	for _, c := range []struct {
		waves, done int
		want        string
	}{
		{3, 0, "[]"},
		{1, 1, "[{1 10 10 [[{failed 1} {changed 9}]]}]"},
		{30, 2, "[{1 10 10 [[{failed 1} {changed 9}]]} {2 10 10 [[{failed 1} {changed 9}]]}]"},
	} {
		if got := fmt.Sprint(wavesOf(countsOf(c.waves, c.done))); got != c.want {
			t.Errorf("%d of %d waves: %s, expected %s", c.done, c.waves, got, c.want)
		}
	}
	for done, want := range map[int]string{wavesShown: "1", wavesShown + 1: "1", wavesShown + 2: "1 to 2", 100: fmt.Sprintf("1 to %d", 100-wavesShown)} {
		rows, hosts, failed := wavesOf(countsOf(100, done)), 0, 0
		for _, r := range rows {
			hosts, failed = hosts+r.Hosts, failed+r.Steps[0][0].Hosts
		}
		if rows[0].Label != want || len(rows) > wavesShown+1 || hosts != 10*done || failed != done {
			t.Errorf("%d waves: %d rows, the first %q, with %d hosts and %d failed", done, len(rows), rows[0].Label, hosts, failed)
		}
	}
}

// While the queue does not answer, nobody knows which hosts run. Control: else they are counted.
func TestBarsWithoutTheQueue(t *testing.T) {
	run := api.Run{Total: 10, Outcomes: map[core.Outcome]int{core.Changed: 2}, Live: &api.Live{InFlight: 3}}
	if got := fmt.Sprint(barsOf(run, false)); got != "[{changed 2 0 200} {running 3 200 300} {waiting 5 500 500}]" {
		t.Error(got)
	}
	run.Live = nil
	if got := fmt.Sprint(barsOf(run, true)); got != "[{changed 2 0 200} {unknown 8 200 800}]" {
		t.Error(got)
	}
}
