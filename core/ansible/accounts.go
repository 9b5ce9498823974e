package ansible

import (
	"regexp"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

var accountName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*\$?$`) })

// state takes the state of a thing that is there or not.
func (t *draft) state() (string, *doubt) {
	state, d := t.literal("present", "state")
	switch {
	case d != nil:
		return "", d
	case state != "present" && state != "absent":
		return "", doubtf("state: %s has no equivalent", clip(state))
	case state == "absent":
		t.step.with.add("state", state)
	}
	return state, nil
}

// whole takes a whole number; nil where it is not given.
func (t *draft) whole(name string) (any, *doubt) {
	n := t.args.node(name)
	if n == nil {
		return nil, nil
	}
	if i, err := strconv.Atoi(n.Value); err == nil {
		return i, nil
	}
	v, d := scalar(n)
	text, _ := v.(string)
	if d != nil || v == nil {
		return nil, d
	}
	parts, d := t.scope.parts(text)
	if d != nil {
		return nil, d
	}
	if len(parts) != 1 || parts[0].expr == nil || parts[0].expr.kinds != kindInt {
		return nil, doubtf("the argument %s is not known to be a whole number", name)
	}
	return "${{ " + parts[0].expr.text + " }}", nil
}

func (t *draft) account(number string) (state string, d *doubt) {
	name, d := t.need("name", "user")
	if d != nil {
		return "", d
	}
	t.step.with.add("name", name)
	if state, d = t.state(); d != nil {
		return "", d
	}
	id, d := t.whole(number)
	if d == nil && id != nil {
		t.step.with.add(number, id)
	}
	return state, cmpDoubt(d, t.noEnvironment())
}

func groupAccount(t *draft) *doubt {
	t.step.uses = "group"
	if _, d := t.account("gid"); d != nil {
		return d
	}
	system, d := t.flag(false, "system")
	if system {
		t.step.with.add("system", true)
	}
	return d
}

func userAccount(t *draft) *doubt {
	t.step.uses = "user"
	state, d := t.account("uid")
	if d != nil {
		return d
	}
	if d := t.password(); d != nil {
		return d
	}
	if d := t.memberships(); d != nil {
		return d
	}
	if d := t.pass("group", "group", "shell", "shell", "home", "home", "comment", "comment"); d != nil {
		return d
	}
	system, d := t.flag(false, "system")
	if d != nil {
		return d
	}
	home, d := t.flag(true, "create_home", "createhome")
	if d != nil {
		return d
	}
	remove, d := t.flag(false, "remove")
	switch {
	case d != nil:
		return d
	case state == "absent" && remove:
		t.step.with.add("remove_home", true)
	case state == "absent":
	case system && home:
		return doubtf("a system user with a home directory has no equivalent").hint("system: true, and a step with uses: file, state: directory")
	case !system && !home:
		return doubtf("create_home: false has no equivalent for a user who is not a system user").hint("system: true, or a home directory")
	case system:
		t.step.with.add("system", true)
	}
	if state == "present" && t.step.with.get("group") == nil {
		t.note("a new user gets an existing group of the same name as primary group; Ansible takes the default group of the host then")
	}
	return nil
}

// password takes a literal hash. One that Jinja gives is a secret in Turnus.
func (t *draft) password() *doubt {
	n := t.args.node("password")
	if n == nil {
		return nil
	}
	v, d := literal(n)
	text, ok := v.(string)
	if d != nil || !ok || text == "" {
		return doubtf("the password is not a literal hash").hint("turnus secrets encrypt, secrets: [NAME] in the step, and password: ${{ secrets.NAME }} (docs/secrets.md)")
	}
	t.step.with.add("password", text)
	return nil
}

// memberships translates groups, which Ansible makes exact unless append says otherwise.
func (t *draft) memberships() *doubt {
	add, d := t.flag(false, "append")
	n := t.args.node("groups")
	if d != nil || n == nil {
		return d
	}
	groups, d := t.groupNames(n)
	if d != nil {
		return d
	}
	if list, ok := groups.([]string); !ok || len(list) > 0 {
		t.step.with.add("groups", groups)
	}
	if !add {
		t.step.with.add("exact", true)
	}
	return nil
}

// groupNames are the names of a list, of a text with commas, or of a var that is one of both.
func (t *draft) groupNames(n *yaml.Node) (any, *doubt) {
	if n.Kind == yaml.ScalarNode && !hasJinja(n.Value) {
		return words(n)
	}
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	names := []string{}
	for _, item := range items {
		v, d := scalar(item)
		if d != nil {
			return nil, d
		}
		text, ok := v.(string)
		if !ok {
			return nil, doubtf("the name of a group is not a text")
		}
		whole, d := t.known(text, "the groups")
		switch {
		case d != nil:
			return nil, d
		case whole.kinds == kindList && n.Kind == yaml.ScalarNode && namesOnly(whole.vals, accountName()):
			return "${{ " + whole.text + " }}", nil
		case whole.kinds != kindText || !namesOnly([]any{whole.vals}, accountName()):
			return nil, doubtf("%s is not known to be the name of a group, or a list of names", whole.text)
		}
		name, d := t.scope.text(text)
		if d != nil {
			return nil, d
		}
		names = append(names, name)
	}
	return names, nil
}

// known is a text whose values are all known: what names them.
func (t *draft) known(text, what string) (term, *doubt) {
	parts, d := t.scope.parts(text)
	if d != nil {
		return term{}, d
	}
	if len(parts) == 1 && parts[0].expr == nil || len(parts) == 0 {
		return constant(text), nil
	}
	whole, d := joined(parts)
	if d == nil && !whole.known { // where it is not defined, the task fails in both
		d = doubtf("%s of %s are not known", what, whole.text)
	}
	return whole, d
}

// namesOnly reports whether all lists hold names only.
func namesOnly(lists []any, plain *regexp.Regexp) bool {
	for _, v := range lists {
		list, ok := v.([]any)
		if !ok {
			return false
		}
		for _, one := range list {
			if name, ok := one.(string); !ok || !plain.MatchString(name) {
				return false
			}
		}
	}
	return true
}

// authorizedKey translates keys that the playbook holds.
func authorizedKey(t *draft) *doubt {
	t.step.uses = "authorized_key"
	user, d := t.need("user")
	if d != nil {
		return d
	}
	t.step.with.add("user", user)
	n := t.args.node("key")
	if n == nil || n.Kind != yaml.ScalarNode {
		return doubtf("the key is not a text")
	}
	whole, d := t.known(n.Value, "the keys")
	if d != nil {
		return d
	}
	for _, v := range whole.vals {
		key, ok := v.(string)
		if key = strings.TrimSpace(key); !ok || strings.Contains(key, "\n") || !strings.Contains(key, " ") || strings.HasPrefix(key, "http") {
			return doubtf("%s is not one public key", clip(whole.text)).hint("uses: authorized_key, with a list of keys")
		}
	}
	key, d := t.scope.text(strings.TrimSpace(n.Value))
	if d != nil {
		return d
	}
	t.step.with.add("keys", []any{key})
	if _, d := t.state(); d != nil {
		return d
	}
	exclusive, d := t.flag(false, "exclusive")
	if exclusive {
		t.step.with.add("exclusive", true)
	}
	if own, d := t.flag(true, "manage_dir"); d != nil || !own {
		return cmpDoubt(d, doubtf("manage_dir: false has no equivalent"))
	}
	return cmpDoubt(d, t.noEnvironment())
}
