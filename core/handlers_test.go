package core_test

import (
	"slices"
	"testing"

	"github.com/turnus/turnus/core"
)

// Which handlers a host owes after a step that notifies "restart": armed reports whether this call,
// or an earlier one, let a changing call pass.
func TestFaultW1HandlersAfterAStep(t *testing.T) {
	for _, row := range []struct {
		name          string
		armed, before bool
		outcome       core.Outcome
		goesOn        bool
		pending, left []string
	}{
		{"changed", true, false, core.Changed, false, []string{"restart"}, []string{"restart"}},
		{"changed without a call to the host", false, false, core.Changed, false, []string{"restart"}, []string{"restart"}},
		{"unchanged", false, false, core.Unchanged, false, nil, nil},
		{"unchanged, although it could have changed something", true, false, core.Unchanged, false, nil, nil},
		{"unchanged, armed by an earlier call", true, true, core.Unchanged, false, []string{"restart"}, []string{"restart"}},
		{"skipped, armed by an earlier call", true, true, core.Skipped, false, []string{"restart"}, []string{"restart"}},
		{"skipped", false, false, core.Skipped, false, nil, nil},
		{"failed before it could change anything", false, false, core.Failed, false, nil, nil},
		{"failed in its middle", true, false, core.Failed, false, nil, []string{"restart"}},
		{"failed in its middle, and the next step runs", true, false, core.Failed, true, []string{"restart"}, []string{"restart"}},
		{"failed before it could change anything, and the next step runs", false, false, core.Failed, true, nil, nil},
		{"lost", true, false, core.Lost, false, nil, []string{"restart"}},
		{"rolled back", true, false, core.RolledBack, false, nil, []string{"restart"}},
		{"cancelled", true, false, core.Cancelled, false, nil, []string{"restart"}},
		{"unreachable", true, false, core.Unreachable, false, nil, []string{"restart"}},
	} {
		notify := []string{"restart"}
		var h core.Handlers
		if row.armed {
			h = h.Arm(notify)
		}
		h = h.After(notify, row.outcome, row.before, row.goesOn)
		if !slices.Equal(h.Pending, row.pending) || !slices.Equal(h.Left(), row.left) {
			t.Errorf("%s: pending %v, left %v; expected %v, %v", row.name, h.Pending, h.Left(), row.pending, row.left)
		}
	}
}

// A handler stays pending whatever later steps do, and only Clear takes it out.
func TestFaultW1PendingHandlersStay(t *testing.T) {
	restart, both := []string{"restart"}, []string{"reload", "restart"}
	h := core.Handlers{From: []string{"run-1"}}.Notify(restart)
	before := h
	h = h.Arm(both).After(both, core.Unchanged, false, false)
	if !slices.Equal(h.Left(), restart) {
		t.Errorf("after an unchanged step: %v", h.Left())
	}
	h = h.Arm(both).After(both, core.Failed, false, false)
	if !slices.Equal(h.Left(), both) || !slices.Equal(h.Pending, restart) {
		t.Errorf("after a failed step: left %v, pending %v", h.Left(), h.Pending)
	}
	if h = h.Clear("restart"); !slices.Equal(h.Left(), both) { // it was armed again since
		t.Errorf("cleared while armed: %v", h.Left())
	}
	if h = h.After(both, core.Unchanged, true, false).Clear("restart").Clear("reload"); len(h.Left()) != 0 || h.None() {
		t.Errorf("cleared: %v; what it came from must stay known", h)
	}
	if !slices.Equal(before.Pending, restart) || len(before.Armed) != 0 {
		t.Errorf("an earlier standing was changed: %+v", before)
	}
}
