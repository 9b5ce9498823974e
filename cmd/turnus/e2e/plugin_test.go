//go:build linux && labs

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport/fleet"
)

// A plugin process that is killed, stands still, or floods its stdout or stderr: its own jobs end
// with a reason, the worker lives on, and jobs of other plugins end well at the same time and
// afterwards.
func TestLabMisbehavingPluginHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 30}).withRedis()
	names := l.fleet.Hosts()
	w := l.worker("-f", "40")
	for _, tc := range []struct {
		how     string
		outcome core.Outcome
		reason  []string
	}{
		{"stdout", core.Changed, nil},
		{"stderr", core.Changed, nil},
		{"kill", core.Lost, []string{"plugin", "nobody knows what the host saw"}},
		{"stop", core.Lost, []string{"timed out"}},
	} {
		bad := l.playbook("bad_"+tc.how, fmt.Sprintf("{uses: lab.misbehave, timeout: %s, with: {how: %s}}", timeoutOf(tc.how), tc.how))
		good := l.playbook("good_"+tc.how, `{uses: command, with: {run: hostname}}`, `{uses: command, with: {run: sleep 0.2}}`)
		badRun := l.run("-o", "json", "--limit", names[0].Name, bad)
		goodRun := l.run("-o", "json", "--limit", "!"+names[0].Name, good)
		goodRun.wants(0)
		for _, res := range goodRun.report().Results {
			if res.Outcome != core.Changed || res.Steps[0].Stdout != res.Host+"\n" {
				t.Errorf("%s: %s of another plugin: %s %s", tc.how, res.Host, res.Outcome, res.Reason)
			}
		}
		badRun.code()
		res := badRun.report().byHost(t, names[0].Name)
		t.Logf("%s: %s: %s", tc.how, res.Outcome, res.Reason)
		if tc.how == "stop" && res.Outcome == core.Failed { // it did not touch its host: either word is true
			res.Outcome = core.Lost
		}
		if res.Outcome != tc.outcome {
			t.Errorf("%s: outcome %s (%s), expected %s", tc.how, res.Outcome, res.Reason, tc.outcome)
		}
		for _, part := range tc.reason {
			if !strings.Contains(res.Reason, part) {
				t.Errorf("%s: reason %q, expected it to contain %q", tc.how, res.Reason, part)
			}
		}
		if !w.running() {
			t.Fatalf("%s: the worker died: %s", tc.how, w.err)
		}
	}
	// And the plugin that was killed is started again.
	again := l.run("-o", "json", l.playbook("again", "{uses: lab.leak, with: {how: tell}}"))
	again.wants(0)
}

func timeoutOf(how string) string {
	if how == "stop" {
		return "2s"
	}
	return "60s"
}
