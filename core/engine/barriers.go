package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/core/snapshot"
)

// A run with barriers is gone through in passes: pass 0 up to the first barrier, pass n behind
// barrier n, each in the waves of the strategy. The current pass and wave follow from what waits
// where in the queue. So a server that takes the run over, or a queue that was rebuilt, needs no
// memory: Progress only lets it continue a little sooner.

// atBarrier is the jobs that wait at the barriers of a run, by barrier and class. Barrier 0 is
// before the first step.
type atBarrier []map[int]int

// behind counts the jobs of a class that wait at barriers after barrier.
func (g atBarrier) behind(barrier, class int) (n int) {
	for _, classes := range g[min(barrier+1, len(g)):] {
		n += classes[class]
	}
	return n
}

// readBarriers sorts what waits; false where that is not known.
func (d *decider) readBarriers() bool {
	t := d.Launch.Snapshot.Turns
	d.atBarrier = make(atBarrier, len(t.Barriers)+1)
	for i := range d.atBarrier {
		d.atBarrier[i] = map[int]int{}
	}
	if d.Status.Suspended > 0 && d.Awaited == nil {
		return false
	}
	for event, n := range d.Awaited {
		if barrier, class, ok := snapshot.ParseTurn(event); ok && n > 0 && barrier < len(d.atBarrier) && class < len(t.Classes) {
			d.atBarrier[barrier][class] = n
		}
	}
	return true
}

// barriers releases the jobs that waited for other hosts, and returns the run's progress as
// rollout.Next wants it: in a run of passes the waves of all passes follow each other. If there is
// no other decision now, ok is false.
func (d *decider) barriers(p *rollout.Progress) (limits []int, ok bool) {
	if !d.readBarriers() {
		d.until(d.Now.Add(askAgain))
		return nil, false
	}
	if !p.Held && d.passOn() {
		return nil, false
	}
	pass := 0
	for barrier := len(d.atBarrier) - 1; barrier > 0; barrier-- {
		if len(d.atBarrier[barrier]) > 0 {
			pass = barrier
		}
	}
	if pass > 0 && p.Released >= len(d.Launch.Hosts) {
		return d.pass(pass, p)
	}
	wave := rollout.Wave(d.Launch.Limits, p.Released-1)
	for barrier, classes := range d.atBarrier {
		for class, n := range classes {
			switch {
			case barrier == 0:
				p.Deferred += n // should only such be left beside hosts that wait for windows, it is these that they come after
			case d.waveOf(class) == wave:
				p.Proven += n
				p.Succeeded += n
				fallthrough
			default:
				p.Finished += n
			}
		}
	}
	return d.Launch.Limits, true
}

// pass is the progress of a run all of whose hosts are released, and some of which wait at a
// barrier, pass the first such.
func (d *decider) pass(pass int, p *rollout.Progress) (limits []int, ok bool) {
	t, total := d.Launch.Snapshot.Turns, len(d.Launch.Hosts)
	waiting, opened := 0, d.p.Pass >= pass
	for barrier := pass; barrier < len(d.atBarrier); barrier++ {
		for _, n := range d.atBarrier[barrier] {
			waiting += n
			opened = opened || barrier > pass
		}
	}
	bad := 0
	for o, n := range d.Status.Outcomes {
		if o.Good() { // it passed all barriers, unless it kept its steps of an earlier run
			opened = opened || d.Launch.Snapshot.Resumes == ""
		} else {
			bad += n
		}
	}
	away := total - p.Finished - waiting // neither ended nor at a barrier
	if !opened {
		if away > 0 || p.Held {
			return nil, false
		}
		if bad > 0 && !t.Barriers[pass-1].Remaining {
			d.keepClosed(pass, bad)
			return nil, false
		}
	}
	wave := d.waveToOpen(pass)
	if wave < 0 {
		return nil, false // those that wait come after hosts that are under way
	}
	from := 0
	p.Proven, p.Succeeded = 0, waiting // a barrier alone decides which hosts continue
	if wave > 0 {
		from, p.Proven, p.Succeeded = d.Launch.Limits[wave-1], d.Results.proven[wave-1], d.Results.good[wave-1]
		for class := range t.Classes {
			if d.waveOf(class) == wave-1 {
				p.Proven += d.atBarrier.behind(pass, class)
				p.Succeeded += d.atBarrier.behind(pass, class)
			}
		}
	}
	p.Passed, p.Released = total*pass, total*pass+from
	p.Finished = p.Released - away
	if wave == 0 {
		p.Deferred = 0 // a barrier also waits for hosts that wait for windows
	}
	for k := range d.Launch.Waves() / len(d.Launch.Limits) {
		for _, limit := range d.Launch.Limits {
			limits = append(limits, total*k+limit)
		}
	}
	return limits, true
}

// waveToOpen is the first wave that waits at the barrier before pass and is not open yet; -1 is
// none.
func (d *decider) waveToOpen(pass int) int {
	wave := -1
	for class := range d.atBarrier[pass] {
		k := d.waveOf(class)
		if d.p.Pass == pass && k < d.p.Open {
			continue
		}
		if wave < 0 || k < wave {
			wave = k
		}
	}
	return wave
}

func (d *decider) waveOf(class int) int {
	return rollout.Wave(d.Launch.Limits, d.Launch.Snapshot.Turns.Classes[class].From)
}

// open lets a wave of a later pass continue. A second signal is the same as one: a job that has
// passed a barrier does not come to it again.
func (d *decider) open(next rollout.Decision) {
	d.p.Pass, d.p.Open = next.Wave/len(d.Launch.Limits), next.Wave%len(d.Launch.Limits)+1
	d.passOn()
}

// passOn lets the classes continue whose wave is open and for which those before them have
// succeeded, and ends those for which one has not.
func (d *decider) passOn() (moved bool) {
	for barrier, classes := range d.atBarrier {
		if barrier > d.p.Pass {
			break
		}
		for _, class := range slices.Sorted(maps.Keys(classes)) {
			if barrier > 0 && barrier == d.p.Pass && d.waveOf(class) >= d.p.Open {
				continue
			}
			ready, why := d.mayFollow(barrier, class)
			switch {
			case why != "":
				d.do(Action{Kind: Dismiss, Signal: snapshot.TurnEvent(barrier, class), Reason: core.Because(core.BarrierClosed, why)})
			case ready:
				d.do(Action{Kind: Signal, Signal: snapshot.TurnEvent(barrier, class)})
			default:
				continue
			}
			moved = true
		}
	}
	return moved
}

// mayFollow reports whether all that a class comes after are done as far as the class wants to go,
// or why it may never go there.
func (d *decider) mayFollow(barrier, class int) (ready bool, why string) {
	ready = true
	t := d.Launch.Snapshot.Turns
	for _, job := range t.Classes[class].After {
		if o := d.Results.outcome[job]; o != "" {
			if !o.Good() {
				name := d.Launch.Hosts[job].Name
				return false, fmt.Sprintf("it comes after %s, which ended as %s, so it was left alone; see to %s, and launch the run again", name, o, name)
			}
			continue
		}
		ready = ready && d.classDone(barrier, t.Class(job))
	}
	return ready, ""
}

// classDone reports whether all jobs of a class that have not ended wait at barriers after barrier.
func (d *decider) classDone(barrier, class int) bool {
	left := 0
	for i := d.Launch.Snapshot.Turns.Classes[class].From; i < d.classEnd(class); i++ {
		if d.Results.outcome[i] == "" {
			left++
		}
	}
	return left == d.atBarrier.behind(barrier, class)
}

func (d *decider) classEnd(class int) int {
	classes := d.Launch.Snapshot.Turns.Classes
	if class+1 < len(classes) {
		return classes[class+1].From
	}
	return len(d.Launch.Hosts)
}

// keepClosed ends those that wait at a barrier that not everybody came to.
func (d *decider) keepClosed(pass, bad int) {
	step := d.Launch.Playbook.Steps[d.Launch.Snapshot.Turns.Barriers[pass-1].Step].Name
	var names []string
	for i, o := range d.Results.outcome {
		if o != "" && !o.Good() && len(names) < 3 {
			names = append(names, fmt.Sprintf("%s (%s)", d.Launch.Hosts[i].Name, o))
		}
	}
	if more := bad - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	why := fmt.Sprintf("step %s begins after all hosts, and not all came to it: %s; see to them, and launch the run again: what is done is then unchanged", step, strings.Join(names, ", "))
	n := 0
	for barrier := pass; barrier < len(d.atBarrier); barrier++ {
		for _, class := range slices.Sorted(maps.Keys(d.atBarrier[barrier])) {
			d.do(Action{Kind: Dismiss, Signal: snapshot.TurnEvent(barrier, class), Reason: core.Because(core.BarrierClosed, why)})
			n += d.atBarrier[barrier][class]
		}
	}
	d.notify(Event{Kind: EventClosed, Waiting: n, Reason: why})
}
