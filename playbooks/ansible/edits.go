package ansible

import (
	"path"
	"regexp"
	"strings"
	"sync"
)

const ownAttributes = "uses: file, with: {path: PATH, mode: …}, as a step of its own"

// edited translates what lineinfile and blockinfile have in common.
func (t *draft) edited() *doubt {
	target, d := t.target("", "path", "dest", "destfile", "name")
	if d != nil {
		return d
	}
	if path.Clean(target) != target || target == "/" {
		return doubtf("%s is not the path of a file without . and ..", clip(target))
	}
	t.step.with.add("path", target)
	switch {
	case t.args.node("mode", "owner", "group") != nil:
		return doubtf("%s with mode, owner or group has no equivalent", t.module).hint(ownAttributes)
	}
	return cmpDoubt(t.validated(), cmpDoubt(t.off("backup", "unsafe_writes"), t.noEnvironment()))
}

// validated translates validate: Ansible runs the command without a shell, and replaces one %s.
func (t *draft) validated() *doubt {
	command, d := t.literal("", "validate")
	command = strings.TrimSpace(command) // of a block scalar
	if d != nil || command == "" {
		return d
	}
	if strings.Count(command, "%") != 1 || !strings.Contains(command, "%s") || shellReads(command) {
		return doubtf("validate: %s has no equivalent", clip(command)).hint("validate: a command of a shell with %%s, as a param of the step")
	}
	t.step.with.add("validate", command)
	return nil
}

// created translates create.
func (t *draft) created() *doubt {
	create, d := t.flag(false, "create")
	if create {
		t.step.with.add("create", true)
		t.note("the folder of the file must exist; Ansible makes it")
	}
	return d
}

// inserted translates insertafter and insertbefore.
func (t *draft) inserted() *doubt {
	for _, one := range [][2]string{{"insertafter", "after"}, {"insertbefore", "before"}} {
		name, param := one[0], one[1]
		n := t.args.node(name)
		switch {
		case n == nil || n.Value == "EOF" && param == "after":
			continue
		case n.Value == "BOF":
			return doubtf("%s: BOF has no equivalent", name).hint("before: an expression for the first line")
		}
		expression, _, d := t.expression(name)
		if d != nil {
			return d
		}
		t.step.with.add(param, expression)
		t.note("the step fails unless one line matches %s; Ansible takes the last one, or the end of the file", param)
	}
	return nil
}

// lineInFile translates lineinfile.
func lineInFile(t *draft) *doubt {
	t.step.uses = "line"
	if d := t.edited(); d != nil {
		return d
	}
	if d := t.off("backrefs"); d != nil {
		return d.hint("uses: line, with a match and the whole line")
	}
	absent, d := t.presence()
	if d != nil {
		return d
	}
	match, pattern, d := t.matched()
	if d != nil {
		return d
	}
	line, hasLine, d := t.text("line", "value")
	if d != nil {
		return d
	}
	if match != "" {
		t.step.with.add("match", match)
	}
	if absent {
		t.without("create", "insertafter", "insertbefore", "firstmatch")
		if match == "" {
			if line == "" {
				return doubtf("neither a line nor an expression is given")
			}
			t.step.with.add("line", line)
		}
		return nil
	}
	switch {
	case !hasLine || line == "":
		return doubtf("an empty line has no equivalent")
	case strings.ContainsAny(line, "\r\n"):
		return doubtf("a line with a line break has no equivalent").hint("uses: block, with a name")
	}
	if pattern != "" {
		if d := t.matchesLine(pattern); d != nil {
			return d
		}
	}
	t.step.with.add("line", line)
	first, d := t.flag(false, "firstmatch")
	if d != nil {
		return d
	}
	if match != "" {
		t.note("the step fails if several lines match; Ansible replaces the %s", map[bool]string{true: "first", false: "last"}[first])
	}
	return cmpDoubt(t.inserted(), t.created())
}

// matched translates regexp or search_string. pattern is the argument as an expression, before its
// Jinja and its line ends are translated.
func (t *draft) matched() (match, pattern string, d *doubt) {
	n := t.args.node("search_string")
	if n == nil {
		name := "regexp"
		if t.args.node("regex") != nil {
			name = "regex"
		}
		return t.expression(name)
	}
	v, d := literal(n)
	text, ok := v.(string)
	if d == nil && (!ok || text == "" || t.args.node("regexp", "regex") != nil) {
		d = doubtf("the argument search_string is not a text")
	}
	if d != nil {
		return "", "", d
	}
	text = regexp.QuoteMeta(text)
	return text, text, nil
}

// expression translates a regular expression that Ansible applies to lines with their ends.
func (t *draft) expression(name string) (match, pattern string, d *doubt) {
	n := t.args.node(name)
	if n == nil {
		return "", "", nil
	}
	if !hasJinja(n.Value) {
		v, d := scalar(n)
		text, ok := v.(string)
		if d == nil && (!ok || text == "") {
			d = doubtf("the argument %s is not an expression", name)
		}
		if d != nil {
			return "", "", d
		}
		match, d = lineExpression(text)
		return match, text, d
	}
	texts, d := t.texts(n.Value)
	if d != nil {
		return "", "", d
	}
	for _, one := range texts {
		same, d := lineExpression(one[0])
		if d == nil && same != one[0] {
			d = doubtf("%s with {{ }} may match the end of a line: %s", name, clip(one[0])).hint("uses: line, whose match sees a line without its end")
		}
		if d != nil {
			return "", "", d
		}
	}
	match, d = t.scope.text(n.Value)
	return match, n.Value, d
}

// matchesLine refuses an expression that does not match the line which replaces what it matches: a
// second run would add the line again.
func (t *draft) matchesLine(pattern string) *doubt {
	line := t.args.node("line", "value").Value
	no := func(expression, line string) *doubt {
		return doubtf("%s does not match the line %s, so a second run would add the line again", clip(expression), clip(line)).hint("uses: line, with a match for the old line and the new one, as ^#?Name")
	}
	expression := func(text string) (*regexp.Regexp, *doubt) {
		if t.args.node("search_string") == nil {
			text, _ = lineExpression(text)
		}
		re, err := regexp.Compile(text)
		if err != nil {
			return nil, doubtf("%s is not an expression", clip(text))
		}
		return re, nil
	}
	if texts, d := t.texts(pattern, line); d == nil {
		for _, one := range texts {
			re, d := expression(one[0])
			if d != nil {
				return d
			}
			if !re.MatchString(one[1]) {
				return no(one[0], one[1])
			}
		}
		return nil
	}
	// The values are not known: what is before them must be enough, whatever comes after it.
	parts, d := t.scope.parts(line)
	if d != nil {
		return d
	}
	re, d := expression(pattern)
	if d != nil {
		return d
	}
	if hasJinja(pattern) || strings.ContainsAny(pattern, `$`) || strings.Contains(pattern, `\b`) || strings.Contains(pattern, `\B`) || parts[0].expr != nil || !re.MatchString(parts[0].text) || strings.HasSuffix(parts[0].text, "$") {
		return doubtf("%s is not known to match the line, and a second run would then add the line again", clip(pattern)).hint(importWithInventory)
	}
	return nil
}

// texts are the values that several texts have together; those that read one item go together.
func (t *draft) texts(of ...string) ([][]string, *doubt) {
	all := make([][]part, len(of))
	items := 1
	for i, text := range of {
		var d *doubt
		if all[i], d = t.scope.parts(text); d != nil {
			return nil, d
		}
		for _, p := range all[i] {
			if p.expr == nil {
				continue
			}
			if d := p.expr.printable(); d != nil {
				return nil, d
			}
			ofItem := t.scope.item != nil && strings.HasPrefix(p.expr.text, "item") && len(p.expr.vals) == len(t.scope.item.vals)
			switch {
			case !p.expr.known:
				return nil, doubtf("the values of %s are not known", p.expr.text)
			case ofItem:
				items = len(p.expr.vals)
			case len(p.expr.vals) != 1:
				return nil, doubtf("%s has several values", p.expr.text)
			}
		}
	}
	out := make([][]string, items)
	for i := range out {
		for _, parts := range all {
			var b strings.Builder
			for _, p := range parts {
				switch {
				case p.expr == nil:
					b.WriteString(p.text)
				case len(p.expr.vals) == 1:
					b.WriteString(shown(p.expr.vals[0]))
				default:
					b.WriteString(shown(p.expr.vals[i]))
				}
			}
			out[i] = append(out[i], b.String())
		}
	}
	return out, nil
}

var markerOf = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\S{1,10}) \{mark\} turnus ([A-Za-z0-9](?:[A-Za-z0-9 _./-]{0,98}[A-Za-z0-9_./-])?)$`)
})

// blockInFile translates blockinfile. Markers that the job type makes of a name become one.
func blockInFile(t *draft) *doubt {
	t.step.uses = "block"
	if d := t.edited(); d != nil {
		return d
	}
	marker, given, d := t.text("marker")
	if d != nil {
		return d
	}
	if !given {
		marker = "# {mark} ANSIBLE MANAGED BLOCK"
	}
	if t.args.node("marker_begin", "marker_end") != nil {
		return doubtf("marker_begin and marker_end have no equivalent").hint("uses: block, with a name")
	}
	switch m := markerOf().FindStringSubmatch(marker); {
	case m == nil && (!strings.Contains(marker, "{mark}") || strings.ContainsAny(marker, "\r\n")):
		return doubtf("the marker %s is not one line with {mark}", clip(marker)).hint("uses: block, with a name")
	case m == nil:
		t.step.with.add("marker", marker)
	case m[1] == "#":
		t.step.with.add("name", m[2])
	default:
		t.step.with.add("name", m[2])
		t.step.with.add("comment", m[1])
	}
	content, _, d := t.text("block", "content")
	if d != nil {
		return d
	}
	absent, d := t.presence()
	if d != nil {
		return d
	}
	if absent {
		t.without("create", "insertafter", "insertbefore")
		return nil
	}
	if strings.TrimRight(content, "\n") == "" {
		return doubtf("a block without lines has no equivalent").hint("uses: block, with: {state: absent, …}")
	}
	t.step.with.add("content", content)
	return cmpDoubt(t.inserted(), t.created())
}
