package yamlread

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// MaxDepth bounds nesting: of mappings, lists and merge keys.
const MaxDepth = 64

// Reader reads values by tables of fields. It reports each fault and continues, so that all are
// reported together.
type Reader struct {
	report func(at *yaml.Node, f Fault)
	key    string // that is being read, for messages
	at     *yaml.Node

	*Bounds
	Empty  bool // a mapping may be empty, as hosts: is whose names are yet to come
	Secret bool // a value of a wrong kind or form may be a secret, and is not repeated; no alias is followed
}

// Bounds limit what readers read; files that are read together may share one.
type Bounds struct {
	Values, Bytes int  // values, and bytes of text, that may be read yet; each use of an alias counts again
	Full          bool // a bound was passed: nothing more is read
}

// NewReader returns a reader with the bounds of a file that people write.
func NewReader(report func(at *yaml.Node, f Fault)) *Reader {
	return &Reader{report: report, Bounds: &Bounds{Values: 100_000, Bytes: 4 << 20}}
}

// Field is one key of a mapping.
type Field struct {
	Key      string
	Want     string // what is expected there, for messages
	Required bool
	Read     func(v *yaml.Node)
}

// Needed is the field as one that must be given.
func (f Field) Needed() Field { f.Required = true; return f }

// Pair is one key of a mapping, with its value.
type Pair struct {
	Name       string
	Key, Value *yaml.Node
}

// Key is the place of the key whose value is being read.
func (r *Reader) Key() *yaml.Node { return r.at }

// Fail reports what is wrong at a value.
func (r *Reader) Fail(n *yaml.Node, f Fault) { r.report(n, f) }

// Failf is Fail without more than a message.
func (r *Reader) Failf(n *yaml.Node, format string, args ...any) {
	r.report(n, Fault{Message: fmt.Sprintf(format, args...)})
}

// Follow resolves an alias and counts what is read, so that a few bytes of aliases cannot become a
// lot of work. It returns false if a bound was passed.
func (r *Reader) Follow(n *yaml.Node) (*yaml.Node, bool) {
	at := n
	if r.Secret && n.Kind == yaml.AliasNode {
		r.report(n, Fault{Message: r.key + " is an alias, which is not taken here", Hint: "write it out"})
		return n, false
	}
	n = Target(n)
	r.Values--
	r.Bytes -= len(n.Value)
	if !r.Full && (r.Values < 0 || r.Bytes < 0) {
		r.Full = true
		r.report(at, Fault{Message: "the file grows too large here once its aliases are expanded", Hint: "split it, or write less by aliases"})
	}
	return n, !r.Full
}

// Target returns what an alias stands for, or the value itself.
func Target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

// Pairs returns the keys of a mapping in the order of the file. A key that is written out wins over
// a merged one (<<), and an earlier merged one over a later.
func (r *Reader) Pairs(n *yaml.Node, what string) []Pair {
	target, _ := r.mapping(n, what, nil)
	if target == nil {
		return nil
	}
	return r.pairs(target, 1)
}

// IsMapping reports whether a value is a mapping, and reports what is none.
func (r *Reader) IsMapping(n *yaml.Node, what string) bool {
	_, ok := r.mapping(n, what, nil)
	return ok
}

func (r *Reader) mapping(n *yaml.Node, what string, fields []Field) (target *yaml.Node, ok bool) {
	target, ok = r.Follow(n)
	switch {
	case !ok:
		return nil, false
	case r.Empty && IsNull(target):
		return nil, true
	case target.Kind != yaml.MappingNode:
		want := "a mapping"
		if len(fields) > 0 && len(fields) <= mostNamed {
			want += " with the keys " + strings.Join(keysOf(fields), ", ")
		}
		r.report(n, Fault{Message: what + " is " + r.kind(target), Expected: want})
		return nil, false
	}
	return target, true
}

func (r *Reader) pairs(n *yaml.Node, depth int) []Pair {
	out := make([]Pair, 0, len(n.Content)/2)
	index := make(map[string]int, len(n.Content)/2)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, ok := r.Follow(n.Content[i])
		if !ok {
			return out
		}
		first, twice := index[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			fault := Fault{Message: "this key is " + r.kind(key), Expected: "a word as a key"}
			if key.Kind == yaml.MappingNode { // {{ name }}
				fault.Hint = "a value that begins with { is quoted, as \"${{ vars.NAME }}\"; Jinja ({{ }}) is not evaluated"
			}
			r.report(n.Content[i], fault)
		case key.ShortTag() == "!!merge":
			merged = append(merged, n.Content[i+1])
		case twice:
			r.report(n.Content[i], Fault{Message: fmt.Sprintf("key %s is given twice", Quote(key.Value)),
				Hint: fmt.Sprintf("it is in line %d already", out[first].Key.Line)})
		default:
			index[key.Value] = len(out)
			out = append(out, Pair{key.Value, n.Content[i], n.Content[i+1]})
		}
	}
	for _, m := range merged {
		for _, p := range r.merge(m, depth+1) {
			if _, have := index[p.Name]; !have {
				index[p.Name] = len(out)
				out = append(out, p)
			}
		}
	}
	return out
}

func (r *Reader) merge(n *yaml.Node, depth int) []Pair {
	target, ok := r.Follow(n)
	switch {
	case !ok || r.TooDeep(n, depth):
		return nil
	case target.Kind == yaml.MappingNode:
		return r.pairs(target, depth)
	case target.Kind == yaml.SequenceNode:
		var out []Pair
		for _, item := range target.Content {
			out = append(out, r.merge(item, depth+1)...)
		}
		return out
	}
	r.report(n, Fault{Message: "<< merges " + r.kind(target), Expected: "a mapping, or a list of mappings"})
	return nil
}

// TooDeep reports nesting that is over the bound.
func (r *Reader) TooDeep(n *yaml.Node, depth int) bool {
	if depth > MaxDepth && !r.Full {
		f := Fault{Message: "nested too deep", Expected: fmt.Sprintf("at most %d levels", MaxDepth)}
		if n.Kind == yaml.AliasNode {
			f.Hint = fmt.Sprintf("the alias *%s seems to hold itself", n.Value)
		}
		r.Full = true
		r.report(n, f)
	}
	return r.Full
}

// Mapping reads the fields of a mapping in the order of the table. It returns whether all keys are
// known, have a value, and none is missing.
func (r *Reader) Mapping(n *yaml.Node, what string, fields ...Field) bool {
	return r.MappingWith(n, what, nil, fields...)
}

// MappingWith is Mapping with hints for the words of other tools.
func (r *Reader) MappingWith(n *yaml.Node, what string, words map[string]string, fields ...Field) bool {
	target, ok := r.mapping(n, what, fields)
	if target == nil {
		return ok
	}
	pairs := r.pairs(target, 1)
	found := make([]*Pair, len(fields))
	var misspelt []string // which are not reported again as missing
	for i, p := range pairs {
		if r.Full {
			return false
		}
		at := slices.IndexFunc(fields, func(f Field) bool { return f.Key == p.Name })
		switch {
		case at >= 0:
			found[at] = &pairs[i]
		case !r.Secret && target.Column == 1 && strings.HasPrefix(p.Name, "x-"): // a place for anchors, at the top of a file
		default:
			misspelt = append(misspelt, r.unknown(p, what, keysOf(fields), words))
			ok = false
		}
	}
	key, at := r.key, r.at
	defer func() { r.key, r.at = key, at }()
	for i, f := range fields {
		switch p := found[i]; {
		case r.Full:
			return false
		case p == nil && f.Required && !slices.Contains(misspelt, f.Key):
			want := ""
			if f.Want != "" {
				want = f.Key + ": " + f.Want
			}
			r.report(n, Fault{Message: fmt.Sprintf("%s has no %q", what, f.Key), Expected: want})
			ok = false
		case p != nil && !r.Empty && IsNull(p.Value):
			r.report(p.Key, Fault{Message: fmt.Sprintf("%q has no value", f.Key), Expected: f.Want, Hint: "leave the key out, or give it a value"})
			ok = false
		case p != nil:
			r.key, r.at = f.Key, p.Key
			f.Read(p.Value)
		}
	}
	return ok
}

// unknown reports a key and returns the one that was likely meant.
func (r *Reader) unknown(p Pair, what string, keys []string, words map[string]string) (meant string) {
	f := Fault{Message: fmt.Sprintf("unknown key %s in %s", Quote(p.Name), what), Expected: OneOf(keys), Hint: words[p.Name]}
	meant = Nearest(p.Name, keys)
	if f.Hint == "" {
		f.Hint = DidYouMean(p.Name, keys)
	} else if i := slices.IndexFunc(keys, func(k string) bool { return strings.Contains(f.Hint, strconv.Quote(k)) }); i >= 0 {
		meant = keys[i]
	}
	r.report(p.Key, f)
	return meant
}

// Scalar returns a single value as it is written.
func (r *Reader) Scalar(n *yaml.Node, want string) (*yaml.Node, bool) {
	target, ok := r.Follow(n)
	if !ok {
		return nil, false
	}
	if target.Kind != yaml.ScalarNode || IsNull(target) {
		r.Mismatch(n, target, want, "")
		return nil, false
	}
	return target, true
}

// Mismatch reports a value, found behind n, that is not what is wanted.
func (r *Reader) Mismatch(n, target *yaml.Node, want, hint string) {
	r.report(n, Fault{Message: r.key + " is " + r.kind(target), Expected: want, Hint: hint})
}

func (r *Reader) kind(n *yaml.Node) string {
	if r.Secret && n.Kind == yaml.ScalarNode && !IsNull(n) {
		return "a single value"
	}
	return Kind(n)
}

// List returns a list's items; a single value is a fault that shows how a list is written.
func (r *Reader) List(n *yaml.Node, want string) []*yaml.Node {
	target, ok := r.Follow(n)
	if !ok {
		return nil
	}
	if target.Kind != yaml.SequenceNode {
		hint := ""
		if target.Kind == yaml.ScalarNode && !r.Secret {
			hint = fmt.Sprintf("a list of one is written [%s]", Clip(target.Value))
		}
		r.Mismatch(n, target, want, hint)
		return nil
	}
	return target.Content
}
