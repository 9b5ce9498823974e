package playbooks

import (
	"fmt"

	"github.com/expr-lang/expr/ast"

	"github.com/turnus/turnus/core"
)

// flowKind is the part of hosts('…') that a part of an expression gives.
type flowKind int

const (
	flowOther flowKind = iota // anything else
	flowList                  // hosts
	flowHost                  // one of them
	flowField                 // a field of one, or a field of that
)

// flow is the value of a part of an expression, as far as it comes from hosts('…').
type flow struct {
	kind  flowKind
	trees []*fieldTree // what is read of it is noted in all of them
	shape *shape       // of a host or field
}

func (v flow) as(kind flowKind) flow {
	if v.kind == flowOther {
		return flow{}
	}
	return flow{kind: kind, trees: v.trees, shape: v.shape}
}

// follower follows hosts through one expression, and notes which fields of them it reads.
type follower struct {
	*checker
	variables map[string]flow // of let
	elements  []flow          // # of the predicates around, the innermost last
}

// follow checks the use of hosts in an expression, and returns those that it gives as a list.
func (k *checker) follow(tree ast.Node, w want) []*fieldTree {
	f := &follower{checker: k, variables: map[string]flow{}}
	v := f.visit(tree)
	if v.kind == flowList && w == wantList {
		return v.trees
	}
	f.use(tree, v)
	return nil
}

// use notes that a value is used as a whole: a field is read, and a host must not be.
func (f *follower) use(n ast.Node, v flow) {
	switch v.kind {
	case flowField:
		for _, t := range v.trees {
			t.whole = true
		}
	case flowList, flowHost:
		f.report(n, unlisted())
	}
}

func (f *follower) useAll(nodes ...ast.Node) {
	for _, n := range nodes {
		if n != nil {
			f.use(n, f.visit(n))
		}
	}
}

func (f *follower) visit(n ast.Node) flow {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		if v, local := f.variables[n.Value]; local {
			return v
		}
		if n.Value == "item" && f.item != nil {
			return flow{flowHost, f.item, listedHost()}
		}
	case *ast.PointerNode:
		if n.Name == "" && len(f.elements) > 0 {
			return f.elements[len(f.elements)-1]
		}
	case *ast.CallNode:
		return f.called(n)
	case *ast.BuiltinNode:
		return f.builtin(n)
	case *ast.MemberNode:
		return f.member(n)
	case *ast.ChainNode:
		return f.visit(n.Node)
	case *ast.SliceNode:
		f.useAll(n.From, n.To)
		v := f.visit(n.Node)
		if v.kind != flowList {
			f.use(n.Node, v)
			return flow{}
		}
		return v
	case *ast.ConditionalNode:
		f.useAll(n.Cond)
		return f.either(n, n.Exp1, n.Exp2)
	case *ast.BinaryNode:
		return f.binary(n)
	case *ast.UnaryNode:
		f.useAll(n.Node)
	case *ast.PredicateNode:
		return f.visit(n.Node)
	case *ast.VariableDeclaratorNode:
		return f.declared(n)
	case *ast.SequenceNode:
		var last flow
		for _, one := range n.Nodes {
			last = f.visit(one)
		}
		return last
	case *ast.ArrayNode:
		f.useAll(n.Nodes...)
	case *ast.MapNode:
		f.useAll(n.Pairs...)
	case *ast.PairNode:
		f.useAll(n.Key, n.Value)
	}
	return flow{}
}

func (f *follower) declared(n *ast.VariableDeclaratorNode) flow {
	before, had := f.variables[n.Name]
	f.variables[n.Name] = f.visit(n.Value)
	v := f.visit(n.Expr)
	if f.variables[n.Name] = before; !had {
		delete(f.variables, n.Name)
	}
	return v
}

// either is a part that gives one of two.
func (f *follower) either(n, a, b ast.Node) flow {
	x, y := f.visit(a), f.visit(b)
	switch {
	case x.kind == flowField || y.kind == flowField || x.kind != flowOther && y.kind != flowOther && x.kind != y.kind:
		f.use(n, x)
		f.use(n, y)
		return flow{}
	case x.kind == flowOther:
		return y
	}
	x.trees = core.Union(x.trees, y.trees) // an expression may join a list with itself again and again
	return x
}

func (f *follower) binary(n *ast.BinaryNode) flow {
	if n.Operator == "??" {
		return f.either(n, n.Left, n.Right)
	}
	for _, side := range []ast.Node{n.Left, n.Right} {
		v := f.visit(side)
		if !f.comparesNil(n) || v.kind == flowField {
			f.use(side, v)
		}
	}
	return flow{}
}

func (f *follower) comparesNil(n *ast.BinaryNode) bool {
	_, left := n.Left.(*ast.NilNode)
	_, right := n.Right.(*ast.NilNode)
	return (n.Operator == "==" || n.Operator == "!=") && (left || right)
}

func (f *follower) called(n *ast.CallNode) flow {
	switch {
	case calls(n, hostsWord):
		if list := f.listOf(n); list != nil {
			return flow{flowList, []*fieldTree{list.reads}, listedHost()}
		}
		return flow{}
	case calls(n, "default") && len(n.Arguments) == 2:
		return f.either(n, n.Arguments[0], n.Arguments[1])
	case calls(n, "has_group") && len(n.Arguments) == 2:
		if v := f.visit(n.Arguments[0]); v.kind == flowHost {
			for _, t := range v.trees {
				t.field("groups").whole = true
			}
		} else {
			f.use(n.Arguments[0], v)
		}
		f.useAll(n.Arguments[1])
		return flow{}
	}
	if _, name := n.Callee.(*ast.IdentifierNode); !name {
		f.useAll(n.Callee)
	}
	f.useAll(n.Arguments...)
	return flow{}
}

func (f *follower) member(n *ast.MemberNode) flow {
	v := f.visit(n.Node)
	name, constant := n.Property.(*ast.StringNode)
	if !constant {
		f.useAll(n.Property)
	}
	switch {
	case v.kind == flowList && !constant:
		return v.as(flowHost)
	case v.kind == flowList:
		f.report(n.Property, problem{message: fmt.Sprintf("hosts() gives a list, which has no %q", name.Value),
			expected: fmt.Sprintf("map(hosts('…'), #.%s), or first(hosts('…'))?.%s", clip(name.Value, 40), clip(name.Value, 40))})
		return flow{}
	case v.kind == flowOther:
		return flow{}
	case !constant:
		if v.kind == flowHost {
			f.report(n.Property, problem{message: "the name of the field is computed", expected: "a field that is written out: only those are given to the run"})
			return flow{}
		}
		f.use(n, v)
		return flow{}
	}
	return f.field(v, name)
}

// field is a named field of a host, or of a field.
func (f *follower) field(v flow, name *ast.StringNode) flow {
	sub := v.shape.fields[name.Value]
	if sub == nil && v.shape.closed {
		p := suggestFor(name.Value, v.shape)
		p.message = fmt.Sprintf("%s has no %q", v.shape.label, name.Value)
		f.report(name, p)
		return flow{}
	}
	if sub == nil {
		sub = open()
	}
	out := flow{kind: flowField, shape: sub}
	for _, t := range v.trees {
		out.trees = append(out.trees, t.field(name.Value))
	}
	return out
}

func (f *follower) builtin(n *ast.BuiltinNode) flow {
	if len(n.Arguments) == 0 {
		return flow{}
	}
	if len(n.Arguments) > 1 {
		if p, ok := n.Arguments[1].(*ast.PredicateNode); ok {
			return f.predicate(n, p)
		}
	}
	if n.Name == "concat" {
		return f.concat(n)
	}
	v := f.visit(n.Arguments[0])
	f.useAll(n.Arguments[1:]...)
	if v.kind == flowList {
		switch n.Name {
		case "len":
			return flow{}
		case "first", "last", "get":
			return v.as(flowHost)
		case "take", "reverse":
			return v
		}
	}
	f.use(n.Arguments[0], v)
	return flow{}
}

// predicate is a call with a body for each element, such as map and filter.
func (f *follower) predicate(n *ast.BuiltinNode, p *ast.PredicateNode) flow {
	v := f.visit(n.Arguments[0])
	if v.kind != flowList {
		f.use(n.Arguments[0], v)
		v = flow{}
	}
	f.elements = append(f.elements, v.as(flowHost))
	body := f.visit(p.Node)
	f.elements = f.elements[:len(f.elements)-1]
	f.useAll(n.Arguments[2:]...)
	if n.Name == "map" && body.kind == flowHost {
		return body.as(flowList)
	}
	f.use(p, body)
	switch {
	case n.Name == "filter" || n.Name == "sortBy":
		return v
	case n.Name == "find" || n.Name == "findLast":
		return v.as(flowHost)
	case n.Name == "groupBy", n.Name == "reduce" && len(n.Arguments) < 3: // #acc begins as the first element
		f.use(n, v)
	}
	return flow{}
}

func (f *follower) concat(n *ast.BuiltinNode) flow {
	var out flow
	for _, a := range n.Arguments {
		v := f.visit(a)
		if v.kind != flowList {
			f.use(a, v)
			continue
		}
		out = flow{flowList, core.Union(out.trees, v.trees), v.shape}
	}
	return out
}
