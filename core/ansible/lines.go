package ansible

import (
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// lineInFile translates the edit of one line.
func lineInFile(t *draft) *doubt {
	t.step.uses = "line"
	file, d := t.target("", "path", "dest", "destfile", "name")
	if d != nil {
		return d
	}
	t.step.with.add("path", file)
	match, d := t.expression("regexp", "regex")
	if d != nil {
		return d
	}
	line, hasLine, d := t.text("line", "value")
	if d != nil {
		return d
	}
	state, d := t.state()
	switch {
	case d != nil:
		return d
	case state == "absent" && match != "":
		hasLine = false // Ansible also ignores it
	case hasLine && match != "":
		if d := t.replaces(match); d != nil {
			return d
		}
		t.note("several lines that match are an error; Ansible replaces the last one")
	}
	if match != "" {
		t.step.with.add("match", match)
	}
	if hasLine {
		t.step.with.add("line", line)
	}
	return cmpDoubt(t.newLine(state), t.noEnvironment())
}

// expression takes a regular expression that both languages read.
func (t *draft) expression(names ...string) (string, *doubt) {
	text, d := t.literal("", names...)
	if d != nil {
		return "", d
	}
	if _, err := regexp.Compile(text); err != nil {
		return "", doubtf("%s is an expression of Python, and not of RE2", clip(text)).hint("an expression of RE2: https://github.com/google/re2/wiki/Syntax")
	}
	return text, nil
}

// replaces refuses an expression that does not find the line again which it has put in.
func (t *draft) replaces(match string) *doubt {
	n := t.args.node("line", "value")
	whole, d := t.known(n.Value, "the lines")
	if d != nil {
		return d
	}
	re := regexp.MustCompile(match)
	for _, v := range whole.vals {
		if line := shown(v); !re.MatchString(line) {
			return doubtf("the regexp does not match the new line %s", clip(line)).hint("uses: line, with a match that matches the old and the new line")
		}
	}
	return nil
}

// newLine translates where a line goes that the file does not have.
func (t *draft) newLine(state string) *doubt {
	for _, one := range []struct{ theirs, ours, none string }{{"insertafter", "after", "EOF"}, {"insertbefore", "before", ""}} {
		at, d := t.expression(one.theirs)
		switch {
		case d != nil:
			return d
		case at == "BOF":
			return doubtf("%s: BOF has no equivalent", one.theirs).hint("before: an expression that matches the first line")
		case at == one.none || at == "" || state == "absent":
		default:
			t.step.with.add(one.ours, at)
			t.note("%s must match one line; Ansible takes the last one, or else the end of the file", one.ours)
		}
	}
	for _, name := range []string{"backrefs", "backup", "firstmatch"} {
		if on, d := t.flag(false, name); d != nil || on {
			return cmpDoubt(d, doubtf("%s has no equivalent", name))
		}
	}
	create, d := t.flag(false, "create")
	if create && state == "present" {
		t.step.with.add("create", true)
	}
	return d
}

// assertion translates conditions that must hold.
func assertion(t *draft) *doubt {
	t.step.uses = "assert"
	n := t.args.node("that")
	if n == nil {
		return doubtf("the argument that is not given")
	}
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	var that []any
	for _, item := range items {
		cond, d := t.holds(item)
		if d != nil {
			return d
		}
		that = append(that, cond)
	}
	t.step.with.add("that", that)
	t.args.node("quiet", "success_msg")
	return cmpDoubt(t.message("fail_msg", "msg"), t.noEnvironment())
}

// holds translates one condition.
func (t *draft) holds(n *yaml.Node) (any, *doubt) {
	v, d := scalar(n)
	if d != nil {
		return nil, d
	}
	text, ok := v.(string)
	switch on, isBool := v.(bool); {
	case isBool:
		return on, nil
	case !ok || strings.Contains(text, "{{"):
		return nil, doubtf("the condition is not a plain expression").hint("that: the expression without {{ }}")
	}
	expr, d := parse(text)
	if d != nil {
		return nil, d
	}
	cond, d := t.scope.bool(expr)
	if d != nil {
		return nil, d
	}
	return "${{ " + cond.text + " }}", nil
}

func (t *draft) message(names ...string) *doubt {
	text, ok, d := t.text(names...)
	if ok && text != "" {
		t.step.with.add("message", text)
	}
	return d
}

func failure(t *draft) *doubt {
	t.step.uses = "assert"
	t.step.with.add("that", []any{false})
	return cmpDoubt(t.message("msg"), t.noEnvironment())
}

func hostName(t *draft) *doubt {
	t.step.uses = "hostname"
	name, d := t.need("name")
	if d == nil {
		t.step.with.add("name", name)
	}
	return cmpDoubt(d, t.noEnvironment())
}
