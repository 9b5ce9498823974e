package worker

import (
	"context"
	"fmt"
	"strings"
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

// A step whose condition reads what the dry run did not make is not checked: it neither fails nor
// counts as one that a run would skip.
func TestDryRunNamesStepsThatReadUnknownResults(t *testing.T) {
	const boot, look = "{name: boot, uses: reboot, with: {}}", "{name: look, uses: command, with: {run: a}}"
	step := func(keys string) string { return "{name: next, uses: command, " + keys + "}" }
	reads := func(what, of string) string {
		return "not checked: step next: " + what + " reads the result of step " + of + ", which a dry run does not have"
	}
	for name, c := range map[string]struct{ steps, reason string }{
		"exit code":   {under("steps", look, step("when: steps.look.exit_code == 0, with: {run: b}")), reads("when", "look")},
		"output":      {under("steps", look, step("when: 'steps.look.outputs.stdout contains \"a\"', with: {run: b}")), reads("when", "look")},
		"foreach":     {under("steps", look, step("foreach: 'default(steps.look.outputs.list, [])', with: {run: b}")), reads("foreach", "look")},
		"text":        {under("steps", look, step(`with: {run: "b ${{ steps.look.outputs.stdout }}"}`)), reads("with", "look")},
		"stdout":      {under("steps", look, step(`with: {run: "b ${{ trim(steps.look.stdout) }}"}`)), reads("with", "look")},
		"no change":   {under("steps", "{name: look, uses: command, with: {run: a, changed: false}}", step("when: steps.look.exit_code == 0, with: {run: b}")), reads("when", "look")},
		"group":       {under("steps", look, "{name: g, when: steps.look.exit_code == 0, steps: ["+step("with: {run: b}")+"]}"), "not checked: step next: when of g reads the result of step look, which a dry run does not have"},
		"of items":    {under("steps", "{name: look, uses: command, foreach: [1, 2], with: {run: a}}", step("when: 'steps.look.outputs.items[0].outputs.stdout == 1', with: {run: b}")), reads("when", "look")},
		"two":         {under("steps", look, step("when: steps.look.exit_code == 0, with: {run: b}"), "{name: last, uses: command, when: steps.next.changed, with: {run: b}}"), "not checked: step next and 1 later step: when reads the result of step look, which a dry run does not have"},
		"changed":     {under("steps", look, step("when: steps.look.changed, with: {run: b}")), ""},
		"known":       {under("steps", look, step("when: run.check || steps.look.exit_code == 0, with: {run: b}")), ""},
		"was skipped": {under("steps", "{name: look, uses: command, when: false, with: {run: a}}", step("when: steps.look.exit_code == 0, with: {run: b}")), "no step applied; step look: when: false"},
		"unchecked":   {under("steps", boot, step("when: steps.boot.changed, with: {run: b}")), "not checked: step boot and 1 later step: job type reboot has no check mode, so it was not called"},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
					return host.Outcome{Changed: !strings.Contains(string(c.Params), "changed"), Reason: "would run"}, nil
				}
				r := l.one(c.steps, func(o *launch.Options, _ *queue.Run) { o.Check = true })
				if r.Reason != c.reason || !r.Outcome.Good() {
					t.Errorf("%s, %q: %q\nexpected %q", r.Outcome, r.ReasonCode, r.Reason, c.reason)
				}
			})
		})
	}
}
