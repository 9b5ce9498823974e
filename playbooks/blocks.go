package playbooks

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
)

// Block is the steps of an include, or of a group. They are in Playbook.Steps like all others:
// those of a group one part after the other.
type Block struct {
	Name       string // of the step that includes them, see Step.Name
	Include    string // path of the file below the playbook's folder; "" is a group
	First, End int    // its steps are Playbook.Steps[First:End]
	Rescue     int    // where rescue begins: Always if there is none. An include has only its steps
	Always     int    // where always begins: End if there is none
	Recover    bool   // a host that was rescued continues
	When       Expr   // asked once, before the first of them
	Line       int    // the line in its file, from 1

	node    *yaml.Node
	params  []Param
	with    *value
	outputs *value // nil: the file has none
}

// Given returns the params of an include for one host, as Env.Included has them. Errors are
// Diagnostics.
func (b *Block) Given(env Env) (map[string]any, error) {
	out := make(map[string]any, len(b.params))
	given, err := b.with.evaluate(env, &allowance{})
	if err != nil {
		return nil, err
	}
	for i := range b.params {
		p := &b.params[i]
		out[p.Name] = p.Default
		at := slices.IndexFunc(given.fields, func(f named) bool { return f.name == p.Name })
		if at < 0 {
			continue
		}
		f := given.fields[at]
		if out[p.Name], err = p.Accept(f.plain()); err != nil {
			return nil, f.refused(env, err)
		}
	}
	return out, nil
}

// refused is a value that the param of an include does not take on a host.
func (v *value) refused(env Env, err error) error {
	e, ok := errors.AsType[*ValueError](err)
	if !ok {
		return err
	}
	p := unwantedValue(e)
	p.message = "on host " + env.Host.Name + ": " + p.message
	return Diagnostics{v.src.diagnose(v.src.at(v.node), p)}
}

// Outputs returns what later steps read as steps.NAME.outputs, when the steps of the include are
// done. Errors are Diagnostics.
func (b *Block) Outputs(env Env) (map[string]any, error) {
	if b.outputs == nil {
		return map[string]any{}, nil
	}
	v, err := b.outputs.evaluate(env, &allowance{})
	if err != nil {
		return nil, err
	}
	return v.plain().(map[string]any), nil
}

// Whole returns the bytes of the playbook and of all files that it includes: two playbooks with the
// same do the same.
func (p *Playbook) Whole() []byte {
	if len(p.Included) == 0 {
		return p.Source
	}
	data, err := json.Marshal([]any{string(p.Source), p.Included})
	if err != nil {
		return p.Source // texts only: it cannot fail
	}
	return data
}

// ReadSteps is Options.Steps for the files that the playbook includes, as they were when it was
// loaded.
func (p *Playbook) ReadSteps(path string) ([]byte, error) { return ReadFrom(p.Included)(path) }

// ReadFrom returns Options.Steps for files that are kept by their paths.
func ReadFrom(files map[string]string) func(path string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		text, ok := files[path]
		if !ok {
			return nil, fmt.Errorf("the file is not kept with the run: %w", core.ErrNotFound)
		}
		return []byte(text), nil
	}
}

// Fields returns the step as its file has it.
func (s *Step) Fields() map[string]any { return plainFields(s.node) }

// Fields returns the include or group as its file has it. The steps of a group are not among them:
// they are steps of the playbook.
func (b *Block) Fields() map[string]any {
	out := plainFields(b.node)
	if b.Group() {
		for _, part := range []GroupPart{GroupSteps, GroupRescue, GroupAlways} {
			delete(out, string(part))
		}
	}
	return out
}

func plainFields(n *yaml.Node) map[string]any {
	out := map[string]any{}
	_ = n.Decode(&out) // it is a mapping: it was loaded
	return out
}

// DiagnoseKey is a problem with a key of one of Calls that shows only later than Load. Where the
// step has the key from an include, its place is that of the step.
func (p *Playbook) DiagnoseKey(call int, key, message, hint string) Diagnostic {
	s := p.Calls()[call]
	n := (&decoder{}).child(s.node, key)
	if n == s.node {
		return p.Diagnose(call, message, "", hint)
	}
	return s.src.diagnose(s.src.at(n), problem{message: message, hint: hint})
}

// whole is the state that the decoders of one playbook, its file and those that it includes, share.
type whole struct {
	read     func(path string) ([]byte, error)
	folder   string // of the playbook
	onDisk   bool
	room     int64 // bytes of templates that may still be checked
	files    map[string]*stepsFile
	size     int             // bytes of files
	exprs    int             // expressions compiled
	steps    int             // read so far
	flush    bool            // handlers are flushed before the next step
	names    map[string]bool // of all steps, includes and handlers, as Step.Name
	blocks   []Block
	handlers []Step // of the files that are included
	lists    map[string]*HostList
	warnings Diagnostics // of job types
}

// stepsFile is a file that was read once, however often it is included.
type stepsFile struct {
	src  *source
	root *yaml.Node
	bad  *Diagnostic
}

func (w *whole) included() map[string]string {
	out := map[string]string{}
	for path, f := range w.files {
		if f.src != nil {
			out[path] = f.src.text
		}
	}
	return out
}

// inherited holds the settings of the steps of a block that do not have their own.
type inherited struct {
	within []int // blocks, the outermost first
	tags   []string
	become *core.BecomeRule
	window string
	facts  bool // when: or with: of a block around reads host.facts

	groups     int  // that are nested around them
	unwindowed bool // they are of rescue or always, which wait for no window
}

// into returns the settings that are passed to the steps of block index.
func (h inherited) into(index int, b *draftBlock) inherited {
	h.within = append(slices.Clone(h.within), index)
	h.tags = core.Union(h.tags, b.tags)
	if b.become != nil {
		h.become = b.become
	}
	if b.window != "" {
		h.window = b.window
	}
	h.facts = h.facts || b.facts
	return h
}

// apply gives a step what it inherits.
func (h inherited) apply(s *Step) {
	s.Within, s.Tags = h.within, core.Union(h.tags, s.Tags)
	if s.Become == nil {
		s.Become = h.become
	}
	s.Window = cmp.Or(s.Window, h.window)
	if h.unwindowed {
		s.Window = NoWindow
	}
	s.Facts = s.Facts || h.facts
}

// readSteps reads the list of steps of the file.
func (d *decoder) readSteps(n *yaml.Node) []Step {
	items := d.List(n, "a list of steps")
	taken := d.givenNames(items)
	d.later = maps.Clone(taken)
	before := d.whole.steps
	steps := d.stepList(n, items, taken)
	if d.whole.steps == before && len(items) > 0 && !d.Full && len(d.diags) == 0 {
		d.reportNode(n, problem{message: "there are no steps", expected: "a step beside flush"})
	}
	return steps
}

func (d *decoder) stepList(n *yaml.Node, items []*yaml.Node, taken map[string]int) []Step {
	if target, ok := d.Follow(n); ok && target.Kind == yaml.SequenceNode && len(items) == 0 {
		d.reportNode(n, problem{message: "there are no steps", expected: "a list of at least one step"})
	}
	var out []Step
	for i, item := range items {
		switch {
		case d.Full:
			return out
		case d.has(item, "flush"):
			d.readFlush(item)
			d.whole.flush = true
		case d.has(item, "include"):
			out = append(out, d.readInclude(item, i, taken)...)
		case d.has(item, "steps"), d.has(item, "rescue"), d.has(item, "always"):
			out = append(out, d.readGroup(item, i, taken)...)
		case d.whole.steps == MaxSteps:
			d.reportNode(item, problem{message: fmt.Sprintf("more than %d steps", MaxSteps), expected: fmt.Sprintf("%d at most", MaxSteps)})
			d.Full = true
		default:
			out = append(out, d.readStep(item, i, taken))
		}
	}
	return out
}

func (d *decoder) has(n *yaml.Node, key string) bool { return d.child(n, key) != n }
