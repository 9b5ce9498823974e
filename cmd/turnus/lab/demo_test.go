package lab

import (
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/core/transport/fleet"
	"github.com/turnus/turnus/playbooks"
)

// A run in which hosts fail as planned comes to its end: no threshold is reached, and each wave has
// a host that succeeds.
func TestFaultW18PlannedFaultsStopNoDemo(t *testing.T) {
	t.Parallel()
	src, err := demoFiles.ReadFile("demo/rollout.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := playbooks.Parse("demo/rollout.yaml", src, playbooks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := p.Strategy
	for seed := range uint64(20) {
		faults := fleet.DemoProfile(seed)
		ended := map[core.Outcome]int{}
		good := []int{0} // of the first hosts in the run's order
		for size := 1; size <= 20_000 && !t.Failed(); size++ {
			outcome := planned(faults(size - 1).Kind)
			ended[outcome]++
			good = append(good, good[size-1])
			if outcome.Good() {
				good[size]++
			}
			if size < 40 {
				continue
			}
			if bad, most := ended[core.Failed], s.StopAfter.Of(size); bad >= most {
				t.Errorf("seed %d, %d hosts: %d fail as planned, stop_after is %d", seed, size, bad, most)
			}
			if bad, most := ended[core.Unreachable], s.StopUnreachable.Of(size); bad >= most {
				t.Errorf("seed %d, %d hosts: %d are unreachable as planned, stop_unreachable is %d", seed, size, bad, most)
			}
			from := 0
			for wave, to := range rollout.Limits(s.Waves, size) {
				if good[to] == good[from] {
					t.Errorf("seed %d, %d hosts: no host of wave %d succeeds", seed, size, wave+1)
				}
				from = to
			}
		}
	}
}
