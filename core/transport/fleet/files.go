package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// entries runs programs that make or remove each of the files that they name.
func entries(_ context.Context, c *call, o options) int {
	mode, by := fs.FileMode(0o777), c.sh.actor()
	switch {
	case o.has('m'):
		m, err := strconv.ParseUint(o['m'], 8, 12)
		if err != nil {
			return c.fail(1, "invalid mode '%s'", o['m'])
		}
		mode, by.umask = fs.FileMode(m), 0
	case c.name == "truncate" && o['s'] != "0":
		return c.fail(1, "a simulated host has only truncate -s 0")
	case c.name == "rm" && len(c.args) == 0 && !o.has('f'):
		return c.fail(1, "missing operand")
	}
	code := 0
	for _, name := range c.args {
		p := c.sh.abs(name)
		var err error
		switch c.name {
		case "rm":
			err = rm(c.fs(), p, o)
		case "rmdir":
			err = c.fs().remove(p, false)
		case "mkdir":
			if o.has('m') && o.has('p') { // folders on the way do not have the mode
				err = c.fs().mkdir(path.Dir(p), true, 0o777, c.sh.actor())
			}
			if err == nil {
				err = c.fs().mkdir(p, o.has('p'), mode, by)
			}
		default: // touch, truncate
			_, err = c.fs().create(p, c.name == "truncate", false, 0o666, by)
			if err == nil {
				err = c.fs().change(p, true, func(n *node) { n.mtime = time.Now() })
			}
		}
		if err != nil {
			code = c.fail(1, "cannot %s '%s': %s", verb(c.name), name, reason(err))
		}
	}
	return code
}

func verb(program string) string {
	switch program {
	case "rm", "rmdir":
		return "remove"
	case "mkdir":
		return "create directory"
	}
	return program
}

func rm(m *memFS, p string, o options) error {
	n, err := m.lstat(p)
	if err != nil {
		if o.has('f') {
			return nil
		}
		return err
	}
	all := o.has('r') || o.has('R')
	if n.dir && !all {
		return fmt.Errorf("Is a directory") //nolint:staticcheck // rm's words
	}
	return m.remove(p, all)
}

func ls(_ context.Context, c *call) int {
	flags := c.flags("la1dhAni")
	names := c.args
	if len(names) == 0 {
		names = []string{"."}
	}
	l, code := listing{c: c, flags: flags}, 0
	if strings.Contains(flags, "l") && !strings.Contains(flags, "n") {
		l.users, l.groups = c.sh.host.table(passwdFile), c.sh.host.table(groupFile)
	}
	for _, name := range names {
		p := c.sh.abs(name)
		n, err := c.fs().lstat(p)
		if to, e := c.fs().stat(p); e == nil && n.link && (to.dir && !strings.ContainsAny(flags, "dl") || strings.HasSuffix(name, "/")) {
			n = to
		}
		switch {
		case err != nil:
			code = c.fail(2, "cannot access '%s': %s", name, reason(err))
		case !n.dir || strings.Contains(flags, "d"):
			l.print(name, &n)
		default:
			entries, err := c.fs().names(p)
			if err != nil {
				continue // removed meanwhile
			}
			for _, e := range entries {
				if n, err := c.fs().lstat(path.Join(p, e)); err == nil {
					l.print(e, &n)
				}
			}
		}
	}
	return code
}

// listing is how ls shows files.
type listing struct {
	c             *call
	flags         string
	users, groups table // nil: owners are numbers
}

// print prints the line of a file.
func (l *listing) print(name string, n *node) {
	if strings.Contains(l.flags, "i") {
		fmt.Fprintf(l.c.out, "%d ", n.inode)
	}
	if !strings.Contains(l.flags, "l") {
		fmt.Fprintln(l.c.out, name)
		return
	}
	if n.link {
		name += " -> " + string(n.data)
	}
	fmt.Fprintf(l.c.out, "%s %d %s %s %d %s %s\n", n.permissions(), n.linkCount(), l.users.name(n.uid), l.groups.name(n.gid), len(n.data), n.mtime.UTC().Format("Jan _2 15:04"), name)
}

// statFile prints what stat -c asks for.
func statFile(_ context.Context, c *call) int {
	form := "%n %s %a"
	look := c.fs().lstat
	if c.flags("L") != "" {
		look = c.fs().stat
	}
	if len(c.args) > 1 && (c.args[0] == "-c" || c.args[0] == "--format") {
		form, c.args = c.args[1], c.args[2:]
	}
	c.flags("")
	code := 0
	users, groups := c.sh.host.table(passwdFile), c.sh.host.table(groupFile)
	for _, name := range c.args {
		n, err := look(c.sh.abs(name))
		if err != nil {
			code = c.fail(1, "cannot statx '%s': %s", name, reason(err))
			continue
		}
		kind := map[string]string{"d": "directory", "f": "regular file", "l": "symbolic link", "c": "character special file"}[n.kind()]
		fmt.Fprintln(c.out, strings.NewReplacer("%a", strconv.FormatUint(uint64(n.mode), 8), "%s", itoa(len(n.data)), "%h", itoa(n.linkCount()),
			"%U", users.name(n.uid), "%G", groups.name(n.gid), "%u", strconv.FormatUint(uint64(n.uid), 10), "%g", strconv.FormatUint(uint64(n.gid), 10),
			"%n", name, "%d", "0", "%i", fmt.Sprint(n.inode), "%F", kind, "%A", n.permissions(), "%Y", strconv.FormatInt(n.mtime.Unix(), 10)).Replace(form))
	}
	return code
}

// transfer is mv and cp.
func transfer(_ context.Context, c *call, o options) int {
	last := len(c.args) - 1
	to := c.sh.abs(c.args[last])
	into, err := c.fs().stat(to)
	isDir := err == nil && into.dir && !o.has('T')
	if last > 1 && !isDir {
		return c.fail(1, "target '%s' is not a directory", c.args[last])
	}
	for _, name := range c.args[:last] {
		from, dest := c.sh.abs(name), to
		if isDir {
			dest = path.Join(to, path.Base(from))
		}
		verb := "copy"
		if c.name == "mv" {
			verb, err = "move", c.fs().rename(from, dest)
		} else {
			err = c.fs().copy(from, dest, o, c.sh.actor())
		}
		if err != nil {
			return c.fail(1, "cannot %s '%s': %s", verb, name, reason(err))
		}
	}
	return 0
}

// copy copies a file with its mode: by -p also with its owner and time, and by -P a link as a link.
func (m *memFS) copy(from, to string, o options, by actor) error {
	if n, err := m.lstat(from); err == nil && n.link && o.has('P') {
		return m.copyLink(&n, from, to, o, by)
	}
	src, err := m.open(from)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(src.reader())
	if err != nil {
		return err
	}
	n, err := m.stat(from)
	if err != nil {
		return err
	}
	dst, err := m.create(to, true, false, n.mode, by)
	if err != nil {
		return err
	}
	if _, err = dst.WriteAt(data, 0); err != nil || !o.has('p') {
		return err
	}
	return m.change(to, true, func(d *node) { d.mode, d.uid, d.gid, d.mtime = n.mode, n.uid, n.gid, n.mtime })
}

// copyLink makes a link like n, in the place of a file.
func (m *memFS) copyLink(n *node, from, to string, o options, by actor) error {
	if m.same(from, to) {
		return errors.New("it is the same file")
	}
	if old, err := m.lstat(to); err == nil && !old.dir {
		if err := m.remove(to, false); err != nil {
			return err
		}
	}
	if o.has('p') {
		by.uid, by.gid = n.uid, n.gid
	}
	return m.symlink(string(n.data), to, by)
}

// change is chmod, chown and chgrp.
func change(_ context.Context, c *call) int {
	flags := c.flags("Rfvh")
	if len(c.args) < 2 {
		return c.fail(1, "missing operand")
	}
	edit, problem := c.edit(c.args[0])
	if problem != "" {
		return c.fail(1, "%s: '%s'", problem, c.args[0])
	}
	code := 0
	for _, name := range c.args[1:] {
		p := c.sh.abs(name)
		err := c.fs().change(p, !strings.Contains(flags, "h"), edit)
		if err == nil && strings.Contains(flags, "R") {
			for i, e := range c.fs().tree(p) {
				if i > 0 && (!e.link || c.name != "chmod") {
					_ = c.fs().change(e.path, false, edit) // removed meanwhile
				}
			}
		}
		if err != nil {
			code = c.fail(1, "cannot access '%s': %s", name, reason(err))
		}
	}
	return code
}

// edit returns the change of a node that the program makes, or why there is none.
func (c *call) edit(to string) (edit func(*node), problem string) {
	if c.name == "chmod" {
		if edit = chmod(to); edit == nil {
			problem = "invalid mode"
		}
		return edit, problem
	}
	user, group, both := strings.Cut(to, ":")
	if c.name == "chgrp" {
		user, group, both = "", to, true
	}
	uid, known := c.sh.host.table(passwdFile).number(user)
	if user != "" && !known {
		return nil, "invalid user"
	}
	gid, known := c.sh.host.table(groupFile).number(group)
	if both && !known {
		return nil, "invalid group"
	}
	return func(n *node) {
		if user != "" {
			n.uid = uid
		}
		if both {
			n.gid = gid
		}
		if !n.dir { // as the kernel does
			n.mode &^= 0o6000
		}
	}, ""
}

// chmod returns the change to a mode: an octal one, or parts such as u+w,go-w; nil for others.
func chmod(to string) func(*node) {
	if m, err := strconv.ParseUint(to, 8, 12); err == nil {
		return func(n *node) {
			keep := fs.FileMode(0)
			if n.dir && len(to) < 5 { // a folder loses setuid and setgid by five digits only
				keep = n.mode & 0o6000
			}
			n.mode = fs.FileMode(m) | keep
		}
	}
	var edits []func(*node)
	for part := range strings.SplitSeq(to, ",") {
		i := strings.IndexAny(part, "+-=")
		if i < 0 || strings.Trim(part[:i], "ugoa") != "" || strings.Trim(part[i+1:], "rwx") != "" {
			return nil
		}
		var who, bits fs.FileMode
		for _, w := range cmp.Or(part[:i], "a") {
			who |= map[rune]fs.FileMode{'u': 0o700, 'g': 0o070, 'o': 0o007, 'a': 0o777}[w]
		}
		for _, b := range part[i+1:] {
			bits |= map[rune]fs.FileMode{'r': 0o444, 'w': 0o222, 'x': 0o111}[b]
		}
		edits = append(edits, func(n *node) {
			if part[i] == '=' {
				n.mode &^= who
			}
			if part[i] == '-' {
				n.mode &^= who & bits
			} else {
				n.mode |= who & bits
			}
		})
	}
	return func(n *node) {
		for _, e := range edits {
			e(n)
		}
	}
}

func mktemp(_ context.Context, c *call, o options) int {
	h := c.sh.host
	h.mu.Lock()
	h.nextPID++
	p := fmt.Sprintf("/tmp/tmp.%08x", mix(h.fleet.cfg.Seed, uint64(h.nextPID), saltMachine)>>32)
	h.mu.Unlock()
	var err error
	if o.has('d') {
		err = c.fs().mkdir(p, false, 0o700, c.sh.actor())
	} else {
		_, err = c.fs().create(p, false, true, 0o600, c.sh.actor())
	}
	if err != nil {
		return c.fail(1, "failed to create: %s", reason(err))
	}
	fmt.Fprintln(c.out, p)
	return 0
}
