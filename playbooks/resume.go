package playbooks

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/expr-lang/expr/ast"
	"gopkg.in/yaml.v3"
)

// noteEnd notes steps.NAME.outcome, .changed and .exit_code, which need no output of the step.
func (k *checker) noteEnd(n *ast.MemberNode) {
	step, ok := n.Node.(*ast.MemberNode)
	if !ok {
		return
	}
	id, isName := step.Node.(*ast.IdentifierNode)
	field, isText := n.Property.(*ast.StringNode)
	if isName && isText && id.Value == "steps" && slices.Contains([]string{"outcome", "changed", "exit_code"}, field.Value) {
		k.ends[id] = field.Value
	}
}

// OutputsRead reports of which steps a job that continues at step first may read outputs or stdout.
// Steps with redo, handlers, and the params and outputs of includes count as read later.
func (p *Playbook) OutputsRead(first int) func(step string) bool {
	read := map[string]bool{}
	note := func(c *code) {
		for name := range c.reads.results {
			read[c.full(name)] = true
		}
	}
	for i, s := range p.Calls() {
		if i >= first || s.Redo {
			s.When.each(note)
			s.Foreach.each(note)
			s.With.root.each(note)
		}
	}
	for i := range p.Blocks {
		p.Blocks[i].When.each(note)
		p.Blocks[i].with.each(note)
		p.Blocks[i].outputs.each(note)
	}
	return func(step string) bool { return read[step] || read[""] }
}

// Lacking returns a step that lacks the result that the expression reads; "" if there is none.
// lacks reports whether a step has no result, or no outputs of a command. An expression that also
// reads run decides on its own what holds in check mode.
func (e Expr) Lacking(lacks func(step string, outputs bool) bool) (name string) {
	e.each(func(c *code) { name = cmp.Or(name, c.lacking(lacks)) })
	return name
}

// Lacking is as that of an Expr, for the expressions in the params.
func (p Params) Lacking(lacks func(step string, outputs bool) bool) (name string) {
	p.root.each(func(c *code) { name = cmp.Or(name, c.lacking(lacks)) })
	return name
}

func (c *code) lacking(lacks func(step string, outputs bool) bool) string {
	if c.reads.run {
		return ""
	}
	for _, read := range []map[string]bool{c.reads.results, c.reads.ends} {
		for _, name := range slices.Sorted(maps.Keys(read)) {
			if lacks(c.full(name), read[name]) {
				return name
			}
		}
	}
	return ""
}

// full is the name of a step as the playbook has it.
func (c *code) full(step string) string {
	if step != "" && c.within != "" {
		return c.within + "/" + step
	}
	return step
}

// each visits the code of an expression.
func (e Expr) each(visit func(*code)) {
	switch {
	case e.code == nil:
	case e.code.list != nil:
		e.code.list.each(visit)
	default:
		visit(e.code)
	}
}

// each visits the code of all expressions in a value.
func (v *value) each(visit func(*code)) {
	if v == nil {
		return
	}
	for _, f := range v.fields {
		f.each(visit)
	}
	for _, item := range v.items {
		item.each(visit)
	}
	for _, p := range v.parts {
		if p.code != nil {
			visit(p.code)
		}
	}
}

// Work returns the bytes that decide the calls of the playbook: its steps, handlers, params, vars
// and become, and the files that it includes. Two playbooks with the same work can differ in their
// rollout only.
func (p *Playbook) Work() []byte {
	var file map[string]any
	if yaml.Unmarshal(p.Source, &file) != nil {
		return p.Whole()
	}
	maps.DeleteFunc(file, func(key string, _ any) bool {
		return !slices.Contains([]string{"steps", "handlers", "params", "vars", "become"}, key)
	})
	data, err := json.Marshal([]any{file, p.Included})
	if err != nil { // a mapping with keys that are no text
		return p.Whole()
	}
	return data
}

// Call returns what decides the call of one of Steps or Handlers: its job type, params, items and
// host, the params of the includes around it, and the params and vars of the playbook. Calls with
// equal bytes do the same.
func (p *Playbook) Call(s *Step) []byte {
	var file map[string]any
	if s.node.Decode(&file) != nil {
		return nil
	}
	around := make([]any, 0, len(s.Within))
	for _, index := range s.Within {
		b := &p.Blocks[index]
		defaults := make(map[string]any, len(b.params))
		for i := range b.params {
			defaults[b.params[i].Name] = b.params[i].Default
		}
		around = append(around, b.Fields()["with"], defaults)
	}
	data, err := json.Marshal([]any{file["uses"], file["with"], file["foreach"], file["on"], around, p.Values(), p.Vars})
	if err != nil { // a mapping with keys that are no text
		return nil
	}
	return data
}
