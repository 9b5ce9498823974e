package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/playbooks"
)

// verdict is what the step machine says of a job: how its lease ends.
type verdict struct {
	kind      queue.AckKind
	outcome   core.Outcome // of AckDone, and of AckRetry where that is not granted
	step      string
	reason    string
	after     time.Duration
	event     string
	keepLocks bool
}

func done(o core.Outcome, step, reason string) verdict {
	return verdict{kind: queue.AckDone, outcome: o, step: step, reason: reason}
}

// machine takes one job through its steps. It is used by the job's goroutine only.
type machine struct {
	job   *job
	prog  *program
	host  core.Host
	state *state
	env   playbooks.Env
	// partial is the step that was under way when the lease ended, for the record.
	partial *core.StepResult
}

func newMachine(j *job, prog *program, h core.Host, s *state) *machine {
	m := &machine{job: j, prog: prog, host: h, state: s}
	if s.Started.IsZero() {
		s.Started = j.started
	}
	m.env = playbooks.Env{
		Host:  h,
		Vars:  prog.book.Vars,
		Steps: make(map[string]map[string]any, len(prog.book.Steps)),
		Run: map[string]any{
			"id": j.lease.Job.Run, "playbook": prog.book.Name,
			"check": prog.snapshot.Check, "attempt": j.lease.Attempt,
		},
	}
	for i := range s.Done {
		if i < len(prog.book.Steps) {
			m.publish(prog.book.Steps[i].Name, s.Done[i])
		}
	}
	return m
}

// run goes through the steps that are not done yet.
func (m *machine) run() verdict {
	m.job.say(Event{Kind: JobStarted, Attempt: m.job.lease.Attempt})
	steps := m.prog.book.Steps
	for i := len(m.state.Done); i < len(steps); i++ {
		if v, stop := m.between(stepName(steps[i])); stop {
			return v
		}
		if v := m.waitAtGate(i); v != nil {
			return *v
		}
		m.job.enter(stepName(steps[i]), time.Time{})
		sr, v := m.step(i)
		if v != nil {
			return *v
		}
		m.job.say(Event{Kind: StepDone, Step: sr.Name, Uses: sr.Uses, StepResult: &sr})
		m.state.Done = append(m.state.Done, sr)
		m.state.Current = progress{}
		m.publish(steps[i].Name, sr)
		if i+1 < len(steps) {
			m.tryCatchUp(sr.Name)
		}
		if !sr.Outcome.Good() && !ignored(steps[i], sr.Outcome) {
			return done(sr.Outcome, sr.Name, sr.Reason)
		}
	}
	return m.allDone()
}

// waitAtGate parks the job at a gate that it has not passed: it waits there, without slot and locks, until whoever drives
// the run wakes it. So one that comes back from a gate has passed it, and so has one that crashed after it did.
func (m *machine) waitAtGate(step int) *verdict {
	t, s := m.prog.snapshot.Turns, m.state
	if t == nil {
		return nil
	}
	if s.AtGate {
		s.AtGate = false
		s.Passed++
	}
	class := t.Class(m.job.lease.Job.Index)
	for ; s.Passed <= t.Gate(step); s.Passed++ {
		if t.Waits(s.Passed, class) {
			s.AtGate = true
			event := queue.TurnEvent(s.Passed, class)
			return &verdict{kind: queue.AckSuspend, step: stepName(m.prog.book.Steps[step]), reason: queue.WhySuspended(event), event: event}
		}
	}
	return nil
}

// ignored tells whether continue_on_failure covers the outcome. A host that is not
// reached will not be by the next step either, and nothing may hide a lost one.
func ignored(s playbooks.Step, o core.Outcome) bool {
	return s.IgnoreFailure && (o == core.Failed || o == core.RolledBack)
}

// allDone is the outcome of a job whose steps all ran.
func (m *machine) allDone() verdict {
	outcome, reason := core.Skipped, "the playbook has no step for this host"
	for i, s := range m.state.Done {
		switch {
		case s.Outcome == core.Changed:
			return done(core.Changed, "", "")
		case i == 0 && s.Outcome == core.Skipped:
			reason = fmt.Sprintf("no step applied; step %s: %s", s.Name, s.Reason)
		case s.Outcome != core.Skipped:
			outcome, reason = core.Unchanged, ""
		}
	}
	return done(outcome, "", reason)
}

// between looks, where no step is under way, whether the job may go on to the next step.
func (m *machine) between(next string) (verdict, bool) {
	select {
	case <-m.job.ctx.Done():
	case <-m.job.w.drain:
		return m.setAside("the worker drains"), true
	default:
		return verdict{}, false
	}
	cause := context.Cause(m.job.ctx)
	if errors.Is(cause, errCancelled) {
		return done(core.Cancelled, next, fmt.Sprintf("%v before step %s; %d of %d steps were done", cause, next, len(m.state.Done), len(m.prog.book.Steps))), true
	}
	return m.setAside(cause.Error()), true
}

// setAside leaves the job to whoever takes it next, from the present step on.
func (m *machine) setAside(why string) verdict {
	if !m.state.begun() {
		return verdict{kind: queue.AckReturn, reason: why}
	}
	return verdict{kind: queue.AckSuspend, reason: why}
}

// step runs one step to its result, or returns the verdict with which the lease ends.
func (m *machine) step(i int) (core.StepResult, *verdict) {
	s := m.prog.book.Steps[i]
	sr := core.StepResult{Name: stepName(s), Uses: s.Uses}
	if !m.prog.selected[i] {
		return skip(sr, "not selected by its tags"), nil
	}
	m.env.Item = nil
	if s.Foreach.Absent() {
		return m.item(i, s, 1)
	}
	return m.foreach(i, s, sr)
}

// maxItems bounds a foreach.
const maxItems = 10_000

func (m *machine) foreach(i int, s playbooks.Step, sr core.StepResult) (core.StepResult, *verdict) {
	items, err := s.Foreach.List(m.env)
	if err != nil {
		return fail(sr, err.Error()), nil
	}
	if len(items) > maxItems {
		return fail(sr, fmt.Sprintf("foreach has %d items: at most %d", len(items), maxItems)), nil
	}
	cur := &m.state.Current
	for cur.Item < len(items) {
		if cur.Item > 0 {
			if v, stop := m.between(sr.Name); stop {
				return sr, &v
			}
		}
		m.env.Item = items[cur.Item]
		one, v := m.item(i, s, len(items))
		if v != nil {
			return sr, v
		}
		cur.add(items[cur.Item], one)
		if cur.Item < len(items) {
			m.tryCatchUp(sr.Name)
		}
		if !one.Outcome.Good() && !ignored(s, one.Outcome) {
			break
		}
	}
	return cur.total(sr, len(items)), nil
}

// add takes in the result of an item, and turns to the next.
func (p *progress) add(item any, one core.StepResult) {
	results, text := append(p.Results, itemResult{Item: item, Outcome: one.Outcome, Outputs: one.Outputs}), p.Text
	text.Stdout = shorten(text.Stdout+one.Stdout, streamKeep)
	text.Stderr = shorten(text.Stderr+one.Stderr, streamKeep)
	text.Diff = shorten(text.Diff+one.Diff, streamKeep)
	text.Truncated = text.Truncated || one.Truncated
	text.ExitCode, text.Window = one.ExitCode, one.Window
	if !one.Outcome.Good() || text.Reason == "" {
		text.Reason = one.Reason
	}
	if severity(one.Outcome) > severity(text.Outcome) {
		text.Outcome = one.Outcome
	}
	*p = progress{Item: p.Item + 1, Results: results, Size: p.Size, Thin: p.Thin, Text: text, Took: p.Took, All: p.All}
	p.fit()
}

// fit keeps the results of the items within what a step's outputs may have. What is over goes: first the items' outputs,
// then what is known of each item. An expression that reads what is gone fails; the step that did its work does not.
func (p *progress) fit() {
	const most = maxOutputs - 32 // {"items":[…]}
	if n := len(p.Results); n > 0 && p.Thin < thinGone {
		p.Size += p.Results[n-1].size(p.Thin)
	}
	for ; p.Size > most && p.Thin < thinGone; p.Thin++ {
		p.Size = 0
		for i := range p.Results {
			p.Results[i].Outputs = nil
			p.Size += p.Results[i].size(p.Thin + 1)
		}
	}
	switch p.Thin {
	case thinGone:
		p.Results = nil
	case thinOutputs:
		p.Results[len(p.Results)-1].Outputs = nil
	}
}

// object is the item as expressions see it.
func (r itemResult) object(thin int) map[string]any {
	o := map[string]any{"item": r.Item, "outcome": string(r.Outcome)}
	if thin == 0 {
		o["outputs"] = r.Outputs
	}
	return o
}

// size is what the item adds to the outputs, in bytes of JSON.
func (r itemResult) size(thin int) int {
	data, err := json.Marshal(r.object(thin))
	if err != nil { // boundOutputs says so
		return 0
	}
	return len(data) + len(",")
}

// total is the result of a foreach step: the worst of its items.
func (p *progress) total(sr core.StepResult, items int) core.StepResult {
	sr.Stdout, sr.Stderr, sr.Diff, sr.Truncated, sr.ExitCode = p.Text.Stdout, p.Text.Stderr, p.Text.Diff, p.Text.Truncated, p.Text.ExitCode
	sr.Took, sr.Attempts, sr.Outcome, sr.Window = p.Took, p.All, core.Skipped, p.Text.Window
	if severity(p.Text.Outcome) > severity(sr.Outcome) {
		sr.Outcome = p.Text.Outcome
	}
	if p.Thin < thinGone {
		all := make([]any, len(p.Results))
		for i, r := range p.Results {
			all[i] = r.object(p.Thin)
		}
		sr.Outputs = map[string]any{"items": all}
	}
	sr.Truncated = sr.Truncated || p.Thin > 0
	switch {
	case items == 0:
		sr.Reason = "foreach has no items"
	case !sr.Outcome.Good():
		sr.Reason = fmt.Sprintf("item %d of %d: %s", p.Item, items, p.Text.Reason)
	case sr.Outcome == core.Skipped:
		sr.Reason = p.Text.Reason
	}
	return boundOutputs(sr)
}

// severity orders outcomes: the highest of a foreach's items is the step's.
func severity(o core.Outcome) int {
	return slices.Index([]core.Outcome{
		core.Skipped, core.Unchanged, core.Changed, core.RolledBack, core.Failed, core.Unreachable, core.Cancelled, core.Lost,
	}, o)
}

// item runs a step once, for the present item if there is one, of items altogether.
func (m *machine) item(i int, s playbooks.Step, items int) (core.StepResult, *verdict) {
	sr := core.StepResult{Name: stepName(s), Uses: s.Uses}
	fresh := m.state.Current.Attempts == 0
	if fresh && !s.When.Absent() {
		ok, err := s.When.Bool(m.env)
		if err != nil {
			return fail(sr, err.Error()), nil
		}
		if !ok {
			return skip(sr, "when: "+s.When.Text), nil
		}
	}
	t, ok := m.job.w.cfg.Plugins.Type(s.Uses)
	if !ok {
		return fail(sr, fmt.Sprintf("no plugin of worker %s has the job type %s; `turnus plugins ls` lists what it has", m.job.w.cfg.Name, s.Uses)), nil
	}
	if m.prog.snapshot.Check && !t.Check {
		return skip(sr, fmt.Sprintf("job type %s has no check mode, so it was not called", s.Uses)), nil
	}
	if v := m.stillOpen(i, sr.Name); v != nil {
		return sr, v
	}
	params, err := s.With.JSON(m.env)
	if err != nil {
		return fail(sr, err.Error()), nil
	}
	a := &attempts{m: m, index: i, items: items, step: s, name: sr.Name, typ: t, params: params, cur: &m.state.Current}
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

// result is the job's record under verdict v.
func (m *machine) result(v verdict) core.Result {
	steps := m.state.Done
	if m.partial != nil {
		p := *m.partial
		p.Outcome, p.Reason = v.outcome, v.reason
		steps = append(slices.Clip(steps), p)
	}
	return core.Result{
		Customer: m.host.Customer, Outcome: v.outcome, Reason: v.reason, Step: v.step,
		Started: m.state.Started, Took: m.state.Took + time.Since(m.job.started), Steps: steps,
	}
}

func stepName(s playbooks.Step) string {
	if s.Name != "" {
		return s.Name
	}
	return s.Uses
}

func skip(sr core.StepResult, reason string) core.StepResult {
	sr.Outcome, sr.Reason = core.Skipped, reason
	return sr
}

func fail(sr core.StepResult, reason string) core.StepResult {
	sr.Outcome, sr.Reason = core.Failed, reason
	return sr
}
