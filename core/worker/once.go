package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

// stepOnce takes the job past a step with once. It calls the step if this host is the one that does
// so for the run; else it takes over the result of the host that does, or waits for it.
func (m *machine) stepOnce(i int, s playbooks.Step, sr core.StepResult) (core.StepResult, *leaseEnd) {
	if m.passesOnce(s) {
		return m.call(i, s, sr)
	}
	if v := m.stillOpen(i, sr.Name); v != nil {
		return sr, v
	}
	known, v := m.electedOnce(i, sr.Name)
	switch {
	case v != nil:
		return sr, v
	case known != nil:
		return m.takeOver(i, s, *known), nil
	}
	if m.state.Called == nil {
		one, v := m.call(i, s, sr)
		if v != nil || !one.Outcome.Good() && !ignored(s, one.Outcome) {
			return one, v
		}
		m.state.Called = &one
	}
	return sr, m.tellOnce(i)
}

// passesOnce reports whether the host has no part in a step with once: its when is false, or the
// step cannot be called here.
func (m *machine) passesOnce(s playbooks.Step) bool {
	if cur := &m.state.Current; m.state.Called != nil || cur.Attempts > 0 || cur.Item > 0 {
		return false // it has begun
	}
	if s.Foreach.Absent() && !s.When.Absent() {
		if applies, err := s.When.Bool(m.env); err != nil || !applies {
			return true
		}
	}
	t, known := m.job.w.cfg.Plugins.Type(s.Uses)
	return !known || m.prog.snapshot.Check && !t.Check
}

// electedOnce returns the result of a step with once if it is on record. Nil is that this host
// calls the step; otherwise it returns how the lease ends.
func (m *machine) electedOnce(i int, name string) (*snapshot.Once, *leaseEnd) {
	if r, kept := m.prog.snapshot.Once[name]; kept {
		return &snapshot.Once{Job: -1, Result: &r}, nil
	}
	if o, known := m.prog.once.Load(i); known {
		return o.(*snapshot.Once), nil
	}
	if o, v := m.note(i, name, snapshot.OnceResult); o != nil || v != nil {
		if o != nil && o.Result != nil {
			m.prog.once.Store(i, o)
			return o, nil
		}
		return nil, v
	}
	own := m.job.lease.Job.Index
	switch o, v := m.note(i, name, snapshot.OnceElected); {
	case v != nil:
		return nil, v
	case o != nil && o.Job != own:
		return nil, m.waitOnce(i, snapshot.AwaitResult)
	case o != nil:
		return nil, m.calledBefore(i, name)
	}
	err := m.post(m.job.ctx, i, snapshot.OnceFirst, snapshot.Once{Job: own, Host: m.host.Name})
	if err != nil {
		return nil, m.noBoard(name, err)
	}
	return nil, m.waitOnce(i, snapshot.AwaitElect)
}

// calledBefore makes a host that is to call the step wait, if a worker that ended since has posted
// its result.
func (m *machine) calledBefore(i int, name string) *leaseEnd {
	o, v := m.note(i, name, snapshot.OnceCalled)
	if o != nil {
		return m.waitOnce(i, snapshot.AwaitKeep)
	}
	return v
}

// takeOver returns the result of a step with once for this host.
func (m *machine) takeOver(i int, s playbooks.Step, o snapshot.Once) core.StepResult {
	m.state.Called = nil
	if o.Job != m.job.lease.Job.Index {
		return o.ForOthers(m.prog.playbook, m.job.lease.Job.Run)
	}
	m.armed = m.state.Handlers.IsArmed(s.Notify)
	m.noteOutcome(i, s, *o.Result) // again: a worker may have died between the call and this
	return *o.Result
}

// tellOnce posts the result of the step that this host has called, and has the job wait until it is
// on record. It posts also if the job must end: the call has had its effect.
func (m *machine) tellOnce(i int) *leaseEnd {
	o := snapshot.Once{Job: m.job.lease.Job.Index, Host: m.host.Name, At: time.Now().UTC(), Result: m.state.Called}
	for {
		err := m.post(context.WithoutCancel(m.job.ctx), i, snapshot.OnceCalled, o)
		if err == nil {
			return m.waitOnce(i, snapshot.AwaitKeep)
		}
		if v, stop := m.between(m.state.Called.Name); stop {
			return &v
		}
		if !core.NoAnswer(err) {
			return m.noBoard(m.state.Called.Name, err)
		}
		core.Pause(m.job.ctx, turnRetry, nil)
	}
}

// waitOnce suspends the job until the ledger knows more of a step with once.
func (m *machine) waitOnce(i int, phase snapshot.OncePhase) *leaseEnd {
	event := snapshot.OnceEvent(i, phase)
	why := snapshot.WhyWaits(event)
	return &leaseEnd{kind: queue.AckSuspend, step: stepName(m.prog.playbook.Steps[i]), code: why.Code(), reason: why.Text(), event: event}
}

// note reads a document about a step with once; nil where there is none.
func (m *machine) note(i int, name string, n snapshot.OnceNote) (*snapshot.Once, *leaseEnd) {
	if m.job.w.cfg.Board == nil {
		return nil, m.noBoard(name, fmt.Errorf("the worker reads no board: %w", core.ErrInvalid))
	}
	call, cancel := context.WithTimeout(m.job.ctx, callTimeout)
	defer cancel()
	data, _, err := m.job.w.cfg.Board.Posted(call, n.Document(m.job.lease.Job.Run, i), 0)
	if errors.Is(err, core.ErrNotFound) || err == nil && len(data) == 0 {
		return nil, nil //nolint:nilnil // nothing is posted
	}
	if err != nil {
		return nil, m.noBoard(name, err)
	}
	o, err := snapshot.DecodeOnce(data)
	if err != nil {
		return nil, m.noBoard(name, err)
	}
	return &o, nil
}

func (m *machine) post(ctx context.Context, i int, n snapshot.OnceNote, o snapshot.Once) error {
	data, err := o.Encode()
	if err != nil {
		return err
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	name := n.Document(m.job.lease.Job.Run, i)
	posted, err := m.job.w.cfg.Board.PostFirst(call, name, data, snapshot.OnceKeep)
	if err == nil && len(posted) == 0 { // a server has withdrawn that of a host that ended
		_, err = m.job.w.cfg.Board.Post(call, name, data, snapshot.OnceKeep)
	}
	return err
}

// noBoard is the end of the lease of a job that cannot read which host calls a step with once, or
// cannot post that it does: it asks again, unless asking again changes nothing.
func (m *machine) noBoard(step string, err error) *leaseEnd {
	if v, stop := m.between(step); stop {
		return &v
	}
	text := "cannot determine which host calls the step for the run: " + core.ErrorText(err)
	if errors.Is(err, core.ErrInvalid) {
		v := done(core.Failed, step, "", text)
		return &v
	}
	return &leaseEnd{kind: queue.AckSuspend, step: step, code: core.QueueAway, reason: text, after: askAgain}
}
