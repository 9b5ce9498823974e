package playbooks

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// shape describes a value before anything runs: its fields, or nothing.
type shape struct {
	label  string // how messages call it: "host", "the outputs of step \"x\""
	fields map[string]*shape
	closed bool            // other fields do not exist
	later  map[string]int  // fields that exist further down in the file: their lines
	read   map[string]bool // fields that expressions read; nil: not noted
}

func (s *shape) names() []string { return sortedKeys(s.fields) }

// open is a value of which nothing is known.
func open() *shape { return &shape{} }

// object is an environment with one root name in it.
func object(name string, s *shape) *shape {
	return &shape{label: "the expression", fields: map[string]*shape{name: s}, closed: true}
}

func closedShape(label string, names ...string) *shape {
	s := &shape{label: label, fields: map[string]*shape{}, closed: true}
	for _, name := range names {
		s.fields[name] = open()
	}
	return s
}

func hostShape() *shape {
	return closedShape("host", "name", "address", "customer", "site", "pool", "ha_group", "groups", "labels", "vars")
}

func runShape() *shape { return closedShape("run", "id", "playbook", "check", "attempt") }

// scope describes the names that one expression may read.
type scope struct {
	root      *shape
	elsewhere map[string]string // names that exist, but not here: why
	stepNames []string
	within    string               // name of the include in whose file it stands
	recorded  bool                 // facts are those on record: evaluating is ErrNoFacts for a host without
	lists     map[string]*HostList // of hosts('…'), by its argument; nil: it is not allowed
	item      []*fieldTree         // item is a host of hosts('…'): what is read of it; nil: it is not
}

// checker walks one expression and collects names that do not exist.
type checker struct {
	scope
	code    *code
	found   []Diagnostic
	callees map[*ast.IdentifierNode]bool
	bases   map[*ast.IdentifierNode]string // the constant field that is read
	ends    map[*ast.IdentifierNode]string // of steps: the field, if only how the step ended is read
	locals  map[string]bool
	muted   map[ast.Node]bool // already explained
}

// check finds every unknown name of an expression, not only the first, and
// notes what it reads.
func (s scope) check(c *code, w want) (found []Diagnostic) {
	tree, err := parseSafely(c.text)
	if err != nil {
		if fe, ok := errors.AsType[*file.Error](err); ok {
			p := compileProblem(c.text, fe.Message)
			if c.cutByComment() {
				p.hint = commentHint
			}
			return []Diagnostic{c.src.diagnose(c.place(fe.From, fe.To), p)}
		}
		return []Diagnostic{c.src.diagnose(c.place(0, len([]rune(c.text))), compileProblem(c.text, err.Error()))}
	}
	k := &checker{scope: s, code: c, callees: map[*ast.IdentifierNode]bool{}, bases: map[*ast.IdentifierNode]string{},
		ends: map[*ast.IdentifierNode]string{}, locals: map[string]bool{}, muted: map[ast.Node]bool{}}
	ast.Walk(&tree.Node, visit(k.gather))
	ast.Walk(&tree.Node, visit(k.names))
	k.secret(tree.Node)
	c.listed = k.follow(tree.Node, w)
	return k.found
}

func parseSafely(text string) (tree *parser.Tree, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return parser.Parse(text)
}

type visit func(ast.Node)

// Visit makes a function an ast.Visitor.
func (v visit) Visit(n *ast.Node) { v(*n) }

// gather notes calls, local names, and dashes that were meant to be part of a name.
func (k *checker) gather(n ast.Node) {
	switch n := n.(type) {
	case *ast.CallNode:
		if id, ok := n.Callee.(*ast.IdentifierNode); ok {
			k.callees[id] = true
		}
		k.call(n)
	case *ast.VariableDeclaratorNode:
		k.locals[n.Name] = true
	case *ast.MemberNode:
		property, constant := n.Property.(*ast.StringNode)
		if id, ok := n.Node.(*ast.IdentifierNode); ok && constant {
			k.bases[id] = property.Value
		}
		k.code.reads.age = k.code.reads.age || constant && property.Value == factsAge
		k.noteEnd(n)
	case *ast.BinaryNode:
		if n.Operator == "-" {
			k.dash(n)
		}
		if text, ok := n.Right.(*ast.StringNode); ok && n.Operator == "matches" {
			if _, err := compilePattern(text.Value); errors.Is(err, core.ErrPattern) {
				k.report(text, problem{message: err.Error(), hint: "write lower numbers in {…}"})
			}
		}
	}
}

// dash explains steps.get-cert.outputs, which reads as a subtraction.
func (k *checker) dash(n *ast.BinaryNode) {
	left, ok := n.Left.(*ast.MemberNode)
	if !ok {
		return
	}
	property, ok := left.Property.(*ast.StringNode)
	id := rootOf(n.Right)
	if !ok || id == nil || k.known(id.Value) {
		return
	}
	k.muted[left], k.muted[id] = true, true
	k.report(property, problem{message: fmt.Sprintf("unknown name %q: this reads as a subtraction", id.Value),
		hint: fmt.Sprintf("a name with a dash needs brackets: %s[%q]", left.Node.String(), property.Value+"-"+id.Value)})
}

func rootOf(n ast.Node) *ast.IdentifierNode {
	for {
		switch x := n.(type) {
		case *ast.IdentifierNode:
			return x
		case *ast.MemberNode:
			n = x.Node
		case *ast.ChainNode:
			n = x.Node
		default:
			return nil
		}
	}
}

func (k *checker) call(n *ast.CallNode) {
	id, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		k.report(n, problem{message: "a value cannot be called", expected: "a function's name before the bracket"})
		return
	}
	if id.Value == "cidr_contains" && len(n.Arguments) > 0 {
		if s, ok := n.Arguments[0].(*ast.StringNode); ok {
			if _, err := netip.ParsePrefix(s.Value); err != nil {
				k.report(s, problem{message: quote(s.Value) + " is not a network", expected: "a network such as 10.0.0.0/8 or 2001:db8::/32"})
			}
		}
	}
}

func (k *checker) known(name string) bool {
	return k.locals[name] || k.root.fields[name] != nil
}

// names checks each name and each field of what is known.
func (k *checker) names(n ast.Node) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		k.note(n)
		if !k.muted[n] {
			k.identifier(n)
		}
	case *ast.BuiltinNode:
		if slices.Contains(leftOut(), n.Name) {
			k.report(n, problem{message: fmt.Sprintf("%s() is left out", n.Name), expected: "an expression that gives the same at any time, on any worker"})
		}
	case *ast.MemberNode:
		property, ok := n.Property.(*ast.StringNode)
		base := k.shapeOf(n.Node)
		if !ok || base == nil || !base.closed || base.fields[property.Value] != nil || k.muted[n] {
			return
		}
		p := suggestFor(property.Value, base)
		p.message = fmt.Sprintf("%s has no %q", base.label, property.Value)
		if line := base.later[property.Value]; line > 0 {
			p = problem{message: fmt.Sprintf("step %q has not run before this one", property.Value), hint: fmt.Sprintf("it is in line %d: move it up", line)}
		}
		if base.label == "vars" && p.hint == "" {
			p.hint = fmt.Sprintf("declare it: vars: {%s: VALUE}; a var of the inventory is host.vars.%s", clip(property.Value, 40), clip(property.Value, 40))
		}
		k.report(property, p)
	}
}

func leftOut() []string { return []string{"now", "date", "duration", "timezone"} }

func (k *checker) identifier(n *ast.IdentifierNode) {
	if k.callees[n] {
		if !slices.Contains(functions(), n.Value) {
			k.report(n, problem{message: fmt.Sprintf("unknown function %q", n.Value), hint: yamlread.DidYouMean(n.Value, functions()),
				expected: "a function of the expression language (docs/playbooks-steps.md lists them)"})
		}
		return
	}
	if k.known(n.Value) {
		return
	}
	p := suggestFor(n.Value, k.root)
	p.message = fmt.Sprintf("unknown name %q", n.Value)
	if why, exists := k.elsewhere[n.Value]; exists {
		p.message, p.hint = fmt.Sprintf("%q cannot be read here", n.Value), why
	} else if hint := ansibleName(n.Value); hint != "" {
		p.hint = hint
	} else if p.hint == "" {
		p.hint = k.closer(n.Value)
	}
	k.report(n, p)
}

// closer finds a bare word one level down: role for host.labels.role, image for vars.image.
func (k *checker) closer(name string) string {
	for _, root := range k.root.names() {
		if k.root.fields[root].fields[name] != nil {
			return fmt.Sprintf("did you mean %s.%s?", root, name)
		}
	}
	hint := fmt.Sprintf("write text in quotes: %q", clip(name, 40))
	if bareName().MatchString(name) && k.root.fields["host"] != nil {
		hint += "; a var of the inventory is host.vars." + name
	}
	return hint
}

var bareName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,39}$`) })

// ansibleName returns a hint for a name that Ansible has, or "".
func ansibleName(name string) string {
	switch name {
	case "inventory_hostname", "inventory_hostname_short", "ansible_hostname", "ansible_fqdn":
		return "the name of the host is host.name"
	case "ansible_host":
		return "the address of the host is host.address"
	case "group_names":
		return "the groups of the host are host.groups"
	case "hostvars":
		return "vars of the host itself are host.vars, those of others map(" + hostsExample + ", #.vars.NAME)"
	case "groups", hostsWord:
		return "other hosts are " + hostsExample
	case "ansible_check_mode":
		return "a dry run is run.check"
	}
	if strings.HasPrefix(name, "ansible_") {
		return "facts are host.facts, such as host.facts.os.family (docs/facts.md)"
	}
	return ""
}

func functions() []string {
	var out []string
	for _, f := range builtin.Builtins {
		if !slices.Contains(leftOut(), f.Name) {
			out = append(out, f.Name)
		}
	}
	return append(out, functionNames()...)
}

// shapeOf returns the shape of a node; nil when nothing is known of it.
func (k *checker) shapeOf(n ast.Node) *shape {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		if !k.locals[n.Value] {
			return k.root.fields[n.Value]
		}
	case *ast.ChainNode:
		return k.shapeOf(n.Node)
	case *ast.MemberNode:
		if property, ok := n.Property.(*ast.StringNode); ok {
			if base := k.shapeOf(n.Node); base != nil {
				return base.fields[property.Value]
			}
		}
	}
	return nil
}

// note records what must be in the environment at run time.
func (k *checker) note(n *ast.IdentifierNode) {
	r := &k.code.reads
	switch n.Value {
	case "host":
		if r.host == nil {
			r.host = map[string]bool{}
		}
		if host := k.root.fields["host"]; host != nil && host.read != nil {
			host.read[k.bases[n]] = true
		}
		if field := k.bases[n]; field != "" {
			r.host[field] = true
			return
		}
		for _, field := range hostShape().names() { // as a whole
			r.host[field] = true
		}
	case "vars":
		r.vars = true
		if vars := k.root.fields["vars"]; vars != nil && vars.read != nil {
			vars.read[k.bases[n]] = true
		}
	case "params":
		r.params = true
	case "steps":
		r.steps = true
		if r.results == nil {
			r.results, r.ends = map[string]bool{}, map[string]bool{}
		}
		switch k.ends[n] {
		case "":
			r.results[k.bases[n]] = true
		default:
			r.ends[k.bases[n]] = r.ends[k.bases[n]] || k.ends[n] == "exit_code"
		}
	case "run":
		r.run = true
	case "error":
		r.failure = true
	}
}

func (k *checker) report(n ast.Node, p problem) {
	at := n.Location()
	k.found = append(k.found, k.code.src.diagnose(k.code.place(at.From, at.To), p))
}
