package playbooks

import (
	"fmt"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// notice is one name in a notify:.
type notice struct {
	node *yaml.Node
	name string
	by   int // index of the handler that notifies; -1 is a step
}

// flush is {flush: handlers} among the steps.
type flush struct{ what string }

func flushFields() []field[flush] {
	return []field[flush]{
		{key: "flush", doc: "Pending handlers run here, and not only at the end.", form: enumForm("handlers"), required: true,
			read: func(d *decoder, n *yaml.Node, f *flush) { f.what = d.enumOf(n, "handlers") }},
	}
}

// handlerFields are those of a step, except what makes no sense for a handler, and its own.
func handlerFields() []field[draft] {
	fields := slices.DeleteFunc(stepFields(), func(f field[draft]) bool {
		return f.key == "after" || f.key == "tags" || f.key == "redo" || f.key == "once" || f.key == "on" || f.key == "continue_on_failure"
	})
	for i := range fields {
		if fields[i].key == "name" {
			fields[i].doc, fields[i].required = "Name of the handler, by which steps notify it.", true
		}
	}
	return append(fields, field[draft]{key: "on_failure", doc: "run: the handler also runs after a step of the host has failed. Without it a pending handler waits for the next run.",
		form: enumForm("run"), read: func(d *decoder, n *yaml.Node, s *draft) { s.OnFailure = d.enumOf(n, "run") == "run" }})
}

func handlerWords() map[string]string {
	words := stepWords()
	words["tags"] = "a handler runs whenever a step notified it; tags stand on steps"
	words["after"] = "a barrier stands on a step"
	words["once"] = "each host that changed runs its handlers; once stands on steps"
	words["on"] = "a handler runs on the host that changed; on stands on steps"
	words["redo"] = "a handler that is pending runs in the next run"
	words["continue_on_failure"] = "a handler that failed stays pending, so the host ends failed"
	return words
}

func (d *decoder) readFlush(n *yaml.Node) {
	var f flush
	readFields(d, n, "the flush", flushFields(), map[string]string{"name": "a flush is no step: it has no name", "when": "a flush runs pending handlers only"}, &f)
	if d.inherited.groups > 0 {
		d.reportNode(n, problem{message: "a flush is in a group", expected: "flush after the group", hint: "to see a failed restart in rescue, write it as a step of the group"})
	}
	if d.flushed == nil {
		d.flushed, d.flushAt = n, len(d.steps)
	}
}

// notifies reads a notify: of a step or handler.
func (d *decoder) notifies(n *yaml.Node) []string {
	var names []string
	for _, item := range d.List(n, "a list of names of handlers") {
		name := d.stepName(item)
		if name == "" || slices.Contains(names, d.full(name)) {
			continue
		}
		names = append(names, d.full(name))
		d.notices = append(d.notices, notice{node: item, name: name, by: d.handler - 1})
	}
	return names
}

func (d *decoder) readHandlers(n *yaml.Node) []Step {
	items := d.List(n, "a list of handlers")
	if len(items) > MaxHandlers {
		d.reportNode(items[MaxHandlers], problem{message: fmt.Sprintf("%d handlers", len(items)), expected: fmt.Sprintf("%d at most", MaxHandlers)})
		return nil
	}
	all := d.steps
	if d.flushed != nil { // a handler may run there, when later steps have no result yet
		d.steps = d.steps[:d.flushAt]
	}
	defer func() { d.steps, d.handler = all, 0 }()
	var out []Step
	for i, item := range items {
		if d.Full {
			break
		}
		d.handler = i + 1
		out = append(out, d.readHandler(item, i, all, out))
	}
	return out
}

func (d *decoder) readHandler(n *yaml.Node, index int, steps []knownStep, before []Step) Step {
	s := draft{node: n, Step: Step{Retry: Retry{Attempts: 1}, Line: n.Line, src: d.src, node: n}}
	label := fmt.Sprintf("handler %d", index+1)
	if c := d.child(n, "name"); c.Kind == yaml.ScalarNode && c.Value != "" {
		label = "handler " + quote(c.Value)
	}
	readFields(d, n, label, handlerFields(), handlerWords(), &s)
	d.uniqueHandler(&s, steps, before)
	s.Name = d.full(s.Name)
	d.whole.names[s.Name] = true
	d.compileCall(&s)
	tags, passed := s.Tags, d.inherited
	passed.unwindowed = false // it runs later than the group
	passed.apply(&s.Step)
	s.Tags = tags // a handler runs whenever a step notified it
	return s.Step
}

// uniqueHandler reports a name that a step or another handler has: results, windows and durations
// go by it.
func (d *decoder) uniqueHandler(s *draft, steps []knownStep, before []Step) {
	if s.Name == "" {
		return
	}
	what, line := "", 0
	for _, k := range steps {
		if k.name == s.Name {
			what, line = "step", k.line
		}
	}
	for _, h := range before {
		if h.Name == d.full(s.Name) {
			what, line = "handler", h.Line
		}
	}
	if what != "" {
		d.reportNode(d.child(s.node, "name"), problem{message: fmt.Sprintf("handler %s has the name of another %s", quote(s.Name), what),
			expected: "names that are unique among the steps and handlers of the playbook", hint: fmt.Sprintf("the %s is in line %d", what, line)})
	}
}

// checkHandlers reports names that no handler has, handlers that would run too late, and handlers
// that nothing notifies.
func (d *decoder) checkHandlers(root *yaml.Node, p *Playbook) {
	if d.Full {
		return
	}
	names := core.Map(p.Handlers, func(h Step) string { return d.local(h.Name) })
	known := slices.Compact(slices.Sorted(slices.Values(names)))
	known = slices.DeleteFunc(known, func(name string) bool { return name == "" })
	notified := map[string]bool{}
	for _, n := range d.notices {
		at := slices.Index(names, n.name)
		switch {
		case at < 0 && len(names) == 0:
			d.reportNode(n.node, problem{message: fmt.Sprintf("unknown handler %s", quote(n.name)), expected: "handlers: a list of handlers, at the top of the file",
				hint: "the channels for the playbook's runs are in notify: at the top of the file"})
		case at < 0:
			near := yamlread.Nearest(n.name, names)
			notified[near] = true
			d.reportNode(n.node, problem{message: fmt.Sprintf("unknown handler %s", quote(n.name)), expected: yamlread.OneOf(known), hint: yamlread.DidYouMean(n.name, names)})
		case n.by >= 0 && at <= n.by:
			d.reportNode(n.node, problem{message: fmt.Sprintf("handler %s notifies %s, which has run by then", quote(names[n.by]), quote(n.name)),
				expected: "a handler further down: they run once, in the order of the file"})
		}
		notified[n.name] = true
	}
	for i, h := range p.Handlers {
		if name := d.local(h.Name); name != "" && !notified[name] {
			d.reportNode(d.handlerNode(root, i), problem{message: fmt.Sprintf("no step notifies handler %s", quote(name)),
				expected: fmt.Sprintf("notify: [%s] on the steps after whose change it must run", name)})
		}
	}
	if d.flushed != nil && len(p.Handlers)+len(d.whole.handlers) == 0 && len(d.diags) == 0 {
		d.reportNode(d.flushed, problem{message: "flush: handlers, and the playbook has no handlers", expected: "handlers: a list of handlers, at the top of the file"})
	}
}

// handlerNode is the name of a handler in the file.
func (d *decoder) handlerNode(root *yaml.Node, index int) *yaml.Node {
	list := d.child(root, "handlers")
	if list.Kind == yaml.AliasNode {
		list = list.Alias
	}
	if index >= len(list.Content) {
		return list
	}
	return d.child(list.Content[index], "name")
}
