package fleet

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// files runs programs that work on the host's file system.
func files(_ context.Context, c *call) int {
	switch c.name {
	case "ls":
		return ls(c)
	case "stat":
		return statFile(c)
	case "mv", "cp":
		return transfer(c)
	case "chmod", "chown", "chgrp":
		return change(c)
	case "mktemp":
		return mktemp(c)
	}
	flags := c.flags("rfpRvs")
	mode, by := fs.FileMode(0o777), c.sh.actor()
	if c.name == "mkdir" && len(c.args) > 1 && c.args[0] == "-m" {
		m, err := strconv.ParseUint(c.args[1], 8, 12)
		if err != nil {
			return c.fail(1, "invalid mode '%s'", c.args[1])
		}
		mode, by.umask, c.args = fs.FileMode(m), 0, c.args[2:]
	}
	if c.name == "truncate" && len(c.args) > 0 { // truncate -s 0 FILE
		c.args = c.args[1:]
	}
	if len(c.args) == 0 && !strings.Contains(flags, "f") {
		return c.fail(1, "missing operand")
	}
	code := 0
	for _, name := range c.args {
		p := c.sh.abs(name)
		var err error
		switch c.name {
		case "rm":
			err = rm(c.fs(), p, flags)
		case "rmdir":
			err = c.fs().remove(p, false)
		case "mkdir":
			err = c.fs().mkdir(p, strings.Contains(flags, "p"), mode, by)
		default: // touch, truncate
			_, err = c.fs().create(p, c.name == "truncate", false, 0o666, c.sh.actor())
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

func rm(m *memFS, p, flags string) error {
	n, err := m.lstat(p)
	if err != nil {
		if strings.Contains(flags, "f") {
			return nil
		}
		return err
	}
	all := strings.ContainsAny(flags, "rR")
	if n.dir && !all {
		return fmt.Errorf("Is a directory") //nolint:staticcheck // rm's words
	}
	return m.remove(p, all)
}

func ls(c *call) int {
	flags := c.flags("la1dhAni")
	names := c.args
	if len(names) == 0 {
		names = []string{"."}
	}
	code := 0
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
			c.list(flags, name, &n)
		default:
			entries, err := c.fs().names(p)
			if err != nil {
				continue // removed meanwhile
			}
			for _, e := range entries {
				if n, err := c.fs().lstat(path.Join(p, e)); err == nil {
					c.list(flags, e, &n)
				}
			}
		}
	}
	return code
}

// list prints one line of ls.
func (c *call) list(flags, name string, n *node) {
	if strings.Contains(flags, "i") {
		fmt.Fprintf(c.out, "%d ", n.inode)
	}
	if !strings.Contains(flags, "l") {
		fmt.Fprintln(c.out, name)
		return
	}
	owner, group := strconv.FormatUint(uint64(n.uid), 10), strconv.FormatUint(uint64(n.gid), 10)
	if !strings.Contains(flags, "n") {
		owner, group = c.sh.host.table(passwdFile).name(n.uid), c.sh.host.table(groupFile).name(n.gid)
	}
	if n.link {
		name += " -> " + string(n.data)
	}
	fmt.Fprintf(c.out, "%s %d %s %s %d %s %s\n", n.permissions(), n.linkCount(), owner, group, len(n.data), n.mtime.UTC().Format("Jan _2 15:04"), name)
}

// statFile prints what stat -c asks for.
func statFile(c *call) int {
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
			"%n", name, "%F", kind, "%A", n.permissions(), "%Y", strconv.FormatInt(n.mtime.Unix(), 10)).Replace(form))
	}
	return code
}

func transfer(c *call) int {
	o, ok := c.options(map[bool]string{true: "fnTv", false: "fnTvpaPRr"}[c.name == "mv"])
	if !ok || len(c.args) < 2 {
		return c.misused(c.name + " SOURCE... TARGET")
	}
	last := len(c.args) - 1
	to := c.sh.abs(c.args[last])
	into, err := c.fs().stat(to)
	isDir := err == nil && into.dir && !o.has('T')
	for _, name := range c.args[:last] {
		from, dest := c.sh.abs(name), to
		if isDir {
			dest = path.Join(to, path.Base(from))
		}
		if c.name == "mv" {
			err = c.fs().rename(from, dest)
		} else {
			err = c.fs().copy(from, dest, o.has('p') || o.has('a'), c.sh.actor())
		}
		if err != nil {
			return c.fail(1, "cannot %s '%s': %s", map[bool]string{true: "move", false: "copy"}[c.name == "mv"], name, reason(err))
		}
	}
	return 0
}

// copy copies a file with its mode, and with all also its owner and time.
func (m *memFS) copy(from, to string, all bool, by actor) error {
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
	if _, err = dst.WriteAt(data, 0); err != nil || !all {
		return err
	}
	return m.change(to, true, func(d *node) { d.mode, d.uid, d.gid, d.mtime = n.mode, n.uid, n.gid, n.mtime })
}

// change is chmod, chown and chgrp.
func change(c *call) int {
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
		for _, w := range either(part[:i], "a") {
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

func mktemp(c *call) int {
	dir := strings.Contains(c.flags("dqu"), "d")
	h := c.sh.host
	h.mu.Lock()
	h.nextPID++
	p := fmt.Sprintf("/tmp/tmp.%08x", mix(h.fleet.cfg.Seed, uint64(h.nextPID), saltMachine)>>32)
	h.mu.Unlock()
	var err error
	if dir {
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
