package runview

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// sameFailures are reasons that differ in nothing that matters, of host number i.
func sameFailures() map[string]func(host string, i int) string {
	return map[string]func(host string, i int) string{
		"refused": func(h string, i int) string {
			return fmt.Sprintf("%s (10.0.%d.%d:22): dial: connection refused", h, i/256, i%256)
		},
		"source ports": func(_ string, i int) string {
			return fmt.Sprintf("read tcp 10.0.0.1:%d->10.0.%d.%d:22: connection reset by peer", 40000+i, i/256, i%256)
		},
		"source ports of IPv6": func(_ string, i int) string {
			return fmt.Sprintf("read tcp [fd00::1]:%d->[fd00::%x]:22: connection reset by peer", 40000+i, i)
		},
		"temporary names": func(_ string, i int) string {
			return fmt.Sprintf("sh: /tmp/turnus-%08x/script: Permission denied", i*7919)
		},
		"durations": func(_ string, i int) string {
			return fmt.Sprintf("no answer after %v", 10*time.Second+time.Duration(i)*37*time.Millisecond)
		},
		"times":          func(_ string, i int) string { return fmt.Sprintf("2026-11-26T03:%02d:%02dZ lock held", i/60, i%60) },
		"process":        func(_ string, i int) string { return fmt.Sprintf("lock held by pid %d", 1000+i) },
		"daemon":         func(_ string, i int) string { return fmt.Sprintf("nginx[%d]: bind failed", 1000+i) },
		"the host's own": func(h string, _ int) string { return "cannot resolve " + h + ".example.net:443" },
	}
}

func TestEqualFailuresOfManyHostsAreOneLine(t *testing.T) {
	for name, reason := range sameFailures() {
		var results []api.Result
		var live strings.Builder
		con := console.New(strings.NewReader(""), io.Discard, &live)
		tally := NewTally(Outline{Name: "p", Total: 300})
		for i := range 300 {
			host := fmt.Sprintf("web%d", i+1)
			code := 1
			r := api.Result{Host: host, Outcome: core.Failed, Step: "go", Reason: reason(host, i), Steps: []api.StepResult{{Name: "go", Uses: "command", Stderr: reason(host, i) + "\n", ExitCode: &code, Outcome: core.Failed}}}
			results = append(results, r)
			tally.Fail(con, r)
		}
		if n := strings.Count(live.String(), "\n"); n != 1 {
			t.Errorf("%s: %d lines as it happens, expected 1:\n%s", name, n, live.String())
		}
		if p := tally.snapshot(1); len(p.failures) != 1 || p.failures[0].hosts != 300 {
			t.Errorf("%s: the live view has %d failures, expected 1 of 300 hosts", name, len(p.failures))
		}
		r := Report{Run: "r1", Playbook: "p", Results: results, Total: len(results)}
		var recap, groups strings.Builder
		WriteRecap(con, &recap, r)
		WriteGroups(con, &groups, r, LocalLogs)
		if n := strings.Count(recap.String(), "300 hosts: web[1:300]\n"); n != 2 { // the output, and the reason
			t.Errorf("%s: the recap has no group of 300 hosts for output and reason:\n%.1000s", name, recap.String())
		}
		if !strings.HasPrefix(groups.String(), "web[1:300] (300 hosts) exit 1") || strings.Count(groups.String(), " exit 1") != 1 {
			t.Errorf("%s: exec has more than one group:\n%.1000s", name, groups.String())
		}
	}
}

func TestFailuresThatDifferStayApart(t *testing.T) {
	for _, two := range [][2]string{
		{"exit status 1", "exit status 2"},
		{"line 4: syntax error", "line 5: syntax error"},
		{"no space left on /var", "no space left on /home"},
		{"package nginx 1.2 is missing", "package nginx 1.4 is missing"},
		{"expected 3 workers, found 2", "expected 3 workers, found 1"},
	} {
		a, b := api.Result{Host: "a", Reason: two[0]}, api.Result{Host: "b", Reason: two[1]}
		if reasonKey(a) == reasonKey(b) {
			t.Errorf("%q and %q have one key, %q", two[0], two[1], reasonKey(a))
		}
	}
	if a, b := general("a", "a: packages fail"), general("b", "b: packages fail"); a != b {
		t.Errorf("hosts of one letter: %q and %q", a, b)
	}
	if outputKey("a", "took 3s", true) == outputKey("b", "took 4s", true) {
		t.Error("outputs of successes that differ are one group")
	}
}
