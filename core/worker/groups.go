package worker

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/playbooks"
)

// course is how far a host has come in the steps of its playbook. The next step follows from the
// results alone, so another worker decides the same.
type course struct {
	playbook *playbooks.Playbook
	done     []core.StepResult
	cut      int // the step at which the host had to end, as by a cancel; -1 without one
}

// following describes what becomes of the step after those that are done.
type following struct {
	failed *core.StepResult // that ended the host, or that the step is the rescue of
	ends   bool             // no further step of the host runs
	code   core.ReasonCode  // of reason
	reason string           // why the step is skipped; "": it runs
	always bool             // it is of always: a cancel does not cut it
}

// next decides about the step after those that are done. Behind the last one it decides whether the
// host has failed.
func (c course) next() following {
	at, from := len(c.done), 0
	var v following
	around := c.groups(at)
	for depth, index := range around {
		g := &c.playbook.Blocks[index]
		if f := c.escaped(from, g.First, depth); f >= 0 {
			return c.after(f, depth)
		}
		part := g.Part(at)
		from = g.First
		if part == playbooks.GroupSteps {
			continue
		}
		f := c.escaped(g.First, g.Rescue, depth+1)
		if part == playbooks.GroupRescue {
			switch {
			case f < 0:
				return following{code: core.NothingFailed, reason: fmt.Sprintf("no step of group %s failed", g.Name)}
			case !c.rescuable(f):
				return c.after(f, depth+1)
			}
			v.failed, from = &c.done[f], g.Rescue
			continue
		}
		if r := c.escaped(g.Rescue, g.Always, depth+1); r >= 0 {
			f = c.worse(f, r)
		}
		if f >= 0 && !c.cleans(g, f) {
			return c.after(f, depth+1)
		}
		v.always, from = true, g.Always
	}
	if f := c.escaped(from, at, len(around)); f >= 0 {
		return c.after(f, len(around))
	}
	return v
}

// after returns what becomes of a step that so many groups are around, once step f before it has
// failed.
func (c course) after(f, depth int) following {
	failed := &c.done[f]
	if depth == 0 {
		return following{failed: failed, ends: true}
	}
	return following{code: core.EarlierFailed, reason: fmt.Sprintf("step %s ended as %s", failed.Name, failed.Outcome)}
}

// groups returns the indexes of the groups around a step, the outermost first.
func (c course) groups(step int) (around []int) {
	if step >= len(c.playbook.Steps) {
		return nil
	}
	for _, index := range c.playbook.Steps[step].Within {
		if c.playbook.Blocks[index].Group() {
			around = append(around, index)
		}
	}
	return around
}

// escaped returns the step whose failure ends the steps from … to-1, around which there are so many
// groups; -1 if none does.
func (c course) escaped(from, to, depth int) int {
	for at := from; at < min(to, len(c.done)); at++ {
		f := -1
		if around := c.groups(at); len(around) > depth {
			g := &c.playbook.Blocks[around[depth]]
			f, at = c.left(g, depth+1), g.End-1
		} else if o := c.done[at].Outcome; !o.Good() && (at == c.cut || !ignored(c.playbook.Steps[at], o)) {
			f = at
		}
		if f >= 0 {
			return f
		}
	}
	return -1
}

// left returns the step whose failure a group passes on; -1 if there is none.
func (c course) left(g *playbooks.Block, depth int) int {
	f := c.escaped(g.First, g.Rescue, depth)
	if r := c.escaped(g.Rescue, g.Always, depth); r >= 0 {
		f = c.worse(f, r)
	} else if c.rescued(g, f) {
		f = -1
	}
	if a := c.escaped(g.Always, g.End, depth); a >= 0 {
		f = c.worse(f, a)
	}
	return f
}

// rescued reports whether the host continues after the failure f in the steps of a group, of whose
// rescue nothing has failed.
func (c course) rescued(g *playbooks.Block, f int) bool {
	return f >= 0 && g.Recover && len(c.done) >= g.Always && c.rescuable(f)
}

// rescuable reports whether the failure of a step may be rescued. A host that does not answer
// cannot be, and nobody knows what a lost one saw.
func (c course) rescuable(f int) bool {
	o := c.done[f].Outcome
	return f != c.cut && (o == core.Failed || o == core.RolledBack)
}

// cleans reports whether always of a group runs after the failure f in it.
func (c course) cleans(g *playbooks.Block, f int) bool {
	o := c.done[f].Outcome
	if o == core.Cancelled && f == g.First && c.done[f].Attempts == 0 {
		return false // nothing of the group has begun
	}
	return o != core.Unreachable && o != core.Lost
}

// worse returns the one of two failed steps that decides: of equal ones the first. f may be -1.
func (c course) worse(f, later int) int {
	if f < 0 || severity(c.done[later].Outcome) > severity(c.done[f].Outcome) {
		return later
	}
	return f
}

// cleanup reports whether a step of always runs although the host ends.
func (c course) cleanup() bool {
	for len(c.done) < len(c.playbook.Steps) {
		v := c.next()
		if v.ends || v.reason == "" {
			return v.always
		}
		c.done = append(slices.Clip(c.done), core.StepResult{Outcome: core.Skipped})
	}
	return false
}

// recovered returns the first step whose failure was rescued; nil if there is none.
func (c course) recovered() *core.StepResult {
	for i := range c.playbook.Blocks {
		g := &c.playbook.Blocks[i]
		if !g.Group() || g.First >= len(c.done) {
			continue
		}
		depth := c.depth(i)
		f := c.escaped(g.First, g.Rescue, depth)
		if c.rescued(g, f) && c.escaped(g.Rescue, g.Always, depth) < 0 {
			return &c.done[f]
		}
	}
	return nil
}

// depth is how many groups are around the steps of a group, itself included.
func (c course) depth(group int) int {
	return slices.Index(c.groups(c.playbook.Blocks[group].First), group) + 1
}

// outcome returns the outcome that expressions read of a group: its failure, or the worst of what
// succeeded.
func (c course) outcome(group int) core.Outcome {
	g := &c.playbook.Blocks[group]
	if f := c.left(g, c.depth(group)); f >= 0 {
		return c.done[f].Outcome
	}
	good := slices.DeleteFunc(slices.Clone(c.done[g.First:g.End]), func(s core.StepResult) bool { return !s.Outcome.Good() })
	return blockOutcome(good)
}

// goesOn reports whether the host's next step runs although this one ended so.
func (m *machine) goesOn(i int, o core.Outcome) bool {
	p := m.prog.playbook
	if i >= len(p.Steps) || o.Good() || ignored(p.Steps[i], o) {
		return i < len(p.Steps) && !o.Good()
	}
	for _, index := range m.course().groups(i) {
		if g := &p.Blocks[index]; g.Recover && g.Part(i) == playbooks.GroupSteps {
			return o == core.Failed || o == core.RolledBack
		}
	}
	return false
}

func (m *machine) course() course {
	return course{playbook: m.prog.playbook, done: m.state.Done, cut: m.state.Cut - 1}
}

// failedBefore returns the value of error in a step: the failure that the step is the rescue of.
func (m *machine) failedBefore(step int) map[string]any {
	c := m.course()
	c.done = c.done[:step]
	v := c.next()
	if v.ends || v.failed == nil {
		return nil
	}
	return map[string]any{"step": v.failed.Name, "reason": v.failed.Reason}
}

// owes reports whether always of a group has to run if the host ends where it is now.
func (m *machine) owes() bool {
	c, i := m.course(), len(m.state.Done)
	if c.cleanup() {
		return true
	}
	if i < len(c.playbook.Steps) {
		c.done, c.cut = append(c.done[:i:i], core.StepResult{Outcome: core.Cancelled, Attempts: m.state.Current.All}), i
	}
	return c.cleanup()
}

// cutShort records that step i ends the lease. It returns nil if the job continues with always of a
// group around the step. If the worker must stop as well, it suspends the job, and its next lease
// runs always.
func (m *machine) cutShort(i int, sr core.StepResult, v leaseEnd) *leaseEnd {
	if v.kind != queue.AckDone {
		return &v
	}
	if m.partial != nil {
		sr = *m.partial
	}
	sr.Outcome, sr.Reason, sr.ReasonCode, sr.Attempts = v.outcome, v.reason, v.code, m.state.Current.All
	c, first := m.course(), cmp.Or(m.state.Cut, i+1)
	c.done, c.cut = append(c.done[:i:i], sr), first-1
	if !c.cleanup() {
		return &v
	}
	m.job.shield(true)
	m.partial, m.state.Cut = nil, first
	m.record(i, sr)
	if m.job.ctx.Err() != nil {
		v = m.setAside(v.reason)
		return &v
	}
	return nil
}
