package worker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

// maxItems bounds a foreach.
const maxItems = 10_000

// foreach runs a step for each item that is not done yet, and makes one result of all.
func (m *machine) foreach(i int, s playbooks.Step, sr core.StepResult) (core.StepResult, *leaseEnd) {
	if lacking := s.Foreach.Lacking(m.lacks); lacking != "" {
		return uncheck(sr, "foreach", lacking), nil
	}
	items, err := s.Foreach.List(m.env)
	if err != nil {
		return fail(sr, core.BadExpression, err.Error()), nil
	}
	if len(items) > maxItems {
		return fail(sr, core.BadExpression, fmt.Sprintf("foreach has %d items: at most %d", len(items), maxItems)), nil
	}
	cur := &m.state.Current
	kept := m.keptItems(i, items)
	for cur.Item < len(items) {
		if r := kept[cur.Item]; r != nil {
			m.env.Item = items[cur.Item]
			m.hand(s, m.calledOn(s))
			cur.add(items[cur.Item], *r)
			continue
		}
		if cur.Item > 0 {
			if v, stop := m.between(sr.Name); stop {
				m.partial = new(cur.total(sr, len(items)))
				return sr, &v
			}
		}
		m.env.Item = items[cur.Item]
		one, v := m.item(i, s, len(items))
		if v != nil {
			m.addPartial(sr, len(items))
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
	text.ExitCode, text.Window, text.On = one.ExitCode, one.Window, cmp.Or(one.On, text.On)
	first := one.ReasonCode == core.Unchecked && text.ReasonCode != core.Unchecked && text.Outcome.Good()
	if !one.Outcome.Good() || text.Reason == "" || first {
		text.Reason, text.ReasonCode = one.Reason, one.ReasonCode
	}
	if severity(one.Outcome) > severity(text.Outcome) {
		text.Outcome = one.Outcome
	}
	*p = progress{Item: p.Item + 1, Results: results, Size: p.Size, Thin: p.Thin, Text: text, Took: p.Took, All: p.All}
	p.fit()
}

// fit keeps the results of the items within the limit of a step's outputs. Of larger results it
// drops first the items' outputs, then what is known of each item. An expression that reads a
// dropped value fails; the step that did its work does not.
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

// size returns how much the item adds to the outputs, in bytes of JSON.
func (r itemResult) size(thin int) int {
	data, err := json.Marshal(r.object(thin))
	if err != nil { // boundOutputs reports it
		return 0
	}
	return len(data) + len(",")
}

// total is the result of a foreach step: the worst of its items.
func (p *progress) total(sr core.StepResult, items int) core.StepResult {
	sr.Stdout, sr.Stderr, sr.Diff, sr.Truncated, sr.ExitCode = p.Text.Stdout, p.Text.Stderr, p.Text.Diff, p.Text.Truncated, p.Text.ExitCode
	sr.Took, sr.Attempts, sr.Outcome, sr.Window, sr.On = p.Took, p.All, core.Skipped, p.Text.Window, p.Text.On
	if severity(p.Text.Outcome) > severity(sr.Outcome) {
		sr.Outcome = p.Text.Outcome
	}
	if p.Thin < thinGone {
		all := core.Map(p.Results, func(r itemResult) any { return r.object(p.Thin) })
		sr.Outputs = map[string]any{"items": all}
	}
	sr.Truncated = sr.Truncated || p.Thin > 0
	switch {
	case items == 0:
		sr.Reason, sr.ReasonCode = "foreach has no items", core.NoItems
	case !sr.Outcome.Good():
		sr.Reason, sr.ReasonCode = fmt.Sprintf("item %d of %d: %s", p.Item, items, p.Text.Reason), p.Text.ReasonCode
	case sr.Outcome == core.Skipped, p.Text.ReasonCode == core.Unchecked:
		sr.Reason, sr.ReasonCode = p.Text.Reason, p.Text.ReasonCode
	}
	return boundOutputs(sr)
}

// severity orders outcomes: the highest of a foreach's items is the step's.
func severity(o core.Outcome) int {
	return slices.Index([]core.Outcome{
		core.Skipped, core.Unchanged, core.Changed, core.RolledBack, core.Failed, core.Unreachable, core.Cancelled, core.Lost,
	}, o)
}
