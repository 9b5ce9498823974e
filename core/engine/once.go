package engine

import (
	"fmt"
	"maps"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
)

// Once is the record of a step with once in the ledger: the job whose host calls it.
type Once struct {
	Step, Job int
	Known     bool // its result is there
}

// once lets the jobs continue that wait at steps with once, as far as the ledger knows what they
// wait for. It reports whether the run stops, because a host that was to call such a step has ended
// without a result.
func (d *decider) once() (stops bool) {
	if phase := d.Status.Phase; phase != queue.Active && phase != queue.Paused {
		return false
	}
	of := make(map[int]Once, len(d.Once))
	for _, o := range d.Once {
		of[o.Step] = o
		if outcome := d.Results.outcome[o.Job]; !o.Known && outcome != "" {
			d.do(Action{Kind: Stop, Reason: core.Because(core.OnceFailed, d.onceFailed(o, outcome))})
			return true
		}
	}
	if d.Launch.Snapshot.Once != nil && d.Status.Suspended > 0 && d.Awaited == nil {
		d.until(d.Now.Add(askAgain))
	}
	for _, event := range slices.Sorted(maps.Keys(d.Awaited)) {
		step, phase, ok := snapshot.ParseOnce(event)
		if !ok || d.Awaited[event] == 0 {
			continue
		}
		o, elected := of[step]
		switch {
		case o.Known:
			d.do(Action{Kind: Share, Step: step, Signal: event})
		case phase == snapshot.AwaitKeep:
			d.do(Action{Kind: Keep, Step: step})
		case phase == snapshot.AwaitElect && !elected:
			d.do(Action{Kind: Elect, Step: step})
		case phase == snapshot.AwaitElect:
			d.do(Action{Kind: Share, Step: step, Signal: event})
		}
	}
	return false
}

func (d *decider) onceFailed(o Once, outcome core.Outcome) string {
	host := d.Launch.Hosts[o.Job].Name
	return fmt.Sprintf("step %s is called once, by host %s, which ended as %s: see to %s, and retry the run", d.Launch.Playbook.Steps[o.Step].Name, host, outcome, host)
}
