//go:build linux && labs

package e2e

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/turnus/turnus/core/transport/fleet"
)

// windowsFile writes window definitions that are open at any time, except for a freeze around
// today.
func (l *lab) windowsFile(frozen bool) string {
	l.t.Helper()
	deny := ""
	if frozen {
		deny = ", deny: [{use: freeze/late}]"
	}
	now := time.Now().UTC()
	return l.file("windows.yaml", fmt.Sprintf(`window_sets:
  acme: {timezone: UTC, allow: [{id: any, rrule: FREQ=DAILY, from: "00:00", to: "24:00"}]%s}
freezes:
  late: {timezone: UTC, from: %s, to: %s}
`, deny, now.AddDate(0, 0, -1).Format(time.DateOnly), now.AddDate(0, 0, 3).Format(time.DateOnly)))
}

// A freeze that is added while a run is under way suspends jobs that are queued already, also on
// other nodes; when it is lifted they continue.
func TestLabLateFreezeHoldsBackQueuedJobsOnOtherNodes(t *testing.T) {
	t.Parallel()
	const hosts, concurrency = 10, 2
	l := newLab(t, fleet.Config{Hosts: hosts}).withRedis().traced()
	trace := l.dir + "/trace"
	began := func() int { return len(executions(t, trace)) }
	file := l.windowsFile(false)
	l.worker("-f", strconv.Itoa(concurrency))
	run := l.run("-o", "json", "--windows", file, l.playbook("gated", fmt.Sprintf("{uses: lab.trace, window: acme, needs: 10m, with: {file: %s, ms: 3000}}", trace)))
	until(t, "the first jobs", func() bool { return began() >= 2 })

	l.windowsFile(true)
	until(t, "the freeze to be taken over", func() bool { return run.err.has("windows: the edit is taken over") })
	held := began()
	until(t, "hosts to wait", func() bool { return run.err.has("freeze late holds") })
	until(t, "the worker to run nothing", func() bool {
		return !slices.ContainsFunc(executions(t, trace), func(e *execution) bool { return e.end.IsZero() })
	})
	if now := began(); now > held+concurrency || now == hosts { // an attempt that was let in just before may begin just after
		t.Errorf("%d jobs had begun when the freeze was posted, %d afterwards, of %d", held, now, hosts)
	}

	l.windowsFile(false)
	run.wants(0)
	if n := began(); n != hosts {
		t.Errorf("%d of %d jobs ran", n, hosts)
	}
	l.redis.sound(map[string]int{run.report().Run: hosts})
}

// A folder of windows that is gone changes nothing: the last valid ones stay.
func TestLabWindowsThatAreGoneStayInForce(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 4}).traced()
	trace := l.dir + "/trace"
	file := l.windowsFile(false)
	run := l.run("-o", "json", "-f", "1", "--windows", file, l.playbook("gone", fmt.Sprintf("{uses: lab.trace, window: acme, needs: 10m, with: {file: %s, ms: 1500}}", trace)))
	until(t, "the first job", func() bool { return len(executions(t, trace)) >= 1 })
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	until(t, "the warning", func() bool { return run.err.has("the last valid windows stay") })
	run.wants(0)
}
