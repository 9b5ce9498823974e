package runview

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/testparts"
)

func TestEqualFailuresOfManyHostsAreOneLine(t *testing.T) {
	for name, reason := range testparts.SameFailures() {
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
		if n := strings.Count(recap.String(), "300 hosts: web[1:300:1]\n"); n != 2 { // the output, and the reason
			t.Errorf("%s: the recap has no group of 300 hosts for output and reason:\n%.1000s", name, recap.String())
		}
		if !strings.HasPrefix(groups.String(), "web[1:300:1] (300 hosts) exit 1") || strings.Count(groups.String(), " exit 1") != 1 {
			t.Errorf("%s: exec has more than one group:\n%.1000s", name, groups.String())
		}
	}
}

func TestFailuresThatDifferStayApart(t *testing.T) {
	for _, two := range testparts.DifferentFailures() {
		a, b := api.Result{Host: "a", Reason: two[0]}, api.Result{Host: "b", Reason: two[1]}
		if reasonKey(a) == reasonKey(b) {
			t.Errorf("%q and %q have one key, %q", two[0], two[1], reasonKey(a))
		}
	}
	if outputKey("a", "took 3s", true) == outputKey("b", "took 4s", true) {
		t.Error("outputs of successes that differ are one group")
	}
}
