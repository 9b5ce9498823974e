package playbooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
)

// Params is a compiled with: block: YAML whose strings may hold ${{ }}. It is
// safe for concurrent use. The zero Params is an empty mapping.
type Params struct {
	root    *value
	schema  *typeSchema // nil: not checked
	step    string
	secrets bool // it holds ${{ secrets.NAME }}
}

// UsesSecrets reports whether JSON contains values of secrets. Call JSON right before its result is
// needed, and do not keep the result.
func (p Params) UsesSecrets() bool { return p.secrets }

// mayBeTrue reports whether a param is true, or has a value that only a run shows.
func (p Params) mayBeTrue(name string) bool {
	return p.root == nil || slices.ContainsFunc(p.root.fields, func(f named) bool { return f.name == name && f.literal != false })
}

// JSON evaluates every ${{ }}, checks the result against the job type's schema
// where that is known, and returns the params as JSON. A string that is one ${{ }}
// as a whole keeps the type of its value. Errors are Diagnostics that name the
// step, the host and the place.
func (p Params) JSON(env Env) (json.RawMessage, error) {
	if p.root == nil {
		if p.schema == nil {
			return json.RawMessage("{}"), nil
		}
		return nil, fmt.Errorf("with of step %q was not read", p.step) // not reachable from a loaded playbook
	}
	v, err := p.root.evaluate(env, &allowance{})
	if err != nil {
		return nil, err
	}
	if p.schema != nil && p.root.dynamic {
		on := ""
		if env.Host.Name != "" {
			on = " on host " + env.Host.Name
		}
		check := &paramCheck{typ: p.schema, where: fmt.Sprintf("step %q%s: ", p.step, on)}
		if check.all(v); len(check.found) > 0 {
			return nil, Diagnostics(check.found).sorted()
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v.plain()); err != nil {
		return nil, fmt.Errorf("with of step %q as JSON: %w", p.step, err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// value is a YAML value that keeps its place and may hold expressions.
type value struct {
	src     *source
	node    *yaml.Node
	dynamic bool    // holds an expression somewhere
	fields  []named // of a mapping
	items   []*value
	literal any    // of a scalar without expressions
	parts   []part // of a scalar with expressions
}

type named struct {
	name string
	key  *yaml.Node
	*value
}

// part is a stretch of a string: text, or an expression.
type part struct {
	text string
	code *code
}

// template reads a YAML value whose strings may hold ${{ }}.
func (d *decoder) template(n *yaml.Node, what string, s scope, depth int) *value {
	target, ok := d.Follow(n)
	v := &value{src: d.src, node: target}
	if !ok || d.TooDeep(n, depth) {
		return v
	}
	switch target.Kind {
	case yaml.MappingNode:
		v.fields = []named{}
		for _, e := range d.Pairs(target, what) {
			if strings.Contains(e.Name, "${{") {
				d.reportNode(e.Key, problem{message: "an expression cannot be a key", expected: "a plain key"})
				continue
			}
			f := named{e.Name, e.Key, d.template(e.Value, what+"."+e.Name, s, depth+1)}
			v.fields, v.dynamic = append(v.fields, f), v.dynamic || f.dynamic
		}
	case yaml.SequenceNode:
		v.items = []*value{}
		for i, item := range target.Content {
			iv := d.template(item, fmt.Sprintf("%s[%d]", what, i), s, depth+1)
			v.items, v.dynamic = append(v.items, iv), v.dynamic || iv.dynamic
		}
	default:
		d.refuseJinja(target)
		if target.ShortTag() != "!!str" || !strings.Contains(target.Value, "${{") {
			v.literal = d.value(target)
			return v
		}
		v.parts = d.split(target, what, s)
		if v.literal, v.dynamic = plainText(v.parts); !v.dynamic {
			v.parts = nil
		}
	}
	return v
}

// plainText joins parts that hold no expression, as $${{ leaves them.
func plainText(parts []part) (text any, dynamic bool) {
	var b strings.Builder
	for _, p := range parts {
		if p.code != nil {
			return nil, true
		}
		b.WriteString(p.text)
	}
	return b.String(), false
}

// Bounds on expressions in one text and in one file, which cost time to compile.
const (
	maxParts       = 100
	maxExpressions = 5000
)

// split cuts a string at its ${{ }} and compiles each. $${{ is a literal ${{.
func (d *decoder) split(n *yaml.Node, what string, s scope) []part {
	var out []part
	text, at := n.Value, 0 // at: bytes of text that are done
	for !d.Full {
		if len(out) > 2*maxParts {
			d.reportNode(n, problem{message: "there are too many expressions in this text", expected: fmt.Sprintf("%d at most", maxParts)})
			return out
		}
		start := strings.Index(text[at:], "${{")
		if start < 0 {
			return append(out, part{text: text[at:]})
		}
		start += at
		if start > at && text[start-1] == '$' {
			out = append(out, part{text: text[at:start-1] + "${{"})
			at = start + 3
			continue
		}
		if start > at {
			out = append(out, part{text: text[at:start]})
		}
		end := closing(text[start+3:])
		if end < 0 {
			p := problem{message: "this ${{ is never closed", expected: "}} after the expression", hint: "a literal ${{ is written $${{"}
			if (&code{src: d.src, node: n}).cutByComment() {
				p.hint = commentHint
			}
			d.report(d.src.inside(n, utf8.RuneCountInString(text[:start]), 3), p)
			return append(out, part{text: text[start:]})
		}
		body := text[start+3 : start+3+end]
		inner := strings.TrimSpace(body)
		lead := len(body) - len(strings.TrimLeft(body, " \t\r\n"))
		c := &code{what: what, src: d.src, node: n, from: utf8.RuneCountInString(text[:start+3+lead]), text: inner}
		d.add(d.compile(c, s, wantAny))
		out = append(out, part{code: c})
		if at = start + 3 + end + 2; at == len(text) {
			return out
		}
	}
	return out
}

// closing finds the }} of an expression, past its strings and braces.
func closing(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"', '\'', '`':
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' && c != '`' {
					i++
				}
			}
		case '{':
			depth++
		case '}':
			if depth == 0 && strings.HasPrefix(text[i:], "}}") {
				return i
			}
			depth = max(0, depth-1)
		}
	}
	return -1
}

// compile counts what a file makes the expression compiler do.
func (d *decoder) compile(c *code, s scope, w want) []Diagnostic {
	if d.whole.exprs++; d.whole.exprs == maxExpressions+1 {
		d.reportNode(c.node, problem{message: "the playbook holds too many expressions", expected: fmt.Sprintf("%d at most", maxExpressions)})
		d.Full = true
	}
	if d.Full {
		return nil
	}
	return c.compile(s, w)
}

func (d *decoder) add(found []Diagnostic) {
	for _, one := range found {
		if len(d.diags) >= MaxProblems {
			d.Full = true
			return
		}
		d.diags = append(d.diags, one)
	}
}

// evaluate gives the same tree with every expression replaced by its value.
func (v *value) evaluate(env Env, b *allowance) (*value, error) {
	if !v.dynamic {
		return v, nil
	}
	out := &value{src: v.src, node: v.node}
	switch {
	case v.fields != nil:
		out.fields = make([]named, 0, len(v.fields))
		for _, f := range v.fields {
			fv, err := f.evaluate(env, b)
			if err != nil {
				return nil, err
			}
			out.fields = append(out.fields, named{f.name, f.key, fv})
		}
	case v.items != nil:
		out.items = make([]*value, 0, len(v.items))
		for _, item := range v.items {
			iv, err := item.evaluate(env, b)
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, iv)
		}
	case len(v.parts) == 1:
		result, err := v.parts[0].code.run(env)
		if err != nil {
			return nil, err
		}
		if err := b.keep(result); err != nil {
			return nil, v.parts[0].code.fail(env, span{}, problem{message: errTooLarge.Error()})
		}
		out.literal = result
	default:
		return out, v.interpolate(env, b, out)
	}
	return out, nil
}

// interpolate joins the parts of a mixed string.
func (v *value) interpolate(env Env, b *allowance, out *value) error {
	var text strings.Builder
	for _, p := range v.parts {
		if p.code == nil {
			text.WriteString(p.text)
			continue
		}
		result, err := p.code.run(env)
		if err != nil {
			return err
		}
		s, err := asText(result)
		if err != nil {
			return p.code.fail(env, span{}, p.code.missing(env, problem{message: err.Error(), hint: `give it with default(value, "…")`}))
		}
		if err := b.keep(s); err != nil {
			return p.code.fail(env, span{}, problem{message: err.Error()})
		}
		text.WriteString(s)
	}
	out.literal = text.String()
	return nil
}

// asText is a value in the middle of a text.
func asText(v any) (string, error) {
	switch x := v.(type) {
	case nil:
		return "", fmt.Errorf("a value is missing in the middle of a text")
	case string:
		return x, nil
	case bool:
		return strconv.FormatBool(x), nil
	case float64:
		return strconv.FormatFloat(x, 'f', -1, 64), nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("%s cannot be written as text", typeWord(reflect.TypeOf(v).String()))
	}
	return string(data), nil
}

// plain is the value without its places.
func (v *value) plain() any {
	switch {
	case v.fields != nil:
		out := make(map[string]any, len(v.fields))
		for _, f := range v.fields {
			out[f.name] = f.plain()
		}
		return out
	case v.items != nil:
		return core.Map(v.items, (*value).plain)
	}
	return v.literal
}
