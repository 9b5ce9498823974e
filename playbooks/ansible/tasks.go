package ansible

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// inherited holds the settings of a task from the play, the role, the blocks and the includes
// around it.
type inherited struct {
	scope  *scope
	file   string
	folder string // where its files are looked for
	role   *role
	stack  []string
	when   []*yaml.Node
	whens  []*scope // in which each of when is read; nil is that of the task
	tags   []string
	env    []*yaml.Node
	notify *yaml.Node
	ignore bool
	become become
	doubt  *doubt // why nothing below has an equivalent
}

func (inh *inherited) addTags(n *yaml.Node) *doubt {
	tags, d := words(n)
	if d != nil {
		return d
	}
	for _, tag := range tags {
		if !tagName().MatchString(tag) {
			return doubtf("the tag %s is not a name in Turnus", clip(tag))
		}
	}
	inh.tags = append(slices.Clip(inh.tags), tags...)
	return nil
}

func (inh *inherited) addWhen(n *yaml.Node) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	for _, item := range items {
		inh.when = append(slices.Clip(inh.when), item)
		inh.whens = append(slices.Clip(inh.whens), nil)
	}
}

// sections converts the tasks of a play, and its handlers, in the order in which Ansible runs them.
func (p *play) sections(inh inherited) error {
	if err := p.findRoles(inh); err != nil {
		return err
	}
	if err := p.findHandlers(inh); err != nil {
		return err
	}
	if err := p.tasks(child(p.node, "pre_tasks"), inh); err != nil {
		return err
	}
	p.flushSection()
	for _, r := range p.roles {
		if err := p.roleTasks(r); err != nil {
			return err
		}
	}
	if err := p.tasks(child(p.node, "tasks"), inh); err != nil {
		return err
	}
	if child(p.node, "post_tasks") != nil {
		p.flushSection()
	}
	if err := p.tasks(child(p.node, "post_tasks"), inh); err != nil {
		return err
	}
	p.handlers = nil
	for _, l := range p.listeners {
		p.handlers = append(p.handlers, l.step)
	}
	return p.convertHandlers()
}

// flushSection runs handlers at the end of a section, if one of its steps notifies any.
func (p *play) flushSection() {
	for _, s := range p.steps[p.section:] {
		if len(s.notify) > 0 {
			p.steps = append(p.steps, &step{flush: true})
			break
		}
	}
	p.section = len(p.steps)
}

// tasks converts a list of tasks and blocks.
func (p *play) tasks(list *yaml.Node, inh inherited) error {
	if list == nil || yamlread.IsNull(list) {
		return nil
	}
	if list.Kind != yaml.SequenceNode {
		return p.fail(inh.file, list.Line, list.Column, yamlread.Fault{Message: "this is not a list of tasks"})
	}
	for i, n := range list.Content {
		p.next = nil
		if i+1 < len(list.Content) {
			p.next = list.Content[i+1]
		}
		if n.Kind != yaml.MappingNode {
			return p.fail(inh.file, n.Line, n.Column, yamlread.Fault{Message: "this is not a task", Expected: "a mapping with a module"})
		}
		if p.reader.tasks++; p.reader.tasks > maxTasks {
			return p.fail(inh.file, n.Line, n.Column, yamlread.Fault{Message: "more than " + strconv.Itoa(maxTasks) + " tasks", Hint: "import the plays one by one"})
		}
		if err := p.one(n, inh); err != nil {
			return err
		}
	}
	return nil
}

func (p *play) one(n *yaml.Node, inh inherited) error {
	if child(n, "block") != nil {
		return p.block(n, inh)
	}
	if module, arg := moduleOf(n); includes[base(module)] {
		return p.include(n, module, arg, inh)
	}
	before := p.lists
	steps, what, d := p.task(n, inh)
	if d != nil && d.fatal != nil {
		return d.fatal
	}
	if before != nil {
		p.lists = nil
		if d != nil {
			d.reason += "; the task before it updates the lists of packages, which this step has to do"
		}
	}
	p.out.Tasks++
	if d != nil {
		p.unconverted(n, inh)
		p.steps = append(p.steps, p.todo(inh, n, what, d))
		return nil
	}
	p.out.Converted++
	p.steps = append(p.steps, steps...)
	return nil
}

// unconverted notes the names that later tasks cannot read.
func (p *play) unconverted(n *yaml.Node, inh inherited) {
	at := place(p.show(inh.file), n.Line, n.Column)
	if v := child(n, "register"); v != nil {
		p.set[v.Value] = at
	}
	module, arg := moduleOf(n)
	if base(module) == "set_fact" {
		for _, e := range entries(arg) {
			p.set[e.key] = at
		}
	}
}

var includes = map[string]bool{"include_tasks": true, "import_tasks": true, "include": true, "import_role": true, "include_role": true}

// block converts the tasks of a block: they inherit its keywords.
func (p *play) block(n *yaml.Node, inh inherited) error {
	outer := inh
	inh.doubt = cmpDoubt(inh.doubt, inh.addVars(n, ofTask))
	for _, e := range entries(n) {
		inh.doubt = cmpDoubt(inh.doubt, inh.keyword(e))
	}
	caught := has(n, "rescue") || has(n, "always")
	if caught && p.nested == maxNested {
		inh.doubt = cmpDoubt(inh.doubt, doubtf("blocks with rescue or always are nested deeper than %d", maxNested))
	}
	switch {
	case inh.doubt == nil && caught:
		return p.group(n, inh)
	case inh.doubt == nil:
		return p.tasks(child(n, "block"), inh)
	}
	count := leaves(n)
	p.out.Tasks += count
	p.eachTask(n, func(t *yaml.Node) { p.unconverted(t, inh) })
	p.steps = append(p.steps, p.todo(outer, n, "block", inh.doubt))
	return nil
}

// eachTask calls f for the tasks of a block and of the blocks in it.
func (p *play) eachTask(n *yaml.Node, f func(*yaml.Node)) {
	for _, key := range []string{"block", "rescue", "always"} {
		p.eachIn(child(n, key), f)
	}
}

// eachIn calls f for the tasks of a list, and of the blocks in it.
func (p *play) eachIn(list *yaml.Node, f func(*yaml.Node)) {
	if list == nil {
		return
	}
	for _, t := range list.Content {
		if child(t, "block") != nil {
			p.eachTask(t, f)
		} else {
			f(t)
		}
	}
}

func leaves(n *yaml.Node) (count int) {
	(*play)(nil).eachTask(n, func(*yaml.Node) { count++ })
	return count
}

// addVars adds the vars of a block or an include, which its conditions also read.
func (inh *inherited) addVars(n *yaml.Node, of rank) *doubt {
	f := vars(child(n, "vars"), of)
	inh.scope = inh.scope.with(f)
	return f.login()
}

// keyword adds a keyword of a block or an include for the tasks in it.
func (inh *inherited) keyword(e entry) *doubt {
	switch e.key {
	case "name", "block", "rescue", "always", "vars":
		return nil
	case "when":
		inh.addWhen(e.value)
		return nil
	case "tags":
		return inh.addTags(e.value)
	case "environment":
		inh.env = append(slices.Clip(inh.env), e.value)
		return nil
	case "notify":
		inh.notify = e.value // the innermost one counts
		return nil
	case "ignore_errors":
		on, d := truth(e.value)
		inh.ignore = on
		return d
	case "become", "become_user", "become_method":
		return inh.becomes(e)
	}
	return doubtf("%s has no equivalent", e.key)
}

// become is whether steps run as another user, and as whom; "" is root.
type become struct {
	on   bool
	user string
}

func (b become) param() any {
	switch {
	case !b.on:
		return false
	case b.user == "" || b.user == "root":
		return true
	}
	return fields{{"user", b.user}}
}

func (b become) same(other become) bool {
	return b.on == other.on && (!b.on || cmpText(b.user, "root") == cmpText(other.user, "root"))
}

func (inh *inherited) becomes(e entry) *doubt {
	if e.key == "become" {
		on, d := truth(e.value)
		inh.become.on = on
		return d
	}
	v, d := literal(e.value)
	text, ok := v.(string)
	switch {
	case d != nil || !ok:
		return doubtf("%s is not a literal name", e.key)
	case e.key == "become_user":
		inh.become.user = text
		return nil
	case text == "sudo":
		return nil
	}
	if text != core.BecomeDoas {
		return doubtf("Turnus has no %s: %s", e.key, clip(text)).hint("sudo or doas on the hosts (docs/become.md)")
	}
	return doubtf("%s: %s belongs to the inventory", e.key, text).hint("become: {method: %s} of a host or group (docs/become.md)", text)
}

// include converts the tasks of another file or of a role in place.
func (p *play) include(n *yaml.Node, module string, arg *yaml.Node, inh inherited) error {
	outer := inh
	d := p.includeKeywords(n, module, &inh)
	if d == nil && strings.HasSuffix(base(module), "_role") {
		var r *role
		if r, d = p.includedRole(n, arg, inh); d == nil {
			if base(module) == "import_role" {
				r.given = vars(child(n, "vars"), ofRole)
				p.imported = append(p.imported, r)
			}
			return p.roleTasks(r)
		}
	} else if d == nil {
		file, problem := p.includedTasks(arg, inh)
		if d = problem; d == nil {
			root, _, err := p.yaml(file)
			if err != nil {
				return err
			}
			inh.stack, inh.file = append(slices.Clip(inh.stack), inh.file), file
			return p.tasks(root, inh)
		}
	}
	if d.fatal != nil {
		return d.fatal
	}
	p.out.Tasks++
	p.steps = append(p.steps, p.todo(outer, n, module, d))
	return nil
}

func (p *play) includeKeywords(n *yaml.Node, module string, inh *inherited) *doubt {
	dynamic := strings.HasPrefix(base(module), "include")
	of := ofTask
	if dynamic {
		of = ofInclude
	}
	if d := inh.addVars(n, of); d != nil {
		return d
	}
	if inh.role != nil && strings.HasSuffix(base(module), "_role") { // params of the role around it win
		inh.scope = inh.scope.with(vars(inh.role.params, ofInclude))
	}
	for _, e := range entries(n) {
		if e.key == module {
			continue
		}
		if d := inh.keyword(e); d != nil {
			return d
		}
		if dynamic && e.key != "name" && e.key != "when" && e.key != "vars" {
			static := "import_tasks"
			if base(module) == "include_role" {
				static = "import_role"
			}
			return doubtf("tasks do not inherit %s from %s", e.key, module).hint("%s, or %s on each task", static, e.key)
		}
	}
	if dynamic { // decides once, before its tasks do
		decided := *inh.scope
		decided.registers = maps.Clone(decided.play.registers)
		inh.whens = slices.Clone(inh.whens)
		for i, s := range inh.whens {
			inh.whens[i] = cmp.Or(s, &decided)
		}
	}
	return nil
}

func (p *play) includedTasks(arg *yaml.Node, inh inherited) (string, *doubt) {
	if arg.Kind == yaml.MappingNode {
		file := child(arg, "file")
		if file == nil || len(arg.Content) != 2 {
			return "", doubtf("the include is not a literal path")
		}
		arg = file
	}
	stack := append(slices.Clip(inh.stack), inh.file)
	return p.included(path.Dir(inh.file), arg, stack)
}
