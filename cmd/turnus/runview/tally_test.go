package runview

import (
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// Hosts whose plugin is blocked are done none and running none for minutes: the progress shows why.
// Red before: "0/20 hosts done, 0 running" and no word more.
func TestFaultP7ProgressSaysWhyHostsWaitForAnotherAttempt(t *testing.T) {
	ta := NewTally(Outline{Name: "firmware", Total: 20})
	for _, host := range []string{"b", "a"} {
		ta.JobStarted(host)
		ta.StepStarted(host, "flash")
		ta.Retried(host, "plugin lab 1.0.0 died 3 times and is held back, "+host+"\nsecond line")
		ta.JobLeft(host)
	}
	const want = "2 to be tried again: plugin lab 1.0.0 died 3 times and is held back, a"
	if line := plainLine(ta.snapshot(1)); !strings.Contains(line, "0/20 hosts finished, 0 running") || !strings.HasSuffix(line, want) {
		t.Errorf("%q, expected %q at its end", line, want)
	}
	ta.StepStarted("a", "flash")
	ta.Recorded(api.Result{Host: "b", Outcome: core.Changed})
	if line := plainLine(ta.snapshot(1)); strings.Contains(line, "again") {
		t.Errorf("%q: nobody waits any more", line)
	}
}

// A view that begins in the middle of a run counts the hosts that finish from then on in its rate,
// and shows those that run although it has no event of them.
func TestATallyAttachedLate(t *testing.T) {
	ta := NewTally(Outline{Name: "site", Total: 3000})
	ta.Attach(time.Now().Add(-time.Minute), map[core.Outcome]int{core.Changed: 1000})
	ta.agree(map[core.Outcome]int{core.Changed: 1008, core.Failed: 2})
	ta.InFlight(100)
	ta.Thresholds(60, 150)
	p := ta.snapshot(1)
	if p.rate > 10 || p.done != 1010 || p.running != 100 || p.elapsed < time.Minute || p.stopAfter != 60 || p.stopUnreachable != 150 {
		t.Errorf("%+v", p)
	}
	ta.agree(map[core.Outcome]int{core.Changed: 2999})
	if p := ta.snapshot(1); p.running != 1 {
		t.Errorf("%d running, expected the 1 host that has not finished", p.running)
	}
}
