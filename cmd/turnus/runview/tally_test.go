package runview

import (
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

// Hosts whose plugin is held back are done none and running none for minutes: the progress says why. Red before: "0/20 hosts
// done, 0 running" and no word more.
func TestFaultP7ProgressSaysWhyHostsWaitForAnotherAttempt(t *testing.T) {
	ta := NewTally("firmware", 20)
	for _, host := range []string{"b", "a"} {
		ta.JobStarted(host)
		ta.StepStarted(host, "flash")
		ta.Retried(host, "plugin lab 1.0.0 died 3 times and is held back, "+host+"\nsecond line")
		ta.JobLeft(host)
	}
	const want = "2 to be tried again: plugin lab 1.0.0 died 3 times and is held back, a"
	if line := plainLine(ta.snapshot(1)); !strings.Contains(line, "0/20 hosts done, 0 running") || !strings.HasSuffix(line, want) {
		t.Errorf("%q, expected %q at its end", line, want)
	}
	ta.StepStarted("a", "flash")
	ta.Recorded(core.Result{Host: "b", Outcome: core.Changed})
	if line := plainLine(ta.snapshot(1)); strings.Contains(line, "again") {
		t.Errorf("%q: nobody waits any more", line)
	}
}
