package inventory

import (
	"bytes"
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// Bounds of one YAML file, against alias bombs and absurd nesting.
const (
	maxNodes = 2_000_000
	maxDepth = yamlread.MaxDepth
)

// yamlLine finds the place in yaml.v3's messages.
var yamlLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^yaml: (?:line (\d+): )?`) })

// parseYAML returns the only document of a file; nil when it is empty or wrong.
func (f *file) parseYAML(data []byte) *yaml.Node {
	doc, second, err := yamlread.Decode(data)
	if err != nil {
		f.yamlError(data, err)
		return nil
	}
	if second != nil {
		f.problem(second.Line, second.Column, "a second document in one file").Hint = "put it into a file of its own"
	}
	if doc == nil || doc.Kind == yaml.ScalarNode && doc.Tag == "!!null" {
		return nil
	}
	return doc
}

func (f *file) yamlError(data []byte, err error) {
	msg := err.Error()
	line := 1
	if m := yamlLine().FindStringSubmatch(msg); m != nil {
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

func shorten(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}

// each calls visit for every pair of a mapping, merge keys (<<) included.
func (f *file) each(n *yaml.Node, what string, visit func(k, v *yaml.Node)) {
	for _, p := range f.Pairs(n, what) {
		if f.Full {
			return
		}
		visit(yamlread.Target(p.Key), p.Value)
	}
}

// text reads a scalar as text.
func (f *file) text(n *yaml.Node) string {
	if v, ok := f.Scalar(n, "text"); ok {
		return v.Value
	}
	return ""
}

// texts reads one text or a list of texts.
func (f *file) texts(n *yaml.Node) []selector {
	found := f.OneOrMore(n, "text")
	out := make([]selector, 0, len(found))
	for _, v := range found {
		if v.Value != "" {
			out = append(out, selector{v.Value, f.at(v.Line, v.Column)})
		}
	}
	return out
}

func plain(ss []selector) []string {
	return core.Map(ss, func(s selector) string { return s.text })
}

// reading converts YAML to JSON values within a limit.
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
	n = yamlread.Target(n)
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
