package playbooks

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// typeSchema is a job type with its schemas read.
type typeSchema struct {
	name     string
	params   *jsonschema.Schema // nil: with is not checked
	resolved *jsonschema.Resolved
	outputs  *jsonschema.Schema // nil: unknown
}

func newTypeSchema(t Type) (*typeSchema, error) {
	out := &typeSchema{name: t.Name}
	if given(t.Params) {
		out.params = &jsonschema.Schema{}
		if err := json.Unmarshal(t.Params, out.params); err != nil {
			return nil, fmt.Errorf("params: %w", err)
		}
		resolved, err := out.params.Resolve(&jsonschema.ResolveOptions{Loader: noLoader})
		if err != nil {
			return nil, fmt.Errorf("params: %w", err)
		}
		out.resolved = resolved
	}
	if given(t.Outputs) {
		out.outputs = &jsonschema.Schema{}
		if err := json.Unmarshal(t.Outputs, out.outputs); err != nil {
			return nil, fmt.Errorf("outputs: %w", err)
		}
	}
	return out, nil
}

func given(data json.RawMessage) bool { return len(data) > 0 && string(data) != "null" }

// outputShape returns the shape of steps.NAME.outputs before anything runs.
func outputShape(step string, t *typeSchema, known bool) *shape {
	label := fmt.Sprintf("the outputs of step %q", step)
	if !known || t.outputs == nil {
		return open()
	}
	return schemaShape(label, t.outputs, 0)
}

func schemaShape(label string, s *jsonschema.Schema, depth int) *shape {
	if s == nil || s.Ref != "" || depth > 8 || !isFalse(s.AdditionalProperties) {
		return open()
	}
	out := closedShape(label)
	for name, p := range s.Properties {
		out.fields[name] = schemaShape(label+"."+name, p, depth+1)
	}
	return out
}

// isFalse reports whether a schema is the one that nothing satisfies, as additionalProperties:
// false is read.
func isFalse(s *jsonschema.Schema) bool {
	return s != nil && s.Not != nil && s.Not.Type == "" && s.Not.Types == nil && s.Not.Properties == nil && s.Not.Enum == nil && s.Not.Const == nil && s.Not.Required == nil
}

// readWith compiles a with: block and checks what is known before a run.
func (d *decoder) readWith(s *draft, sc scope, typ *typeSchema) Params {
	p := Params{step: s.Name}
	if typ != nil && typ.params != nil {
		p.schema = typ
	}
	at := s.uses
	if s.with == nil {
		if at == nil {
			at = s.node
		}
		p.root = &value{src: d.src, node: at, fields: []named{}}
	} else {
		what := fmt.Sprintf("with of step %q", s.Name)
		if !d.IsMapping(s.with, what) {
			return p
		}
		before := len(d.diags)
		p.root = d.template(s.with, what, sc, 1)
		if len(d.diags) > before || d.Full {
			return p
		}
		p.readSecrets(d)
	}
	if p.schema != nil {
		check := &paramCheck{typ: p.schema, where: fmt.Sprintf("step %q: ", s.Name)}
		if d.whole.onDisk {
			check.folder, check.room = d.whole.folder, &d.whole.room
		}
		check.all(p.root)
		d.add(check.found)
	}
	return p
}

// paramCheck holds values against a JSON Schema, so that each problem has its place. Keywords that
// it does not know are left to the schema library, without a place.
type paramCheck struct {
	typ    *typeSchema
	where  string
	folder string // that files of the playbook are looked for in; "" leaves them to the run
	room   *int64 // bytes of templates that may still be checked; nil without a folder
	found  []Diagnostic
}

func (k *paramCheck) all(root *value) {
	k.value(root, k.typ.params, "", 0)
	if len(k.found) > 0 || root.dynamic {
		return
	}
	data, err := json.Marshal(root.plain())
	if err == nil {
		var instance any
		if err = json.Unmarshal(data, &instance); err == nil {
			err = k.typ.resolved.Validate(instance)
		}
	}
	if err != nil {
		message := err.Error()
		if at := strings.LastIndex(message, "validating "); at >= 0 {
			message = strings.TrimPrefix(message[at:], "validating ")
		}
		k.report(root, problem{message: "with does not fit: " + clip(message, 200)})
	}
}

func (k *paramCheck) report(v *value, p problem) { k.reportAt(v.src, v.node, p) }

func (k *paramCheck) reportAt(src *source, n *yaml.Node, p problem) {
	p.message = k.where + p.message
	k.found = append(k.found, src.diagnose(src.at(n), p))
}

// value checks one value; path is "" for with itself, then "a", "a.b", "a[0]".
func (k *paramCheck) value(v *value, s *jsonschema.Schema, path string, depth int) {
	v = v.opened()
	if s = k.deref(s); s == nil || depth > MaxDepth {
		return
	}
	if k.condition(v, s, path); v.parts != nil {
		return
	}
	if !k.kind(v, s, path) || !k.allowed(v, s, path) {
		return
	}
	switch {
	case v.fields != nil:
		k.object(v, s, path, depth)
	case v.items != nil:
		k.array(v, s, path, depth)
	default:
		k.bounds(v, s, path)
		k.sentFile(v, s, path)
	}
	for _, sub := range s.AllOf {
		k.value(v, sub, path, depth+1)
	}
	for _, choice := range [][]*jsonschema.Schema{s.AnyOf, s.OneOf} {
		k.choice(v, choice, path, depth)
	}
}

// deref follows $ref within the schema.
func (k *paramCheck) deref(s *jsonschema.Schema) *jsonschema.Schema {
	for range 8 {
		if s == nil || s.Ref == "" {
			return s
		}
		name, ok := strings.CutPrefix(s.Ref, "#/$defs/")
		if !ok {
			name = strings.TrimPrefix(s.Ref, "#/definitions/")
		}
		if s = k.typ.params.Defs[name]; s == nil {
			s = k.typ.params.Definitions[name]
		}
	}
	return nil
}

func (k *paramCheck) kind(v *value, s *jsonschema.Schema, path string) bool {
	kinds := s.Types
	if s.Type != "" {
		kinds = []string{s.Type}
	}
	got := v.kind()
	if len(kinds) == 0 || slices.Contains(kinds, got) || got == "integer" && slices.Contains(kinds, "number") {
		return true
	}
	p := problem{message: fmt.Sprintf("%s is %s", paramName(path), v.describe()), expected: kindWords(kinds)}
	switch {
	case slices.Contains(kinds, "string") && (got == "integer" || got == "number" || got == "boolean") && v.node.Kind == yaml.ScalarNode && v.node.Style == 0 && !strings.Contains(v.node.Value, "${{"):
		p.hint = fmt.Sprintf("put it in quotes: %q", clip(v.node.Value, 40))
	case got == "string" && v.node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 && v.looksLike(kinds):
		p.hint = "leave out the quotes"
	case slices.Contains(kinds, "array") && got == "string":
		p.hint = fmt.Sprintf("a list of one is written [%s]", clip(v.node.Value, 30))
	case slices.Contains(kinds, "boolean") && got == "string":
		p.hint = map[string]string{"yes": "write true", "on": "write true", "no": "write false", "off": "write false"}[strings.ToLower(v.node.Value)]
	case got == "null":
		p.hint = "leave the param out, or give it with default(value, other)"
	}
	k.report(v, p)
	return false
}

// looksLike reports whether a quoted scalar would be one of the kinds without its quotes.
func (v *value) looksLike(kinds []string) bool {
	tag := (&yaml.Node{Kind: yaml.ScalarNode, Value: v.node.Value}).ShortTag()
	return tag == "!!int" && (slices.Contains(kinds, "integer") || slices.Contains(kinds, "number")) ||
		tag == "!!float" && slices.Contains(kinds, "number") || tag == "!!bool" && slices.Contains(kinds, "boolean")
}

func paramName(path string) string {
	if path == "" {
		return "with"
	}
	return fmt.Sprintf("param %q", path)
}

func kindWords(kinds []string) string {
	words := map[string]string{"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false", "array": "a list", "object": "a mapping"}
	var out []string
	for _, kind := range kinds {
		if word := words[kind]; word != "" {
			out = append(out, word)
		}
	}
	return strings.Join(out, " or ")
}

func (k *paramCheck) allowed(v *value, s *jsonschema.Schema, path string) bool {
	values := s.Enum
	if s.Const != nil {
		values = []any{*s.Const}
	}
	if len(values) == 0 || slices.ContainsFunc(values, func(e any) bool { return fmt.Sprint(e) == fmt.Sprint(v.plain()) }) {
		return true
	}
	words := texts(values)
	k.report(v, problem{message: fmt.Sprintf("%s is %s", paramName(path), v.describe()), expected: yamlread.OneOf(words), hint: yamlread.DidYouMean(fmt.Sprint(v.plain()), words)})
	return false
}

func (k *paramCheck) object(v *value, s *jsonschema.Schema, path string, depth int) {
	names := sortedKeys(s.Properties)
	have := map[string]bool{}
	for _, f := range v.fields {
		have[f.name] = true
		sub := s.Properties[f.name]
		if sub == nil && len(s.PatternProperties) == 0 {
			if isFalse(s.AdditionalProperties) {
				have[yamlread.Nearest(f.name, names)], have[ansibleParam(f.name, names)] = true, true
				k.reportAt(v.src, f.key, k.unknown(f.name, path, names))
				continue
			}
			sub = s.AdditionalProperties
		}
		k.value(f.value, sub, join(path, f.name), depth+1)
	}
	for _, name := range s.Required {
		if !have[name] {
			want := name
			if sub := k.deref(s.Properties[name]); sub != nil && sub.Description != "" {
				want = name + ": " + clip(sub.Description, 100)
			}
			k.report(v, problem{message: fmt.Sprintf("%s is missing", paramName(join(path, name))), expected: want})
		}
	}
	if len(k.found) == 0 {
		k.folderTemplates(v, s)
	}
}

// ansibleParams are arguments of Ansible's modules, and the params that mean the same: the first
// that a job type has.
var ansibleParams = map[string][]string{
	"dest": {"path"}, "src": {"source"}, "cmd": {"run"}, "argv": {"run"}, "name": {"key", "names"}, "pkg": {"names"}, "regexp": {"match"}, "job": {"command"},
	"minute": {"schedule"}, "hour": {"schedule"}, "day": {"schedule"}, "month": {"schedule"}, "weekday": {"schedule"}, "special_time": {"special"},
	"insertafter": {"after"}, "insertbefore": {"before"}, "append": {"exact"}, "sysctl_file": {"file"}, "remove": {"remove_home"}, "update_cache": {"refresh"},
}

func ansibleParam(name string, names []string) string {
	for _, other := range ansibleParams[name] {
		if slices.Contains(names, other) {
			return other
		}
	}
	return ""
}

// ansibleHints explain params whose values also differ from Ansible's.
var ansibleHints = map[string]string{
	"schedule": `cron has one text of five fields: schedule: "30 2 * * *"`, "exact": `leave it out: groups adds, and exact: true removes from all other groups`,
}

func (k *paramCheck) unknown(name, path string, names []string) problem {
	p := problem{message: fmt.Sprintf("unknown param %s of job type %q", quote(join(path, name)), k.typ.name), expected: yamlread.OneOf(names), hint: yamlread.DidYouMean(name, names)}
	if len(names) == 0 {
		p.expected = "no params: this job type has none"
	}
	if other := ansibleParam(name, names); other != "" {
		p.hint = cmp.Or(ansibleHints[other], fmt.Sprintf("it is called %q", other))
	}
	if p.hint == "" && slices.ContainsFunc(stepFields(), func(f field[draft]) bool { return f.key == name }) {
		p.hint = fmt.Sprintf("%s belongs beside uses, not into with", name)
	}
	return p
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (k *paramCheck) array(v *value, s *jsonschema.Schema, path string, depth int) {
	for i, item := range v.items {
		k.value(item, s.Items, fmt.Sprintf("%s[%d]", path, i), depth+1)
	}
	switch {
	case s.MinItems != nil && len(v.items) < *s.MinItems:
		k.report(v, problem{message: fmt.Sprintf("%s has %d items", paramName(path), len(v.items)), expected: fmt.Sprintf("at least %d", *s.MinItems)})
	case s.MaxItems != nil && len(v.items) > *s.MaxItems:
		k.report(v, problem{message: fmt.Sprintf("%s has %d items", paramName(path), len(v.items)), expected: fmt.Sprintf("at most %d", *s.MaxItems)})
	}
}

// choice accepts a value that fits one of several schemas, and else reports the problems of the
// closest one.
func (k *paramCheck) choice(v *value, schemas []*jsonschema.Schema, path string, depth int) {
	var best []Diagnostic
	var kinds []string
	for _, s := range schemas {
		sub := &paramCheck{typ: k.typ, where: k.where, folder: k.folder, room: k.room}
		sub.value(v, s, path, depth+1)
		if len(sub.found) == 0 {
			return
		}
		s = k.deref(s)
		if s.Type == v.kind() || slices.Contains(s.Types, v.kind()) {
			best = sub.found
		}
		kinds = append(append(kinds, s.Types...), s.Type)
	}
	switch {
	case best != nil:
		k.found = append(k.found, best...)
	case len(schemas) > 0:
		k.report(v, problem{message: fmt.Sprintf("%s is %s", paramName(path), v.describe()), expected: kindWords(kinds)})
	}
}

func noLoader(*url.URL) (*jsonschema.Schema, error) {
	return nil, errors.New("a schema cannot refer to another file")
}
