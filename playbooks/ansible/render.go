package ansible

import (
	"bytes"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// fields is a mapping in the order in which it is written.
type fields []fieldOf

type fieldOf struct {
	key   string
	value any // text, number, true or false, []any, []string, fields, or *yaml.Node
}

func (f *fields) add(key string, value any) { *f = append(*f, fieldOf{key, value}) }

func (f fields) get(key string) any {
	for _, one := range f {
		if one.key == key {
			return one.value
		}
	}
	return nil
}

// step is a step or a handler of a playbook.
type step struct {
	name, uses, comment string
	with                fields
	foreach             any
	become              any
	when, on            string
	retry               fields
	timeout             string
	tags                []string
	notify              []*notice
	ignore, force, once bool
	flush               bool
	group               *group
}

func nodeOf(v any) *yaml.Node {
	n := &yaml.Node{}
	switch x := v.(type) {
	case *yaml.Node:
		return x
	case fields:
		n.Kind = yaml.MappingNode
		for _, f := range x {
			n.Content = append(n.Content, nodeOf(f.key), nodeOf(f.value))
		}
	case []any:
		n.Kind = yaml.SequenceNode
		for _, one := range x {
			n.Content = append(n.Content, nodeOf(one))
		}
		if simple(n) {
			n.Style = yaml.FlowStyle
		}
	case []string:
		n.Kind, n.Style = yaml.SequenceNode, yaml.FlowStyle
		for _, one := range x {
			n.Content = append(n.Content, nodeOf(one))
		}
	case string:
		n.SetString(x)
		if len(x) == 0 || looksOctal(x) {
			n.Style = yaml.DoubleQuotedStyle
		}
	default:
		_ = n.Encode(v) // of numbers, booleans and nil it cannot fail
	}
	return n
}

func looksOctal(text string) bool { return len(text) > 1 && strings.Trim(text, "01234567") == "" }

// plain copies a literal value, so that Turnus reads what Ansible read.
func plain(n *yaml.Node) *yaml.Node {
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		out := &yaml.Node{Kind: n.Kind, Style: n.Style & yaml.FlowStyle}
		for i, one := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 {
				out.Content = append(out.Content, nodeOf(one.Value))
			} else {
				out.Content = append(out.Content, plain(one))
			}
		}
		return out
	}
	v, d := scalar(n)
	if d != nil { // the caller has read it
		return nodeOf(n.Value)
	}
	return nodeOf(v)
}

func (s *step) fields(notify []string) fields {
	var f fields
	if s.flush {
		f.add("flush", "handlers")
		return f
	}
	if s.name != "" {
		f.add("name", s.name)
	}
	if s.group != nil {
		s.group.add(&f)
		return f
	}
	f.add("uses", s.uses)
	if s.foreach != nil {
		f.add("foreach", s.foreach)
	}
	if s.when != "" {
		f.add("when", s.when)
	}
	if s.once {
		f.add("once", true)
	}
	if s.on != "" {
		f.add("on", s.on)
	}
	if s.become != nil {
		f.add("become", s.become)
	}
	if len(s.with) > 0 {
		f.add("with", s.with)
	}
	if len(s.retry) > 0 {
		f.add("retry", s.retry)
	}
	if s.timeout != "" {
		f.add("timeout", s.timeout)
	}
	if len(notify) > 0 {
		f.add("notify", notify)
	}
	if len(s.tags) > 0 {
		f.add("tags", s.tags)
	}
	if s.ignore {
		f.add("continue_on_failure", true)
	}
	if s.force {
		f.add("on_failure", "run")
	}
	return f
}

// render writes the play as a person would.
func (p *play) render(name string) string {
	var b strings.Builder
	writeComment(&b, "", p.comment)
	b.WriteString("# From " + printable(p.out.Source) + ", by turnus import ansible.\n")
	var head fields
	head.add("playbook", name)
	if p.title != "" && slug(p.title) != p.title {
		head.add("description", p.title)
	}
	var targets any = p.targets
	if p.targets == "true" {
		targets = true
	}
	head.add("targets", targets)
	if p.become.on {
		head.add("become", p.become.param())
	}
	if len(p.strategy) > 0 {
		head.add("strategy", p.strategy)
	}
	if len(p.params) > 0 {
		head.add("params", p.params)
	}
	if len(p.vars) > 0 {
		slices.SortFunc(p.vars, func(a, b *binding) int { return strings.Compare(a.name, b.name) })
		var vars fields
		for _, v := range p.vars {
			vars.add(v.name, plain(v.node))
		}
		head.add("vars", vars)
	}
	b.WriteString(encode(head))
	writeSteps(&b, "steps", p.steps)
	if len(p.handlers) > 0 {
		writeSteps(&b, "handlers", p.handlers)
	}
	return b.String()
}

func writeSteps(b *strings.Builder, key string, steps []*step) {
	b.WriteString("\n" + key + ":\n")
	for i, s := range steps {
		if i > 0 {
			b.WriteByte('\n')
		}
		writeComment(b, "  ", s.comment)
		text := encode([]any{s.fields(s.notified())})
		for line := range strings.Lines(text) {
			if line != "\n" {
				b.WriteString("  ")
			}
			b.WriteString(line)
		}
	}
}

// notified names the handlers that a step notifies.
func (s *step) notified() (names []string) {
	for _, n := range s.notify {
		for _, h := range n.handlers {
			if !slices.Contains(names, h.name) {
				names = append(names, h.name)
			}
		}
	}
	return names
}

// add writes the parts of a group.
func (g *group) add(f *fields) {
	if len(g.rescue) > 0 {
		f.add("recover", true)
	}
	for _, part := range []struct {
		key   string
		steps []*step
	}{{"steps", g.steps}, {"rescue", g.rescue}, {"always", g.always}} {
		var list []any
		for _, s := range part.steps {
			n := nodeOf(s.fields(s.notified()))
			n.HeadComment = strings.TrimRight(s.comment, "\n")
			list = append(list, n)
		}
		if len(list) > 0 {
			f.add(part.key, list)
		}
	}
}

func writeComment(b *strings.Builder, indent, text string) {
	for line := range strings.Lines(text) {
		b.WriteString(indent + strings.TrimRight(line, "\n") + "\n")
	}
}

func encode(v any) string {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	_ = e.Encode(nodeOf(v)) // of nodes into memory it cannot fail
	return b.String()
}

// comment returns the comment above a node.
func comment(n *yaml.Node) string {
	text := n.HeadComment
	if text == "" && n.Kind == yaml.MappingNode && len(n.Content) > 0 {
		text = n.Content[0].HeadComment
	}
	if text == "" || len(text) > 2000 {
		return ""
	}
	return text + "\n"
}

// original is a node as YAML, for the person who translates it. Encrypted values are left out.
func original(n *yaml.Node) string {
	text := encode(withoutVault(n))
	if len(text) > 4000 {
		text = strings.ToValidUTF8(text[:4000], "") + "…\n"
	}
	return text
}

func withoutVault(n *yaml.Node) *yaml.Node {
	out := *n
	out.HeadComment, out.LineComment, out.FootComment, out.Content = "", "", "", nil
	if n.Tag == "!vault" {
		out.Value, out.Style = "(encrypted)", 0
	}
	for _, one := range n.Content {
		out.Content = append(out.Content, withoutVault(one))
	}
	return &out
}
