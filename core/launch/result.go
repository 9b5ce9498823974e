package launch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
)

// Results turns one record of the queue into the results of its jobs, in order. Outcomes that the
// queue decided (cancelled, lost) have no detail from a worker; such a result has the job,
// its host and the reason.
func (l *Launch) Results(r queue.Record, each func(core.Result)) {
	if r.Count <= 1 {
		each(l.result(r))
		return
	}
	for i := range r.Count {
		one := r
		one.Index, one.Count, one.Detail = r.Index+i, 1, nil
		each(l.result(one))
	}
}

func (l *Launch) result(r queue.Record) core.Result {
	res, ok := decodeResult(r.Detail)
	var at present
	if !ok {
		res.Steps, res.Entered, at = stepsOf(r.State)
	}
	if !ok || res.Outcome != r.Outcome || res.Reason == "" {
		// The queue has the last word on the outcome; steps already done stay visible.
		res.Outcome, res.Reason, res.ReasonCode = r.Outcome, r.Reason.Text(), r.Reason.Code()
	}
	unclean := ""
	if !ok {
		unclean = l.unclean(res.Steps, at)
	}
	if r.Outcome == core.Lost && at.On != "" {
		l.lostOn(&res, at.On)
	}
	if unclean != "" && !r.Outcome.Good() {
		res.Reason += "; always of group " + unclean + " did not run"
	}
	res.Attempt = cmp.Or(res.Attempt, r.Attempt)
	res.Job = core.JobID{Run: l.Run.ID, Index: r.Index}
	if r.Index >= 0 && r.Index < len(l.Hosts) {
		h := l.Hosts[r.Index]
		res.Host, res.Customer = h.Name, h.Customer
	}
	res.Handlers = l.handlers(res.Handlers, ok, r)
	if res.Reason == "" && !res.Outcome.Good() {
		res.Reason = "no reason was recorded"
	}
	return res
}

// lostOn adds the step in which a job was lost that worked on another host.
func (l *Launch) lostOn(res *core.Result, on string) {
	i := len(res.Steps)
	if i >= len(l.Playbook.Steps) {
		return
	}
	s := l.Playbook.Steps[i]
	res.Step = cmp.Or(s.Name, s.Uses)
	res.Steps = append(res.Steps, core.StepResult{Name: res.Step, Uses: s.Uses, Outcome: core.Lost, Reason: res.Reason, ReasonCode: res.ReasonCode, On: on})
	res.Reason = fmt.Sprintf("on %s: %s; %s may have been touched also", on, res.Reason, on)
}

// present is how far a job was in the step behind those that are done.
type present struct {
	On       string          `json:"on"` // another host that the step worked on
	Attempts int             `json:"attempts"`
	Item     int             `json:"item"`
	Plugin   json.RawMessage `json:"plugin"`
}

// unclean returns the innermost group that a job had begun and whose always had not ended when no
// worker had the job; "" if there is none.
func (l *Launch) unclean(done []core.StepResult, at present) (group string) {
	if len(done) >= len(l.Playbook.Steps) {
		return ""
	}
	var selected []bool
	for _, index := range l.Playbook.Steps[len(done)].Within {
		g := &l.Playbook.Blocks[index]
		if !g.Group() {
			continue
		}
		if selected == nil {
			selected = l.Playbook.Selected(l.Snapshot.Selects)
		}
		begun := at.Attempts > 0 || at.Item > 0 || len(at.Plugin) > 0
		for i := g.First; i < len(done); i++ {
			begun = begun || done[i].Outcome != core.Skipped
		}
		if begun && slices.Contains(selected[max(g.Always, len(done)):g.End], true) {
			group = g.Name
		}
	}
	return group
}

// stepsOf reads from the state of a job that never came back to a worker the steps that it had
// done, and how far it was in the next: a retry continues behind them.
func stepsOf(state []byte) (done []core.StepResult, entered map[string]bool, at present) {
	var s struct {
		Done    []core.StepResult `json:"done"`
		Entered map[string]bool   `json:"entered"`
		Current present           `json:"current"`
	}
	if len(state) == 0 || snapshot.Unmarshal(state, &s) != nil {
		return nil, nil, present{}
	}
	for i := range s.Done {
		s.Done[i].Outputs = snapshot.Exact(s.Done[i].Outputs)
	}
	return s.Done, s.Entered, s.Current
}

// decodeResult reads the record that a worker wrote; ok is false where there is none.
func decodeResult(detail []byte) (r core.Result, ok bool) {
	if len(detail) == 0 || snapshot.Unmarshal(detail, &r) != nil {
		return core.Result{}, false
	}
	for i := range r.Steps {
		r.Steps[i].Outputs = snapshot.Exact(r.Steps[i].Outputs)
	}
	if r.Facts != nil {
		r.Facts.Values = snapshot.Exact(r.Facts.Values)
	}
	return r, true
}

// EncodeResult writes a result as the ledger keeps it, with its steps.
func EncodeResult(r core.Result) ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write the result of job %s: %w", r.Job, err)
	}
	return data, nil
}

// DecodeResult reads what EncodeResult wrote.
func DecodeResult(data []byte) (core.Result, error) {
	r, ok := decodeResult(data)
	if !ok {
		return core.Result{}, fmt.Errorf("read a result: %w", core.ErrInvalid)
	}
	return r, nil
}

// StepBrief is the result of a step without its output.
type StepBrief struct {
	Name    string       `json:"name"`
	Handler bool         `json:"handler"`
	Outcome core.Outcome `json:"outcome"`
	Diff    string       `json:"diff"`
	Window  *core.Window `json:"window"`
}

// DecodeBriefs reads the steps of what EncodeResult wrote, faster than DecodeResult.
func DecodeBriefs(data []byte) ([]StepBrief, error) {
	var r struct {
		Steps []StepBrief `json:"steps"`
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("read a result: %w: %w", core.ErrInvalid, err)
	}
	return r.Steps, nil
}
