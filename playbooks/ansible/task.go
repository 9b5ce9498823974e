package ansible

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

var tagName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`) })

// keywords of a task: everything else is its module.
var keywords = strings.Fields(`action any_errors_fatal args async become become_exe become_flags become_method become_user changed_when check_mode collections
	connection debugger delay delegate_facts delegate_to diff environment failed_when ignore_errors ignore_unreachable listen local_action loop loop_control
	module_defaults name no_log notify poll port register remote_user retries run_once tags throttle timeout until vars when
	with_items with_dict with_fileglob with_nested with_sequence with_subelements with_together with_first_found with_flattened with_lines with_random_choice with_indexed_items with_list`)

// base is a module's name without the collections whose modules had no other name before.
func base(module string) string {
	for _, prefix := range []string{"ansible.builtin.", "ansible.legacy.", "ansible.posix."} {
		if name, ok := strings.CutPrefix(module, prefix); ok {
			return name
		}
	}
	switch module {
	case "community.general.apk", "community.general.opkg":
		return strings.TrimPrefix(module, "community.general.")
	}
	return module
}

// moduleOf finds the module of a task and its arguments.
func moduleOf(n *yaml.Node) (string, *yaml.Node) {
	for _, e := range entries(n) {
		if !slices.Contains(keywords, e.key) {
			return e.key, e.value
		}
	}
	return "", nil
}

// draft is a task while it is converted.
type draft struct {
	step *step
	inherited
	node    *yaml.Node
	module  string
	args    *args
	changed *bool // changed_when
	okCodes []any // failed_when
	until   *node
	notes   []Note
	values  fields // environment variables of a command that have the values of expressions
}

// task converts a task to a step, or to none where it has no effect. what is its module.
func (p *play) task(n *yaml.Node, inh inherited) (steps []*step, what string, d *doubt) {
	module, arg := moduleOf(n)
	for _, key := range []string{"local_action", "action"} {
		if child(n, key) != nil {
			return nil, key, doubtf("%s has no equivalent", key).hint("the module as a key of the task, as in command: uptime")
		}
	}
	if module == "" {
		return nil, "task", doubtf("the task has no module that the import knows").hint("the module as a key of the task, as in command: uptime")
	}
	if inh.doubt != nil {
		return nil, module, inh.doubt
	}
	if base(module) == "meta" {
		return p.meta(n, arg, inh)
	}
	if base(module) == "debug" {
		return nil, module, p.debug(n, inh)
	}
	convert, known := modules[base(module)]
	if !known {
		return nil, module, noType(base(module), arg)
	}
	if own, ok := p.ownModule(module, inh); ok {
		return nil, module, doubtf("%s is the module %s of this project, not that of Ansible", own, module)
	}
	t := &draft{step: &step{comment: comment(n)}, inherited: inh, node: n, module: base(module)}
	if d = p.taskKeywords(t); d != nil {
		return nil, module, d
	}
	if t.args, d = argsOf(arg, child(n, "args"), freeForm[t.module]); d != nil {
		return nil, module, d
	}
	if d = convert(t); d != nil {
		return nil, module, d
	}
	if d = t.args.rest(); d != nil {
		return nil, module, d
	}
	if d = t.results(); d != nil {
		return nil, module, d
	}
	if t.step.when == "false" {
		return nil, module, doubtf("its condition is never true").hint("nothing: leave the task out")
	}
	p.out.Notes = append(p.out.Notes, t.notes...)
	if t.step.uses == "" {
		return nil, module, nil
	}
	t.step.name = p.stepName(title(n))
	if v := child(n, "register"); v != nil {
		p.registers[v.Value] = &register{step: t.step, uses: t.step.uses, loop: t.step.foreach != nil, when: t.step.when != "", place: place(p.show(inh.file), n.Line, n.Column)}
	}
	return []*step{t.step}, module, nil
}

// ownModule returns the file of a module that a folder library beside the playbook or the role has
// in place of Ansible's.
func (p *play) ownModule(module string, inh inherited) (string, bool) {
	folders := []string{"library", path.Join(path.Dir(p.file), "library")}
	if inh.role != nil {
		folders = append(folders, path.Join(inh.role.folder, "library"))
	}
	for _, folder := range folders {
		if file, ok := p.first(path.Join(folder, module+".py")); ok {
			return p.show(file), true
		}
	}
	return "", false
}

// title returns the name of a task, else the name of its result, else "".
func title(n *yaml.Node) string {
	if v := child(n, "name"); v != nil && v.Kind == yaml.ScalarNode && v.Value != "" {
		return jinjaOut().ReplaceAllString(v.Value, "$1")
	}
	if v := child(n, "register"); v != nil {
		return v.Value
	}
	return ""
}

var jinjaOut = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{\s*([^{}]*?)\s*\}\}`) })

// meta converts a meta task.
func (p *play) meta(n, arg *yaml.Node, inh inherited) ([]*step, string, *doubt) {
	if len(n.Content) > 4 || len(n.Content) == 4 && child(n, "name") == nil {
		return nil, "meta", doubtf("meta with other keywords has no equivalent")
	}
	switch arg.Value {
	case "flush_handlers":
		if p.nested > 0 {
			return nil, "meta", doubtf("handlers are not flushed in a block with rescue or always").hint("the restart as a task of the block")
		}
		if len(inh.when) > 0 {
			return nil, "meta", doubtf("handlers are not flushed under a condition").hint("meta: flush_handlers outside of the condition, or the restart as a task")
		}
		p.section = len(p.steps) + 1
		return []*step{{flush: true, comment: comment(n)}}, "meta", nil
	case "noop", "clear_facts", "refresh_inventory":
		return nil, "meta", nil
	}
	return nil, "meta", doubtf("meta: %s has no equivalent", clip(arg.Value))
}

// debug leaves a task out that only prints. One that notifies or decides is refused.
func (p *play) debug(n *yaml.Node, inh inherited) *doubt {
	for _, key := range []string{"register", "notify", "changed_when", "failed_when", "until"} {
		if child(n, key) != nil {
			return doubtf("debug with %s has no equivalent", key).hint("uses: command, with: {run: \"true\"}")
		}
	}
	if inh.notify != nil {
		return doubtf("debug with notify has no equivalent").hint("uses: command, with: {run: \"true\"}")
	}
	p.out.Notes = append(p.out.Notes, Note{place(p.show(inh.file), n.Line, n.Column), "debug is left out: turnus logs shows what every step printed"})
	return nil
}

// stepName is a name for a step that no other has; "" stays "".
func (p *play) stepName(text string) string {
	text = printable(strings.NewReplacer(`"`, "", `\`, "").Replace(text))
	if r := []rune(text); len(r) > 80 {
		text = strings.TrimSpace(string(r[:80]))
	}
	if text == "" { // it is called by its job type
		return ""
	}
	name := text
	for i := 2; p.stepNames[name]; i++ {
		name = text + " " + strconv.Itoa(i)
	}
	p.stepNames[name] = true
	return name
}

// taskKeywords reads the keywords of a task beside its module.
func (p *play) taskKeywords(t *draft) *doubt {
	loop, d := t.loop()
	if d != nil {
		return d
	}
	if loop != nil {
		inner := *t.scope
		inner.item = loop
		t.scope = &inner
	}
	if d := t.addVars(t.node, ofTask); d != nil {
		return d
	}
	for _, e := range entries(t.node) {
		if d := p.taskKeyword(t, e); d != nil {
			return d
		}
	}
	if !t.become.same(p.become) {
		t.step.become = t.become.param()
	}
	t.step.tags, t.step.ignore = unique(t.tags), t.ignore
	if t.notify != nil {
		if d := p.notifies(t, t.notify); d != nil {
			return d
		}
	}
	return t.condition()
}

func unique(words []string) (out []string) {
	for _, w := range words {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

func (p *play) taskKeyword(t *draft, e entry) *doubt {
	switch e.key {
	case "register":
		if !identifier().MatchString(e.value.Value) {
			return doubtf("the name %s is not a plain name", clip(e.value.Value))
		}
		return nil
	case "name", "listen", "loop", "with_items", "with_list", "loop_control", "args", "vars", "collections", "retries", "delay", "until":
		if e.key == "until" || e.key == "retries" {
			return t.retries()
		}
		return nil
	case "when", "tags", "environment", "notify", "ignore_errors", "become", "become_user", "become_method":
		return t.keyword(e)
	case "changed_when":
		on, d := truth(e.value)
		if d != nil {
			return doubtf("changed_when with a condition has no equivalent").hint("changed: false in with, or a command that creates a file that creates: names")
		}
		t.changed = &on
		return nil
	case "failed_when":
		return t.failedWhen(e.value)
	case "timeout":
		seconds, d := number(e.value)
		if d == nil && seconds > 0 {
			t.step.timeout = seconds2text(seconds)
		}
		return d
	case "run_once":
		return p.runOnce(t, e.value)
	case "no_log", "delegate_facts", "ignore_unreachable", "any_errors_fatal":
		if on, d := truth(e.value); d == nil && !on {
			return nil
		}
	case "delegate_to":
		return t.delegate(e.value)
	}
	if module, _ := moduleOf(t.node); e.key == module {
		return nil
	}
	return doubtf("%s has no equivalent", e.key)
}

var (
	// tooLate finds what on cannot read: what is known only when steps run.
	tooLate = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b(steps|item|run|hosts|facts)\b`) })
	quotes  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"[^"]*"|'[^']*'`) })
)

// delegate translates delegate_to. Hosts that are not in the inventory have no equivalent: their
// login and keys are nowhere.
func (t *draft) delegate(n *yaml.Node) *doubt {
	text, ok := n.Value, n.Kind == yaml.ScalarNode
	switch {
	case !ok || text == "":
		return doubtf("delegate_to is not the name of a host")
	case text == "{{ inventory_hostname }}":
		return nil
	case text == "localhost" || text == "127.0.0.1" || text == "::1":
		return doubtf("delegate_to: %s has no equivalent", text).hint("on: with a host of the inventory, to which workers log in")
	}
	parts, d := t.scope.parts(text)
	if d != nil {
		return d
	}
	on, d := joined(parts)
	switch {
	case d != nil:
		return d
	case on.kinds != kindText || tooLate().MatchString(quotes().ReplaceAllString(on.text, "")):
		return doubtf("delegate_to is not known before the play runs").hint("on: an expression over host, vars and params")
	}
	t.step.on = on.text
	return nil
}

// runOnce translates run_once, which in Ansible means once a batch.
func (p *play) runOnce(t *draft, n *yaml.Node) *doubt {
	on, d := truth(n)
	if d != nil || !on {
		return d
	}
	if p.nested > 0 {
		return doubtf("a task with run_once is in a block with rescue or always").hint("once: true on a step outside of groups")
	}
	t.step.once = true
	if child(p.node, "serial") != nil {
		t.note("once: one host of the run calls the step; Ansible calls it in each batch of serial")
	}
	return nil
}

// condition joins the conditions of the task and of everything around it.
func (t *draft) condition() *doubt {
	all := constant(true)
	for i := range t.when {
		cond, d := t.conditionAt(i)
		if d != nil {
			return d
		}
		all = combine("and", all, cond)
	}
	if all.text != "true" {
		t.step.when = all.text
	}
	switch {
	case !t.step.once || t.step.when == "":
	case t.step.foreach != nil:
		return doubtf("run_once with a loop and when has no equivalent").hint("once with foreach, or with when")
	default:
		t.note("once: the first host whose when is true calls the step; Ansible asks the first host only")
	}
	return nil
}

// conditionAt translates one of the conditions.
func (t *draft) conditionAt(i int) (term, *doubt) {
	v, d := scalar(t.when[i])
	if d != nil {
		return term{}, d
	}
	if on, ok := v.(bool); ok {
		return constant(on), nil
	}
	text, ok := v.(string)
	if !ok || strings.Contains(text, "{{") {
		return term{}, doubtf("the condition is not a plain expression").hint("when: the expression without {{ }}")
	}
	expr, d := parse(text)
	if d != nil {
		return term{}, d
	}
	s := cmp.Or(t.whens[i], t.scope)
	if t.scope.item != nil {
		inner := *s
		inner.item = t.scope.item
		s = &inner
	}
	return s.bool(expr)
}

// inherit gives a todo what its task inherits from the play, the role, the blocks and the includes
// around it. It returns what has no translation, for the person who writes the step.
func (p *play) inherit(st *step, inh inherited) (around fields) {
	t := &draft{step: st, inherited: inh}
	st.tags, st.ignore = unique(inh.tags), inh.ignore
	if !inh.become.same(p.become) {
		st.become = inh.become.param()
	}
	if inh.notify != nil && p.notifies(t, inh.notify) != nil {
		st.notify = nil
		around.add("notify", inh.notify)
	}
	all, whens := constant(true), []any(nil)
	for i, n := range inh.when {
		if cond, d := t.conditionAt(i); d != nil {
			whens = append(whens, n)
		} else {
			all = combine("and", all, cond)
		}
	}
	if all.text != "true" {
		st.when = all.text
	}
	if len(whens) > 0 {
		around.add("when", whens)
	}
	for _, n := range inh.env {
		around.add("environment", n)
	}
	return around
}

// retries translates retries and delay: Ansible counts the attempts after the first.
func (t *draft) retries() *doubt {
	if t.step.retry != nil {
		return nil
	}
	retries, delay := 3, 5
	var d *doubt
	if n := child(t.node, "retries"); n != nil {
		if retries, d = number(n); d != nil {
			return d
		}
	}
	if n := child(t.node, "delay"); n != nil {
		if delay, d = number(n); d != nil {
			return d
		}
	}
	if n := child(t.node, "until"); n != nil {
		if t.until, d = parse(n.Value); d != nil {
			return d
		}
	} else {
		return doubtf("retries without until means something else in old versions of Ansible").hint("retry: {attempts: %d, interval: %ds}", retries+1, delay)
	}
	if delay == 0 {
		return doubtf("delay: 0 has no equivalent").hint("retry: {attempts: %d, interval: 1s}", retries+1)
	}
	t.step.retry.add("attempts", retries+1)
	t.step.retry.add("interval", seconds2text(delay))
	t.step.retry.add("max_interval", seconds2text(delay))
	return nil
}

// untilSuccess reports whether until waits for success only.
func (t *draft) untilSuccess() bool {
	n, name := t.until, ""
	if v := child(t.node, "register"); v != nil {
		name = v.Value
	}
	of := func(n *node, field string) bool {
		return n.op == "attr" && n.name == field && n.args[0].op == "name" && n.args[0].name == name
	}
	switch {
	case n.op == "is" && len(n.args) == 1 && n.args[0].op == "name" && n.args[0].name == name:
		return n.name == "succeeded" || n.name == "success" || n.name == "successful"
	case n.op == "not" && n.args[0].op == "is" && n.args[0].name == "failed" && n.args[0].args[0].op == "name" && n.args[0].args[0].name == name, n.op == "not" && of(n.args[0], "failed"):
		return true
	case n.op == "==" && of(n.args[0], "rc") && n.args[1].val == 0:
		return t.step.uses == "command" && t.okCodes == nil
	case n.op == "==" && of(n.args[0], "status"):
		codes, _ := t.step.with.get("expect").([]any)
		return t.step.uses == "http" && (len(codes) == 0 && n.args[1].val == 200 || len(codes) == 1 && codes[0] == n.args[1].val)
	}
	return false
}

// failedWhen translates conditions on the exit code.
func (t *draft) failedWhen(n *yaml.Node) *doubt {
	no := doubtf("failed_when with this condition has no equivalent").hint("ok_codes: [0, …] in with, or continue_on_failure: true")
	v, d := scalar(n)
	text, ok := v.(string)
	if d != nil || !ok {
		return no
	}
	expr, d := parse(text)
	if d != nil {
		return d
	}
	name := ""
	if r := child(t.node, "register"); r != nil {
		name = r.Value
	}
	rc := func(n *node) bool {
		return n.op == "attr" && n.name == "rc" && n.args[0].op == "name" && n.args[0].name == name
	}
	if expr.op == "not" && expr.args[0].op == "in" {
		expr = &node{op: "not in", args: expr.args[0].args}
	}
	switch {
	case expr.op == "not in" && rc(expr.args[0]) && expr.args[1].op == "list":
		for _, code := range expr.args[1].args {
			i, ok := code.val.(int)
			if !ok {
				return no
			}
			t.okCodes = append(t.okCodes, i)
		}
		return nil
	case expr.op == "!=" && rc(expr.args[0]) && expr.args[1].op == "lit":
		if i, ok := expr.args[1].val.(int); ok {
			t.okCodes = []any{i}
			return nil
		}
	}
	return no
}

// results adds changed_when, failed_when and until, once the job type is known.
func (t *draft) results() *doubt {
	runs := t.step.uses == "command" || t.step.uses == "script"
	if t.changed != nil && t.step.with.get("changed") == nil {
		switch {
		case runs && !*t.changed:
			t.step.with.add("changed", false)
		case !runs && !*t.changed && !slices.Contains([]string{"wait", "http", "fetch", "assert"}, t.step.uses):
			return doubtf("changed_when: false has no equivalent for %s", t.step.uses)
		case !runs && *t.changed:
			return doubtf("changed_when: true has no equivalent for %s", t.step.uses)
		}
	}
	if t.okCodes != nil {
		if !runs {
			return doubtf("failed_when has no equivalent for %s", t.step.uses)
		}
		t.step.with.add("ok_codes", t.okCodes)
	}
	if t.until != nil && !t.untilSuccess() {
		return doubtf("until with this condition has no equivalent").hint("a command that exits with 0 only when it holds, and retry")
	}
	return nil
}

func seconds2text(seconds int) string {
	switch {
	case seconds >= 3600 && seconds%3600 == 0:
		return fmt.Sprintf("%dh", seconds/3600)
	case seconds >= 60 && seconds%60 == 0:
		return fmt.Sprintf("%dm", seconds/60)
	}
	return fmt.Sprintf("%ds", seconds)
}
