package ansible

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

const maxExpanded = 5000 // vars that are defined by other vars, in a play

// binding is the meaning of a name.
type binding struct {
	name string
	node *yaml.Node // a value of the playbook; its Jinja sees the names of the task that reads it
	rank rank
	asks string // type of the param that a launch gives; "" is none
}

// rank is the kind of place that sets a name. A higher one wins, whatever is around what.
type rank int

const (
	ofDefaults rank = iota // of a role: the inventory wins
	ofPlay
	ofRole    // vars/main.yml, and vars: of a role that the play lists
	ofTask    // of a task, a block or an import
	ofParams  // of a role that the play lists
	ofInclude // of include_tasks or include_role
)

// frame is the vars of one place, such as a play or a role.
type frame map[string]*binding

// scope is the names that a task sees, from the play inwards.
type scope struct {
	play      *play
	frames    []frame // of one rank the last one wins
	item      *itemVar
	registers map[string]*register // as they were when an include decided; nil: those of the play
}

// itemVar is the loop variable of a task.
type itemVar struct {
	vals  []any // that it takes; nil if that is not known
	known bool
	hosts []core.Host // of a loop over the hosts of a group; nil in any other
}

func (s *scope) with(f frame) *scope {
	out := *s
	out.frames = append(append([]frame{}, s.frames...), f)
	return &out
}

// vars returns a frame of a mapping of vars.
func vars(n *yaml.Node, of rank) frame {
	f := frame{}
	for _, e := range entries(n) {
		f[e.key] = &binding{name: e.key, node: e.value, rank: of}
	}
	return f
}

// login returns a doubt if one of the vars is a setting of Ansible, such as ansible_user: it
// decides how tasks reach hosts, also if none of them reads it.
func (f frame) login() *doubt {
	for _, name := range sortedKeys(f) {
		_, same := sameFacts[name]
		_, words := spelledFacts[name]
		if strings.HasPrefix(name, "ansible_") && !same && !words && nearFacts[name] == "" && name != "ansible_managed" && !slices.Contains(pythonVars, name) {
			return doubtf("%s is a setting of Ansible, and belongs to the inventory", name).hint("%s in the inventory; then remove it here", name)
		}
	}
	return nil
}

// find returns the innermost binding of the highest rank.
func (s *scope) find(name string) (found *binding) {
	for _, f := range slices.Backward(s.frames) {
		if b := f[name]; b != nil && (found == nil || b.rank > found.rank) {
			found = b
		}
	}
	return found
}

// register is a registered result.
type register struct {
	step  *step
	uses  string
	loop  bool
	when  bool // the task may be skipped
	place string
}

// result returns the registered result of a name, or nil.
func (s *scope) result(name string) *register {
	if s.registers != nil {
		return s.registers[name]
	}
	return s.play.registers[name]
}

// inventoryVals returns the values of a var over all hosts. all is false where a host lacks it.
func inventoryVals(hosts []core.Host, name string) (vals []any, all bool) {
	all = true
	for _, h := range hosts {
		if v, ok := h.Vars[name]; ok {
			vals = append(vals, v)
		} else {
			all = false
		}
	}
	return vals, all
}

func jinjaIn(v any) bool {
	switch x := v.(type) {
	case string:
		return hasJinja(x)
	case []any:
		return slices.ContainsFunc(x, jinjaIn)
	case map[string]any:
		for _, one := range x {
			if jinjaIn(one) {
				return true
			}
		}
	}
	return false
}

var identifier = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// member is the field of a value, as an expression.
func member(of, name string) string {
	if identifier().MatchString(name) {
		return of + "." + name
	}
	return of + "[" + quoted(name) + "]"
}

// name translates a name.
func (s *scope) name(name string) (term, *doubt) {
	p := s.play
	switch name {
	case "inventory_hostname":
		return term{text: "host.name", vals: anyNames(p.hosts), known: len(p.hosts) > 0, kinds: kindText}, nil
	case "ansible_host":
		return term{text: "host.address", kinds: kindText}, nil
	case "group_names":
		return term{text: "host.groups", kinds: kindList, groups: true}, nil
	case "ansible_check_mode":
		return term{text: "run.check", kinds: kindBool}, nil
	case "item":
		if s.item != nil && s.item.hosts != nil {
			return term{text: "item.name", vals: s.item.vals, known: true, kinds: kindText}, nil
		}
		if s.item != nil {
			return term{text: "item", vals: s.item.vals, known: s.item.known, kinds: kindsOf(s.item.vals, s.item.known)}, nil
		}
	}
	if place, ok := p.set[name]; ok {
		return term{}, doubtf("%s is set at %s, which is not converted", name, place)
	}
	r := s.result(name)
	if p.unsure[name] && r != nil {
		return term{}, doubtf("%s is set at %s, in a block that may end before it", name, r.place)
	}
	if place, ok := p.before[name]; ok && r == nil {
		return term{}, doubtf("%s is set by an earlier play, at %s: results do not outlive a run", name, place).hint("one playbook of both plays, or the value in the inventory")
	}
	b := s.find(name)
	if r != nil {
		if b != nil {
			return term{}, doubtf("%s is both a registered result and a var", name)
		}
		return term{register: r, kinds: kindMap}, nil
	}
	if name == "ansible_managed" && b == nil {
		return constant("Ansible managed"), nil // the text that Ansible has if no ansible.cfg sets another
	}
	if strings.HasPrefix(name, "ansible_") {
		return fact(name)
	}
	switch name {
	case "hostvars", "groups", "play_hosts", "omit", "playbook_dir", "role_path", "inventory_dir", "inventory_hostname_short", "lookup", "query", "range", "environment", "vars":
		return term{}, doubtf("%s has no equivalent", name)
	}
	if other := p.otherRole(name, b); other != "" {
		return term{}, doubtf("role %s also sets %s", other, name)
	}
	return s.variable(name, b)
}

func (s *scope) variable(name string, b *binding) (term, *doubt) {
	p := s.play
	if b != nil && b.rank > ofDefaults {
		return s.term(b)
	}
	if own, d := s.besideVar(name); d != nil {
		return term{}, d
	} else if own != nil {
		return s.term(own)
	}
	if p.hosts == nil {
		return term{text: member("host.vars", name), optional: true, unsure: b == nil, fallback: b},
			nil
	}
	vals, all := inventoryVals(p.hosts, name)
	switch {
	case jinjaIn(vals):
		return term{}, doubtf("the value of %s in the inventory holds Jinja", name)
	case slices.Contains(vals, nil): // Ansible distinguishes null and undefined, and expressions do not
		return term{}, doubtf("%s is null on some hosts", name).hint("leave it out of the inventory there, or give it a value")
	}
	switch {
	case len(vals) == 0 && b != nil:
		return s.term(b)
	case len(vals) == 0:
		return term{optional: true, missing: name}, nil
	case b != nil && !all:
		p.noteOverride(name)
		t, d := s.term(b)
		vals = append(vals, t.vals...)
		return term{text: member("host.vars", name) + " ?? " + t.text, prec: precLoose, vals: vals, known: t.known, kinds: kindsOf(vals, t.known)}, d
	}
	return term{text: member("host.vars", name), vals: vals, known: true, kinds: kindsOf(vals, true), optional: !all}, nil
}

// noteOverride notes once that -e does not change the var of a host that sets it.
func (p *play) noteOverride(name string) {
	n := Note{p.out.Source, fmt.Sprintf("%[1]s of a host wins over -e %[1]s=…, which only changes vars.%[1]s: hosts without their own %[1]s. In Ansible -e wins on all hosts", name)}
	if !slices.Contains(p.out.Notes, n) {
		p.out.Notes = append(p.out.Notes, n)
	}
}

// term translates a binding's value: a literal becomes a var of the playbook, Jinja is translated
// in place.
func (s *scope) term(b *binding) (term, *doubt) {
	p := s.play
	switch b.asks {
	case "":
	case playbooks.TextParam:
		return term{text: member("params", b.name), kinds: kindText, asked: true}, nil
	default:
		return term{}, doubtf("%s is a secret, and an expression cannot read it", b.name).
			hint("secrets: {%[1]s: \"${{ params.%[2]s }}\"} in the step, and \"$%[1]s\" in run (docs/params.md)", strings.ToUpper(b.name), b.name)
	}
	if b.node.Kind == yaml.ScalarNode && b.node.Tag != "!vault" && hasJinja(b.node.Value) {
		p.depth++
		defer func() { p.depth-- }()
		if p.expanded++; p.depth > 20 || p.expanded > maxExpanded {
			return term{}, doubtf("%s refers to itself, or to too many other vars", b.name)
		}
		parts, d := s.parts(b.node.Value)
		if d != nil {
			return term{}, d
		}
		return joined(parts)
	}
	v, d := literal(b.node)
	if d != nil {
		return term{}, &doubt{reason: b.name + ": " + d.reason, instead: d.instead}
	}
	if v == nil {
		return term{}, doubtf("%s is null", b.name).hint("an empty text, or another value")
	}
	if d := p.lift(b); d != nil {
		return term{}, d
	}
	return term{text: member("vars", b.name), vals: []any{v}, known: true, kinds: kindsOf([]any{v}, true)}, nil
}

// lift makes a binding a var of the playbook.
func (p *play) lift(b *binding) *doubt {
	for _, have := range p.vars {
		if have.name == b.name && reflect.DeepEqual(asRead(have.node), asRead(b.node)) {
			return nil
		}
		if have.name == b.name {
			return doubtf("%s has several values in this play", b.name)
		}
	}
	if p.params.get(b.name) != nil {
		return doubtf("%s is also a var of vars_prompt", b.name).hint("another name for one of them")
	}
	p.vars = append(p.vars, b)
	return nil
}

// same reports whether two places of one rank give a name the same value.
func (b *binding) same(other *binding) bool {
	return b == other || other != nil && b.rank == other.rank && reflect.DeepEqual(asRead(b.node), asRead(other.node))
}

// otherRole names a role outside of the task that gives the name another value.
func (p *play) otherRole(name string, b *binding) string {
	for _, r := range slices.Concat(p.roles, p.exposed) {
		for _, f := range []frame{r.given, r.vars, r.defaults} {
			if own := f[name]; own != nil && !own.same(b) && (b == nil || own.rank > ofDefaults && own.rank >= b.rank) {
				return r.name
			}
		}
	}
	return ""
}
