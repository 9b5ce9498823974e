package ansible

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/playbooks"
)

// play is one play on its way to a playbook.
type play struct {
	*converter
	file  string // its place
	node  *yaml.Node
	hosts []core.Host

	out       Playbook
	title     string
	comment   string
	targets   string
	strategy  fields
	vars      []*binding
	params    fields
	steps     []*step
	handlers  []*step
	roles     []*role
	imported  []*role // by import_role: Ansible gives their vars to all tasks of the play
	exposed   []*role // imported as an earlier conversion of the play found them
	registers map[string]*register
	set       map[string]string // names that a task sets which is not converted, with its place
	unsure    map[string]bool   // registered in a block that may have ended before its task
	nested    int               // blocks with rescue or always around the task that is converted
	stepNames map[string]bool
	grouped   map[string]bool   // groups that a task makes
	alone     map[string]string // files that a job type keeps for one setting, with the name of it
	become    become
	section   int // steps before the section that is being converted
	listeners []*listener
	force     bool
	next      *yaml.Node // the task after the one that is converted; nil: none in its list
	lists     *lists     // of packages, which the task before it wants updated
	depth     int        // of vars that are defined by others
	expanded  int
}

// site converts the plays of a file. stack is the files that include it.
func (c *converter) site(file string, stack []string) error {
	root, ok, err := c.yaml(file)
	switch {
	case err != nil:
		return err
	case !ok:
		return c.fail(file, 0, 0, yamlread.Fault{Message: "no such file", Hint: "turnus import ansible SITE.yml"})
	case root == nil || root.Kind != yaml.SequenceNode || len(root.Content) == 0:
		f := yamlread.Fault{Message: "this is not a playbook of Ansible", Expected: "a list of plays, each with hosts and tasks"}
		if child(root, "playbook") != nil && child(root, "targets") != nil {
			f.Hint = "this is a playbook of Turnus: turnus validate " + c.show(file)
		}
		return c.fail(file, 1, 1, f)
	}
	for _, n := range root.Content {
		if n.Kind != yaml.MappingNode {
			return c.fail(file, n.Line, n.Column, yamlread.Fault{Message: "this is not a play", Expected: "a mapping with hosts and tasks"})
		}
		imported := importOf(n)
		if imported == nil {
			if err := c.play(file, n); err != nil {
				return err
			}
			continue
		}
		if err := c.importPlaybook(file, n, imported, append(stack, file)); err != nil {
			return err
		}
	}
	return nil
}

func importOf(n *yaml.Node) *yaml.Node {
	for _, key := range []string{"import_playbook", "ansible.builtin.import_playbook"} {
		if v := child(n, key); v != nil {
			return v
		}
	}
	return nil
}

func (c *converter) importPlaybook(file string, n, name *yaml.Node, stack []string) error {
	target, d := c.included(path.Dir(file), name, stack)
	for _, e := range entries(n) {
		switch base(e.key) {
		case "import_playbook", "name":
		default:
			d = cmpDoubt(d, doubtf("%s of an imported playbook has no equivalent", e.key))
		}
	}
	if d == nil {
		return c.site(target, stack)
	}
	if d.fatal != nil {
		return d.fatal
	}
	p := c.newPlay(file, n)
	p.targets = "true"
	p.out.Tasks++
	p.blocked(file, n, "import_playbook", d)
	return c.finish(p)
}

func cmpDoubt(a, b *doubt) *doubt {
	if a != nil {
		return a
	}
	return b
}

// included finds the file that an include names.
func (c *converter) included(folder string, name *yaml.Node, stack []string) (string, *doubt) {
	v, d := literal(name)
	text, ok := v.(string)
	switch {
	case d != nil:
		return "", d
	case !ok:
		return "", doubtf("the included file is not a literal path")
	}
	target, ok := within(folder, text)
	if !ok {
		return "", doubtf("%s is outside of the folder of the playbook", text)
	}
	if slices.Contains(stack, target) {
		return "", unread(c.fail(stack[len(stack)-1], name.Line, name.Column, yamlread.Fault{Message: "this file includes itself by way of " + c.show(target), Hint: "write the tasks of one of them in place of the include"}))
	}
	if len(stack) > maxDepth {
		return "", unread(c.fail(stack[len(stack)-1], name.Line, name.Column, yamlread.Fault{Message: fmt.Sprintf("files include each other more than %d deep", maxDepth)}))
	}
	if _, ok := c.first(target); !ok {
		return "", doubtf("there is no file %s", c.show(target))
	}
	return target, nil
}

func (c *converter) newPlay(file string, n *yaml.Node) *play {
	p := &play{converter: c, file: file, node: n, hosts: c.hosts, registers: map[string]*register{}, set: map[string]string{}, unsure: map[string]bool{}, stepNames: map[string]bool{}, grouped: map[string]bool{}, alone: map[string]string{}}
	p.out.Source = place(c.show(file), n.Line, n.Column)
	return p
}

// play converts one play. One that imports roles is converted twice: the tasks before them also
// need to know their vars.
func (c *converter) play(file string, n *yaml.Node) error {
	reader, files := *c.reader, maps.Clone(c.files)
	bounds := *reader.bounds
	p := c.newPlay(file, n)
	if err := p.convert(); err != nil {
		return err
	}
	if imported := p.imported; len(imported) > 0 {
		reader.bounds = &bounds
		*c.reader, c.files = reader, files
		p = c.newPlay(file, n)
		p.exposed = imported
		if err := p.convert(); err != nil {
			return err
		}
	}
	return c.finish(p)
}

func (p *play) convert() error {
	n := p.node
	if v := child(n, "name"); v != nil && v.Kind == yaml.ScalarNode {
		p.title = clip(v.Value)
	}
	p.comment = comment(n)
	hosts := child(n, "hosts")
	if hosts == nil {
		f := yamlread.Fault{Message: "this play has no hosts", Expected: "hosts: and a group"}
		if module, _ := moduleOf(n); modules[base(module)] != nil || includes[base(module)] || child(n, "block") != nil {
			f = yamlread.Fault{Message: "this is a file of tasks, not a playbook", Expected: "a list of plays, each with hosts and tasks", Hint: "import the playbook that includes it: turnus import ansible SITE.yml"}
		}
		return p.fail(p.file, n.Line, n.Column, f)
	}
	p.targets = "true"
	if text, d := p.pattern(hosts); d != nil {
		p.blocked(p.file, hosts, "hosts", d)
	} else {
		p.targets = text
	}
	p.besideTodos()
	if err := p.configTodos(); err != nil {
		return err
	}
	s := &scope{play: p}
	s, err := p.playVars(s)
	if err != nil {
		return err
	}
	inh := inherited{scope: s, file: p.file, folder: path.Dir(p.file)}
	if err := p.keywords(&inh); err != nil {
		return err
	}
	return p.sections(inh)
}

// playVars reads vars, vars_prompt and vars_files.
func (p *play) playVars(s *scope) (*scope, error) {
	if v := child(p.node, "vars"); v != nil {
		s = s.with(p.ofPlay(p.file, v))
	}
	if v := child(p.node, "vars_prompt"); v != nil {
		s = s.with(p.prompts(v))
	}
	files := child(p.node, "vars_files")
	if files == nil {
		return s, nil
	}
	list := []*yaml.Node{files}
	if files.Kind == yaml.SequenceNode {
		list = files.Content
	}
	for _, n := range list {
		file, d := p.included(path.Dir(p.file), n, []string{p.file})
		if d != nil && d.fatal != nil {
			return nil, d.fatal
		}
		if d != nil {
			p.blocked(p.file, n, "vars_files", d)
			continue
		}
		root, _, err := p.yaml(file)
		if err != nil {
			return nil, err
		}
		if root != nil && root.Tag == "!vault" {
			p.blocked(p.file, n, "vars_files", &doubt{reason: p.show(file) + " is encrypted with Ansible Vault", instead: vaulted().instead})
			continue
		}
		s = s.with(p.ofPlay(file, root))
	}
	return s, nil
}

// ofPlay returns the frame of vars of the play, with a todo for the settings of Ansible in it.
func (p *play) ofPlay(file string, n *yaml.Node) frame {
	f := vars(n, ofPlay)
	for _, e := range entries(n) {
		if d := (frame{e.key: f[e.key]}).login(); d != nil {
			p.blocked(file, e.at, e.key, d)
		}
	}
	return f
}

// keywords reads the keywords of a play as a whole.
func (p *play) keywords(inh *inherited) error {
	for _, e := range entries(p.node) {
		d := p.keyword(e, inh)
		if d != nil && d.fatal != nil {
			return d.fatal
		}
		if d != nil {
			p.blocked(p.file, e.at, e.key, d)
		}
	}
	p.become = inh.become
	return p.rollout()
}

func (p *play) keyword(e entry, inh *inherited) *doubt {
	switch e.key {
	case "name", "hosts", "vars", "vars_files", "vars_prompt", "roles", "pre_tasks", "tasks", "post_tasks", "handlers", "gather_facts", "gather_subset", "gather_timeout", "fact_path", "collections",
		"serial", "max_fail_percentage", "any_errors_fatal":
		return nil
	case "become", "become_user", "become_method":
		return inh.becomes(e)
	case "strategy":
		if e.value.Value == "free" || e.value.Value == "linear" {
			return nil
		}
	case "connection":
		if e.value.Value == "ssh" || e.value.Value == "smart" {
			return nil
		}
		return doubtf("Turnus reaches hosts with SSH only")
	case "remote_user", "user":
		return doubtf("the login belongs to the inventory").hint("ansible_user=%s in the inventory; then remove this step", clip(e.value.Value))
	case "force_handlers":
		on, d := truth(e.value)
		p.force = on
		return d
	case "tags":
		return inh.addTags(e.value)
	case "environment":
		inh.env = append(inh.env, e.value)
		return nil
	case "ignore_errors":
		on, d := truth(e.value)
		inh.ignore = on
		return d
	}
	return doubtf("%s of a play has no equivalent", e.key)
}

// rollout translates serial and the failure thresholds.
func (p *play) rollout() error {
	for _, key := range []string{"serial", "any_errors_fatal", "max_fail_percentage"} {
		n := child(p.node, key)
		if n == nil {
			continue
		}
		var d *doubt
		switch key {
		case "serial":
			d = p.serial(n)
		case "any_errors_fatal":
			var on bool
			if on, d = truth(n); d == nil && on {
				p.stopAtFirst()
			}
		default:
			d = p.failPercentage(n)
		}
		if d != nil {
			p.blocked(p.file, n, key, d)
		}
	}
	return nil
}

func (p *play) stopAtFirst() {
	if p.strategy.get("stop_after") == nil {
		p.strategy.add("stop_after", 1)
		p.strategy.add("stop_unreachable", 1)
	}
}

func (p *play) failPercentage(n *yaml.Node) *doubt {
	percent, d := number(n)
	switch {
	case d != nil:
		return d
	case percent == 0:
		p.stopAtFirst()
		return nil
	case percent >= 100:
		return nil
	case child(p.node, "serial") != nil:
		return doubtf("Ansible counts max_fail_percentage in each batch, Turnus over the whole run").hint("strategy: {stop_after: %d%%}", percent)
	case p.hosts == nil:
		return doubtf("Ansible stops above %d%%, Turnus at stop_after: the number of hosts decides", percent).hint("strategy: {stop_after: %d%%}, or import with --inventory FILE", percent)
	}
	count, d := p.count()
	if d != nil {
		return d
	}
	p.strategy.add("stop_after", count*percent/100+1)
	return nil
}

// serial translates batches, each counted from the batch before it, into waves, each counted from
// the first host.
func (p *play) serial(n *yaml.Node) *doubt {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	var sizes []string
	for _, item := range items {
		v, d := literal(item)
		if d != nil {
			return d
		}
		sizes = append(sizes, fmt.Sprint(v))
	}
	if len(sizes) == 1 && sizes[0] == "1" {
		p.strategy.add("max_in_flight", 1)
		p.stopAtFirst()
		return nil
	}
	if len(sizes) == 1 && (sizes[0] == "100%" || sizes[0] == "0") {
		return nil
	}
	waves, d := p.waves(sizes)
	if d == nil {
		p.strategy.add("waves", waves)
	}
	return d
}

const maxWaves = 30

func (p *play) waves(sizes []string) ([]any, *doubt) {
	if waves, ok := countedWaves(sizes); ok {
		return waves, nil
	}
	if p.hosts == nil {
		return nil, doubtf("batches of %s end where the hosts end", strings.Join(sizes, ", ")).
			hint("strategy: {waves: […]}, each wave counted from the first host; or import with --inventory FILE")
	}
	hosts, d := p.count()
	if d != nil {
		return nil, d
	}
	var waves []any
	for sum, i := 0, 0; sum < hosts; i++ {
		text := sizes[min(i, len(sizes)-1)]
		size, err := strconv.Atoi(strings.TrimSuffix(text, "%"))
		if err != nil || size < 1 {
			return nil, doubtf("the batch %s is not understood", clip(text))
		}
		if strings.HasSuffix(text, "%") {
			size = max(1, size*hosts/100)
		}
		if sum += size; sum < hosts {
			waves = append(waves, sum)
		}
		if len(waves) > maxWaves {
			return nil, doubtf("%d hosts in batches of %s are more than %d waves", hosts, strings.Join(sizes, ", "), maxWaves).hint("strategy: {max_in_flight: %s}", sizes[len(sizes)-1])
		}
	}
	return append(waves, "100%"), nil
}

// countedWaves are the waves of batches that end with all hosts.
func countedWaves(sizes []string) (waves []any, ok bool) {
	sum := 0
	for i, text := range sizes {
		if text == "100%" && i == len(sizes)-1 {
			return append(waves, "100%"), true
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, false
		}
		sum += n
		waves = append(waves, sum)
	}
	return nil, false
}

// todo records what a person has to translate, and returns the step that reports it.
func (p *play) todo(inh inherited, n *yaml.Node, what string, d *doubt) *step {
	name := title(n)
	t := Todo{Place: place(p.show(inh.file), n.Line, n.Column), What: what, Name: name, Reason: d.reason, Instead: d.instead}
	p.out.Todos = append(p.out.Todos, t)
	st := &step{name: p.stepName(name), uses: playbooks.TodoType, comment: comment(n)}
	st.with.add("source", t.Place)
	st.with.add("module", what)
	st.with.add("reason", t.Reason)
	if t.Instead != "" {
		st.with.add("instead", t.Instead)
	}
	if n.Kind == yaml.MappingNode {
		st.with.add("was", original(n))
	}
	if around := p.inherit(st, inh); len(around) > 0 {
		st.with.add("around", original(nodeOf(around)))
	}
	return st
}

// blocked is a todo of the play as a whole, which stands before its tasks.
func (p *play) blocked(file string, n *yaml.Node, what string, d *doubt) {
	p.steps = append(p.steps, p.todo(inherited{file: file, become: p.become}, n, what, d))
}

// finish renders the play.
func (c *converter) finish(p *play) error {
	maps.Copy(c.before, p.set)
	for name, r := range p.registers {
		c.before[name] = r.place
	}
	if len(p.steps) == 0 {
		if len(p.handlers) == 0 { // a play that gathers facts changes nothing
			return nil
		}
		p.handlers = nil
	}
	base := slug(cmp.Or(p.title, strings.TrimSuffix(path.Base(p.file), path.Ext(p.file))))
	name := base
	for i := 2; c.names[name]; i++ {
		name = base + "-" + strconv.Itoa(i)
	}
	c.names[name] = true
	p.out.Name, p.out.Text = name, p.render(name)
	c.done = append(c.done, p.out)
	return nil
}

func (p *play) hostsText() string {
	if v := child(p.node, "hosts"); v != nil {
		return v.Value
	}
	return ""
}
