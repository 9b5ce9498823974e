package inventory

import (
	"bytes"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// Bounds of one YAML file, against alias bombs and absurd nesting.
const (
	maxNodes = 2_000_000
	maxDepth = 64
)

// yamlLine finds the place in yaml.v3's messages.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// parseYAML returns the only document of a file; nil when it is empty or wrong.
func (f *file) parseYAML(data []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if !errors.Is(err, io.EOF) {
			f.yamlError(data, err)
		}
		return nil
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		f.problem(second.Line, second.Column, "a second document in one file").Hint = "put it into a file of its own"
	} else if !errors.Is(err, io.EOF) {
		f.yamlError(data, err)
		return nil
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].Tag == "!!null" {
		return nil
	}
	return doc.Content[0]
}

func (f *file) yamlError(data []byte, err error) {
	msg := err.Error()
	line := 1
	if m := yamlLine.FindStringSubmatch(msg); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = n
		}
		msg = msg[len(m[0]):]
	}
	e := f.problem(line, 1, "not YAML: %s", msg)
	for i, l := range bytes.SplitN(data, []byte("\n"), line+2) {
		if i+1 >= line-1 && bytes.HasPrefix(bytes.TrimLeft(l, " "), []byte("\t")) {
			e.Line, e.Col, e.Hint = i+1, 1+bytes.IndexByte(l, '\t'), "indent with spaces: YAML does not allow tabs"
			return
		}
	}
}

// follow resolves an alias.
func follow(n *yaml.Node) *yaml.Node {
	for range maxDepth {
		if n.Kind != yaml.AliasNode {
			break
		}
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	}
	return strconv.Quote(shorten(n.Value))
}

func shorten(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

// each calls visit for every pair of a mapping, merge keys (<<) included. It
// reports duplicates, and something that is no mapping.
func (f *file) each(n *yaml.Node, what string, visit func(k, v *yaml.Node)) {
	f.eachDeep(n, what, visit, 0)
}

func (f *file) eachDeep(n *yaml.Node, what string, visit func(k, v *yaml.Node), depth int) {
	n = follow(n)
	if isNull(n) || !f.b.spend(1+len(n.Content), f.at(n.Line, n.Column)) {
		return
	}
	if n.Kind != yaml.MappingNode {
		f.fail(n.Line, n.Column, "%s must be a mapping (key: value), not %s", what, kindOf(n))
		return
	}
	seen := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := follow(n.Content[i])
		if k.Kind != yaml.ScalarNode {
			f.fail(k.Line, k.Column, "%s: a key must be plain text", what)
			continue
		}
		if first := seen[k.Value]; first != nil && k.Tag != "!!merge" {
			f.fail(k.Line, k.Column, "%s: %q is there twice, first at line %d", what, k.Value, first.Line)
			continue
		}
		seen[k.Value] = k
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := n.Content[i]; k.Tag == "!!merge" && depth < maxDepth {
			f.merge(n.Content[i+1], what, seen, visit, depth)
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := follow(n.Content[i]); k.Tag != "!!merge" && seen[k.Value] == k {
			visit(k, n.Content[i+1])
		}
	}
}

// merge visits what a merge key brings and the mapping itself does not say.
func (f *file) merge(n *yaml.Node, what string, seen map[string]*yaml.Node, visit func(k, v *yaml.Node), depth int) {
	n = follow(n)
	sources := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		sources = n.Content
	}
	had := map[string]bool{}
	for _, s := range sources {
		f.eachDeep(s, what, func(k, v *yaml.Node) {
			if seen[k.Value] == nil && !had[k.Value] {
				had[k.Value] = true
				visit(k, v)
			}
		}, depth+1)
	}
}

// unknown reports a key that does not belong here.
func (f *file) unknown(k *yaml.Node, what string, known []string) {
	e := f.problem(k.Line, k.Column, "%s: unknown key %q", what, shorten(k.Value))
	if e.Hint = yamlread.DidYouMean(k.Value, known); e.Hint == "" {
		e.Hint = "known keys: " + strings.Join(slices.Sorted(slices.Values(known)), ", ")
	}
}

// text reads a scalar as text.
func (f *file) text(n *yaml.Node, what string) string {
	n = follow(n)
	if n.Kind != yaml.ScalarNode || isNull(n) {
		f.fail(n.Line, n.Column, "%s must be text, not %s", what, kindOf(n))
		return ""
	}
	return n.Value
}

// texts reads one text or a list of texts.
func (f *file) texts(n *yaml.Node, what string) []selector {
	n = follow(n)
	if n.Kind != yaml.SequenceNode {
		if s := f.text(n, what); s != "" {
			return []selector{{s, f.at(n.Line, n.Column)}}
		}
		return nil
	}
	if !f.b.spend(len(n.Content), f.at(n.Line, n.Column)) {
		return nil
	}
	out := make([]selector, 0, len(n.Content))
	for _, c := range n.Content {
		if s := f.text(c, what+", each item"); s != "" {
			out = append(out, selector{s, f.at(c.Line, c.Column)})
		}
	}
	return out
}

func plain(ss []selector) []string {
	out := make([]string, len(ss))
	for i, s := range ss {
		out[i] = s.text
	}
	return out
}

// reading converts YAML to JSON values within a budget.
type reading struct {
	f       *file
	left    int
	ansible bool // booleans as in YAML 1.1; !vault
}

// errVault marks a value that only Ansible can decrypt.
var errVault = errors.New("encrypted with Ansible Vault")

var errBudget = errors.New("aliases expand to too much, or values are nested too deeply")

// value returns the JSON value of a node.
func (r *reading) value(n *yaml.Node, depth int) (any, error) {
	if r.left--; r.left < 0 || depth > maxDepth {
		return nil, errBudget
	}
	n = follow(n)
	if n.Tag == "!vault" || n.Tag == "!vault-encrypted" {
		return nil, errVault
	}
	switch n.Kind {
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			v, err := r.value(c, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		var failed error
		r.f.each(n, "a value", func(k, v *yaml.Node) {
			if failed != nil {
				return
			}
			m[k.Value], failed = r.value(v, depth+1)
		})
		if _, ok := m["__ansible_vault"]; ok && r.ansible {
			return nil, errVault
		}
		if v, ok := m["__ansible_unsafe"]; ok && r.ansible && len(m) == 1 {
			return v, failed
		}
		return m, failed
	}
	return r.scalar(n), nil
}

func (r *reading) scalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int":
		text := strings.ReplaceAll(n.Value, "_", "")
		if i, err := strconv.ParseInt(text, 0, 64); err == nil {
			return int(i)
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f
		}
	case "!!float":
		if f, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f
		}
	case "!!str":
		if r.ansible && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0 {
			switch n.Value {
			case "yes", "Yes", "YES", "on", "On", "ON":
				return true
			case "no", "No", "NO", "off", "Off", "OFF":
				return false
			}
		}
	}
	return n.Value
}
