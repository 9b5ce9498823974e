package launch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/rollout"
)

// A run with barriers is gone through in passes: pass 0 up to the first barrier, pass n behind barrier n, each in the waves of
// the strategy. Which pass and wave it is follows from what waits where in the queue, so that a server which takes the run
// over, or a queue that was rebuilt, needs nobody's memory: what Drive remembers only lets it go on a little sooner.

// gates is what waits at the gates of a run, by gate and class.
type gates []map[int]int

// behind counts the jobs of a class that wait at gates after gate.
func (g gates) behind(gate, class int) (n int) {
	for _, classes := range g[min(gate+1, len(g)):] {
		n += classes[class]
	}
	return n
}

// readGates asks what waits. ok is false where the answer is not of one moment. The status must have been read before: who waits
// after it was not settled in it, so jobs that neither ended then nor wait now are under way.
func (d *drive) readGates(ctx context.Context) (g gates, ok bool, err error) {
	t := d.l.Snapshot.Turns
	g = make(gates, len(t.Barriers)+1)
	for i := range g {
		g[i] = map[int]int{}
	}
	if d.status.Suspended == 0 {
		return g, true, nil
	}
	var events map[string]int
	whole := false
	err = d.call(ctx, func() error {
		var err error
		if events, whole, err = d.q.Awaited(ctx, d.l.Run.ID); err != nil || whole {
			return err
		}
		again, _, err := d.q.Awaited(ctx, d.l.Run.ID)
		whole = maps.Equal(events, again)
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("read what run %s waits for: %w", d.l.Run.ID, err)
	}
	for event, n := range events {
		if gate, class, ok := queue.ParseTurn(event); ok && gate < len(g) && class < len(t.Classes) {
			g[gate][class] = n
		}
	}
	return g, whole, nil
}

// takeTurns lets those go on that waited for other hosts, and gives the run's progress as Next wants it: in a run of passes the
// waves of all passes follow each other.
func (d *drive) takeTurns(ctx context.Context, p *rollout.Progress) (limits []int, stay bool, err error) {
	g, ok, err := d.readGates(ctx)
	if err != nil || !ok {
		return nil, true, err
	}
	d.gates = g
	if !p.Held {
		moved, err := d.follows(ctx, g)
		if err != nil || moved {
			return nil, true, err
		}
	}
	pass := 0
	for gate := len(g) - 1; gate > 0; gate-- {
		if len(g[gate]) > 0 {
			pass = gate
		}
	}
	if pass == 0 || p.Released < len(d.l.Hosts) {
		wave := rollout.Wave(d.l.Limits, p.Released-1)
		for gate, classes := range g {
			for class, n := range classes {
				switch {
				case gate == 0:
					p.Deferred += n // should only such be left beside hosts that wait for windows, it is these that they come after
				case d.waveOf(class) == wave:
					p.Proven += n
					p.Succeeded += n
					fallthrough
				default:
					p.Settled += n
				}
			}
		}
		return d.l.Limits, false, nil
	}
	return d.pass(ctx, pass, g, p)
}

// pass is the progress of a run all of whose hosts are released, and some of which wait at a barrier, pass the first such.
func (d *drive) pass(ctx context.Context, pass int, g gates, p *rollout.Progress) (limits []int, stay bool, err error) {
	t, total := d.l.Snapshot.Turns, len(d.l.Hosts)
	waiting, opened := 0, d.passAt >= pass
	for gate := pass; gate < len(g); gate++ {
		for _, n := range g[gate] {
			waiting += n
			opened = opened || gate > pass
		}
	}
	bad := 0
	for o, n := range d.status.Outcomes {
		if o.Good() { // nobody ends well who did not pass all barriers
			opened = true
		} else {
			bad += n
		}
	}
	away := total - p.Settled - waiting // neither ended nor at a barrier
	if !opened {
		if away > 0 || p.Held {
			return nil, true, nil
		}
		if bad > 0 && !t.Barriers[pass-1].Remaining {
			return nil, true, d.keepClosed(ctx, pass, bad, g)
		}
	}
	wave := d.waveToOpen(pass, g)
	if wave < 0 {
		return nil, true, nil // those that wait come after hosts that are under way
	}
	from := 0
	p.Proven, p.Succeeded = 0, waiting // a barrier says by itself who may go on
	if wave > 0 {
		from, p.Proven, p.Succeeded = d.l.Limits[wave-1], d.proven[wave-1], d.good[wave-1]
		for class := range t.Classes {
			if d.waveOf(class) == wave-1 {
				p.Proven += g.behind(pass, class)
				p.Succeeded += g.behind(pass, class)
			}
		}
	}
	p.Passed, p.Released = total*pass, total*pass+from
	p.Settled = p.Released - away
	if wave == 0 {
		p.Deferred = 0 // a barrier waits for those that wait for windows, too
	}
	for k := range d.l.Waves() / len(d.l.Limits) {
		for _, limit := range d.l.Limits {
			limits = append(limits, total*k+limit)
		}
	}
	return limits, false, nil
}

// waveToOpen is the first wave that waits at the barrier before pass and was not opened by this Drive; -1 is none.
func (d *drive) waveToOpen(pass int, g gates) int {
	wave := -1
	for class := range g[pass] {
		k := d.waveOf(class)
		if d.passAt == pass && k < d.passTo {
			continue
		}
		if wave < 0 || k < wave {
			wave = k
		}
	}
	return wave
}

func (d *drive) waveOf(class int) int {
	return rollout.Wave(d.l.Limits, d.l.Snapshot.Turns.Classes[class].From)
}

// open lets a wave of a later pass go on. Waking twice is the same as once: who has passed a gate does not come to it again.
func (d *drive) open(ctx context.Context, next rollout.Decision) error {
	d.passAt, d.passTo = next.Wave/len(d.l.Limits), next.Wave%len(d.l.Limits)+1
	_, err := d.follows(ctx, d.gates)
	return err
}

// follows wakes the classes whose wave is open and for which those before them have ended well, and ends those for which one has not.
func (d *drive) follows(ctx context.Context, g gates) (moved bool, err error) {
	for gate, classes := range g {
		if gate > d.passAt {
			break
		}
		for _, class := range slices.Sorted(maps.Keys(classes)) {
			if gate > 0 && gate == d.passAt && d.waveOf(class) >= d.passTo {
				continue
			}
			ready, why := d.mayFollow(gate, class, g)
			switch {
			case why != "":
				err = d.dismiss(ctx, gate, class, why)
			case ready:
				err = d.call(ctx, func() error {
					_, err := d.q.Wake(ctx, d.l.Run.ID, queue.TurnEvent(gate, class))
					return err
				})
			default:
				continue
			}
			if err != nil {
				return true, fmt.Errorf("let hosts of run %s go on: %w", d.l.Run.ID, err)
			}
			moved = true
		}
	}
	return moved, nil
}

// mayFollow tells whether all that a class comes after are done as far as the class wants to go, or why it may never go there.
func (d *drive) mayFollow(gate, class int, g gates) (ready bool, why string) {
	ready = true
	t := d.l.Snapshot.Turns
	for _, job := range t.Classes[class].After {
		if o := d.outcome[job]; o != "" {
			if !o.Good() {
				name := d.l.Hosts[job].Name
				return false, fmt.Sprintf("it comes after %s, which ended as %s, so it was left alone; see to %s, and launch the run again", name, o, name)
			}
			continue
		}
		ready = ready && d.classDone(gate, t.Class(job), g)
	}
	return ready, ""
}

// classDone tells whether all jobs of a class that have not ended wait at gates after gate.
func (d *drive) classDone(gate, class int, g gates) bool {
	left := 0
	for i := d.l.Snapshot.Turns.Classes[class].From; i < d.classEnd(class); i++ {
		if d.outcome[i] == "" {
			left++
		}
	}
	return left == g.behind(gate, class)
}

func (d *drive) classEnd(class int) int {
	classes := d.l.Snapshot.Turns.Classes
	if class+1 < len(classes) {
		return classes[class+1].From
	}
	return len(d.l.Hosts)
}

func (d *drive) dismiss(ctx context.Context, gate, class int, why string) error {
	return d.call(ctx, func() error {
		_, err := d.q.Dismiss(ctx, d.l.Run.ID, queue.TurnEvent(gate, class), why)
		return err
	})
}

// keepClosed ends those that wait at a barrier that not everybody came to.
func (d *drive) keepClosed(ctx context.Context, pass, bad int, g gates) error {
	step := d.l.Playbook.Steps[d.l.Snapshot.Turns.Barriers[pass-1].Step].Name
	var names []string
	for i, o := range d.outcome {
		if o != "" && !o.Good() && len(names) < 3 {
			names = append(names, fmt.Sprintf("%s (%s)", d.l.Hosts[i].Name, o))
		}
	}
	if more := bad - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	why := fmt.Sprintf("step %s begins after all hosts, and not all came to it: %s; see to them, and launch the run again: what is done is then unchanged", step, strings.Join(names, ", "))
	n := 0
	for gate := pass; gate < len(g); gate++ {
		for class, waiting := range g[gate] {
			if err := d.dismiss(ctx, gate, class, why); err != nil {
				return fmt.Errorf("end what waits in run %s: %w", d.l.Run.ID, err)
			}
			n += waiting
		}
	}
	d.say(Event{Kind: EventClosed, Waiting: n, Reason: why})
	return nil
}
