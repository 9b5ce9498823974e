package ansible

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// args are the arguments of a module. Arguments that a converter does not take have no equivalent.
type args struct {
	list []entry
	took map[string]bool
	free *string // the text of command: TEXT
}

var (
	freeForm = map[string]bool{"command": true, "shell": true, "script": true, "raw": true}
	option   = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:^|\s)(chdir|creates|removes|executable|stdin|stdin_add_newline|strip_empty_ends|expand_argument_vars|warn)=`)
	})
)

// argsOf reads the arguments: a mapping, key=value words, or free text.
func argsOf(n, more *yaml.Node, free bool) (*args, *doubt) {
	a := &args{took: map[string]bool{}}
	switch {
	case n.Kind == yaml.MappingNode:
		a.list = entries(n)
	case n.Kind == yaml.ScalarNode && free:
		if n.Tag == "!vault" {
			return nil, vaulted()
		}
		if option().MatchString(n.Value) {
			return nil, doubtf("options within the command text are not converted").hint("cmd:, chdir: and creates: as keys of their own")
		}
		a.free = &n.Value
	case n.Kind == yaml.ScalarNode && !yamlread.IsNull(n):
		if n.Tag == "!vault" {
			return nil, vaulted()
		}
		list, d := keyValues(n)
		if d != nil {
			return nil, d
		}
		a.list = list
	case n.Kind == yaml.SequenceNode:
		return nil, doubtf("the arguments are a list")
	}
	a.list = append(a.list, entries(more)...)
	return a, nil
}

var jinjaBlock = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{.*?\}\}`) })

// keyValues reads key=value words. A {{ }} with spaces in it belongs to one word.
func keyValues(n *yaml.Node) ([]entry, *doubt) {
	if holder().MatchString(n.Value) {
		return nil, doubtf("the arguments hold characters for private use")
	}
	var blocks []string
	flat := jinjaBlock().ReplaceAllStringFunc(n.Value, func(block string) string {
		blocks = append(blocks, block)
		return string(rune(0xE000 + len(blocks) - 1))
	})
	words, ok := splitWords(flat)
	if !ok || len(blocks) > 1000 {
		return nil, doubtf("a quote in the arguments is not closed")
	}
	var out []entry
	for _, word := range words {
		word = holder().ReplaceAllStringFunc(word, func(h string) string { return blocks[[]rune(h)[0]-0xE000] })
		key, value, ok := strings.Cut(word, "=")
		if !ok || !identifier().MatchString(key) {
			return nil, doubtf("the argument %s is not key=value", clip(word)).hint("the arguments as a mapping")
		}
		v := *n
		v.Value, v.Style, v.Tag = value, yaml.DoubleQuotedStyle, "!!str"
		out = append(out, entry{key, n, &v})
	}
	return out, nil
}

// node takes the argument of one of these names; nil where it is not given.
func (a *args) node(names ...string) *yaml.Node {
	var found *yaml.Node
	for _, e := range a.list {
		for _, name := range names {
			if e.key == name {
				a.took[name] = true
				found = e.value
			}
		}
	}
	return found
}

// keys are the names of the arguments, or those that are among the given ones.
func (a *args) keys(of ...string) (out []string) {
	for _, e := range a.list {
		if len(of) == 0 || slices.Contains(of, e.key) {
			out = append(out, e.key)
		}
	}
	return out
}

// rest refuses an argument that nothing took.
func (a *args) rest() *doubt {
	for _, e := range a.list {
		if !a.took[e.key] {
			return doubtf("the argument %s has no equivalent", e.key)
		}
	}
	return nil
}

// text takes an argument as text, its Jinja translated. ok is false where it is not given.
func (t *draft) text(names ...string) (text string, ok bool, d *doubt) {
	n := t.args.node(names...)
	if n == nil {
		return "", false, nil
	}
	v, d := scalar(n)
	if d != nil {
		return "", false, d
	}
	switch x := v.(type) {
	case string:
		text, d = t.scope.text(x)
	case int:
		text = n.Value
	case nil:
		return "", false, nil
	default:
		return "", false, doubtf("the argument %s is not a text", names[0])
	}
	return text, d == nil, d
}

// need is text that must be given.
func (t *draft) need(names ...string) (string, *doubt) {
	text, ok, d := t.text(names...)
	if d == nil && (!ok || text == "") {
		d = doubtf("the argument %s is not given", names[0])
	}
	return text, d
}

// literal takes an argument that may not hold Jinja; other is its default.
func (t *draft) literal(other string, names ...string) (string, *doubt) {
	n := t.args.node(names...)
	if n == nil {
		return other, nil
	}
	if _, d := literal(n); d != nil {
		return "", d
	}
	return n.Value, nil
}

// flag takes a literal true or false; other is its default.
func (t *draft) flag(other bool, names ...string) (bool, *doubt) {
	n := t.args.node(names...)
	if n == nil {
		return other, nil
	}
	return truth(n)
}

// seconds takes a number of seconds as a duration; zero is "".
func (t *draft) seconds(other int, names ...string) (string, *doubt) {
	n := t.args.node(names...)
	seconds := other
	if n != nil {
		var d *doubt
		if seconds, d = number(n); d != nil {
			return "", d
		}
	}
	if seconds == 0 {
		return "", nil
	}
	return seconds2text(seconds), nil
}

// refuse is a doubt where one of these arguments is given.
func (t *draft) refuse(names ...string) *doubt {
	for _, name := range names {
		if t.args.node(name) != nil {
			return doubtf("the argument %s has no equivalent", name)
		}
	}
	return nil
}

// pass copies arguments as texts, under the names of the params.
func (t *draft) pass(pairs ...string) *doubt {
	for i := 0; i+1 < len(pairs); i += 2 {
		text, ok, d := t.text(pairs[i])
		if d != nil {
			return d
		}
		if ok {
			t.step.with.add(pairs[i+1], text)
		}
	}
	return nil
}
