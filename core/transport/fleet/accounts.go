package fleet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// userID is the number of User, and of its group.
const userID = 1000

const (
	passwdFile = "/etc/passwd"
	groupFile  = "/etc/group"
	shadowFile = "/etc/shadow"

	basePasswd = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n" +
		"postgres:x:70:70:postgres:/var/lib/postgresql:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n" +
		User + ":x:1000:1000::/home/" + User + ":/bin/sh\n"
	baseGroup  = "root:x:0:\nadm:x:4:\nsudo:x:27:" + User + "\nwww-data:x:33:\npostgres:x:70:\nusers:x:100:\nnogroup:x:65534:\n" + User + ":x:1000:\n"
	baseShadow = "root:*:19700:0:99999:7:::\nwww-data:*:19700:0:99999:7:::\npostgres:*:19700:0:99999:7:::\nnobody:*:19700:0:99999:7:::\n" +
		User + ":!:19700:0:99999:7:::\n"
)

// Fields of the lines of these files. Of a group the members follow its number.
const (
	fieldName = iota
	fieldPassword
	fieldID
	fieldGroup
	fieldComment
	fieldHome
	fieldShell

	fieldMembers = fieldGroup
)

// table is one of these files: its lines, by fields.
type table [][]string

func (h *host) table(file string) table {
	var t table
	fields := map[string]int{passwdFile: fieldShell + 1, groupFile: fieldMembers + 1, shadowFile: fieldPassword + 1}[file]
	for line := range strings.Lines(h.fs.text(file)) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), ":"); len(f) >= fields {
			t = append(t, f)
		}
	}
	return t
}

// store writes a table to its file.
func (c *call) store(file string, t table) int {
	var b strings.Builder
	for _, row := range t {
		b.WriteString(strings.Join(row, ":") + "\n")
	}
	if err := c.fs().replace(file, b.String()); err != nil {
		return c.fail(1, "cannot write %s: %s", file, reason(err))
	}
	return 0
}

// find returns the line with a value in a field; nil when there is none.
func (t table) find(field int, value string) []string {
	for _, row := range t {
		if row[field] == value {
			return row
		}
	}
	return nil
}

// named finds a line by its name, or by its number.
func (t table) named(text string) []string {
	if row := t.find(fieldName, text); row != nil {
		return row
	}
	return t.find(fieldID, text)
}

// without leaves out the line of a name.
func (t table) without(name string) table {
	return slices.DeleteFunc(t, func(row []string) bool { return row[fieldName] == name })
}

// next returns the number of a new account.
func (t table) next(system bool) string {
	free := userID
	if system {
		free--
		for t.find(fieldID, itoa(free)) != nil {
			free--
		}
		return itoa(free)
	}
	for _, row := range t {
		if n, _ := strconv.Atoi(row[fieldID]); n >= free && n < 60000 {
			free = n + 1
		}
	}
	return itoa(free)
}

// number reads the number of an account: of a name that the host knows, or a number itself.
func (t table) number(text string) (uint32, bool) {
	if row := t.find(fieldName, text); row != nil {
		text = row[fieldID]
	}
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil
}

// name returns the name of a number; the number itself where the host knows no name.
func (t table) name(id uint32) string {
	text := strconv.FormatUint(uint64(id), 10)
	if row := t.find(fieldID, text); row != nil {
		return row[fieldName]
	}
	return text
}

// as makes the shell's commands those of a user; false where the host does not know the name.
func (sh *shell) as(name string) bool {
	row := sh.host.table(passwdFile).find(fieldName, name)
	if row == nil {
		return false
	}
	uid, err := strconv.ParseUint(row[fieldID], 10, 32)
	gid, err2 := strconv.ParseUint(row[fieldGroup], 10, 32)
	if err != nil || err2 != nil {
		return false
	}
	sh.uid, sh.gid = uint32(uid), uint32(gid)
	for _, v := range [...][2]string{{"HOME", row[fieldHome]}, {"USER", name}, {"LOGNAME", name}} {
		sh.export(v[0], v[1])
	}
	return true
}

// actor makes the files of the shell's commands.
func (sh *shell) actor() actor { return actor{sh.uid, sh.gid, sh.umask} }

func id(_ context.Context, c *call, o options) int {
	users, groups := c.sh.host.table(passwdFile), c.sh.host.table(groupFile)
	name, uid, gid := users.name(c.sh.uid), itoa(int(c.sh.uid)), itoa(int(c.sh.gid))
	if len(c.args) > 0 {
		row := users.named(c.args[0])
		if row == nil {
			return c.fail(1, "'%s': no such user", c.args[0])
		}
		name, uid, gid = row[fieldName], row[fieldID], row[fieldGroup]
	}
	all := []string{gid}
	for _, row := range groups {
		if slices.Contains(strings.Split(row[fieldMembers], ","), name) && row[fieldID] != gid {
			all = append(all, row[fieldID])
		}
	}
	show := func(t table, ids ...string) string {
		if o.has('n') {
			for i, id := range ids {
				if row := t.find(fieldID, id); row != nil {
					ids[i] = row[fieldName]
				}
			}
		}
		return strings.Join(ids, " ") + "\n"
	}
	switch {
	case o.has('u'):
		return c.print(show(users, uid))
	case o.has('g'):
		return c.print(show(groups, gid))
	case o.has('G'):
		return c.print(show(groups, all...))
	}
	labelled := func(id string) string {
		n, _ := groups.number(id)
		return id + "(" + groups.name(n) + ")"
	}
	for i, id := range all {
		all[i] = labelled(id)
	}
	return c.print(fmt.Sprintf("uid=%s(%s) gid=%s groups=%s\n", uid, name, labelled(gid), strings.Join(all, ",")))
}

func getent(_ context.Context, c *call, _ options) int {
	file := map[string]string{"passwd": passwdFile, "group": groupFile}[c.args[0]]
	if file == "" {
		return c.fail(1, "Unknown database: %s", c.args[0])
	}
	t := c.sh.host.table(file)
	if len(c.args) > 1 {
		row := t.named(c.args[1])
		if row == nil {
			return 2
		}
		t = table{row}
	}
	for _, row := range t {
		c.print(strings.Join(row, ":") + "\n")
	}
	return 0
}

// su runs a command as another user, which root may do without a password.
func su(ctx context.Context, c *call, _ options) int {
	name := c.args[0]
	c.args = c.args[1:]
	o, ok := c.options("c:")
	if !ok || !o.has('c') || len(c.args) > 0 {
		return c.misused("su [-s SHELL] USER -c COMMAND")
	}
	sub := c.sh.child()
	switch {
	case !sub.as(name):
		return c.fail(1, "user %s does not exist", name)
	case c.sh.uid != 0:
		return c.fail(1, "Authentication failure")
	}
	return sub.main(ctx, o['c'])
}

// become is sudo and doas, which let the login become everybody without a password.
func (c *call) become(ctx context.Context) int {
	sub, user := c.sh.child(), "root"
	for len(c.args) > 0 && strings.HasPrefix(c.args[0], "-") {
		option := c.args[0]
		c.args = c.args[1:]
		switch option {
		case "--":
		case "-u", "-p":
			if len(c.args) == 0 {
				return c.fail(1, "option %s needs an argument", option)
			}
			if option == "-u" {
				user = c.args[0]
			}
			c.args = c.args[1:]
		case "-n", "-E", "-H", "-S", "-k":
		default:
			return c.fail(1, "invalid option %s", option)
		}
		if option == "--" {
			break
		}
	}
	if len(c.args) == 0 {
		return c.fail(1, "a command is required")
	}
	sub.export(map[string]string{"sudo": "SUDO_USER", "doas": "DOAS_USER"}[c.name], c.sh.host.table(passwdFile).name(c.sh.uid))
	if !sub.as(user) {
		return c.fail(1, "unknown user %s", user)
	}
	return sub.run(ctx, c.args)
}
