package playbooks

import (
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
)

// maxGroups is how deep groups may be nested, over all files.
const maxGroups = 8

// GroupPart is one of the lists of steps of a group.
type GroupPart string

// The parts of a group.
const (
	GroupSteps  GroupPart = "steps"
	GroupRescue GroupPart = "rescue"
	GroupAlways GroupPart = "always"
)

// Group reports whether the block is a group of steps, and no include.
func (b *Block) Group() bool { return b.Include == "" }

// Part returns the part of a group that has the step with this index. The step is of the group.
func (b *Block) Part(step int) GroupPart {
	switch {
	case step < b.Rescue:
		return GroupSteps
	case step < b.Always:
		return GroupRescue
	}
	return GroupAlways
}

// Aside returns the outermost group that has a call in its rescue or always, and that part; "" if
// there is none.
func (p *Playbook) Aside(call int) (group string, part GroupPart) {
	if call >= len(p.Steps) {
		return "", ""
	}
	for _, index := range p.Steps[call].Within {
		if b := &p.Blocks[index]; b.Group() && b.Part(call) != GroupSteps {
			return b.Name, b.Part(call)
		}
	}
	return "", ""
}

// Rescued reports whether a call is one of the steps of a group that has a rescue.
func (p *Playbook) Rescued(call int) bool {
	if call >= len(p.Steps) {
		return false
	}
	return slices.ContainsFunc(p.Steps[call].Within, func(index int) bool {
		b := &p.Blocks[index]
		return b.Group() && b.Part(call) == GroupSteps && b.Rescue < b.Always
	})
}

// TagNever is the tag of steps that run only where one of their other tags is asked for.
const TagNever = "never"

// Selected reports for each of Calls whether it runs, where selects decides by the tags of one
// step. A step of rescue or always also runs with each step of the group's steps that runs, unless
// its own tags keep it out: a step must not lose its rescue to --tags. TagNever on it keeps it out,
// but not on the whole group. Handlers always run.
func (p *Playbook) Selected(selects func(tags []string) bool) []bool {
	out := make([]bool, len(p.Steps)+len(p.Handlers))
	for i := range out {
		out[i] = i >= len(p.Steps) || selects(p.Steps[i].Tags)
	}
	for at := len(p.Blocks) - 1; at >= 0; at-- { // the inner before the outer
		b := &p.Blocks[at]
		never := func(s Step) bool { return slices.Contains(s.Tags, TagNever) }
		usual := slices.ContainsFunc(p.Steps[b.First:b.End], func(s Step) bool { return !never(s) })
		for i := b.Rescue; i < b.End; i++ {
			if usual && never(p.Steps[i]) {
				continue
			}
			for j := b.First; j < b.Rescue && !out[i]; j++ {
				out[i] = out[j] && selects(core.Union(p.Steps[i].Tags, p.Steps[j].Tags))
			}
		}
	}
	return out
}

func groupFields() []field[draftBlock] {
	list := form{"a list of steps", &jsonschema.Schema{Ref: "#/$defs/steps"}}
	return append([]field[draftBlock]{
		{key: "steps", doc: "Steps of the group. If one fails, those after it are skipped.", form: list, required: true,
			read: func(_ *decoder, n *yaml.Node, b *draftBlock) { b.steps = n }},
		{key: "rescue", doc: "Steps that run on a host where one of steps failed. They read error.step and error.reason.", form: list,
			read: func(_ *decoder, n *yaml.Node, b *draftBlock) { b.rescue = n }},
		{key: "always", doc: "Steps that run at the end of the group, also after a failure or a cancel.", form: list,
			read: func(_ *decoder, n *yaml.Node, b *draftBlock) { b.always = n }},
		{key: "recover", doc: "true: the host continues after a rescue that succeeded, and counts as rescued. Without it the host ends failed.", form: boolForm(),
			read: func(d *decoder, n *yaml.Node, b *draftBlock) { b.recover = d.boolOf(n) }},
	}, blockFields()...)
}

func groupWords() map[string]string {
	words := stepWords()
	words["uses"], words["with"] = "a step has uses or steps, not both", "write it on the steps"
	words["block"] = `it is called "steps"`
	for _, key := range []string{"needs", "timeout", "retry", "notify", "secrets", "disruptive", "foreach", "on"} {
		words[key] = "write it on the steps of the group"
	}
	words["after"] = "a barrier is a step outside of groups"
	words["continue_on_failure"] = "write rescue: and recover: true"
	return words
}

// readGroup reads a group, and returns the steps of its parts.
func (d *decoder) readGroup(n *yaml.Node, index int, taken map[string]int) []Step {
	var b draftBlock
	readFields(d, n, d.stepLabel(n, index), groupFields(), groupWords(), &b)
	if b.steps == nil || d.Full || !d.checkGroup(n, &b) {
		return nil
	}
	d.unique(b.name, n)
	d.hostRead = map[string]bool{}
	when := Expr{}
	if b.when != nil {
		when = d.expression(b.when, fmt.Sprintf("when of group %q", d.full(b.name)), d.stepScope(false), wantBool)
	}
	b.facts = d.hostRead[factsField]
	d.checkPart("group "+quote(b.name), n, "", b.window)
	at := len(d.whole.blocks)
	d.whole.blocks = append(d.whole.blocks, Block{Name: d.full(b.name), First: d.whole.steps, Recover: b.recover, When: when, Line: n.Line, node: n})
	around, inRescue := d.inherited, d.inRescue
	d.inherited = around.into(at, &b)
	d.inherited.groups++
	out := d.groupPart(b.steps, taken)
	d.whole.blocks[at].Rescue = d.whole.steps
	d.inherited.unwindowed, d.inRescue = true, true
	out = append(out, d.groupPart(b.rescue, taken)...)
	d.whole.blocks[at].Always = d.whole.steps
	d.inRescue = inRescue
	out = append(out, d.groupPart(b.always, taken)...)
	d.whole.blocks[at].End = d.whole.steps
	d.inherited = around
	d.steps = append(d.steps, knownStep{name: b.name, line: n.Line, outputs: open(), block: "group"})
	return out
}

// checkGroup checks what a group has beside its steps.
func (d *decoder) checkGroup(n *yaml.Node, b *draftBlock) bool {
	switch {
	case b.name == "":
		d.reportNode(n, problem{message: "the group has no name", expected: "name: what it does, in a few words", hint: "records and messages name the group by it"})
	case b.rescue == nil && b.recover:
		d.reportNode(d.child(n, "recover"), problem{message: fmt.Sprintf("group %s has recover, and no rescue", quote(b.name)), expected: "rescue: a list of steps, after which the host may continue"})
	case d.inherited.groups == maxGroups:
		d.reportNode(n, problem{message: fmt.Sprintf("groups are nested deeper than %d", maxGroups), expected: fmt.Sprintf("%d at most", maxGroups)})
	default:
		return true
	}
	return false
}

func (d *decoder) groupPart(n *yaml.Node, taken map[string]int) []Step {
	if n == nil {
		return nil
	}
	return d.stepList(n, d.List(n, "a list of steps"), taken)
}

// checkPart reports what a step cannot have in a group: its host may be past the place where it
// would wait.
func (d *decoder) checkPart(what string, n *yaml.Node, after, window string) {
	if d.inherited.groups == 0 {
		return
	}
	if after != "" {
		d.reportNode(d.child(n, "after"), problem{message: what + " is a barrier in a group", expected: "after on a step outside of groups",
			hint: "a host that failed in the group never reaches the step, so the others would wait for it"})
	}
	if d.inherited.unwindowed && window != "" && window != NoWindow {
		d.reportNode(d.child(n, "window"), problem{message: what + " has a window in rescue or always", expected: "no window: these steps do not wait for a window",
			hint: "a host must not stay half changed until its next window"})
	}
}
