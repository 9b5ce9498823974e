package playbooks_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

const swapPlaybook = `playbook: swap
targets: true
window: night
steps:
  - {name: probe, uses: command, with: {run: "true"}}
  - name: swap
    when: steps.probe.changed
    tags: [swap]
    become: {user: app}
    window: weekend
    recover: true
    steps:
      - {name: stop, uses: command, with: {run: stop}, tags: [stop]}
      - name: inner
        steps: [{name: copy, uses: command, with: {run: copy}, notify: [log]}]
        always: [{name: tidy, uses: command, with: {run: tidy}}]
    rescue:
      - {name: back, uses: command, with: {run: "back ${{ error.step }} ${{ error.reason }}"}, when: steps.copy.changed, become: false}
      - {include: steps/site.yaml, with: {port: 80, root: "${{ error.step }}"}}
    always:
      - {name: start, uses: command, with: {run: start}, notify: [log]}
  - {name: last, uses: command, with: {run: last}, when: steps.swap.changed}
handlers:
  - {name: log, uses: command, with: {run: log}}
`

// The steps of a group are in the list of steps, part after part, with what they inherit.
func TestGroup(t *testing.T) {
	t.Parallel()
	p, err := playbooks.Parse("swap.yaml", []byte(swapPlaybook), included(t, map[string]string{"steps/site.yaml": siteSteps}))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range p.Steps {
		names = append(names, s.Name)
	}
	if want := []string{"probe", "stop", "copy", "tidy", "back", "site/conf", "site/check", "start", "last"}; !slices.Equal(names, want) {
		t.Fatalf("steps %v, want %v", names, want)
	}
	swap, inner := p.Blocks[0], p.Blocks[1]
	if swap.Name != "swap" || !swap.Group() || !swap.Recover || swap.First != 1 || swap.Rescue != 4 || swap.Always != 7 || swap.End != 8 {
		t.Errorf("group %+v", swap)
	}
	if inner.First != 2 || inner.Rescue != 3 || inner.Always != 3 || inner.End != 4 || inner.Recover {
		t.Errorf("inner group %+v", inner)
	}
	stop, conf, start := p.Steps[1], p.Steps[5], p.Steps[7]
	if !slices.Equal(stop.Tags, []string{"swap", "stop"}) || stop.Window != "weekend" || *stop.Become != (core.BecomeRule{On: true, User: "app"}) || !slices.Equal(stop.Within, []int{0}) {
		t.Errorf("stop does not have what it inherits: %+v", stop)
	}
	if conf.Window != playbooks.NoWindow || start.Window != playbooks.NoWindow || p.Steps[4].Become.On {
		t.Errorf("rescue and always wait for %s and %s", conf.Window, start.Window)
	}
	for i, want := range []playbooks.GroupPart{1: "steps", 2: "steps", 3: "steps", 4: "rescue", 5: "rescue", 6: "rescue", 7: "always"} {
		if i > 0 && swap.Part(i) != want {
			t.Errorf("step %s is of %s, want %s", names[i], swap.Part(i), want)
		}
	}
	if restart := p.Handlers[1]; restart.Name != "site/restart" || restart.Window != "weekend" {
		t.Errorf("a handler runs later than the rescue, and waits for its window: %+v", restart)
	}
	data, err := p.Steps[4].With.JSON(playbooks.Env{Steps: map[string]map[string]any{}, Error: map[string]any{"step": "stop", "reason": "exit 1"}})
	if err != nil || !strings.Contains(string(data), "back stop exit 1") {
		t.Errorf("params %s, %v", data, err)
	}
	if fields := swap.Fields(); fields["steps"] != nil || fields["recover"] != true {
		t.Errorf("fields %v", fields)
	}
}

// A step of rescue or always runs with the steps that it is for, whatever the value of --tags,
// unless its own tags keep it out.
func TestGroupTags(t *testing.T) {
	t.Parallel()
	const group = `playbook: x
targets: true
steps:
  - name: g
    steps: [{name: a, uses: command, with: {run: x}, tags: [a]}, {name: b, uses: command, with: {run: x}, tags: [b]}]
    rescue: [{name: r, uses: command, with: {run: x}}]
    always: [{name: z, uses: command, with: {run: x}, tags: [tidy]}]
  - {name: c, uses: command, with: {run: x}, tags: [c]}
`
	p, err := playbooks.Parse("x.yaml", []byte(group), options(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ only, without, want string }{
		{want: "a b r z c"},
		{only: "a", want: "a r z"},
		{only: "c", want: "c"},
		{only: "tidy", want: "z"},
		{without: "a", want: "b r z c"},
		{only: "a", without: "tidy", want: "a r"},
	} {
		has := func(tags []string, tag string) bool { return tag != "" && slices.Contains(tags, tag) }
		selected := p.Selected(func(tags []string) bool {
			return !has(tags, tc.without) && (tc.only == "" || has(tags, tc.only))
		})
		var names []string
		for i, s := range p.Steps {
			if selected[i] {
				names = append(names, s.Name)
			}
		}
		if got := strings.Join(names, " "); got != tc.want {
			t.Errorf("--tags %q --skip-tags %q: %s, want %s", tc.only, tc.without, got, tc.want)
		}
	}
}

func TestGroupProblems(t *testing.T) {
	t.Parallel()
	const head, one = "playbook: x\ntargets: true\nsteps:\n", "{name: a, uses: command, with: {run: x}}"
	deep := one
	for name := range strings.FieldsSeq("a1 a2 a3 a4 a5 a6 a7 a8 a9") {
		deep = "{name: " + name + ", steps: [" + deep + "]}"
	}
	for name, tc := range map[string]struct {
		steps string
		want  []string
	}{
		"no name":           {"  - {steps: [" + one + "]}\n", []string{"x.yaml:4:5: the group has no name"}},
		"no steps":          {"  - {name: g, rescue: [" + one + "]}\n", []string{"steps"}},
		"empty":             {"  - {name: g, steps: [" + one + "], always: []}\n", []string{"there are no steps"}},
		"two names":         {"  - {name: g, steps: [" + one + "], rescue: [" + one + "]}\n", []string{`a second step is named "a"`}},
		"its own name":      {"  - {name: a, steps: [" + one + "]}\n", []string{`a second step of the playbook is named "a"`}},
		"recover alone":     {"  - {name: g, recover: true, steps: [" + one + "]}\n", []string{"group \"g\" has recover, and no rescue"}},
		"uses too":          {"  - {name: g, uses: command, steps: [" + one + "]}\n", []string{"a step has uses or steps, not both"}},
		"foreach":           {"  - {name: g, foreach: [1], steps: [" + one + "]}\n", []string{"write it on the steps of the group"}},
		"continue":          {"  - {name: g, continue_on_failure: true, steps: [" + one + "]}\n", []string{"write rescue: and recover: true"}},
		"too deep":          {"  - " + deep + "\n", []string{"groups are nested deeper than 8"}},
		"barrier":           {"  - " + one + "\n  - {name: g, steps: [{name: b, uses: command, with: {run: x}, after: all_hosts}]}\n", []string{`step "b" is a barrier in a group`}},
		"flush":             {"  - {name: g, steps: [{flush: handlers}, " + one + "]}\n", []string{"a flush is in a group"}},
		"window":            {"  - {name: g, steps: [" + one + "], always: [{name: b, uses: command, with: {run: x}, window: night}]}\n", []string{`step "b" has a window in rescue or always`}},
		"window of a group": {"  - {name: g, steps: [" + one + "], rescue: [{name: h, window: night, steps: [{name: b, uses: command, with: {run: x}}]}]}\n", []string{`group "h" has a window in rescue or always`}},
		"error outside":     {"  - {name: g, steps: [" + one + "], always: [{name: b, uses: command, with: {run: \"${{ error.step }}\"}}]}\n", []string{`"error" cannot be read here`, "steps in rescue"}},
		"error":             {"  - {name: g, steps: [" + one + "], rescue: [{name: b, uses: command, with: {run: \"${{ error.stop }}\"}}]}\n", []string{`error has no "stop"`}},
		"later step":        {"  - {name: g, steps: [{name: c, uses: command, with: {run: x}, when: steps.b.changed}], rescue: [{name: b, uses: command, with: {run: x}}]}\n", []string{`step "b" has not run before this one`}},
		"outputs":           {"  - {name: g, steps: [" + one + "]}\n  - {name: b, uses: command, with: {run: x}, when: steps.g.outputs.x == 1}\n", []string{`group "g" has no "outputs"`}},
		"block":             {"  - {name: g, block: [" + one + "], rescue: [" + one + "]}\n", []string{`it is called "steps"`}},
	} {
		_, err := playbooks.Parse("x.yaml", []byte(head+tc.steps), options(t))
		if err == nil {
			t.Errorf("%s: no problem was found", name)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v\nwithout %q", name, err, want)
			}
		}
	}
}
