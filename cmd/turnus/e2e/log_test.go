//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// With --log-format json every line that a service writes to stderr is one JSON object, and those
// of jobs and requests have the keys that docs/operating-monitoring.md lists.
func TestEveryLineOfTheLogIsJSON(t *testing.T) {
	t.Parallel()
	u := newUpSite(t, 2, fmt.Sprintf("{uses: lab.trace, with: {file: %s/trace, ms: 1}}", t.TempDir()))
	u.more = []string{"--log-format", "json", "--log-level", "debug"}
	p, c := u.up()
	run := submitted(t, c)
	finished(t, c, run.ID)
	p.signal(syscall.SIGTERM)
	p.wants(0)
	wanted := map[string][]string{
		"job started": {"run", "job", "host"}, "step started": {"run", "job", "host", "step", "job_type", "attempt"},
		"step done": {"run", "job", "host", "step", "job_type", "outcome", "took"}, "job done": {"run", "job", "host", "outcome", "attempt", "took"},
		"request": {"operation", "who", "code", "took"},
	}
	seen := map[string]int{}
	for line := range strings.Lines(p.err.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		msg, _ := entry["msg"].(string)
		seen[msg]++
		for _, key := range append([]string{"time", "level", "msg"}, wanted[msg]...) {
			if _, has := entry[key]; !has {
				t.Errorf("%q has no %s: %s", msg, key, line)
			}
		}
		if r, has := entry["run"]; has && r != "" && r != run.ID {
			t.Errorf("run is %v, expected %s: %s", r, run.ID, line)
		}
	}
	for msg := range wanted {
		if seen[msg] == 0 {
			t.Errorf("nothing was logged as %q: %v", msg, seen)
		}
	}
}
