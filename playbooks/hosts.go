package playbooks

import (
	"fmt"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"

	"github.com/turnus/turnus/core"
)

// MaxHostLists is how many different hosts('…') a playbook may have.
const MaxHostLists = 50

const (
	hostsWord    = "hosts"
	hostsExample = `hosts('"web" in host.groups')`
)

// HostList selects what hosts('…') gives: the hosts of the inventory for which a targets expression
// is true, each with the fields that the playbook's expressions read.
type HostList struct {
	Text  string // the argument
	Where Expr

	reads  *fieldTree
	passed [2]bool // its text was checked: in the playbook, in an included file
}

// fieldTree has the fields that expressions read of a value. One without fields is read as a whole.
type fieldTree struct {
	whole  bool
	fields map[string]*fieldTree
}

func (t *fieldTree) field(name string) *fieldTree {
	if t.fields == nil {
		t.fields = map[string]*fieldTree{}
	}
	if t.fields[name] == nil {
		t.fields[name] = &fieldTree{}
	}
	return t.fields[name]
}

// of returns the part of a value that is read.
func (t *fieldTree) of(v any) any {
	object, ok := v.(map[string]any)
	if t.whole || !ok {
		return v
	}
	out := make(map[string]any, len(t.fields))
	for name, sub := range t.fields {
		if one, ok := object[name]; ok {
			out[name] = sub.of(one)
		}
	}
	return out
}

// paths lists the fields as expressions write them.
func (t *fieldTree) paths(before string) (out []string) {
	for _, name := range sortedKeys(t.fields) {
		if sub := t.fields[name]; sub.whole || len(sub.fields) == 0 {
			out = append(out, before+name)
		} else {
			out = append(out, sub.paths(before+name+".")...)
		}
	}
	return out
}

// Fields lists the fields that travel with each host, such as name and vars.port.
func (l *HostList) Fields() []string { return l.reads.paths("") }

// ReadsFacts reports whether the facts of the hosts travel.
func (l *HostList) ReadsFacts() bool { return l.reads.fields[factsField] != nil }

// Object returns a host as expressions read it. Its facts may be nil.
func (l *HostList) Object(h core.Host) map[string]any {
	out := make(map[string]any, len(l.reads.fields))
	for name, sub := range l.reads.fields {
		v := hostField(h, name)
		if name == factsField {
			v = withAge(h)
		}
		out[name] = sub.of(v)
	}
	return out
}

// Diagnose returns the error for a list that cannot be given to a run, at the first place that
// reads it.
func (l *HostList) Diagnose(message, expected, hint string) error {
	c := l.Where.code
	return Diagnostics{c.src.diagnose(c.place(0, len([]rune(c.text))), problem{message, expected, hint})}
}

// HostLists returns the lists of hosts that expressions of the playbook read, by their texts.
func (p *Playbook) HostLists() []*HostList {
	return core.Map(sortedKeys(p.lists), func(text string) *HostList { return p.lists[text] })
}

// hostFacts reports whether hosts('…') reads facts, to select hosts or of those that it gives.
func (p *Playbook) hostFacts() bool {
	return slices.ContainsFunc(p.HostLists(), func(l *HostList) bool { return l.ReadsFacts() || l.Where.readsFacts() })
}

// listedHost is a host as hosts('…') gives it.
func listedHost() *shape {
	s := withFacts(hostShape())
	s.label = "a host of hosts()"
	s.fields[factsField].label = "facts of a host"
	return s
}

// hostsName is the function that hosts('…') becomes. Expressions cannot contain its name.
const hostsName = "__hosts"

// hostCalls hands the lists of hosts to hosts('…').
type hostCalls struct{}

// Visit replaces one call.
func (hostCalls) Visit(node *ast.Node) {
	if n, ok := (*node).(*ast.CallNode); ok && calls(n, hostsWord) {
		*node = call(hostsName, n.Arguments...)
	}
}

func calls(n *ast.CallNode, name string) bool {
	id, ok := n.Callee.(*ast.IdentifierNode)
	return ok && id.Value == name
}

func hostsFunction() expr.Option {
	return expr.Function(hostsName, func(args ...any) (any, error) {
		text, _ := args[1].(string)
		if list := args[0].(*allowance).hosts[text]; list != nil {
			return list, nil
		}
		return []any{}, nil
	}, new(func(any, string) []any))
}

// listOf returns the list that a call of hosts() gives, or nil for one that is not right, which it
// reports.
func (k *checker) listOf(n *ast.CallNode) *HostList {
	if k.lists == nil {
		k.report(n, problem{message: "hosts() cannot be read here", expected: "what is known of the host itself", hint: "steps of a playbook read it: in with, when and foreach"})
		return nil
	}
	text, ok := literal(n)
	if !ok {
		k.report(n, problem{message: "hosts() needs one text that is written out: the hosts are selected before any step runs", expected: "an expression as in targets, in quotes: " + hostsExample})
		return nil
	}
	list, known := k.lists[text.Value]
	if !known && len(k.lists) == MaxHostLists {
		k.report(n, problem{message: "the playbook holds too many different hosts()", expected: fmt.Sprintf("%d at most", MaxHostLists)})
		return nil
	}
	part := 0
	if k.within != "" {
		part = 1
	}
	if known && list.passed[part] {
		return list
	}
	c, found := k.where(text)
	if k.found = append(k.found, found...); len(found) > 0 {
		return nil
	}
	if !known {
		list = &HostList{Text: text.Value, Where: Expr{Text: text.Value, code: c}, reads: &fieldTree{}}
		k.lists[text.Value] = list
	}
	list.passed[part] = true
	return list
}

func literal(n *ast.CallNode) (*ast.StringNode, bool) {
	if len(n.Arguments) != 1 {
		return nil, false
	}
	text, ok := n.Arguments[0].(*ast.StringNode)
	return text, ok
}

// where compiles the argument of hosts(): an expression as in targets.
func (k *checker) where(n *ast.StringNode) (*code, []Diagnostic) {
	outer := []rune(k.code.text)
	from, to := n.Location().From, min(n.Location().To, len(outer))
	c := &code{what: "hosts() in " + k.code.what, src: k.code.src, node: k.code.node, from: k.code.from + from + 1, text: n.Value}
	if inner := string(outer[min(from+1, to):max(to-1, min(from+1, to))]); inner != n.Value { // it has escapes
		at := k.code.place(from, to)
		c.at = &at
	}
	s := scope{root: &shape{label: "the expression", closed: true, fields: map[string]*shape{"host": withFacts(hostShape())}}, elsewhere: map[string]string{}, recorded: true}
	for _, name := range []string{"vars", "params"} {
		if k.within == "" {
			s.root.fields[name] = k.root.fields[name]
		} else {
			s.elsewhere[name] = "in an included file hosts() reads host only: its params may differ from host to host"
		}
	}
	for _, name := range []string{"steps", "item", "run", "error", "secrets"} {
		s.elsewhere[name] = "hosts() selects before any step runs"
	}
	return c, c.compile(s, wantBool)
}

// unlisted is the problem of an expression that uses whole hosts.
func unlisted() problem {
	return problem{message: "hosts() gives hosts, and only fields of them can be used", expected: "the fields that are needed: only those are given to the run",
		hint: `map(hosts('…'), ({name: #.name, address: #.address})), or join(map(hosts('…'), #.address), " ")`}
}

// listed returns what a foreach over hosts() notes of its items; nil for any other.
func (e Expr) listed() []*fieldTree {
	if e.code == nil {
		return nil
	}
	return e.code.listed
}
