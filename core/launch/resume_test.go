package launch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/playbooks"
)

const resumable = `playbook: p
targets: true
steps:
  - {name: a, uses: command, with: {run: x}}
  - {name: b, uses: command, with: {run: x}}
  - {name: c, uses: command, foreach: [x, y], with: {run: "${{ item }} ${{ steps.a.outputs.v }}"}}
  - {name: d, uses: command, when: steps.b.changed, with: {run: x}}
`

// past is a host that failed at step c, of which an item finished.
func past(now time.Time) launch.Past {
	return launch.Past{
		Run: "r1", Recorded: now.Add(-time.Hour), Boot: "boot-1",
		Result: core.Result{
			Outcome: core.Failed, Step: "c", Attempt: 1, Facts: &core.Facts{Boot: "boot-1"},
			Steps: []core.StepResult{
				{Name: "a", Uses: "command", Outcome: core.Changed, Outputs: map[string]any{"v": "1"}, Stdout: "text"},
				{Name: "h", Uses: "command", Outcome: core.Changed, Handler: true},
				{Name: "b", Uses: "command", Outcome: core.Unchanged, Outputs: map[string]any{"v": "[secret s]"}, Truncated: true},
				{Name: "c", Uses: "command", Outcome: core.Failed, Attempts: 2, Outputs: map[string]any{"items": []any{
					map[string]any{"item": "x", "outcome": "changed", "outputs": map[string]any{"v": "9"}},
					map[string]any{"item": "y", "outcome": "failed", "outputs": nil},
				}}},
			},
		},
	}
}

func TestResumeOf(t *testing.T) {
	t.Parallel()
	p, err := playbooks.Parse("p.yaml", []byte(resumable), playbooks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		change func(*launch.Past)
		steps  int
		items  int
		says   string // of a refusal
	}{
		"control":                        {func(*launch.Past) {}, 2, 1, ""},
		"lost":                           {func(p *launch.Past) { p.Result.Outcome = core.Lost }, 0, 0, "lost"},
		"good":                           {func(p *launch.Past) { p.Result.Outcome = core.Changed }, 0, 0, "no step failed"},
		"24 hours old":                   {func(p *launch.Past) { p.Recorded = now.Add(-24 * time.Hour) }, 2, 1, ""},
		"older":                          {func(p *launch.Past) { p.Recorded = now.Add(-24*time.Hour - time.Second) }, 0, 0, "older than 24h"},
		"a kept step is older":           {func(p *launch.Past) { p.Result.Steps[0].Kept = &core.Kept{Run: "r0", At: now.Add(-25 * time.Hour)} }, 0, 0, `step "a": its record`},
		"another boot":                   {func(p *launch.Past) { p.Boot = "boot-2" }, 0, 0, "booted"},
		"the boot is not known by now":   {func(p *launch.Past) { p.Boot = "" }, 2, 1, ""},
		"the boot was not known":         {func(p *launch.Past) { p.Result.Facts, p.Boot = nil, "boot-2" }, 2, 1, ""},
		"an output that is read was cut": {func(p *launch.Past) { p.Result.Steps[0].Truncated = true }, 0, 0, `output of step "a"`},
		"an output has a secret":         {func(p *launch.Past) { p.Result.Steps[0].Outputs["v"] = "x [secret db]" }, 0, 0, "a secret was taken out"},
		"the items are cut":              {func(p *launch.Past) { p.Result.Steps[3].Outputs = nil }, 0, 0, "which items"},
		"an item is a secret": {func(p *launch.Past) {
			p.Result.Steps[3].Outputs["items"].([]any)[0].(map[string]any)["item"] = "[secret db]"
		}, 0, 0, "items of step"},
		"no step is on record":            {func(p *launch.Past) { p.Result.Steps = nil }, 0, 0, "not on record"},
		"it never began":                  {func(p *launch.Past) { p.Result = core.Result{Outcome: core.Cancelled} }, 0, 0, ""},
		"cancelled before the first step": {func(p *launch.Past) { p.Result = core.Result{Outcome: core.Cancelled, Attempt: 1, Step: "a"} }, 0, 0, ""},
		"a step of another name":          {func(p *launch.Past) { p.Result.Steps[2].Name = "x" }, 0, 0, "another place"},
		"unreachable":                     {func(p *launch.Past) { p.Result.Outcome, p.Result.Steps[3].Outcome = core.Unreachable, core.Unreachable }, 2, 1, ""},
		"cancelled between steps":         {func(p *launch.Past) { p.Result.Outcome, p.Result.Steps = core.Cancelled, p.Result.Steps[:3] }, 2, 0, ""},
		"too large":                       {func(p *launch.Past) { p.Result.Steps[0].Outputs["v"] = strings.Repeat("x", 17<<10) }, 0, 0, "at most 16384"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := past(now)
			c.change(&host)
			r, err := launch.ResumeOf(p, host, now)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("%v, expected a refusal with %q", err, c.says)
				}
				return
			}
			if err != nil || len(r.Steps) != c.steps || len(r.Items) != c.items {
				t.Fatalf("%+v %v, expected %d steps and %d items", r, err, c.steps, c.items)
			}
			if c.steps == 2 && (r.Steps[0].Outputs["v"] != "1" || r.Steps[1].Outputs != nil || r.Steps[1].Kept.Run != "r1") {
				t.Errorf("%+v", r.Steps)
			}
		})
	}
}

// Where an include was entered comes from the record.
func TestResumeOfIncludes(t *testing.T) {
	t.Parallel()
	p, err := playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: true\nsteps:\n  - {name: site, include: steps/s.yaml, when: host.name == \"x\"}\n  - {name: off, include: steps/s.yaml, when: \"false\"}\n  - {name: last, uses: command, with: {run: x}}\n"),
		playbooks.Options{Steps: playbooks.ReadFrom(map[string]string{"steps/s.yaml": "steps: [{name: a, uses: command, with: {run: x}}]\n"})})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	host := launch.Past{Run: "r1", Recorded: now, Result: core.Result{Outcome: core.Failed, Attempt: 1, Step: "last", Entered: map[string]bool{"site": true, "off": false}, Steps: []core.StepResult{
		{Name: "site/a", Outcome: core.Changed}, {Name: "off/a", Outcome: core.Skipped, ReasonCode: core.WhenFalse}, {Name: "last", Outcome: core.Failed},
	}}}
	r, err := launch.ResumeOf(p, host, now)
	if err != nil || len(r.Entered) != 2 || !r.Entered["site"] || r.Entered["off"] {
		t.Errorf("%+v %v", r, err)
	}
	host.Result.Entered = nil
	if _, err := launch.ResumeOf(p, host, now); err == nil || !strings.Contains(err.Error(), "when of site") {
		t.Errorf("a record without it: %v", err)
	}
}

// A group with a failure is called again as a whole, whatever of it succeeded; the steps before it
// are kept.
func TestResumeCallsAGroupAgainAsAWhole(t *testing.T) {
	t.Parallel()
	p, err := playbooks.Parse("p.yaml", []byte(`playbook: p
targets: true
steps:
  - {name: a, uses: command, with: {run: x}}
  - name: swap
    recover: true
    steps:
      - {name: drain, uses: command, foreach: [x, y], with: {run: x}}
      - {name: install, uses: command, with: {run: x}}
    rescue: [{name: restore, uses: command, with: {run: x}}]
  - {name: last, uses: command, with: {run: x}}
`), playbooks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	result := func(outcomes ...core.Outcome) core.Result {
		r := core.Result{Outcome: core.Failed, Attempt: 1, Entered: map[string]bool{"swap": true}}
		for i, o := range outcomes {
			r.Steps = append(r.Steps, core.StepResult{Name: p.Steps[i].Name, Uses: "command", Outcome: o, Attempts: 1})
		}
		r.Steps[1].Outputs = map[string]any{"items": []any{map[string]any{"item": "x", "outcome": "changed", "outputs": map[string]any{}}}}
		return r
	}
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		result core.Result
		steps  int
	}{
		"a step of the group failed":      {result(core.Changed, core.Changed, core.Failed, core.Failed), 1},
		"rescue recovered, the last fell": {result(core.Changed, core.Changed, core.Failed, core.Changed, core.Failed), 1},
		"control: only the last failed":   {result(core.Changed, core.Changed, core.Changed, core.Skipped, core.Failed), 4},
	} {
		r, err := launch.ResumeOf(p, launch.Past{Run: "r1", Recorded: now, Result: c.result}, now)
		if err != nil || len(r.Steps) != c.steps || len(r.Items) != 0 {
			t.Errorf("%s: %d steps, %d items, %v, expected %d steps", name, len(r.Steps), len(r.Items), err, c.steps)
		}
	}
}
