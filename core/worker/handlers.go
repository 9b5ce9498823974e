package worker

import (
	"context"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

// handlersState is the state of a job's handlers.
type handlersState struct {
	core.Handlers
	Flushed int          `json:"flushed,omitempty"` // steps whose flush has ended, from the first; more than the steps: also the end's
	Ran     []handlerRun `json:"ran,omitempty"`
}

// handlerRun is the result of a handler, which ran after so many steps.
type handlerRun struct {
	After int `json:"after"`
	core.StepResult
}

// nextHandler returns the index of the handler to run now, before step at or after all steps: the
// first that is pending. One of an include that has not begun waits: the values of its params may
// read what is not known yet. After a failure only those with on_failure run, and none that has
// failed in this job.
func nextHandler(p *playbooks.Playbook, at int, h *handlersState, failed bool) (index int, ok bool) {
	later := func(block int) bool { return p.Blocks[block].First >= at }
	for i, one := range p.Handlers {
		if !slices.Contains(h.Pending, one.Name) || slices.ContainsFunc(one.Within, later) {
			continue
		}
		bad := slices.ContainsFunc(h.Ran, func(r handlerRun) bool { return r.Name == one.Name && !r.Outcome.Good() })
		if !failed || one.OnFailure && !bad {
			return i, true
		}
	}
	return 0, false
}

// flush runs what is pending before step at, or after all steps.
func (m *machine) flush(at int) *leaseEnd {
	h := m.state.Handlers
	if h.Flushed > at {
		return nil
	}
	for {
		i, ok := nextHandler(m.prog.playbook, at, h, false)
		if !ok {
			h.Flushed = at + 1
			return nil
		}
		sr, v := m.runHandler(i)
		if v == nil && !sr.Outcome.Good() {
			end := m.afterFailure(sr)
			v = &end
		}
		if v != nil {
			return v
		}
	}
}

// failure is the step or handler that has ended the job's steps; nil where none has.
func (m *machine) failure() *core.StepResult {
	if v := m.course().next(); v.ends {
		return v.failed
	}
	for i := range m.state.Handlers.Ran {
		if r := &m.state.Handlers.Ran[i].StepResult; !r.Outcome.Good() {
			return r
		}
	}
	return nil
}

// afterFailure runs the handlers with on_failure of a job that has failed, and returns how its
// lease ends.
func (m *machine) afterFailure(why core.StepResult) leaseEnd {
	end := done(why.Outcome, why.Name, why.ReasonCode, why.Reason)
	if why.Outcome != core.Failed && why.Outcome != core.RolledBack {
		return end // the host does not answer, or nobody knows what it saw
	}
	h := m.state.Handlers
	for _, one := range m.prog.playbook.Handlers {
		if one.OnFailure && h.IsArmed([]string{one.Name}) {
			h.Handlers = h.Notify([]string{one.Name})
		}
	}
	for {
		i, ok := nextHandler(m.prog.playbook, len(m.prog.playbook.Steps), h, true)
		if !ok {
			return end
		}
		if _, v := m.runHandler(i); v != nil {
			return *v
		}
	}
}

// runHandler runs one handler to its result, or returns how the lease ends.
func (m *machine) runHandler(i int) (core.StepResult, *leaseEnd) {
	h, s := m.state.Handlers, m.prog.playbook.Handlers[i]
	if v, stop := m.between(s.Name); stop {
		return core.StepResult{}, &v
	}
	m.job.enter(s.Name, time.Time{})
	var sr core.StepResult
	if m.prog.snapshot.Check {
		sr = m.wouldRun(s)
	} else if one, v := m.step(len(m.prog.playbook.Steps) + i); v == nil {
		sr = one
	} else {
		if m.partial != nil {
			m.partial.Handler = true
		}
		return one, v
	}
	sr.Handler = true
	m.job.report(Event{Kind: StepDone, Step: sr.Name, Uses: sr.Uses, StepResult: &sr})
	m.noteFacts(sr)
	h.Ran = append(h.Ran, handlerRun{len(m.state.Done), sr})
	m.state.Current = progress{}
	if sr.Outcome.Good() {
		h.Handlers = h.Clear(s.Name)
	}
	m.tryCatchUp(sr.Name)
	m.job.setHandlers(h.Handlers)
	return sr, nil
}

// wouldRun is the result of a handler in check mode, which does not call it.
func (m *machine) wouldRun(s playbooks.Step) core.StepResult {
	sr := core.StepResult{Name: s.Name, Uses: s.Uses, Outcome: core.Changed, Reason: "would run", ReasonCode: core.WouldRun}
	if !s.When.Absent() && s.Foreach.Absent() {
		m.env.Item = nil
		if err := m.scope(len(m.state.Done), s.Within); err != nil {
			return fail(sr, core.BadExpression, err.Error())
		}
		applies, err := s.When.Bool(m.env)
		if err != nil {
			return fail(sr, core.BadExpression, err.Error())
		}
		if !applies {
			return skip(sr, core.WhenFalse, "when: "+s.When.Text)
		}
	}
	m.state.Handlers.Handlers = m.state.Handlers.Notify(s.Notify)
	return sr
}

// noteOutcome makes handlers pending by the result of a step, or of one item of it. One that was
// not called leaves them as they are: another step may have armed them.
func (m *machine) noteOutcome(i int, s playbooks.Step, sr core.StepResult) {
	if len(s.Notify) == 0 || sr.Outcome == core.Skipped && sr.Attempts == 0 {
		return
	}
	h := m.state.Handlers
	kept := m.prog.snapshot.Check || h.Has(s.Notify)
	h.Handlers = h.After(s.Notify, sr.Outcome, m.armed, m.goesOn(i, sr.Outcome))
	m.job.setHandlers(h.Handlers)
	if kept || sr.Outcome != core.Changed {
		return
	}
	if err := m.saveHandlers(m.job.ctx); err != nil { // it changed something although none of its calls could
		m.job.w.cfg.Log.Warn("pending handlers are not saved yet", "job", m.job.lease.Job.String(), "step", sr.Name, "err", err)
	}
}

// arm makes durable, before a call of the step may change the host, that its handlers may have to
// run. It is called while the job's goroutine is in the call, under the checkpoint's lock.
func (a *attempts) arm(ctx context.Context) error {
	h := a.m.state.Handlers
	if h.Has(a.step.Notify) {
		return nil
	}
	before := h.Handlers
	h.Handlers = h.Arm(a.step.Notify)
	a.m.job.setHandlers(h.Handlers)
	if err := a.m.saveHandlers(ctx); err != nil {
		h.Handlers = before
		return err
	}
	return nil
}

// saveHandlers saves the state so that the job's next lease continues with the same attempt, and
// with the handlers.
func (m *machine) saveHandlers(ctx context.Context) error {
	s := *m.state
	s.Took += time.Since(m.job.started)
	s.Current.Resumed = true
	return m.job.save(ctx, &s)
}

// steps returns the results of steps and handlers in the order in which they ran.
func (s *state) steps() []core.StepResult {
	if s.Handlers == nil || len(s.Handlers.Ran) == 0 {
		return s.Done
	}
	out := make([]core.StepResult, 0, len(s.Done)+len(s.Handlers.Ran))
	from := 0
	for _, r := range s.Handlers.Ran {
		out = append(out, s.Done[from:r.After]...)
		out = append(out, r.StepResult)
		from = r.After
	}
	return append(out, s.Done[from:]...)
}

// pendingHandlers returns the handlers for the job's record; nil if there is nothing to record.
func (m *machine) pendingHandlers() *core.Handlers {
	h := m.state.Handlers
	if m.prog.snapshot.Check || len(m.prog.playbook.Handlers) == 0 && h.None() {
		return nil
	}
	return h.Final()
}

// setHandlers keeps the job's handlers for the poller, which ends a job whose job type does not
// return.
func (j *job) setHandlers(h core.Handlers) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.handlers = &h
}

func (j *job) pendingHandlers() *core.Handlers {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.handlers == nil {
		return nil
	}
	return j.handlers.Final()
}
