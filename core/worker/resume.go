package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// keep takes over the result of a step that an earlier run called. It reports false for a step that
// this run calls.
func (m *machine) keep(i int) bool {
	steps := m.prog.playbook.Steps
	if i >= len(m.resume.Steps) || steps[i].Redo {
		return false
	}
	sr := m.resume.Steps[i]
	if sr.Reason == "" && sr.Kept != nil {
		sr.Reason, sr.ReasonCode = fmt.Sprintf("kept: run %s called it at %s", sr.Kept.Run, sr.Kept.At.UTC().Format(time.RFC3339)), core.WasKept
	}
	m.job.report(Event{Kind: StepDone, Step: sr.Name, Uses: sr.Uses, StepResult: &sr})
	if sr.Outcome != core.Skipped {
		m.hand(steps[i], m.calledOn(steps[i]))
	}
	m.state.Done = append(m.state.Done, sr)
	m.publish(steps[i].Name, sr)
	return true
}

// bootWait is how long a host that failed may take to give its boot id.
const bootWait = 10 * time.Second

// noteBoot asks a host that failed behind a successful step for its boot id, which a retry from the
// failed step compares. It asks also if facts are known: a step since may have rebooted the host. A
// host that gives none is not asked again.
func (m *machine) noteBoot(v leaseEnd) {
	j := m.job
	kept := slices.ContainsFunc(m.state.Done, func(s core.StepResult) bool {
		return s.Outcome.Good() && s.Outcome != core.Skipped || s.Outputs["items"] != nil // some may be finished
	})
	if v.kind != queue.AckDone || v.outcome != core.Failed && v.outcome != core.RolledBack || !kept || m.prog.snapshot.Check {
		return
	}
	if _, known := j.w.cfg.Plugins.Type(factsType); !known || j.ctx.Err() != nil || j.live() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(j.ctx, bootWait)
	defer cancel()
	j.enter(v.step, time.Now().Add(bootWait+j.w.patience()))
	defer j.enter(v.step, time.Time{})
	if out, err := m.askFacts(ctx, v.step); err == nil && !out.Failed {
		m.state.Seen = m.state.Seen.Saw(out.Outputs, time.Now())
	}
}

// sameBoot asks the host of a retry for its boot id before the first call, once the host may be
// called. It returns how the lease ends if the host has booted since the earlier run: effects of
// the kept steps may be gone.
func (m *machine) sameBoot() *leaseEnd {
	boot, steps := m.resume.Boot, m.prog.playbook.Steps
	if boot == "" || m.state.Seen != nil {
		return nil
	}
	if m.job.lease.Over != "" {
		m.state.Seen = &core.Facts{Boot: boot}
		return nil
	}
	first := 0 // step that is called
	for first < min(len(m.resume.Steps), len(steps)-1) && !steps[first].Redo {
		first++
	}
	if v := m.waitAtBarrier(first); v != nil {
		return v
	}
	s := m.prog.calls[first]
	sr := core.StepResult{Name: stepName(s), Uses: s.Uses}
	failed, v := m.gather(s, sr)
	m.state.Facts, m.state.FactsAt, m.env.Host.Facts = nil, time.Time{}, nil // a step that reads them asks when it begins
	if failed != nil {
		end := done(failed.Outcome, failed.Name, failed.ReasonCode, failed.Reason)
		v = &end
	}
	switch {
	case v != nil && v.kind == queue.AckDone:
		m.keepForRetry(boot, sr)
		return v
	case v != nil || m.state.Seen.Boot == "" || m.state.Seen.Boot == boot:
		return v
	}
	end := done(core.Failed, sr.Name, "", fmt.Sprintf("the host has booted since run %s, and what its steps did may be gone\nhint: retry without --from failed-step", m.prog.snapshot.Resumes))
	return &end
}

// keepForRetry puts the kept results and the boot id of the earlier run on record again, so that
// another retry continues. first is the next step, which is not called.
func (m *machine) keepForRetry(boot string, first core.StepResult) {
	for kept := true; kept && len(m.state.Done) < len(m.resume.Steps); {
		kept = m.keep(len(m.state.Done))
	}
	if len(m.resume.Items) > 0 && len(m.state.Done) == len(m.resume.Steps) {
		first.Outputs = map[string]any{"items": m.resume.Items}
		m.partial = &first
	}
	m.state.Seen = &core.Facts{Boot: boot} // without a time: newer facts on record stay
}

// keptFacts reports whether what is made known of an include with kept steps may read the facts of
// the host.
func (m *machine) keptFacts() bool {
	for i := range m.resume.Steps {
		if s := &m.prog.playbook.Steps[i]; s.Facts && len(s.Within) > 0 {
			return true
		}
	}
	return false
}

// keptItems returns the results of the items of step i that an earlier run finished; nil for those
// that are called. An item that is there twice is kept as often as it was finished.
func (m *machine) keptItems(i int, items []any) []*core.StepResult {
	kept := make([]*core.StepResult, len(items))
	if i != len(m.resume.Steps) || i >= len(m.prog.playbook.Steps) {
		return kept
	}
	finished := map[string][]*core.StepResult{}
	for _, one := range m.resume.Items {
		r, _ := one.(map[string]any)
		said, _ := r["outcome"].(string)
		outputs, _ := r["outputs"].(map[string]any)
		key := itemKey(r["item"])
		finished[key] = append(finished[key], &core.StepResult{Outcome: core.Outcome(said), Outputs: outputs})
	}
	for n, item := range items {
		if key := itemKey(item); len(finished[key]) > 0 {
			kept[n], finished[key] = finished[key][0], finished[key][1:]
		}
	}
	return kept
}

// itemKey is equal for items that are equal as JSON.
func itemKey(item any) string {
	data, err := json.Marshal(item)
	if err != nil {
		return fmt.Sprint(item)
	}
	return string(data)
}

// addPartial makes the finished items a part of the record of a foreach that was under way when the
// lease ended.
func (m *machine) addPartial(sr core.StepResult, items int) {
	cur := m.state.Current
	if cur.Item == 0 && m.partial == nil {
		return
	}
	all := cur.total(sr, items)
	if p := m.partial; p != nil {
		all.Attempts, all.Took, all.ExitCode, all.Window, all.On = p.Attempts, p.Took, p.ExitCode, p.Window, p.On
		all.Stdout, all.Stderr, all.Diff = shorten(all.Stdout+p.Stdout, streamKeep), shorten(all.Stderr+p.Stderr, streamKeep), shorten(all.Diff+p.Diff, streamKeep)
		all.Truncated = all.Truncated || p.Truncated
	}
	m.partial = &all
}
