package ledger_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// The first host that is written down stays, and so does its first result; both go with the run.
func testOnce(t *testing.T, b *backend) {
	l, ctx := b.open(t), t.Context()
	run := accept(t, l, newRun("r1", "acme", 3))
	if err := l.KeepOnce(ctx, &run, 4, 1, []byte("early")); !errors.Is(err, core.ErrConflict) {
		t.Errorf("a result without an election: %v", err)
	}
	for _, job := range []int{1, 2} {
		if got, added, err := l.ElectOnce(ctx, &run, 4, job); err != nil || got != 1 || added != (job == 1) {
			t.Errorf("job %d asks: %d, added %v, %v", job, got, added, err)
		}
	}
	if _, err := l.OnceResult(ctx, &run, 4); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("no result: %v", err)
	}
	if err := l.KeepOnce(ctx, &run, 4, 2, []byte("of another")); !errors.Is(err, core.ErrConflict) {
		t.Errorf("a result of another host: %v", err)
	}
	for _, text := range []string{"first", "second"} {
		if err := l.KeepOnce(ctx, &run, 4, 1, []byte(text)); err != nil {
			t.Error(err)
		}
	}
	if got, err := l.OnceResult(ctx, &run, 4); err != nil || string(got) != "first" {
		t.Errorf("%q, %v", got, err)
	}
	if _, _, err := l.ElectOnce(ctx, &run, 2, 0); err != nil {
		t.Error(err)
	}
	if _, _, err := l.ElectOnce(ctx, &run, 3, 2); err != nil {
		t.Error(err)
	}
	for _, step := range []ledger.OnceStep{{Step: 3, Job: 2}, {Step: 2, Job: 1}, {Step: 4, Job: 1}} { // only the first: the second job is not elected, and the third has a result
		if err := l.UnelectOnce(ctx, &run, step.Step, step.Job); err != nil {
			t.Error(err)
		}
	}
	other := accept(t, l, newRun("r2", "acme", 3))
	for id, want := range map[*ledger.Run][]ledger.OnceStep{&run: {{Step: 2, Job: 0}, {Step: 4, Job: 1, Known: true}}, &other: nil} {
		if all, err := l.Once(ctx, id); err != nil || !slices.Equal(all, want) {
			t.Errorf("run %s: %v, %v", id.ID, all, err)
		}
	}
	for i := range 3 {
		record(t, l, "r1", ledger.Outcome{Index: i, Outcome: core.Changed, Attempt: 1})
	}
	for more := true; more; {
		p, err := l.Prune(ctx, run.ID, 100)
		if err != nil {
			t.Fatal(err)
		}
		more = p.More
	}
	if all, err := l.Once(ctx, &run); err != nil || len(all) > 0 {
		t.Errorf("after the run is removed: %v, %v", all, err)
	}
}
