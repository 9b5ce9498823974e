//go:build linux && labs

package conformance

import (
	"slices"
	"testing"
)

// Each fault is caught by its own case, which names it.
func TestLabEachFaultIsCaughtAndNamed(t *testing.T) {
	t.Parallel()
	caught(t, faults)
}

// Promises that only the host's files, a second run, a second host or many calls show.
func TestLabFaultP2EffectsAreCompared(t *testing.T) {
	t.Parallel()
	caught(t, faultsOfEffect)
}

// A death or a flood is named by its own case alone, whichever case met it first.
func TestLabFaultP3OneFaultIsNamedOnce(t *testing.T) {
	t.Parallel()
	for kind, at := range map[string]string{"dies-second": "alive", "dies-one-host": "alive", "floods": "flood"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var failed []string
			for _, r := range try(t, kind, Lab{}).Results {
				if r.Status == Failed {
					failed = append(failed, r.Case)
				}
			}
			if !slices.Equal(failed, []string{at}) {
				t.Errorf("cases %q fail, expected %q alone", failed, at)
			}
		})
	}
}
