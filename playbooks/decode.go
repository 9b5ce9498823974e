package playbooks

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// decoder reads one file. It collects problems and continues, so that all of them are reported
// together.
type decoder struct {
	*yamlread.Reader
	src      *source
	o        Options
	diags    Diagnostics
	schemas  map[string]*typeSchema
	read     map[string]bool // vars that are declared or read
	vars     map[string]any
	hostRead map[string]bool // fields of the host that the step being read reads
	params   map[string]bool // names in params:
	declared []Param         // those that are right
	steps    []knownStep     // those before the step that is being read
	later    map[string]int  // names of all steps that are written out, with their lines
	flushed  *yaml.Node      // the first flush; nil without one
	flushAt  int             // steps before it
	handler  int             // number of the handler that is being read, from 1; 0 is a step
	notices  []notice        // what notify: names, to be checked once the handlers are read

	whole     *whole
	inherited inherited // of the steps that are being read
	inRescue  bool      // they are of a rescue in this file
	within    string    // name of the include whose file this is; "" is the playbook itself
	chain     []string  // files that are being included, by their paths, this one last
}

func newDecoder(src *source, o Options) *decoder {
	d := &decoder{src: src, o: o, schemas: map[string]*typeSchema{}, vars: maps.Clone(o.Vars), read: map[string]bool{},
		whole: &whole{read: o.Steps, onDisk: o.onDisk, room: maxTemplates, folder: filepath.Dir(src.file), files: map[string]*stepsFile{}, names: map[string]bool{}, lists: map[string]*HostList{}}}
	d.Reader = yamlread.NewReader(func(at *yaml.Node, f yamlread.Fault) {
		d.reportNode(at, problem{message: f.Message, expected: f.Expected, hint: f.Hint})
	})
	d.Values, d.Bytes = MaxValues, MaxText
	return d
}

func (d *decoder) report(at span, p problem) {
	if len(d.diags) >= MaxProblems {
		d.Full = true
		return
	}
	d.diags = append(d.diags, d.src.diagnose(at, p))
	if len(d.diags) == MaxProblems {
		d.Full = true
		d.diags[len(d.diags)-1].Hint = fmt.Sprintf("more than %d problems: the rest of this file is not shown", MaxProblems)
	}
}

func (d *decoder) reportNode(n *yaml.Node, p problem) { d.report(d.src.at(n), p) }

// field is one key of a mapping: what it means, what it may hold, how it is read.
// The same table makes the messages and the editor's schema.
type field[T any] struct {
	key      string
	doc      string
	form     form
	required bool
	read     func(d *decoder, n *yaml.Node, into *T)
}

// readFields fills into from a mapping, in the table's order: vars before what reads them. known
// words of other tools lead to hints.
func readFields[T any](d *decoder, n *yaml.Node, what string, fields []field[T], foreign map[string]string, into *T) {
	table := make([]yamlread.Field, len(fields))
	for i, f := range fields {
		table[i] = yamlread.Field{Key: f.key, Want: f.form.want, Required: f.required, Read: func(v *yaml.Node) { f.read(d, v, into) }}
	}
	d.MappingWith(n, what, foreign, table...)
}

func clip(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

// plain reads YAML as JSON values. It is for vars: and literals; ${{ }} is refused there.
func (d *decoder) plain(n *yaml.Node, depth int) any {
	target, ok := d.Follow(n)
	if !ok || d.TooDeep(n, depth) {
		return nil
	}
	switch target.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for _, e := range d.Pairs(target, "vars") {
			out[e.Name] = d.plain(e.Value, depth+1)
		}
		return out
	case yaml.SequenceNode:
		return core.Map(target.Content, func(item *yaml.Node) any { return d.plain(item, depth+1) })
	}
	if at := strings.Index(target.Value, "${{"); at >= 0 {
		d.report(d.src.inside(target, len([]rune(target.Value[:at])), 3), problem{
			message: "vars cannot contain an expression", expected: "a plain value", hint: "use ${{ }} where the var is read, in with:"})
	}
	d.refuseJinja(target)
	return d.value(target)
}

// value is a scalar as a JSON value. Dates stay text; what JSON has no number for is an error.
func (d *decoder) value(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool", "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err != nil {
			d.reportNode(n, problem{message: "cannot read " + quote(n.Value), expected: strings.TrimPrefix(n.ShortTag(), "!!")})
			return nil
		}
		return d.number(n, v)
	case "!!str", "!!timestamp", "!!merge":
		return n.Value
	case "!!binary":
		d.reportNode(n, problem{message: "!!binary is not supported", expected: "text", hint: "keep binary content in a file"})
		return ""
	}
	d.reportNode(n, problem{message: fmt.Sprintf("unknown tag %s", quote(n.Tag)), expected: "a plain value"})
	return ""
}

func (d *decoder) number(n *yaml.Node, v any) any {
	switch x := v.(type) {
	case float64:
		if x != x || x > 1e308 || x < -1e308 {
			d.reportNode(n, problem{message: n.Value + " is not a JSON number", expected: "a finite number"})
			return 0.0
		}
	case uint64:
		return float64(x)
	case int64:
		return int(x)
	}
	return v
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
