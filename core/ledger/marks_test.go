package ledger_test

import (
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// Each change that a list of runs shows changes the mark of the run's tenant, and no other one.
func testMarks(t *testing.T, b *backend) {
	l := b.open(t)
	now := func() ledger.Marks { return must[ledger.Marks](t)(l.Marks(t.Context())) }
	accept(t, l, newRun("other", "b", 5))
	seen := now()
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"accepted", func() { accept(t, l, newRun("r", "a", 5)) }},
		{"asks for an approval", func() { wantErr(t, l.SetProgress(t.Context(), map[string]string{"r": `{"asked":1}`}), nil, "progress") }},
		{"asks for another one", func() { wantErr(t, l.SetProgress(t.Context(), map[string]string{"r": `{"asked":2}`}), nil, "progress") }},
		{"an outcome", func() { record(t, l, "r", ledger.Outcome{Index: 0, Outcome: core.Changed, Attempt: 1}) }},
		{"the last outcome", func() { record(t, l, "r", ledger.Outcome{Index: 1, Count: 4, Outcome: core.Cancelled}) }},
	} {
		step.do()
		next := now()
		if next.Runs["a"] == seen.Runs["a"] || next.Runs["b"] != seen.Runs["b"] {
			t.Errorf("%s: %v, before %v", step.name, next, seen)
		}
		if again := now(); again.Runs["a"] != next.Runs["a"] {
			t.Errorf("%s: nothing happened since: %v, before %v", step.name, again, next)
		}
		seen = next
	}
}
