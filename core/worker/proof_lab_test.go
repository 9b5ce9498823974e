//go:build labs

package worker

import "testing"

// The scenarios must contain each thing that the proof examines this often.
func TestLabNoStepOutsideItsWindow(t *testing.T) {
	seen := playScenarios(t, max(*scenarios, 300))
	for _, what := range []string{
		"gated start", "gated retry", "start after held", "continued", "may start", "may not start", "may not begin", "stopped at checkpoint", "suspended",
		"slow", "absent", "crashed", "cancelled", "edit", "needs_reapproval", "changed", "failed", "lost",
	} {
		if seen[what] == 0 {
			t.Errorf("no scenario had %q: the proof does not cover it", what)
		}
	}
}
