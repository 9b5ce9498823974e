package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/redact"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

// leaseEnd is how the lease of a job ends.
type leaseEnd struct {
	kind      queue.AckKind
	outcome   core.Outcome // of AckDone, and of AckRetry where that is not granted
	step      string
	reason    string
	code      core.ReasonCode // of reason, where it has one
	after     time.Duration
	event     string
	keepLocks bool
}

func done(o core.Outcome, step string, code core.ReasonCode, reason string) leaseEnd {
	return leaseEnd{kind: queue.AckDone, outcome: o, step: step, code: code, reason: reason}
}

// machine takes one job through its steps. It is used by the job's goroutine only.
type machine struct {
	job   *job
	prog  *program
	host  core.Host
	queue string // its incarnation, see session.queueName
	state *state
	env   playbooks.Env
	// partial is the step that was under way when the lease ended, for the record.
	partial *core.StepResult

	// armed is true if the last call of the present step, or item, found its handlers armed by an
	// earlier one.
	armed bool

	resume snapshot.Resume // where the job continues

	walked int // steps whose includes scope has made known

	hidden *redact.Set     // values that the job was given: all that it shows goes without them; nil: none
	seen   map[handed]bool // secrets whose values are in hidden
}

func newMachine(j *job, prog *program, h core.Host, s *state, pending core.Handlers, resume snapshot.Resume) *machine {
	m := &machine{job: j, prog: prog, host: h, state: s, resume: resume}
	if s.Handlers == nil {
		s.Handlers = &handlersState{Handlers: pending}
	} else if slices.ContainsFunc(pending.From, func(run string) bool { return run != j.lease.Job.Run && !slices.Contains(s.Handlers.From, run) }) {
		s.Handlers.Handlers = s.Handlers.Notify(pending.Pending) // a run has left some since the state was saved
	}
	s.Handlers.Handlers = s.Handlers.Replaces(pending.From)
	if o := m.pendingHandlers(); o != nil {
		j.setHandlers(s.Handlers.Handlers)
	}
	if s.Started.IsZero() {
		s.Started = j.started
	}
	if len(s.Done) == 0 && len(resume.Entered) > 0 {
		s.Entered = maps.Clone(resume.Entered)
	}
	m.env = playbooks.Env{
		Host:   h,
		Vars:   prog.playbook.Vars,
		Params: prog.playbook.Values(),
		Hosts:  prog.snapshot.Hosts[h.Customer],
		Steps:  make(map[string]map[string]any, len(prog.playbook.Steps)),
		Run: map[string]any{
			"id": j.lease.Job.Run, "playbook": prog.playbook.Name,
			"check": prog.snapshot.Check, "attempt": j.lease.Attempt,
		},
	}
	m.env.Host.Facts = s.Facts
	for i := range s.Done {
		if i < len(prog.playbook.Steps) {
			m.publish(prog.playbook.Steps[i].Name, s.Done[i])
		}
	}
	return m
}

// run takes the job through the steps that are not done yet.
func (m *machine) run() leaseEnd {
	m.job.report(Event{Kind: JobStarted, Attempt: m.job.lease.Attempt})
	if v := m.sameBoot(); v != nil {
		return *v
	}
	v := m.walk()
	m.noteBoot(v)
	return v
}

// walk goes through the steps, and then the handlers.
func (m *machine) walk() leaseEnd {
	steps := m.prog.playbook.Steps
	for len(m.state.Done) < len(steps) && m.failure() == nil {
		if v := m.advance(len(m.state.Done)); v != nil {
			return *v
		}
	}
	m.job.shield(false)
	if why := m.failure(); why != nil {
		return m.afterFailure(*why)
	}
	if v := m.flush(len(steps)); v != nil {
		return *v
	}
	return m.allDone()
}

// advance takes the job past step i, or returns how its lease ends.
func (m *machine) advance(i int) *leaseEnd {
	if m.keep(i) {
		return nil
	}
	s, next := m.prog.playbook.Steps[i], m.course().next()
	sr := core.StepResult{Name: stepName(s), Uses: s.Uses}
	if next.reason != "" {
		m.record(i, skip(sr, next.code, next.reason))
		return nil
	}
	m.job.shield(next.always) // before the flush: a cancel that came in always takes effect first
	if s.Flush && i >= len(m.resume.Steps) {
		if v := m.flush(i); v != nil {
			return v
		}
	}
	if v, stop := m.between(sr.Name); stop {
		return m.cutShort(i, sr, v)
	}
	if v := m.waitAtBarrier(i); v != nil {
		return v
	}
	m.job.enter(sr.Name, time.Time{})
	sr, v := m.step(i)
	if v != nil {
		return m.cutShort(i, sr, *v)
	}
	m.record(i, sr)
	return nil
}

// record takes in the result of step i.
func (m *machine) record(i int, sr core.StepResult) {
	m.job.report(Event{Kind: StepDone, Step: sr.Name, Uses: sr.Uses, StepResult: &sr})
	if sr.On == "" && sr.Kept == nil { // else the outputs are of another host
		m.noteFacts(sr)
	}
	m.state.Done = append(m.state.Done, sr)
	m.state.Current = progress{}
	m.publish(m.prog.playbook.Steps[i].Name, sr)
	if m.job.ctx.Err() != nil {
		return // no save succeeds: the ack brings the state, or the next step of always does
	}
	if i+1 < len(m.prog.playbook.Steps) || len(m.state.Handlers.Left()) > 0 {
		m.tryCatchUp(sr.Name)
	}
}

// waitAtBarrier suspends the job at a barrier that it has not passed: it waits there, without
// concurrency and locks, until the run's controller signals it. So one that comes back from a
// barrier has passed it, and so has one that crashed after it did.
func (m *machine) waitAtBarrier(step int) *leaseEnd {
	t, s := m.prog.snapshot.Turns, m.state
	if t == nil {
		return nil
	}
	if s.AtBarrier {
		s.AtBarrier = false
		s.Passed++
	}
	class := t.Class(m.job.lease.Job.Index)
	for ; s.Passed <= t.Barrier(step); s.Passed++ {
		if t.Waits(s.Passed, class) {
			s.AtBarrier = true
			event := snapshot.TurnEvent(s.Passed, class)
			why := snapshot.WhyWaits(event)
			return &leaseEnd{kind: queue.AckSuspend, step: stepName(m.prog.playbook.Steps[step]), code: why.Code(), reason: why.Text(), event: event}
		}
	}
	return nil
}

// ignored reports whether continue_on_failure covers the outcome. A host that is not reached will
// not be by the next step either, and nothing may hide a lost one.
func ignored(s playbooks.Step, o core.Outcome) bool {
	return s.IgnoreFailure && (o == core.Failed || o == core.RolledBack)
}

// allDone returns the outcome of a job whose steps all ran. After a rescue, its reason names the
// failed step; after a dry run, the steps that were not checked.
func (m *machine) allDone() leaseEnd {
	end := m.outcome()
	if f := m.course().recovered(); f != nil {
		end.code, end.reason = core.Rescued, fmt.Sprintf("rescued: step %s: %s", f.Name, f.Reason)
	} else if why := m.unchecked(); why != "" {
		end.code, end.reason = core.Unchecked, why
	}
	return end
}

// unchecked names the steps that a dry run could not check, with the reason of the first; "" if it
// checked all.
func (m *machine) unchecked() string {
	var first *core.StepResult
	later := 0
	steps := m.state.steps()
	for i := range steps {
		switch code := steps[i].ReasonCode; {
		case code != core.Unchecked && code != core.NoCheckMode:
		case first == nil:
			first = &steps[i]
		default:
			later++
		}
	}
	switch {
	case first == nil:
		return ""
	case later == 0:
		return fmt.Sprintf("not checked: step %s: %s", first.Name, first.Reason)
	}
	return fmt.Sprintf("not checked: step %s and %s: %s", first.Name, core.Plural(later, "later step"), first.Reason)
}

// outcome is that of the steps.
func (m *machine) outcome() leaseEnd {
	outcome, code, reason := core.Skipped, core.ReasonCode(""), "the playbook has no step for this host"
	for i, s := range m.state.steps() {
		switch {
		case s.Kept != nil && s.Outcome != core.Skipped:
			outcome, code, reason = core.Unchanged, "", ""
		case s.Outcome == core.Changed:
			return done(core.Changed, "", "", "")
		case i == 0 && s.Outcome == core.Skipped:
			code, reason = s.ReasonCode, fmt.Sprintf("no step applied; step %s: %s", s.Name, s.Reason)
		case s.Outcome != core.Skipped:
			outcome, code, reason = core.Unchanged, "", ""
		}
	}
	return done(outcome, "", code, reason)
}

// untouched reports whether no step of a check run so far would change the job's host. One that was
// not called, because its job type has no check mode, might, and so might one that failed. It does
// not cover the host of an on, which other jobs also change.
func (m *machine) untouched() bool {
	none := func(o core.Outcome, code core.ReasonCode) bool {
		return o == core.Unchanged || o == core.Skipped && code != core.NoCheckMode && code != core.Unchecked
	}
	for _, s := range m.state.Done {
		here := s.On == "" && (s.Kept == nil || s.Kept.Host == "")
		if here && !none(s.Outcome, s.ReasonCode) {
			return false
		}
	}
	cur := &m.state.Current // the items so far of a foreach
	return cur.Item == 0 || none(cur.Text.Outcome, cur.Text.ReasonCode)
}

// between looks, where no step is under way, whether the job may continue to the next step.
func (m *machine) between(next string) (leaseEnd, bool) {
	if m.job.live() == nil {
		select {
		case <-m.job.ctx.Done():
		case <-m.draining():
			return m.setAside("the worker drains"), true
		default:
			return leaseEnd{}, false
		}
	}
	cause := context.Cause(m.job.ctx)
	if over := m.job.lease.Over; over != "" && errors.Is(cause, errCancelled) {
		return done(core.Cancelled, next, over.Code(), over.Text()), true
	}
	if errors.Is(cause, errCancelled) {
		return done(core.Cancelled, next, core.RunCancelled, fmt.Sprintf("%v before step %s; %d of %d steps were done", cause, next, len(m.state.Done), len(m.prog.playbook.Steps))), true
	}
	return m.setAside(cause.Error()), true
}

// draining is closed when the worker drains. A job of a cancelled run does not hear of it: nobody
// would continue with its always.
func (m *machine) draining() <-chan struct{} {
	if m.job.runCancelled() {
		return nil
	}
	return m.job.w.drain
}

// setAside leaves the job to the next worker, from the present step on.
func (m *machine) setAside(why string) leaseEnd {
	if !m.state.begun() {
		return leaseEnd{kind: queue.AckReturn, reason: why}
	}
	return leaseEnd{kind: queue.AckSuspend, reason: why}
}

// step runs one step to its result, or returns how the lease ends.
func (m *machine) step(i int) (core.StepResult, *leaseEnd) {
	sr, v := m.called(i)
	if _, exec := m.prog.snapshot.CommandLine(); !exec {
		at := m.prog.calls[i].Place()
		if placed(sr.Outcome) {
			sr.At = at
		}
		if m.partial != nil {
			m.partial.At = at
		}
	}
	return sr, v
}

// placed reports whether a result names the place of its step: the mistake may be there.
func placed(o core.Outcome) bool {
	return o == core.Failed || o == core.RolledBack || o == core.Lost
}

// called is step without the place in the result.
func (m *machine) called(i int) (core.StepResult, *leaseEnd) {
	s := m.prog.calls[i]
	sr := core.StepResult{Name: stepName(s), Uses: s.Uses}
	if !m.prog.selected[i] {
		return skip(sr, core.NotSelected, "not selected by its tags"), nil
	}
	m.env.Item = nil
	if (s.Facts || m.keptFacts()) && m.state.Facts == nil {
		failed, v := m.gather(s, sr)
		switch {
		case v != nil:
			return sr, v
		case failed != nil:
			return *failed, nil
		}
	}
	if m.state.Facts != nil {
		if err := m.ageFacts(s); err != nil {
			return fail(sr, core.BadExpression, err.Error()), nil
		}
	}
	if i < len(m.prog.playbook.Steps) {
		if skipped := m.enter(s, sr); skipped != nil {
			return *skipped, nil
		}
	}
	if err := m.scope(len(m.state.Done), s.Within); err != nil {
		return fail(sr, core.BadExpression, err.Error()), nil
	}
	if s.Once {
		return m.stepOnce(i, s, sr)
	}
	return m.call(i, s, sr)
}

// call calls a step, for each item if it has some.
func (m *machine) call(i int, s playbooks.Step, sr core.StepResult) (core.StepResult, *leaseEnd) {
	if s.Foreach.Absent() {
		return m.item(i, s, 1)
	}
	return m.foreach(i, s, sr)
}

// item runs a step once, for the present item if there is one, of items altogether.
func (m *machine) item(i int, s playbooks.Step, items int) (core.StepResult, *leaseEnd) {
	m.armed = false
	sr, v := m.try(i, s, items)
	if v == nil {
		m.noteOutcome(i, s, sr)
	}
	return sr, v
}

func (m *machine) try(i int, s playbooks.Step, items int) (core.StepResult, *leaseEnd) {
	sr := core.StepResult{Name: stepName(s), Uses: s.Uses}
	fresh := m.state.Current.Attempts == 0
	if fresh && !s.When.Absent() {
		if lacking := s.When.Lacking(m.lacks); lacking != "" {
			return uncheck(sr, "when", lacking), nil
		}
		ok, err := s.When.Bool(m.env)
		if err != nil {
			return fail(sr, core.BadExpression, err.Error()), nil
		}
		if !ok {
			return skip(sr, core.WhenFalse, "when: "+s.When.Text), nil
		}
	}
	t, ok := m.job.w.cfg.Plugins.Type(s.Uses)
	if !ok {
		why := cmp.Or(m.skew(s.Uses), "; `turnus plugins ls` lists what it has")
		return fail(sr, core.NoJobType, fmt.Sprintf("no plugin of worker %s has the job type %s%s", m.job.w.cfg.Name, s.Uses, why)), nil
	}
	if m.prog.snapshot.Check && !t.Check {
		return skip(sr, core.NoCheckMode, fmt.Sprintf("job type %s has no check mode, so it was not called", s.Uses)), nil
	}
	on, err := m.delegate(s)
	if err != nil {
		return fail(sr, core.BadExpression, err.Error()), nil
	}
	if group, _ := m.prog.playbook.Aside(i); group == "" {
		if v := m.stillOpen(i, sr.Name); v != nil {
			return sr, v
		}
	}
	if lacking := s.With.Lacking(m.lacks); lacking != "" {
		return uncheck(sr, "with", lacking), nil
	}
	var params json.RawMessage
	if !s.With.UsesSecrets() { // else right before each attempt
		if params, err = s.With.JSON(m.env); err != nil {
			return fail(sr, core.BadExpression, err.Error()), nil
		}
	}
	a := &attempts{m: m, index: i, items: items, step: s, name: sr.Name, typ: t, params: params, cur: &m.state.Current, host: on}
	r, v := a.run()
	if v != nil && r.Attempts > 0 {
		m.partial = &r
	}
	return r, v
}

// publish lets later expressions read the step.
func (m *machine) publish(name string, sr core.StepResult) {
	if name == "" {
		return
	}
	outputs := sr.Outputs
	if outputs == nil {
		outputs = map[string]any{}
	}
	exit := -1 // the step ran no command
	if sr.ExitCode != nil {
		exit = *sr.ExitCode
	}
	m.env.Steps[name] = map[string]any{
		"outcome": string(sr.Outcome), "changed": sr.Outcome == core.Changed,
		"outputs": outputs, "stdout": sr.Stdout, "exit_code": exit,
	}
}

// result is the job's record when its lease ends so.
func (m *machine) result(v leaseEnd) core.Result {
	steps := m.state.steps()
	if m.partial != nil {
		p := *m.partial
		p.Outcome, p.Reason, p.ReasonCode = v.outcome, v.reason, v.code
		if !placed(v.outcome) {
			p.At = ""
		}
		steps = append(slices.Clip(steps), p)
	}
	reason := v.reason
	failed := func(s core.StepResult) bool { return s.Name == v.step && s.Outcome == v.outcome }
	if i := slices.IndexFunc(steps, failed); i >= 0 && steps[i].ReasonCode != core.BadExpression { // whose text has a more exact place
		reason = withPlace(reason, steps[i].At)
	}
	return core.Result{
		Customer: m.host.Customer, Outcome: v.outcome, Reason: reason, ReasonCode: v.code, Step: v.step,
		Started: m.state.Started, Took: m.state.Took + time.Since(m.job.started), Steps: steps,
		Handlers: m.pendingHandlers(), Facts: m.facts(), Entered: m.state.Entered,
	}
}

// withPlace puts the place of a step at the end of the first line of a text: hints follow.
func withPlace(text, at string) string {
	if at == "" {
		return text
	}
	first, hints, more := strings.Cut(text, "\n")
	if first += " (" + at + ")"; more {
		first += "\n" + hints
	}
	return first
}

func stepName(s playbooks.Step) string {
	if s.Name != "" {
		return s.Name
	}
	return s.Uses
}

func skip(sr core.StepResult, code core.ReasonCode, reason string) core.StepResult {
	sr.Outcome, sr.Reason, sr.ReasonCode = core.Skipped, reason, code
	return sr
}

func fail(sr core.StepResult, code core.ReasonCode, reason string) core.StepResult {
	sr.Outcome, sr.Reason, sr.ReasonCode = core.Failed, reason, code
	return sr
}
