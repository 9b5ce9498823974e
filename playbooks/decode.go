package playbooks

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// decoder reads one file. It collects problems and goes on, so that all of
// them are told at once.
type decoder struct {
	src     *source
	o       Options
	diags   Diagnostics
	values  int  // values seen, aliases followed
	text    int  // bytes of scalars seen, aliases followed
	exprs   int  // expressions compiled
	full    bool // a bound was passed: nothing more is read
	schemas map[string]*typeSchema
	read    map[string]bool // vars that are declared or read
	vars    map[string]any
	steps   []knownStep    // those before the step that is being read
	later   map[string]int // names of all steps that are written out, with their lines
	flushed *yaml.Node     // the first flush; nil without one
	flushAt int            // steps before it
	handler int            // number of the handler that is being read, from 1; 0 is a step
	notices []notice       // what notify: names, to be checked once the handlers are read
	key     string         // that is being read, for messages
}

func (d *decoder) report(at span, p problem) {
	if len(d.diags) >= MaxProblems {
		d.full = true
		return
	}
	d.diags = append(d.diags, d.src.diagnose(at, p))
	if len(d.diags) == MaxProblems {
		d.full = true
		d.diags[len(d.diags)-1].Hint = fmt.Sprintf("more than %d problems: the rest of this file is not shown", MaxProblems)
	}
}

func (d *decoder) reportNode(n *yaml.Node, p problem) { d.report(d.src.at(n), p) }

// follow resolves an alias and counts what is read, so that a few bytes of
// aliases cannot become a lot of work. ok is false when a bound is passed.
func (d *decoder) follow(n *yaml.Node) (*yaml.Node, bool) {
	at := n
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	d.values++
	d.text += len(n.Value)
	if !d.full && (d.values > MaxValues || d.text > MaxText) {
		d.reportNode(at, problem{
			message:  "the file grows too large here once its aliases are expanded",
			expected: fmt.Sprintf("at most %d values and %d MiB of text", MaxValues, MaxText>>20)})
		d.full = true
	}
	return n, !d.full
}

// entry is one key of a mapping.
type entry struct {
	name string
	key  *yaml.Node
	val  *yaml.Node
}

// entries lists a mapping's keys in order. Merge keys (<<) are resolved; a key
// written out wins over a merged one, an earlier merged one over a later.
func (d *decoder) entries(n *yaml.Node, depth int) []entry {
	var out []entry
	index := map[string]int{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content) && !d.full; i += 2 {
		key, ok := d.follow(n.Content[i])
		if !ok {
			return out
		}
		if key.Kind != yaml.ScalarNode {
			d.reportNode(n.Content[i], problem{message: "this key is " + kindOf(key), expected: "a word as a key"})
			continue
		}
		if key.ShortTag() == "!!merge" {
			merged = append(merged, n.Content[i+1])
			continue
		}
		if first, dup := index[key.Value]; dup {
			d.reportNode(n.Content[i], problem{
				message: fmt.Sprintf("key %s is given twice", quote(key.Value)),
				hint:    fmt.Sprintf("it stands in line %d already", out[first].key.Line)})
			continue
		}
		index[key.Value] = len(out)
		out = append(out, entry{key.Value, n.Content[i], n.Content[i+1]})
	}
	for _, m := range merged {
		for _, e := range d.merge(m, depth+1) {
			if _, have := index[e.name]; !have {
				index[e.name] = len(out)
				out = append(out, e)
			}
		}
	}
	return out
}

func (d *decoder) merge(n *yaml.Node, depth int) []entry {
	target, ok := d.follow(n)
	switch {
	case !ok || d.tooDeep(n, depth):
		return nil
	case target.Kind == yaml.MappingNode:
		return d.entries(target, depth)
	case target.Kind == yaml.SequenceNode:
		var out []entry
		for _, item := range target.Content {
			out = append(out, d.merge(item, depth+1)...)
		}
		return out
	}
	d.reportNode(n, problem{message: "<< merges " + kindOf(target), expected: "a mapping, or a list of mappings"})
	return nil
}

func (d *decoder) tooDeep(n *yaml.Node, depth int) bool {
	if depth > MaxDepth && !d.full {
		p := problem{message: "nested too deep", expected: fmt.Sprintf("at most %d levels", MaxDepth)}
		if n.Kind == yaml.AliasNode {
			p.hint = fmt.Sprintf("the alias *%s seems to hold itself", n.Value)
		}
		d.reportNode(n, p)
		d.full = true
	}
	return d.full
}

// field is one key of a mapping: what it means, what it may hold, how it is read.
// The same table makes the messages and the editor's schema.
type field[T any] struct {
	key      string
	doc      string
	form     form
	required bool
	read     func(d *decoder, n *yaml.Node, into *T)
}

// readFields fills into from a mapping. known words of other tools lead to hints.
func readFields[T any](d *decoder, n *yaml.Node, what string, fields []field[T], foreign map[string]string, into *T) {
	n, ok := d.mapping(n, what, keysOf(fields))
	if !ok {
		return
	}
	seen := map[string]bool{} // misspelt ones too: they are not missing besides
	found := map[string]entry{}
	for _, e := range d.entries(n, 1) {
		if d.full {
			return
		}
		seen[e.name] = true
		if strings.HasPrefix(e.name, "x-") && n.Column == 1 {
			continue // a place for anchors, at the top of a file
		}
		if !slices.ContainsFunc(fields, func(f field[T]) bool { return f.key == e.name }) {
			seen[d.unknownKey(e, what, keysOf(fields), foreign)] = true
			continue
		}
		found[e.name] = e
	}
	for _, f := range fields { // in the table's order: vars before what reads them
		switch e, given := found[f.key]; {
		case d.full:
			return
		case !given && f.required && !seen[f.key]:
			d.reportNode(n, problem{message: fmt.Sprintf("%s has no %q", what, f.key), expected: f.key + ": " + f.form.want})
		case given && isNull(e.val):
			d.reportNode(e.key, problem{message: fmt.Sprintf("%q has no value", f.key), expected: f.form.want, hint: "leave the key out, or give it a value"})
		case given:
			d.key = f.key
			f.read(d, e.val, into)
		}
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// unknownKey reports a key and returns the one that was likely meant.
func (d *decoder) unknownKey(e entry, what string, keys []string, foreign map[string]string) (meant string) {
	p := problem{message: fmt.Sprintf("unknown key %s in %s", quote(e.name), what), expected: oneOf(keys), hint: foreign[e.name]}
	meant = yamlread.Nearest(e.name, keys)
	if p.hint == "" {
		p.hint = yamlread.DidYouMean(e.name, keys)
	} else if i := slices.IndexFunc(keys, func(k string) bool { return strings.Contains(p.hint, strconv.Quote(k)) }); i >= 0 {
		meant = keys[i]
	}
	d.reportNode(e.key, p)
	return meant
}

func keysOf[T any](fields []field[T]) []string {
	out := make([]string, len(fields))
	for i, f := range fields {
		out[i] = f.key
	}
	return out
}

func (d *decoder) mapping(n *yaml.Node, what string, keys []string) (*yaml.Node, bool) {
	target, ok := d.follow(n)
	if !ok {
		return nil, false
	}
	if target.Kind != yaml.MappingNode {
		p := problem{message: fmt.Sprintf("%s is %s", what, kindOf(target)), expected: "a mapping"}
		if len(keys) > 0 {
			p.expected = "a mapping with the keys " + strings.Join(keys, ", ")
		}
		d.reportNode(n, p)
		return nil, false
	}
	return target, true
}

// scalar reads any single value as it is written.
func (d *decoder) scalar(n *yaml.Node, want string) (*yaml.Node, bool) {
	target, ok := d.follow(n)
	if !ok {
		return nil, false
	}
	if target.Kind != yaml.ScalarNode || target.ShortTag() == "!!null" {
		d.mismatch(n, target, want, "")
		return nil, false
	}
	return target, true
}

func (d *decoder) mismatch(n, target *yaml.Node, want, hint string) {
	d.reportNode(n, problem{message: d.key + " is " + kindOf(target), expected: want, hint: hint})
}

// list reads a list's items; a single value is an error that says so.
func (d *decoder) list(n *yaml.Node, want string) []*yaml.Node {
	target, ok := d.follow(n)
	if !ok {
		return nil
	}
	if target.Kind != yaml.SequenceNode {
		hint := ""
		if target.Kind == yaml.ScalarNode {
			hint = fmt.Sprintf("a list of one is written [%s]", clip(target.Value, 30))
		}
		d.mismatch(n, target, want, hint)
		return nil
	}
	return target.Content
}

func clip(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

// kindOf names a node's kind and, when it is short, its value.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "empty"
	case "!!bool":
		return "the boolean " + n.Value
	case "!!int", "!!float":
		return "the number " + clip(n.Value, 30)
	}
	return "the text " + quote(n.Value)
}

// plain reads YAML as JSON values. It is for vars: and literals; ${{ }} is refused there.
func (d *decoder) plain(n *yaml.Node, depth int) any {
	target, ok := d.follow(n)
	if !ok || d.tooDeep(n, depth) {
		return nil
	}
	switch target.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for _, e := range d.entries(target, depth) {
			out[e.name] = d.plain(e.val, depth+1)
		}
		return out
	case yaml.SequenceNode:
		out := make([]any, 0, len(target.Content))
		for _, item := range target.Content {
			out = append(out, d.plain(item, depth+1))
		}
		return out
	}
	if at := strings.Index(target.Value, "${{"); at >= 0 {
		d.report(d.src.inside(target, len([]rune(target.Value[:at])), 3), problem{
			message: "an expression cannot stand in vars", expected: "a plain value", hint: "use ${{ }} where the var is read, in with:"})
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
