package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/windows"
)

// factsType is the job type that asks a host for its facts.
const factsType = "facts"

// gather asks the host for its facts, for a step that reads them, within the time limit of an
// attempt of the step. They stay the same to the end of the job, also on another worker. It returns
// the result of the step where the host gave none, or how the lease ends.
func (m *machine) gather(s playbooks.Step, sr core.StepResult) (*core.StepResult, *leaseEnd) {
	j := m.job
	ctx, limit := j.ctx, s.Timeout
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errTimeout)
		defer cancel()
		j.enter(sr.Name, time.Now().Add(limit+j.w.patience()))
		defer j.enter(sr.Name, time.Time{})
	}
	out, err := m.askFacts(ctx, sr.Name)
	why := out.Reason
	if err != nil {
		why = err.Error()
	}
	switch {
	case j.ctx.Err() != nil || j.live() != nil:
		cause := context.Cause(j.ctx)
		if errors.Is(cause, errCancelled) {
			end := done(core.Cancelled, sr.Name, core.RunCancelled, fmt.Sprintf("%v while step %s asked for facts", cause, sr.Name))
			return nil, &end
		}
		end := m.setAside("the lease ended while facts were asked for")
		return nil, &end
	case out.Unreachable:
		sr.Outcome, sr.Reason = core.Unreachable, why
		return &sr, nil
	case limit > 0 && out.TimedOut, errors.Is(context.Cause(ctx), errTimeout) && (err != nil || out.Outputs == nil):
		sr = fail(sr, core.TimedOut, "host.facts: "+tooLong(limit, out.How))
		return &sr, nil
	case err != nil || out.Failed || out.TimedOut || out.Outputs == nil:
		sr = fail(sr, core.BadExpression, "host.facts: "+why)
		return &sr, nil
	}
	m.state.Facts, m.state.FactsAt, m.env.Host.Facts = out.Outputs, time.Now(), out.Outputs
	shown, _ := m.hidden.Any(out.Outputs).(map[string]any)
	m.state.Seen = core.Gathered(shown, time.Now())
	return nil, nil
}

// askFacts calls the job type facts on the host, for a step.
func (m *machine) askFacts(ctx context.Context, step string) (host.Outcome, error) {
	j := m.job
	return j.w.cfg.Plugins.Run(ctx, host.Call{
		Job: j.lease.Job, Step: step, Attempt: 1, Type: factsType, Params: []byte("{}"), Host: m.host, Check: m.prog.snapshot.Check,
		Fence: j.lease.Token, Queue: m.queue, Live: j.live, Sink: func(host.Event) {},
	})
}

// ageFacts gives the expressions of a step the age of the facts, the same for all of them. It
// returns why a step that has not begun may not read facts so old.
func (m *machine) ageFacts(s playbooks.Step) error {
	at := m.state.FactsAt
	if at.IsZero() {
		at = m.state.Started // the state is of an older worker: they were gathered in this job
	}
	age, limit := time.Since(at), m.prog.playbook.FactsLimit
	m.env.Host.FactsAge = age
	begun := m.state.Current.Attempts > 0 || m.state.Current.Item > 0 || m.state.Called != nil
	if begun || !s.Facts || limit == 0 || age <= limit {
		return nil
	}
	return fmt.Errorf("%s: step %s: the facts of host %s are %s old, and facts: {max_age: %s} allows no older ones\n"+
		"hint: turnus run and turnus submit ask the host again; or write a longer facts: {max_age: TIME}",
		s.Place(), stepName(s), m.host.Name, windows.FormatDuration(age.Truncate(time.Second)), windows.FormatDuration(limit))
}

// noteFacts keeps for the record the values of a step or a handler about its host: facts, or the
// boot id that it has now.
func (m *machine) noteFacts(sr core.StepResult) {
	switch {
	case len(sr.Outputs) == 0:
	case sr.Uses == factsType && sr.Outcome.Good() && sr.Outputs["items"] == nil:
		m.state.Seen = core.Gathered(sr.Outputs, time.Now())
	default:
		m.state.Seen = m.state.Seen.Saw(sr.Outputs, time.Now())
	}
}

// facts returns the facts of the host for the record; nil: there are none.
func (m *machine) facts() *core.Facts {
	f := m.state.Seen
	if f == nil || f.Values == nil {
		return f
	}
	if data, err := json.Marshal(f.Values); err != nil || len(data) > core.MaxFacts {
		return nil // no host has so many
	}
	return f
}
