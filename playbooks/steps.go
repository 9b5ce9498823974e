package playbooks

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

const (
	maxAttempts     = 1000
	maxTags         = 50
	defaultInterval = 10 * time.Second
)

// knownStep is the part of a step that later steps may read.
type knownStep struct {
	name    string
	line    int
	outputs *shape
	block   string // include or group; "" is a step
}

// draft is a step while it is read: some keys need others first.
type draft struct {
	Step
	node *yaml.Node
	uses *yaml.Node
	with *yaml.Node
	when *yaml.Node
	each *yaml.Node
	on   *yaml.Node
}

func stepFields() []field[draft] {
	return []field[draft]{
		{key: "name", doc: "Name of the step, unique in the playbook; uses when not given.", form: textForm("a name"),
			read: func(d *decoder, n *yaml.Node, s *draft) { s.Name = d.stepName(n) }},
		{key: "uses", doc: "Job type that the step calls.", form: textForm("a job type such as command"), required: true,
			read: func(d *decoder, n *yaml.Node, s *draft) { s.uses, s.Uses = n, d.usesOf(n) }},
		{key: "with", doc: "Params of the job type. A text may hold ${{ expression }}.", form: form{"a mapping of params", &jsonschema.Schema{Type: "object"}},
			read: func(_ *decoder, n *yaml.Node, s *draft) { s.with = n }},
		{key: "when", doc: "Expression: the step is skipped where it is false.", form: exprForm("an expression that is true or false"),
			read: func(_ *decoder, n *yaml.Node, s *draft) { s.when = n }},
		{key: "foreach", doc: "List, or expression that gives one: the step is called for each item.",
			form: form{"a list, or an expression that gives one", &jsonschema.Schema{Types: []string{"string", "array"}}},
			read: func(_ *decoder, n *yaml.Node, s *draft) { s.each = n }},
		{key: "after", doc: "Barrier: no host begins the step before every host of the run has done the steps before it. all_hosts: and all of them well; remaining_hosts: those that failed are left out.",
			form: enumForm(AfterAll, AfterRemaining), read: func(d *decoder, n *yaml.Node, s *draft) { s.After = d.enumOf(n, AfterAll, AfterRemaining) }},
		{key: "window", doc: "Window set of this step, over the playbook's; none lets it run at any time.", form: nameForm(),
			read: func(d *decoder, n *yaml.Node, s *draft) { s.Window = d.nameOf(n) }},
		{key: "needs", doc: "Time that must be left in the window, rollback included.", form: durationForm(),
			read: func(d *decoder, n *yaml.Node, s *draft) { s.Needs = d.durationOf(n) }},
		{key: "disruptive", doc: "Whether the host may be out of service meanwhile: never two hosts of an HA group at the same time, and under the playbook's window it waits. When not given, true for a step with a window of its own, else as in the job type.",
			form: boolForm(), read: func(d *decoder, n *yaml.Node, s *draft) { s.Disruptive = new(d.boolOf(n)) }},
		{key: "timeout", doc: "Longest that one attempt may take.", form: durationForm(),
			read: func(d *decoder, n *yaml.Node, s *draft) { s.Timeout = d.durationOf(n) }},
		{key: "become", doc: "Runs the step as root, or as a user: {user: app}; false for the login. The playbook's when not given.", form: becomeForm(),
			read: func(d *decoder, n *yaml.Node, s *draft) { s.Become = d.becomeOf(n) }},
		{key: "retry", doc: "Further attempts when the step fails.", form: objectForm(retryFields()),
			read: func(d *decoder, n *yaml.Node, s *draft) { s.Retry = d.retryOf(n) }},
		{key: "tags", doc: "Words by which steps are picked on the command line.", form: tagsForm(),
			read: func(d *decoder, n *yaml.Node, s *draft) { s.Tags = d.tagsOf(n) }},
		{key: "secrets", doc: "Secrets that the step may have: a list, or a mapping of the names that the job type knows to names of secrets. command and script have them as environment variables.",
			form: secretsForm(), read: func(d *decoder, n *yaml.Node, s *draft) { s.Secrets = d.secretsOf(n) }},
		{key: "notify", doc: "Handlers that must run once after the step has changed its host.", form: form{"a list of names of handlers", &jsonschema.Schema{Type: "array", MinItems: new(1), Items: textForm("a name").schema}},
			read: func(d *decoder, n *yaml.Node, s *draft) { s.Notify = d.notifies(n) }},
		{key: "once", doc: "One host of the run calls the step: the first whose when is true. The others wait, and have its result.",
			form: boolForm(), read: func(d *decoder, n *yaml.Node, s *draft) { s.Once = d.boolOf(n) }},
		{key: "on", doc: "Expression: the name of the host on which the step is called, in place of the run's. It has its own login, become and window, and one such step at a time.", form: exprForm("an expression that gives the name of a host, such as host.vars.lb"),
			read: func(_ *decoder, n *yaml.Node, s *draft) { s.on = n }},
		{key: "redo", doc: "always: a retry with --from failed-step calls the step again although it succeeded.", form: enumForm("always"),
			read: func(d *decoder, n *yaml.Node, s *draft) { s.Redo = d.enumOf(n, "always") == "always" }},
		{key: "continue_on_failure", doc: "The next step runs though this one failed, and the job is not failed by it.", form: boolForm(),
			read: func(d *decoder, n *yaml.Node, s *draft) { s.IgnoreFailure = d.boolOf(n) }},
	}
}

// givenNames lists the names written out, also in groups, so that a name made from uses takes none
// of them.
func (d *decoder) givenNames(items []*yaml.Node) map[string]int {
	taken, visits := map[string]int{}, MaxSteps
	var add func(items []*yaml.Node)
	add = func(items []*yaml.Node) {
		for _, item := range items {
			if visits--; visits < 0 { // more than a playbook may have: it is refused
				return
			}
			if n := d.child(item, "name"); n.Kind == yaml.ScalarNode && n != item {
				if _, twice := taken[n.Value]; !twice {
					taken[n.Value] = n.Line
				}
			}
			for _, part := range []GroupPart{GroupSteps, GroupRescue, GroupAlways} {
				if list := yamlread.Target(d.child(item, string(part))); list != yamlread.Target(item) && list.Kind == yaml.SequenceNode {
					add(list.Content)
				}
			}
		}
	}
	add(items)
	return taken
}

func (d *decoder) readStep(n *yaml.Node, index int, taken map[string]int) Step {
	s := draft{node: n, Step: Step{Retry: Retry{Attempts: 1}, Line: n.Line, src: d.src, node: n}}
	readFields(d, n, d.stepLabel(n, index), stepFields(), d.stepHints(n), &s)
	local := s.Name
	if local == "" {
		local = freeName(s.Uses, index, taken)
		taken[local] = n.Line
	}
	d.unique(local, n)
	s.Name = d.full(local)
	s.Flush, d.whole.flush = d.whole.flush, false
	if s.After != "" && d.whole.steps == 0 {
		d.reportNode(d.child(n, "after"), problem{message: "the first step begins after nothing", expected: "after on a later step: it holds every host until all have done the steps before it"})
	}
	outputs := d.compileCall(&s)
	if s.each != nil { // each item has the job type's outputs; the step has the items
		outputs = closedShape(fmt.Sprintf("the outputs of step %q, which has foreach,", s.Name), "items")
	}
	d.checkPart("step "+quote(local), n, s.After, s.Window)
	if s.Redo && d.inherited.groups > 0 {
		d.reportNode(d.child(n, "redo"), problem{message: "step " + quote(local) + " of a group has redo", expected: "redo on a step outside of groups",
			hint: "a retry calls a group again as a whole"})
	}
	d.checkOnce(&s, local)
	d.steps = append(d.steps, knownStep{name: local, line: n.Line, outputs: outputs})
	d.whole.steps++
	d.inherited.apply(&s.Step)
	return s.Step
}

// checkOnce reports what leaves open which host calls a step with once, or how often.
func (d *decoder) checkOnce(s *draft, local string) {
	if !s.Once {
		return
	}
	at := d.child(s.node, "once")
	switch {
	case d.inherited.groups > 0:
		d.reportNode(at, problem{message: "step " + quote(local) + " of a group has once", expected: "once on a step outside of groups",
			hint: "the failure of the step stops the run, so no rescue could deal with it"})
	case s.each != nil && s.when != nil:
		d.reportNode(at, problem{message: "step " + quote(local) + " has once, foreach and when", expected: "once with foreach or with when",
			hint: "when is asked for each item, so it does not choose a host"})
	case s.Redo:
		d.reportNode(at, problem{message: "step " + quote(local) + " has once and redo", expected: "once or redo", hint: "a retry keeps the result of a step with once"})
	}
}

// compileCall compiles what a step or a handler gives its job type, and returns the shape of the
// outputs.
func (d *decoder) compileCall(s *draft) *shape {
	if s.Uses == TodoType {
		d.refuseTodo(s)
		return open()
	}
	typ, known := d.typeOf(s)
	d.hostRead = map[string]bool{}
	scope := d.stepScope(s.each != nil)
	what := fmt.Sprintf("of step %q", s.Name)
	if s.each != nil {
		s.Foreach = d.foreach(s.each, "foreach "+what)
		scope.item = s.Foreach.listed()
	}
	if s.when != nil {
		s.When = d.expression(s.when, "when "+what, scope, wantBool)
	}
	if s.on != nil {
		s.On = d.expression(s.on, "on "+what, d.onScope(), wantText)
	}
	before := len(d.diags)
	s.With = d.readWith(s, scope.withSecrets(s.Name, s.Secrets), typ)
	if known && len(d.diags) == before {
		d.askJobType(s.Step)
	}
	s.Facts = d.hostRead[factsField]
	return outputShape(s.Name, typ, known)
}

// stepLabel names a step in messages before it was read.
func (d *decoder) stepLabel(n *yaml.Node, index int) string {
	for _, key := range []string{"name", "uses", "include"} {
		if c := d.child(n, key); c.Kind == yaml.ScalarNode && c.Value != "" {
			return "step " + quote(c.Value)
		}
	}
	return fmt.Sprintf("step %d", index+1)
}

func freeName(uses string, index int, taken map[string]int) string {
	if uses == "" {
		uses = fmt.Sprintf("step-%d", index+1)
	}
	name := uses
	for i := 2; taken[name] != 0; i++ {
		name = fmt.Sprintf("%s-%d", uses, i)
	}
	return name
}

// unique reports a name that an earlier step of the file has, or one of an included file: site/conf
// may be the step conf of the include site.
func (d *decoder) unique(name string, n *yaml.Node) {
	for _, before := range d.steps {
		if before.name == name {
			d.reportNode(d.child(n, "name"), problem{message: fmt.Sprintf("a second step is named %s", quote(name)), expected: "names that are unique in the playbook",
				hint: fmt.Sprintf("the first is in line %d", before.line)})
			return
		}
	}
	if full := d.full(name); d.whole.names[full] {
		d.reportNode(d.child(n, "name"), problem{message: fmt.Sprintf("a second step of the playbook is named %s", quote(full)), expected: "names that are unique in the playbook, with those of its includes"})
	}
	d.whole.names[d.full(name)] = true
}

func (d *decoder) stepName(n *yaml.Node) string {
	name := d.textOf(n, 100)
	if strings.ContainsAny(name, "\n\t\r\"\\") || strings.TrimSpace(name) != name {
		d.reportNode(n, problem{message: quote(name) + " is not a step's name", expected: "one line without quotes, and no space around it"})
	}
	return name
}

func (d *decoder) usesOf(n *yaml.Node) string {
	target, ok := d.Scalar(n, "a job type such as command")
	if !ok {
		return ""
	}
	if !namePattern().MatchString(target.Value) {
		d.reportNode(n, problem{message: quote(target.Value) + " is not a job type", expected: "a name such as command or firewall.push"})
		return ""
	}
	return target.Value
}

// typeOf finds the step's job type and reports one that does not exist.
func (d *decoder) typeOf(s *draft) (typ *typeSchema, known bool) {
	if d.o.Types == nil || s.Uses == "" {
		return nil, false
	}
	if cached, ok := d.schemas[s.Uses]; ok {
		return cached, cached != nil
	}
	t, ok := d.o.Types(s.Uses)
	if !ok {
		d.reportNode(s.uses, problem{message: "unknown job type " + quote(s.Uses), expected: yamlread.OneOf(d.o.TypeNames), hint: cmp.Or(insteadOf(s.Uses, d.o.TypeNames), yamlread.DidYouMean(s.Uses, d.o.TypeNames), "job types of a plugin are known when its folder is given: --plugins DIR")})
		return nil, false
	}
	typ, err := newTypeSchema(t)
	if err != nil {
		d.reportNode(s.uses, problem{message: fmt.Sprintf("the schema of job type %q cannot be used: %v", t.Name, err), hint: "this is a fault of its plugin"})
	}
	d.schemas[s.Uses] = typ
	return typ, typ != nil
}

func tagsForm() form {
	return form{"a list of words", &jsonschema.Schema{Type: "array", Items: nameForm().schema}}
}

func (d *decoder) tagsOf(n *yaml.Node) []string {
	items := d.List(n, "a list of words")
	if len(items) > maxTags {
		d.reportNode(n, problem{message: fmt.Sprintf("%d tags", len(items)), expected: fmt.Sprintf("%d at most", maxTags)})
		return nil
	}
	var out []string
	for _, item := range items {
		if tag := d.nameOf(item); tag != "" && !slices.Contains(out, tag) {
			out = append(out, tag)
		}
	}
	return out
}

func (d *decoder) retryOf(n *yaml.Node) Retry {
	r := Retry{Attempts: 1, Backoff: core.Backoff{Interval: defaultInterval}}
	readFields(d, n, "retry", retryFields(), retryWords(), &r)
	if r.Max > 0 && r.Max < r.Interval {
		d.reportNode(d.child(n, "max_interval"), problem{message: fmt.Sprintf("max_interval %s is shorter than interval %s", short(r.Max), short(r.Interval)),
			expected: "a longest pause that is not shorter than the first"})
	}
	return r
}

// expression reads one that is a whole value: targets, when, foreach.
func (d *decoder) expression(n *yaml.Node, what string, s scope, w want) Expr {
	target, ok := d.Scalar(n, wantExpr)
	if !ok {
		return Expr{}
	}
	text := strings.TrimSpace(target.Value)
	lead := len(target.Value) - len(strings.TrimLeft(target.Value, " \t\r\n"))
	c := &code{what: what, src: d.src, node: target, from: utf8.RuneCountInString(target.Value[:lead]), text: text}
	if inner, ok := strings.CutPrefix(text, "${{"); ok && strings.HasSuffix(inner, "}}") {
		d.report(c.place(0, 3), problem{message: what + " is an expression already", expected: "it without ${{ }}: " + clip(strings.TrimSpace(strings.TrimSuffix(inner, "}}")), 60)})
		return Expr{}
	}
	found := d.compile(c, s, w)
	if d.add(found); len(found) > 0 {
		return Expr{}
	}
	return Expr{Text: text, code: c}
}

func (d *decoder) targets(n *yaml.Node) Expr {
	if group := groupWord(d.Follow(n)); group != "" {
		d.reportNode(n, problem{message: "targets is an expression, not a group", expected: "an expression over host that is true or false",
			hint: fmt.Sprintf(`every host is written: targets: true; a group: targets: '"%s" in host.groups'`, group)})
		return Expr{}
	}
	later := "targets are selected before any step runs"
	return d.expression(n, "targets", scope{
		root:      &shape{label: "the expression", closed: true, fields: map[string]*shape{"host": withFacts(hostShape()), "vars": d.varsShape(), "params": d.paramsShape()}},
		elsewhere: map[string]string{"steps": later, "item": later, "run": later, "secrets": onlyInParams},
		recorded:  true,
	}, wantBool)
}

var patternWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^"?([A-Za-z_][A-Za-z0-9_-]{0,99})"?$`) })

// groupWord returns the group that Ansible's hosts: would select with this value, "web" for every
// host, or "" for an expression.
func groupWord(n *yaml.Node, ok bool) string {
	if ok && n.Kind == yaml.SequenceNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	if !ok || n.Kind != yaml.ScalarNode || n.Tag == "!!bool" || n.Tag == "!!null" {
		return ""
	}
	word := patternWord().FindStringSubmatch(strings.TrimSpace(n.Value))
	switch {
	case n.Value == "*":
		return "web"
	case word == nil || slices.Contains([]string{"host", "vars", "params", "true", "false", "nil", "steps", "item", "run", "secrets"}, word[1]):
		return ""
	case word[1] == "all":
		return "web"
	}
	return word[1]
}

func (d *decoder) foreach(n *yaml.Node, what string) Expr {
	s := d.stepScope(false)
	s.elsewhere["item"] = "it is one item of this very list"
	target, ok := d.Follow(n)
	if !ok || target.Kind != yaml.SequenceNode {
		return d.expression(n, what, s, wantList)
	}
	return Expr{Text: fmt.Sprintf("a list of %d", len(target.Content)), code: &code{what: what, src: d.src, node: target, list: d.template(n, what, s, 1)}}
}

// stepScope returns the scope of the step that is being read.
func (d *decoder) stepScope(foreach bool) scope {
	steps := &shape{label: "steps", fields: map[string]*shape{}, closed: true, later: d.later}
	s := scope{elsewhere: map[string]string{"secrets": onlyInParams}, within: d.within, lists: d.whole.lists}
	for _, step := range d.steps {
		one := closedShape(fmt.Sprintf("step %q", step.name), "outcome", "changed", "outputs", "stdout", "exit_code")
		if step.block != "" {
			one = closedShape(fmt.Sprintf("%s %q", step.block, step.name), "outcome", "changed", "outputs")
		}
		if step.block == "group" {
			delete(one.fields, "outputs")
		} else {
			one.fields["outputs"] = step.outputs
		}
		steps.fields[step.name] = one
		s.stepNames = append(s.stepNames, step.name)
	}
	s.root = &shape{label: "the expression", closed: true, fields: map[string]*shape{
		"host": d.hostWithFacts(), "params": d.paramsShape(), "steps": steps, "run": runShape()}}
	if d.within == "" {
		s.root.fields["vars"] = d.varsShape()
	} else {
		s.elsewhere["vars"] = "an included file reads its own params only: declare one, and give it in with: of the include"
	}
	if d.inRescue {
		s.root.fields["error"] = closedShape("error", "step", "reason")
	} else {
		s.elsewhere["error"] = "steps in rescue of a group read it"
	}
	if foreach {
		s.root.fields["item"] = open()
	} else {
		s.elsewhere["item"] = "it exists in a step with foreach"
	}
	return s
}

// hostWithFacts is a host as steps read it. d.hostRead notes what they read.
func (d *decoder) hostWithFacts() *shape {
	s := withFacts(hostShape())
	s.read = d.hostRead
	return s
}

func (d *decoder) paramsShape() *shape { return closedShape("params", sortedKeys(d.params)...) }

func (d *decoder) varsShape() *shape {
	s := closedShape("vars", sortedKeys(d.vars)...)
	s.read = d.read
	return s
}
