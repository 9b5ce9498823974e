package ansible

import (
	"encoding/base64"
	"encoding/binary"
	"path"
	"regexp"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

var (
	accountName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,30}\$?$`) })
	passwordHash = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\*|!+|!*\$[A-Za-z0-9-]+\$[!-9;-~]+)$`) })
	fieldPath    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(/[^/:\n]+)+$`) }) // of /etc/passwd
	fieldText    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[^:\n]*$`) })
)

// known is a text with all values that it may have.
func (t *draft) known(n *yaml.Node) (term, *doubt) {
	v, d := scalar(n)
	if d != nil {
		return term{}, d
	}
	text, ok := v.(string)
	if _, number := v.(int); number {
		text, ok = n.Value, true
	}
	if !ok {
		return term{}, doubtf("a value is not a text")
	}
	parts, d := t.scope.parts(text)
	if d != nil {
		return term{}, d
	}
	return joined(parts)
}

// fits copies a text of which all known values must match, because the job type refuses others.
func (t *draft) fits(ok *regexp.Regexp, param string, names ...string) *doubt {
	text, given, d := t.text(names...)
	if d != nil || !given {
		return d
	}
	all, d := t.known(t.args.node(names...))
	if d != nil {
		return d
	}
	for _, v := range all.vals {
		if !ok.MatchString(shown(v)) {
			return doubtf("%s: %s has no equivalent", names[0], clip(quoted(shown(v))))
		}
	}
	t.step.with.add(param, text)
	return nil
}

// whole copies a whole number, which an expression may give.
func (t *draft) whole(param string, names ...string) *doubt {
	n := t.args.node(names...)
	if n == nil || yamlread.IsNull(n) {
		return nil
	}
	if !hasJinja(n.Value) {
		i, d := number(n)
		t.step.with.add(param, i)
		return d
	}
	parts, d := t.scope.parts(n.Value)
	switch {
	case d != nil:
		return d
	case len(parts) != 1 || parts[0].expr == nil || parts[0].expr.kinds != kindInt:
		return doubtf("%s: %s is not known to be a whole number", names[0], clip(n.Value))
	}
	t.step.with.add(param, "${{ "+parts[0].expr.text+" }}")
	return nil
}

// off refuses flags that are on: the job type does what they do when they are off.
func (t *draft) off(names ...string) *doubt {
	for _, name := range names {
		if on, d := t.flag(false, name); d != nil || on {
			return cmpDoubt(d, doubtf("%s: true has no equivalent", name))
		}
	}
	return nil
}

// presence translates state: present, which is the default, or absent.
func (t *draft) presence() (absent bool, d *doubt) {
	switch state, d := t.literal("present", "state"); {
	case d != nil:
		return false, d
	case state == "absent":
		t.step.with.add("state", state)
		return true, nil
	case state != "present":
		return false, doubtf("state: %s has no equivalent", clip(state))
	}
	return false, nil
}

// without takes arguments that change nothing here.
func (t *draft) without(names ...string) { t.args.node(names...) }

// accountGroup translates group.
func accountGroup(t *draft) *doubt {
	t.step.uses = "group"
	if d := t.fits(accountName(), "name", "name"); d != nil {
		return d
	}
	absent, d := t.presence()
	if d != nil {
		return d
	}
	if absent {
		t.without("gid", "system", "non_unique")
		return cmpDoubt(t.off("local"), t.noEnvironment())
	}
	all, d := t.known(t.args.node("name"))
	if d != nil {
		return d
	}
	for _, v := range all.vals {
		t.scope.play.grouped[shown(v)] = true
	}
	if d := t.whole("gid", "gid"); d != nil {
		return d
	}
	system, d := t.flag(false, "system")
	if system {
		t.step.with.add("system", true)
	}
	return cmpDoubt(d, cmpDoubt(t.off("local", "non_unique"), t.noEnvironment()))
}

// account translates user.
func account(t *draft) *doubt {
	t.step.uses = "user"
	if t.args.node("name", "user") == nil {
		return doubtf("the argument name is not given")
	}
	if d := t.fits(accountName(), "name", "name", "user"); d != nil {
		return d
	}
	absent, d := t.presence()
	if d != nil {
		return d
	}
	if absent {
		remove, d := t.flag(false, "remove")
		if remove {
			t.step.with.add("remove_home", true)
		}
		t.without("append", "comment", "create_home", "createhome", "group", "groups", "home", "password", "shell", "system", "uid", "update_password")
		return cmpDoubt(d, cmpDoubt(t.off("force", "local"), t.noEnvironment()))
	}
	t.without("remove")
	for _, step := range []func() *doubt{
		func() *doubt { return t.whole("uid", "uid") },
		t.primaryGroup, t.furtherGroups,
		func() *doubt { return t.fits(fieldPath(), "shell", "shell") },
		t.homePath,
		func() *doubt { return t.fits(fieldText(), "comment", "comment") },
		t.homeFolder, t.password,
		func() *doubt { return t.off("force", "generate_ssh_key", "local", "move_home", "non_unique") },
	} {
		if d := step(); d != nil {
			return d
		}
	}
	return t.noEnvironment()
}

// primaryGroup translates group. Without it, useradd decides what Ansible's user gets where a group
// of that name is there.
func (t *draft) primaryGroup() *doubt {
	if t.args.node("group") != nil {
		return t.fits(accountName(), "group", "group")
	}
	all, d := t.known(t.args.node("name", "user"))
	if d != nil {
		return d
	}
	for _, v := range all.vals {
		if t.scope.play.grouped[shown(v)] {
			return doubtf("an earlier task makes a group %s, which would be the user's primary group; Ansible takes that of useradd", shown(v)).
				hint("group: NAME in the task, the primary group that is meant")
		}
	}
	return nil
}

// furtherGroups translates groups: without append, the user is in no other group.
func (t *draft) furtherGroups() *doubt {
	add, d := t.flag(false, "append")
	n := t.args.node("groups")
	if d != nil || n == nil || yamlread.IsNull(n) {
		return d
	}
	groups, d := t.groupList(n)
	if d != nil {
		return d
	}
	if groups != nil {
		t.step.with.add("groups", groups)
	}
	if !add {
		t.step.with.add("exact", true)
	}
	return nil
}

// groupList is a list of groups, a text with commas, or an expression that gives one of both.
func (t *draft) groupList(n *yaml.Node) (any, *doubt) {
	var items []any
	word := func(n *yaml.Node) *doubt {
		all, d := t.known(n)
		if d != nil {
			return d
		}
		if !all.known || all.kinds != kindText {
			return doubtf("the groups of %s are not known", all.text)
		}
		for _, v := range all.vals {
			if !accountName().MatchString(shown(v)) {
				return doubtf("%s is not the name of a group", clip(quoted(shown(v)))).hint("groups: a list of names")
			}
		}
		text, d := t.scope.text(n.Value)
		items = append(items, text)
		return d
	}
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			if d := word(item); d != nil {
				return nil, d
			}
		}
		if items == nil {
			return nil, nil
		}
		return items, nil
	}
	if hasJinja(n.Value) {
		if text, ok, d := t.listOfGroups(n); d != nil || ok {
			return text, d
		}
		d := word(n)
		return items, d
	}
	if _, d := scalar(n); d != nil {
		return nil, d
	}
	for name := range strings.SplitSeq(n.Value, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if !accountName().MatchString(name) {
			return nil, doubtf("%s is not the name of a group", clip(quoted(name)))
		}
		items = append(items, name)
	}
	if items == nil {
		return nil, nil
	}
	return items, nil
}

// listOfGroups is an expression that is a list of names. ok is false where it is no list.
func (t *draft) listOfGroups(n *yaml.Node) (text string, ok bool, d *doubt) {
	parts, d := t.scope.parts(n.Value)
	if d != nil || len(parts) != 1 || parts[0].expr == nil || parts[0].expr.kinds != kindList {
		return "", false, d
	}
	list := parts[0].expr
	switch {
	case !list.known:
		return "", true, doubtf("the groups of %s are not known", list.text)
	case !namesOnly(list.vals, accountName()):
		return "", true, doubtf("%s holds more than names of groups", list.text)
	}
	return "${{ " + list.text + " }}", true, nil
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

// homePath translates home.
func (t *draft) homePath() *doubt {
	n := t.args.node("home")
	if n == nil {
		return nil
	}
	all, d := t.known(n)
	if d != nil {
		return d
	}
	for _, v := range all.vals {
		if path.Clean(shown(v)) != shown(v) {
			return doubtf("home: %s has no equivalent", clip(quoted(shown(v)))).hint("home: a path without . and .. and a slash at its end")
		}
	}
	return t.fits(fieldPath(), "home", "home")
}

// homeFolder translates system and create_home: a system user has no home directory in Turnus, and
// every other user has one.
func (t *draft) homeFolder() *doubt {
	system, d := t.flag(false, "system")
	if d != nil {
		return d
	}
	create, d := t.flag(true, "create_home", "createhome")
	switch {
	case d != nil:
		return d
	case system && create:
		return doubtf("system: true makes a home directory in Ansible, and none in Turnus").
			hint("create_home: false in the task; or uses: user, with: {system: true, …}, and a step of the type file that makes the directory")
	case system:
		t.step.with.add("system", true)
	case !create:
		return doubtf("create_home: false has no equivalent for a user without system: true").hint("uses: user, which makes the home directory")
	}
	if t.args.node("group") == nil {
		t.note("where the host has a group with the name of a new user, it becomes the primary group; Ansible takes that of useradd")
	}
	if create {
		t.note("the home directory is made with the user; Ansible also makes it later, where it is missing")
	}
	return nil
}

const secretHash = "turnus secrets encrypt, secrets: [NAME] in the step, and password: ${{ secrets.NAME }} (docs/secrets.md)"

// password translates a hash that is set whenever it differs.
func (t *draft) password() *doubt {
	n := t.args.node("password")
	when, d := t.literal("always", "update_password")
	if d != nil || n == nil {
		return d
	}
	if when != "always" {
		return doubtf("update_password: %s has no equivalent", clip(when)).hint("uses: user, with: {password: …}, which is set whenever the hash differs")
	}
	all, d := t.known(n)
	if d != nil {
		return &doubt{reason: d.reason, instead: secretHash}
	}
	if !all.known {
		return doubtf("the password is not known to be a hash").hint(secretHash)
	}
	for _, v := range all.vals {
		if !passwordHash().MatchString(shown(v)) { // the value is not shown: it may be a password
			return doubtf("the password is not a hash such as $6$SALT$HASH").hint(secretHash)
		}
	}
	return t.pass("password", "password")
}

var keyType = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(ssh|ecdsa|sk)-[a-z0-9@.-]+ +[A-Za-z0-9+/]+=*( .*)?$`)
})

// publicKey reports whether a line is a type, a key of that type, and at most a comment.
func publicKey(line string) bool {
	if !keyType().MatchString(line) {
		return false
	}
	words := strings.Fields(line)
	blob, err := base64.StdEncoding.DecodeString(words[1])
	return err == nil && len(blob) > 4+len(words[0]) && int(binary.BigEndian.Uint32(blob)) == len(words[0]) && string(blob[4:4+len(words[0])]) == words[0]
}

// authorizedKey translates authorized_key, for the file that sshd reads by default.
func authorizedKey(t *draft) *doubt {
	t.step.uses = "authorized_key"
	if t.args.node("user") == nil {
		return doubtf("the argument user is not given")
	}
	if d := t.fits(accountName(), "user", "user"); d != nil {
		return d
	}
	keys, d := t.publicKeys()
	if d != nil {
		return d
	}
	t.step.with.add("keys", keys)
	absent, d := t.presence()
	if d != nil {
		return d
	}
	exclusive, d := t.flag(false, "exclusive")
	if d != nil {
		return d
	}
	if exclusive && !absent {
		t.step.with.add("exclusive", true)
	}
	manage, d := t.flag(true, "manage_dir")
	switch {
	case d != nil:
		return d
	case !manage:
		return doubtf("manage_dir: false has no equivalent")
	case t.args.node("path") != nil:
		return doubtf("path has no equivalent: the job type authorized_key writes ~/.ssh/authorized_keys").hint("uses: file, with the path and all keys as content")
	case t.args.node("key_options", "comment") != nil:
		return doubtf("key_options and comment have no equivalent").hint("keys: options, type, key and comment, each in one line")
	}
	t.without("validate_certs")
	return cmpDoubt(t.off("follow"), t.noEnvironment())
}

// publicKeys is the lines of key, each one key whose text is known.
func (t *draft) publicKeys() ([]any, *doubt) {
	n := t.args.node("key")
	if n == nil {
		return nil, doubtf("the argument key is not given")
	}
	all, d := t.known(n)
	if d != nil {
		return nil, d
	}
	if !all.known {
		return nil, doubtf("the keys of %s are not known", all.text).hint("uses: authorized_key, with: {user: NAME, keys: […]}")
	}
	seen := map[string]bool{}
	single, bare := true, false
	var lines []any
	for _, v := range all.vals {
		count := 0
		for line := range strings.Lines(shown(v)) {
			if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if !publicKey(line) {
				return nil, doubtf("%s is not a public key without options", clip(line)).hint("keys: options, type, key and comment, each in one line")
			}
			bare = bare || len(strings.Fields(line)) == 2
			key := strings.Join(strings.Fields(line)[:2], " ")
			if seen[key] && len(all.vals) == 1 {
				return nil, doubtf("key has a key twice: %s", clip(key))
			}
			seen[key] = true
			lines = append(lines, line)
			count++
		}
		single = single && count == 1 && strings.Count(strings.TrimRight(shown(v), "\n"), "\n") == 0
	}
	if bare {
		t.note("a key without a comment keeps the comment that the host has; Ansible removes it")
	}
	if !hasJinja(n.Value) && len(lines) > 0 {
		return lines, nil
	}
	if !single {
		return nil, doubtf("%s is not one key in one line", all.text)
	}
	text, d := t.scope.text(strings.TrimSpace(n.Value))
	return []any{text}, d
}
