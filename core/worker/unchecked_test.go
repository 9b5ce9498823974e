package worker

import (
	"context"
	"fmt"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/plugins/host"
)

// The result of a dry run names the steps that it could not check: those whose host may get what
// they need from an earlier step, and those of a job type without check mode. Controls: a run
// without check mode names none, and neither does a dry run that checked everything.
func TestDryRunNamesUncheckedSteps(t *testing.T) {
	const lacks = "no service shop; an earlier step of this run may bring it"
	for name, c := range map[string]struct {
		steps  string
		run    bool // without check mode
		code   core.ReasonCode
		reason string
	}{
		"all were checked": {steps: under("steps", file("a"), file("b"))},
		"no check mode of the run": {
			steps: under("steps", file("a"), file("lacks")), run: true,
		},
		"one": {
			steps: under("steps", file("a"), file("lacks")),
			code:  core.Unchecked, reason: "not checked: step lacks: " + lacks,
		},
		"an item": {
			steps: under("steps", `{name: f, uses: file, foreach: '["a", "lacks", "b"]', with: {path: "/${{ item }}"}}`),
			code:  core.Unchecked, reason: "not checked: step f: " + lacks,
		},
		"an item behind one that failed": {
			steps: under("steps", `{name: f, uses: file, continue_on_failure: true, foreach: '["bad", "lacks"]', with: {path: "/${{ item }}"}}`),
		},
		"several": {
			steps: under("steps", file("a"), file("lacks"), "{name: boot, uses: reboot, with: {}}", `{name: again, uses: file, with: {path: /lacks}}`),
			code:  core.Unchecked, reason: "not checked: step lacks and 2 later steps: " + lacks,
		},
		"a job type without check mode": {
			steps: under("steps", "{name: boot, uses: reboot, with: {}}"),
			code:  core.Unchecked, reason: "not checked: step boot: job type reboot has no check mode, so it was not called",
		},
		"rescue goes first": {
			steps: under("steps", file("lacks"), "{name: g, recover: true, steps: ["+file("bad")+"], rescue: ["+file("a")+"]}"),
			code:  core.Rescued, reason: "rescued: step bad: out of order",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.plugins.do = func(_ context.Context, call host.Call) (host.Outcome, error) {
					at := fmt.Sprint(params(call)["path"])
					if at == "/x" {
						at = "/" + call.Step
					}
					switch at {
					case "/lacks":
						return host.Outcome{Changed: true, Unchecked: true, Reason: lacks}, nil
					case "/bad":
						return host.Outcome{Failed: true, Reason: "out of order", Effects: host.EffectsNone}, nil
					}
					return host.Outcome{Changed: true, Reason: "another reason"}, nil
				}
				r := l.one(c.steps, func(o *launch.Options, _ *queue.Run) { o.Check = !c.run })
				if r.ReasonCode != c.code || r.Reason != c.reason || !r.Outcome.Good() {
					t.Errorf("%s, %q: %q\nexpected %q: %q", r.Outcome, r.ReasonCode, r.Reason, c.code, c.reason)
				}
			})
		})
	}
}
