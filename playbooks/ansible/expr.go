package ansible

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
)

// kinds is the set of types that a value may have; 0 is any.
type kinds int

const (
	kindText kinds = 1 << iota
	kindInt
	kindFloat
	kindBool
	kindList
	kindMap
	kindNull
)

const (
	precLoose   = iota - 1 // brackets everywhere
	precTight              // a name or a call: never brackets
	precCompare            // from tight to loose
	precAnd
	precOr
)

// term is a translated expression, with what is known of its value.
type term struct {
	text     string
	prec     int
	kinds    kinds
	vals     []any // all that it may have, if known
	known    bool
	optional bool // not defined on some hosts
	asked    bool // a launch gives it
	unsure   bool // it is not known where it is defined
	missing  string
	groups   bool
	register *register
	parts    []part   // of a text that is put together
	fallback *binding // a role's default of a name that the inventory may define
}

func kindsOf(vals []any, known bool) (k kinds) {
	if !known {
		return 0
	}
	for _, v := range vals {
		switch v.(type) {
		case string:
			k |= kindText
		case int, int64, uint64:
			k |= kindInt
		case float64:
			k |= kindFloat
		case bool:
			k |= kindBool
		case []any:
			k |= kindList
		case map[string]any:
			k |= kindMap
		default:
			k |= kindNull
		}
	}
	return k
}

func quoted(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // of a string it cannot fail
	return strings.TrimSuffix(b.String(), "\n")
}

func constant(v any) term {
	t := term{vals: []any{v}, known: true, kinds: kindsOf([]any{v}, true)}
	switch x := v.(type) {
	case string:
		t.text = quoted(x)
	case nil:
		t.text = "nil"
	default:
		t.text = fmt.Sprint(x)
	}
	return t
}

// in puts brackets around a term where the operator around it needs them.
func (t term) in(prec int) string {
	if t.prec == precLoose || t.prec > prec || t.prec == prec && prec == precCompare {
		return "(" + t.text + ")"
	}
	return t.text
}

// value translates an expression whose value is needed.
func (s *scope) value(n *node) (term, *doubt) {
	t, d := s.maybe(n)
	switch {
	case d != nil:
		return term{}, d
	case t.missing != "":
		return term{}, doubtf("%s is defined neither in the playbook nor in the inventory", t.missing)
	case t.unsure:
		return term{}, doubtf("%s is not defined in the playbook", strings.TrimPrefix(t.text, "host.vars.")).
			hint("the inventory, so that the import can look there: turnus import ansible … --inventory FILE")
	case t.fallback != nil:
		return term{}, doubtf("the inventory may define %s, which is a role's default", t.fallback.name).
			hint("the inventory, so that the import can look there: turnus import ansible … --inventory FILE")
	case t.register != nil:
		return term{}, doubtf("the whole of a registered result has no equivalent")
	}
	return t, nil
}

// maybe translates an expression that may be undefined.
func (s *scope) maybe(n *node) (term, *doubt) {
	switch n.op {
	case "lit":
		return constant(n.val), nil
	case "name":
		return s.name(n.name)
	case "attr":
		return s.attr(n)
	case "item":
		return s.oneOf(n)
	case "list":
		return s.list(n)
	case "not":
		t, d := s.bool(n.args[0])
		if d != nil {
			return t, d
		}
		switch t.text {
		case "true", "false":
			return constant(t.text == "false"), nil
		}
		return term{text: "!" + t.in(precTight), kinds: kindBool}, nil
	case "and", "or":
		return s.logic(n)
	case "if":
		return s.choice(n)
	case "is":
		return s.test(n)
	case "filter":
		return s.filter(n)
	case "in", "not in":
		return s.contains(n)
	case "==", "!=", "<", "<=", ">", ">=":
		return s.compare(n)
	}
	return term{}, doubtf("a part of the expression has no equivalent")
}

// bool translates a condition. Ansible takes any value for one, Turnus true and false only.
func (s *scope) bool(n *node) (term, *doubt) {
	t, d := s.value(n)
	if d != nil {
		return t, d
	}
	if t.kinds != kindBool {
		return t, doubtf("%s is not known to be true or false", t.text).hint("a comparison: %s == …", t.text)
	}
	return t, nil
}

func (s *scope) logic(n *node) (term, *doubt) {
	a, d := s.bool(n.args[0])
	if d != nil {
		return a, d
	}
	b, d := s.bool(n.args[1])
	if d != nil {
		return b, d
	}
	return combine(n.op, a, b), nil
}

// combine joins two conditions with and or or.
func combine(op string, a, b term) term {
	neutral, strong := "true", "false"
	sign, prec := " && ", precAnd
	if op == "or" {
		neutral, strong, sign, prec = strong, neutral, " || ", precOr
	}
	switch {
	case a.text == neutral || b.text == strong:
		return b
	case b.text == neutral || a.text == strong:
		return a
	}
	return term{text: a.in(prec) + sign + b.in(prec), prec: prec, kinds: kindBool}
}

func (s *scope) choice(n *node) (term, *doubt) {
	cond, d := s.bool(n.args[0])
	if d != nil {
		return cond, d
	}
	a, d := s.value(n.args[1])
	if d != nil {
		return a, d
	}
	b, d := s.value(n.args[2])
	if d != nil {
		return b, d
	}
	return either(cond.in(precCompare)+" ? "+a.in(precCompare)+" : "+b.in(precCompare), a, b), nil
}

// either is a term that has the value of one of two.
func either(text string, a, b term) term {
	t := term{text: text, prec: precLoose, known: a.known && b.known}
	if t.known {
		t.vals = slices.Concat(a.vals, b.vals)
	}
	if a.kinds != 0 && b.kinds != 0 {
		t.kinds = a.kinds | b.kinds
	}
	return t
}

func (s *scope) attr(n *node) (term, *doubt) {
	of := n.args[0]
	if of.op == "name" && of.name == "ansible_facts" {
		return s.name("ansible_" + n.name)
	}
	if name, ok := groupOf(n); ok {
		return s.groupNames(name, true)
	}
	if h, ok, d := s.hostOf(of); d != nil {
		return term{}, d
	} else if ok {
		return s.hostVar(h, n.name)
	}
	t, d := s.maybe(of)
	if d != nil {
		return t, d
	}
	if t.register != nil {
		return t.register.field(n.name)
	}
	if t, d = s.value(of); d != nil {
		return t, d
	}
	if !t.known {
		return t, doubtf("the fields of %s are not known", t.text)
	}
	out := term{text: member(t.in(precTight), n.name), known: true}
	for _, v := range t.vals {
		m, ok := v.(map[string]any)
		if !ok {
			return t, doubtf("%s has no field %s", t.text, n.name)
		}
		if one, ok := m[n.name]; ok {
			out.vals = append(out.vals, one)
		} else {
			out.optional = true
		}
	}
	if len(out.vals) == 0 {
		return t, doubtf("%s has no field %s", t.text, n.name)
	}
	out.kinds = kindsOf(out.vals, true)
	return out, nil
}

// field translates a field of a registered result.
func (r *register) field(name string) (term, *doubt) {
	step := "steps." + r.step.name
	if !identifier().MatchString(r.step.name) {
		step = "steps[" + quoted(r.step.name) + "]"
	}
	printed := r.uses == "command" || r.uses == "script"
	switch {
	case name == "changed":
		return term{text: step + ".changed", kinds: kindBool}, nil
	case name == "failed":
		return term{text: step + `.outcome == "failed"`, prec: precCompare, kinds: kindBool}, nil
	case name == "skipped":
		return term{text: step + `.outcome == "skipped"`, prec: precCompare, kinds: kindBool}, nil
	case r.loop:
		return term{}, doubtf("results of a task with a loop have no equivalent").hint("%s.outputs.items", step)
	case r.when && (printed && slices.Contains([]string{"rc", "stdout", "stderr"}, name) || name == "status" && r.uses == "http"):
		return term{}, doubtf("the task that sets it may be skipped: Ansible then fails where %s is read", name).hint(`%s.outcome != "skipped" && …`, step)
	case name == "rc" && printed:
		return term{text: step + ".exit_code", kinds: kindInt}, nil
	case (name == "stdout" || name == "stderr") && printed:
		return term{text: step + ".outputs." + name, kinds: kindText}, nil
	case name == "status" && r.uses == "http":
		return term{text: step + ".outputs.status", kinds: kindInt}, nil
	}
	return term{}, doubtf("the field %s of a registered result has no equivalent", name).hint("a field that the job type has: turnus plugins docs %s", r.uses)
}

func (s *scope) list(n *node) (term, *doubt) {
	out, vals := make([]string, 0, len(n.args)), []any{}
	known := true
	for _, a := range n.args {
		t, d := s.value(a)
		if d != nil {
			return t, d
		}
		out = append(out, t.in(precOr))
		known = known && t.known && len(t.vals) == 1
		vals = append(vals, t.vals...)
	}
	return term{text: "[" + strings.Join(out, ", ") + "]", vals: []any{vals}, known: known, kinds: kindList}, nil
}

// sameKind reports whether both sides surely have one type, so that both languages compare alike.
func sameKind(a, b term) bool {
	k := a.kinds | b.kinds
	return a.kinds != 0 && b.kinds != 0 && (k == kindText || k == kindBool || k&^(kindInt|kindFloat) == 0)
}

func (s *scope) compare(n *node) (term, *doubt) {
	if t, ok := s.compareFact(n); ok {
		return t, nil
	}
	a, d := s.value(n.args[0])
	if d != nil {
		return a, d
	}
	b, d := s.value(n.args[1])
	if d != nil {
		return b, d
	}
	ordered := n.op != "==" && n.op != "!="
	if !sameKind(a, b) || ordered && a.kinds&kindBool != 0 {
		return a, doubtf("the types of %s and %s are not known to be the same", a.text, b.text).hint("convert one of them: string(…) or int(…)")
	}
	if a.optional || b.optional {
		return a, doubtf("%s is not defined on every host", a.text).hint("default(%s, …)", a.text)
	}
	return term{text: a.in(precCompare) + " " + n.op + " " + b.in(precCompare), prec: precCompare, kinds: kindBool}, nil
}

func (s *scope) contains(n *node) (term, *doubt) {
	if t, ok := s.compareFact(n); ok {
		return t, nil
	}
	a, d := s.value(n.args[0])
	if d != nil {
		return a, d
	}
	not := n.op == "not in"
	sentence := func(text string) term {
		t := term{text: text, prec: precCompare, kinds: kindBool}
		if not {
			t = term{text: "!(" + text + ")", kinds: kindBool}
		}
		return t
	}
	if list := n.args[1]; a.text == "host.name" && list.op == "attr" && list.args[0].op == "name" && list.args[0].name == "groups" {
		switch list.name {
		case "all":
			return constant(!not), nil
		case "ungrouped":
			return a, doubtf("the group ungrouped has no equivalent")
		}
		return sentence(quoted(list.name) + " in host.groups"), nil
	}
	b, d := s.unordered(n.args[1])
	if d != nil {
		return b, d
	}
	switch {
	case a.optional || b.optional:
		return a, doubtf("%s is not defined on every host", a.text)
	case b.groups && (slices.Contains(a.vals, any("all")) || slices.Contains(a.vals, any("ungrouped"))):
		return a, doubtf("the groups all and ungrouped have no equivalent")
	case b.groups && a.kinds == kindText:
		return sentence(a.in(precCompare) + " in host.groups"), nil
	case b.kinds == kindText && a.kinds == kindText:
		return sentence(b.in(precCompare) + " contains " + a.in(precCompare)), nil
	case b.kinds == kindList && b.known:
		for _, v := range b.vals {
			list, _ := v.([]any)
			if k := kindsOf(list, true); k == 0 || !sameKind(a, term{kinds: k}) {
				return a, doubtf("the types of %s and of the items of %s are not known to be the same", a.text, b.text)
			}
		}
		return sentence(a.in(precCompare) + " in " + b.in(precCompare)), nil
	}
	return a, doubtf("%s is not known to be a list or a text", b.text)
}

func (s *scope) test(n *node) (term, *doubt) {
	t, d := s.maybe(n.args[0])
	if d != nil {
		return t, d
	}
	if len(n.args) > 1 {
		return t, doubtf("the test %s has no equivalent", n.name)
	}
	if r := t.register; r != nil {
		switch n.name {
		case "defined":
			return constant(true), nil
		case "undefined":
			return constant(false), nil
		case "changed", "failed", "skipped":
			return r.field(n.name)
		case "succeeded", "success", "successful":
			t, d := r.field("failed")
			t.text = strings.Replace(t.text, "==", "!=", 1)
			return t, d
		}
		return t, doubtf("the test %s has no equivalent", n.name)
	}
	if n.name != "defined" && n.name != "undefined" {
		return t, doubtf("the test %s has no equivalent", n.name)
	}
	if of := n.args[0]; of.op == "attr" && of.name == "skipped" && strings.HasSuffix(t.text, `"skipped"`) { // only a skipped task has it
		if n.name == "undefined" {
			t.text = strings.Replace(t.text, "==", "!=", 1)
		}
		return t, nil
	}
	sign := map[string]string{"defined": "!=", "undefined": "=="}[n.name]
	switch {
	case t.missing != "":
		return constant(n.name == "undefined"), nil
	case t.fallback != nil || !t.optional:
		return constant(n.name == "defined"), nil
	}
	return term{text: t.in(precCompare) + " " + sign + " nil", prec: precCompare, kinds: kindBool}, nil
}

func (s *scope) filter(n *node) (term, *doubt) {
	if n.name == "default" || n.name == "d" {
		return s.fallback(n)
	}
	read := s.value
	if n.name == "length" || n.name == "count" {
		read = s.unordered
	}
	t, d := read(n.args[0])
	if d != nil {
		return t, d
	}
	if n.name == "join" && len(n.args) == 2 && n.args[1].op == "lit" {
		return t.join(n.args[1].val)
	}
	if len(n.args) == 1 {
		switch {
		case n.name == "bool" && t.kinds == kindBool, n.name == "string" && t.kinds == kindText, n.name == "int" && t.kinds == kindInt:
			return t, nil
		case n.name == "string" && t.kinds == kindInt:
			return term{text: "string(" + t.text + ")", kinds: kindText}, nil
		case (n.name == "lower" || n.name == "upper" || n.name == "trim") && t.kinds == kindText:
			change := map[string]func(string) string{"lower": strings.ToLower, "upper": strings.ToUpper, "trim": strings.TrimSpace}[n.name]
			vals := core.Map(t.vals, func(v any) any { return change(shown(v)) })
			return term{text: n.name + "(" + t.text + ")", kinds: kindText, vals: vals, known: t.known}, nil
		case (n.name == "length" || n.name == "count") && (t.kinds == kindText || t.kinds == kindList):
			return term{text: "len(" + t.text + ")", kinds: kindInt}, nil
		}
	}
	return t, doubtf("the filter %s has no equivalent", n.name)
}

// fallback translates default(literal): the value where the name is not defined.
func (s *scope) fallback(n *node) (term, *doubt) {
	if len(n.args) != 2 || n.args[1].op != "lit" {
		return term{}, doubtf("default with anything but one literal has no equivalent")
	}
	t, d := s.maybe(n.args[0])
	if d != nil {
		return t, d
	}
	other := constant(n.args[1].val)
	switch {
	case t.register != nil:
		return t, doubtf("default of a registered result has no equivalent")
	case t.missing != "":
		return other, nil
	case t.fallback != nil:
		return s.value(n.args[0])
	case !t.optional:
		return t, nil
	}
	out := either(t.in(precTight)+" ?? "+other.text, t, other)
	if t.unsure {
		out.kinds, out.known, out.vals = 0, false, nil
	}
	return out, nil
}
