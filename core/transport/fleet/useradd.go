package fleet

import (
	"bufio"
	"cmp"
	"context"
	"slices"
	"strings"
)

// identify finds the line of the user or group that a program names, with what keeps it from
// changing the number to that of -u or -g.
func (c *call) identify(t table, what, want string) (row []string, code int) {
	name := c.args[0]
	if row = t.find(fieldName, name); row == nil {
		return nil, c.fail(6, "%s '%s' does not exist", what, name)
	}
	return row, c.taken(t, row, want)
}

// taken refuses a number that another line has, or that is none.
func (c *call) taken(t table, own []string, want string) int {
	if want == "" {
		return 0
	}
	if _, ok := (table{}).number(want); !ok {
		return c.fail(3, "invalid ID '%s'", want)
	}
	if other := t.find(fieldID, want); other != nil && (own == nil || other[fieldName] != own[fieldName]) {
		return c.fail(4, "ID '%s' already exists", want)
	}
	return 0
}

func useradd(_ context.Context, c *call, o options) int {
	h, name := c.sh.host, c.args[0]
	users, groups := h.table(passwdFile), h.table(groupFile)
	if users.find(fieldName, name) != nil {
		return c.fail(9, "user '%s' already exists", name)
	}
	if code := c.taken(users, nil, o['u']); code != 0 {
		return code
	}
	row := []string{name, "x", cmp.Or(o['u'], users.next(o.has('r'))), "", o['c'], cmp.Or(o['d'], "/home/"+name), cmp.Or(o['s'], "/bin/sh")}
	switch group := groups.named(o['g']); {
	case o.has('g') && group == nil:
		return c.fail(6, "group '%s' does not exist", o['g'])
	case o.has('g'):
		row[fieldGroup] = group[fieldID]
	case groups.find(fieldName, name) != nil:
		return c.fail(9, "group %s exists - if you want to add this user to that group, use -g.", name)
	default:
		row[fieldGroup] = row[fieldID]
		if groups.find(fieldID, row[fieldGroup]) != nil {
			row[fieldGroup] = groups.next(o.has('r'))
		}
		if code := c.store(groupFile, append(groups, []string{name, "x", row[fieldGroup], ""})); code != 0 {
			return code
		}
	}
	code := c.store(shadowFile, append(h.table(shadowFile), []string{name, "!", "19700", "0", "99999", "7", "", "", ""}))
	if code = max(code, c.store(passwdFile, append(users, row))); code != 0 || !o.has('m') {
		return code
	}
	uid, _ := users.number(row[fieldID])
	gid, _ := users.number(row[fieldGroup])
	if _, err := c.fs().stat(row[fieldHome]); err == nil {
		c.fail(0, "warning: the home directory %s already exists.", row[fieldHome])
		return 0
	}
	if err := c.fs().mkdir(row[fieldHome], true, 0o755, actor{}); err != nil {
		return c.fail(12, "cannot create directory %s: %s", row[fieldHome], reason(err))
	}
	return c.ended(12, c.fs().change(row[fieldHome], false, func(n *node) { n.uid, n.gid, n.mode = uid, gid, 0o700 }))
}

func usermod(_ context.Context, c *call, o options) int {
	h := c.sh.host
	users, groups := h.table(passwdFile), h.table(groupFile)
	row, code := c.identify(users, "user", o['u'])
	if code != 0 {
		return code
	}
	if o.has('g') {
		group := groups.named(o['g'])
		if group == nil {
			return c.fail(6, "group '%s' does not exist", o['g'])
		}
		row[fieldGroup] = group[fieldID]
	}
	if o.has('G') {
		if code := c.join(groups, row[fieldName], strings.Split(o['G'], ","), o.has('a')); code != 0 {
			return code
		}
	}
	was, _ := users.number(row[fieldID])
	for letter, field := range map[byte]int{'u': fieldID, 'd': fieldHome, 's': fieldShell, 'c': fieldComment} {
		if o.has(letter) {
			row[field] = o[letter]
		}
	}
	if now, _ := users.number(row[fieldID]); now != was { // files in the home follow, as by the real one
		for _, e := range c.fs().tree(row[fieldHome]) {
			if e.uid == was {
				_ = c.fs().change(e.path, false, func(n *node) { n.uid = now }) // removed meanwhile
			}
		}
	}
	return c.store(passwdFile, users)
}

// join makes a user a member of groups, and without adds of no others.
func (c *call) join(groups table, user string, names []string, adds bool) int {
	for _, name := range names {
		if groups.named(name) == nil {
			return c.fail(6, "group '%s' does not exist", name)
		}
	}
	for _, row := range groups {
		members := slices.DeleteFunc(strings.Split(row[fieldMembers], ","), func(m string) bool { return m == "" })
		wanted := slices.Contains(names, row[fieldName]) || slices.Contains(names, row[fieldID])
		switch is := slices.Contains(members, user); {
		case wanted && !is:
			members = append(members, user)
		case is && !wanted && !adds:
			members = slices.DeleteFunc(members, func(m string) bool { return m == user })
		}
		row[fieldMembers] = strings.Join(members, ",")
	}
	return c.store(groupFile, groups)
}

func userdel(_ context.Context, c *call, o options) int {
	h := c.sh.host
	users, groups := h.table(passwdFile), h.table(groupFile)
	row, code := c.identify(users, "user", "")
	switch {
	case code != 0:
		return code
	case row[fieldName] == User:
		return c.fail(8, "user %s is currently used by process %d", User, c.sh.pid)
	}
	name, own := row[fieldName], row[fieldGroup]
	users = users.without(name)
	if g := groups.find(fieldName, name); g != nil && g[fieldID] == own && users.find(fieldGroup, own) == nil {
		groups = groups.without(name)
	}
	if code = c.join(groups, name, nil, false); code == 0 {
		code = max(c.store(passwdFile, users), c.store(shadowFile, h.table(shadowFile).without(name)))
	}
	if code == 0 && o.has('r') {
		if err := c.fs().remove(row[fieldHome], true); err != nil {
			return c.fail(12, "%s home directory (%s) not found", name, row[fieldHome])
		}
	}
	return code
}

func groupadd(_ context.Context, c *call, o options) int {
	groups, name := c.sh.host.table(groupFile), c.args[0]
	if groups.find(fieldName, name) != nil {
		return c.fail(9, "group '%s' already exists", name)
	}
	if code := c.taken(groups, nil, o['g']); code != 0 {
		return code
	}
	return c.store(groupFile, append(groups, []string{name, "x", cmp.Or(o['g'], groups.next(o.has('r'))), ""}))
}

// groupmod gives a group another number, also as the primary group of users.
func groupmod(_ context.Context, c *call, o options) int {
	users, groups := c.sh.host.table(passwdFile), c.sh.host.table(groupFile)
	row, code := c.identify(groups, "group", o['g'])
	if code != 0 || !o.has('g') {
		return code
	}
	for _, u := range users {
		if u[fieldGroup] == row[fieldID] {
			u[fieldGroup] = o['g']
		}
	}
	row[fieldID] = o['g']
	return max(c.store(groupFile, groups), c.store(passwdFile, users))
}

func groupdel(_ context.Context, c *call, _ options) int {
	groups := c.sh.host.table(groupFile)
	row, code := c.identify(groups, "group", "")
	if code != 0 {
		return code
	}
	if u := c.sh.host.table(passwdFile).find(fieldGroup, row[fieldID]); u != nil {
		return c.fail(8, "cannot remove the primary group of user '%s'", u[fieldName])
	}
	return c.store(groupFile, groups.without(row[fieldName]))
}

// gpasswd takes a user out of a group.
func gpasswd(_ context.Context, c *call, o options) int {
	groups, user := c.sh.host.table(groupFile), o['d']
	row, code := c.identify(groups, "group", "")
	if code != 0 {
		return code
	}
	members := strings.Split(row[fieldMembers], ",")
	if !slices.Contains(members, user) {
		return c.fail(3, "user '%s' is not a member of '%s'", user, row[fieldName])
	}
	row[fieldMembers] = strings.Join(slices.DeleteFunc(members, func(m string) bool { return m == user }), ",")
	return c.store(groupFile, groups)
}

// chpasswd reads lines of a user and the hash of a password.
func chpasswd(_ context.Context, c *call, o options) int {
	if !o.has('e') {
		return c.misused("chpasswd -e, with hashes on its standard input")
	}
	shadow := c.sh.host.table(shadowFile)
	in := bufio.NewScanner(c.in)
	for n := 1; in.Scan(); n++ {
		name, hash, _ := strings.Cut(in.Text(), ":")
		row := shadow.find(fieldName, name)
		if row == nil {
			return c.fail(1, "line %d: user '%s' does not exist", n, name)
		}
		row[fieldPassword] = hash
	}
	return c.store(shadowFile, shadow)
}
