package ansible

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// listener is a handler, and the names by which tasks notify it.
type listener struct {
	step   *step
	node   *yaml.Node
	inh    inherited
	name   string
	topics []string

	shadowed bool   // another handler of its name runs
	twin     string // place of a handler of the same name and list
}

// notice is a name in notify, and the handlers that it reaches.
type notice struct {
	handlers []*step
}

// findHandlers reads the handlers of the roles and of the play, so that tasks know whom they
// notify.
func (p *play) findHandlers(inh inherited) error {
	for _, r := range p.roles {
		if r.blocked != nil {
			continue
		}
		root, d := p.roleFile(r, "handlers")
		if d != nil {
			return d.fatal
		}
		if root == nil {
			continue
		}
		own := r.inh
		own.file, _ = p.first(r.folder+"/handlers/main.yml", r.folder+"/handlers/main.yaml")
		if err := p.listen(root, own); err != nil {
			return err
		}
	}
	return p.listen(child(p.node, "handlers"), inh)
}

func (p *play) listen(list *yaml.Node, inh inherited) error {
	if list == nil || yamlread.IsNull(list) {
		return nil
	}
	others := len(p.listeners)
	for _, n := range list.Content {
		if n.Kind != yaml.MappingNode {
			return p.fail(inh.file, n.Line, n.Column, yamlread.Fault{Message: "this is not a handler", Expected: "a mapping with a name and a module"})
		}
		l := &listener{node: n, inh: inh, step: &step{}}
		if v := child(n, "name"); v != nil {
			l.name = v.Value
		}
		if v := child(n, "listen"); v != nil {
			l.topics, _ = words(v)
		}
		for i, before := range p.listeners { // Ansible runs the one of the last list
			if l.name == "" || before.name != l.name || before.shadowed {
				continue
			}
			if i >= others {
				before.twin, l.shadowed = place(p.show(inh.file), n.Line, n.Column), true
				continue
			}
			before.shadowed = true
			if len(before.topics) == 0 {
				delete(p.stepNames, before.step.name)
			}
		}
		l.step.name = p.stepName(cmpText(l.name, "handler"))
		p.listeners = append(p.listeners, l)
	}
	return nil
}

// notifies finds the handlers of notify.
func (p *play) notifies(t *draft, n *yaml.Node) *doubt {
	names, d := words(n)
	if n.Kind == yaml.ScalarNode && n.Value != "" {
		names = []string{n.Value}
	}
	if d != nil {
		return d
	}
	for _, name := range names {
		found := &notice{}
		for _, l := range p.listeners {
			if l.name == name && !l.shadowed || slices.Contains(l.topics, name) {
				found.handlers = append(found.handlers, l.step)
			}
		}
		if len(found.handlers) == 0 || hasJinja(name) {
			d := doubtf("no handler is named %s", clip(name))
			if near := yamlread.Nearest(name, p.handlerNames()); near != "" {
				return d.hint("notify: %s", near)
			}
			return d
		}
		t.step.notify = append(t.step.notify, found)
	}
	return nil
}

// handlerNames are the names by which tasks notify handlers.
func (p *play) handlerNames() (names []string) {
	for _, l := range p.listeners {
		names = append(append(names, l.name), l.topics...)
	}
	return names
}

// convertHandlers converts the handlers after the tasks, whose results they may read.
func (p *play) convertHandlers() error {
	p.handlers = nil
	notified := map[*step]bool{}
	note := func(s *step) {
		for _, n := range s.notify {
			for _, h := range n.handlers {
				notified[h] = true
			}
		}
	}
	for _, s := range p.steps {
		note(s)
	}
	for had := -1; had < len(notified); { // handlers notify others, also ones before them
		had = len(notified)
		for _, l := range p.listeners {
			if n := child(l.node, "notify"); n != nil && notified[l.step] {
				d := &draft{step: &step{}}
				_ = p.notifies(d, n) // a todo names what it does not find
				note(d.step)
			}
		}
	}
	for i, l := range p.listeners {
		if l.shadowed && len(l.topics) == 0 {
			continue
		}
		p.out.Tasks++
		name := l.step.name
		delete(p.stepNames, name)
		if !notified[l.step] && len(p.out.Todos) == 0 { // a task that is left to a person may notify it
			p.out.Converted++
			p.out.Notes = append(p.out.Notes, Note{place(p.show(l.inh.file), l.node.Line, l.node.Column), "the handler is left out: no task notifies it"})
			continue
		}
		d := p.handler(l, p.listeners[i+1:])
		if d != nil && d.fatal != nil {
			return d.fatal
		}
		if d != nil {
			inh := l.inh
			inh.tags, inh.ignore = nil, false
			*l.step = *p.todo(inh, l.node, handlerModule(l.node), d)
		} else {
			p.out.Converted++
		}
		l.step.name = name
		p.stepNames[name] = true
		p.handlers = append(p.handlers, l.step)
		note(l.step)
	}
	if len(p.handlers) == 0 {
		p.steps = slices.DeleteFunc(p.steps, func(s *step) bool { return s.flush })
	}
	return nil
}

func handlerModule(n *yaml.Node) string {
	module, _ := moduleOf(n)
	return cmpText(module, "handler")
}

func (p *play) handler(l *listener, later []*listener) *doubt {
	inh := l.inh
	inh.tags = nil // a handler has none in Turnus, and runs when it is notified in both
	if child(l.node, "tags") != nil {
		return doubtf("tags of a handler have no equivalent").hint("the handler without tags")
	}
	if module, _ := moduleOf(l.node); includes[base(module)] || base(module) == "meta" || child(l.node, "block") != nil {
		return doubtf("a handler that is a block, an include or a meta task has no equivalent")
	}
	if l.twin != "" {
		return doubtf("the handler at %s has the same name: Ansible runs the first of a list, and documents that it runs the last", l.twin).hint("a name of its own for each handler")
	}
	steps, _, d := p.task(l.node, inh)
	if d != nil {
		return d
	}
	if len(steps) == 0 {
		return doubtf("a handler that only prints or gathers facts has no equivalent").hint("nothing: leave the handler out, and its name out of notify")
	}
	s := steps[0]
	if s.once {
		return doubtf("run_once of a handler has no equivalent").hint("a step with once, and when: any of the steps has changed")
	}
	if s.on != "" {
		return doubtf("delegate_to of a handler has no equivalent").hint("a step with on, and when: any of the steps has changed")
	}
	if s.ignore {
		return doubtf("ignore_errors of a handler has no equivalent").hint("uses: command, with: {run: … || true}")
	}
	for _, n := range s.notify {
		for _, h := range n.handlers {
			if !slices.ContainsFunc(later, func(l *listener) bool { return l.step == h }) {
				return doubtf("a handler that notifies one before it has no equivalent")
			}
		}
	}
	if p.registersRead(s) && slices.ContainsFunc(p.steps, func(s *step) bool { return s.flush }) {
		return doubtf("a handler that reads results, with handlers that run in between, has no equivalent")
	}
	s.force = p.force
	name := l.step.name
	*l.step = *s
	l.step.name = name
	return nil
}

// registersRead reports whether an expression of the handler reads steps.
func (p *play) registersRead(s *step) bool {
	return strings.Contains(encode(s.fields(nil)), "steps")
}
