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
	if c.name == "mkdir" && len(c.args) > 1 && c.args[0] == "-m" {
		c.args = c.args[2:]
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
			err = c.fs().mkdir(p, strings.Contains(flags, "p"))
		default: // touch, truncate
			_, err = c.fs().create(p, c.name == "truncate", false, 0o644)
			if err == nil {
				err = c.fs().change(p, func(n *node) { n.mtime = time.Now() })
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
	n, err := m.stat(p)
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
	flags := c.flags("la1dhAn")
	names := c.args
	if len(names) == 0 {
		names = []string{"."}
	}
	code := 0
	for _, name := range names {
		p := c.sh.abs(name)
		n, err := c.fs().stat(p)
		if err != nil {
			code = c.fail(2, "cannot access '%s': %s", name, reason(err))
			continue
		}
		entries := []string{name}
		if n.dir && !strings.Contains(flags, "d") {
			if entries, err = c.fs().names(p); err != nil {
				continue // removed meanwhile
			}
		} else {
			p = path.Dir(p)
		}
		for _, e := range entries {
			if !strings.Contains(flags, "l") {
				fmt.Fprintln(c.out, e)
				continue
			}
			if n, err := c.fs().stat(path.Join(p, path.Base(e))); err == nil {
				i := info{e, n}
				owner := n.owner
				if strings.Contains(flags, "n") {
					owner = ownerID(owner)
				}
				fmt.Fprintf(c.out, "%s 1 %s %s %d %s %s\n", i.Mode(), owner, owner, i.Size(), n.mtime.UTC().Format("Jan _2 15:04"), e)
			}
		}
	}
	return code
}

// ownerID is the number of an account; all that the host does not know share one.
func ownerID(name string) string {
	if _, err := strconv.Atoi(name); err == nil {
		return name
	}
	switch name {
	case "root":
		return "0"
	case User:
		return "1000"
	}
	return "1001"
}

// statFile prints what stat -c asks for.
func statFile(c *call) int {
	form := "%n %s %a"
	c.flags("L")
	if len(c.args) > 1 && (c.args[0] == "-c" || c.args[0] == "--format") {
		form, c.args = c.args[1], c.args[2:]
	}
	c.flags("")
	code := 0
	for _, name := range c.args {
		n, err := c.fs().stat(c.sh.abs(name))
		if err != nil {
			code = c.fail(1, "cannot statx '%s': %s", name, reason(err))
			continue
		}
		kind := "regular file"
		if n.dir {
			kind = "directory"
		}
		fmt.Fprintln(c.out, strings.NewReplacer("%a", strconv.FormatUint(uint64(n.mode.Perm()), 8), "%s", itoa(len(n.data)),
			"%U", n.owner, "%G", n.owner, "%u", ownerID(n.owner), "%g", ownerID(n.owner), "%n", name, "%F", kind, "%Y", strconv.FormatInt(n.mtime.Unix(), 10)).Replace(form))
	}
	return code
}

func transfer(c *call) int {
	c.flags("fnTpaPRrv")
	if len(c.args) < 2 {
		return c.fail(1, "missing file operand")
	}
	last := len(c.args) - 1
	to := c.sh.abs(c.args[last])
	into, err := c.fs().stat(to)
	isDir := err == nil && into.dir
	for _, name := range c.args[:last] {
		from, dest := c.sh.abs(name), to
		if isDir {
			dest = path.Join(to, path.Base(from))
		}
		if c.name == "mv" {
			err = c.fs().rename(from, dest)
		} else {
			err = c.fs().copy(from, dest)
		}
		if err != nil {
			return c.fail(1, "cannot %s '%s': %s", map[bool]string{true: "move", false: "copy"}[c.name == "mv"], name, reason(err))
		}
	}
	return 0
}

// copy copies a file with its mode.
func (m *memFS) copy(from, to string) error {
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
	dst, err := m.create(to, true, false, n.mode)
	if err != nil {
		return err
	}
	_, err = dst.WriteAt(data, 0)
	return err
}

func change(c *call) int {
	c.flags("Rfvh")
	if len(c.args) < 2 {
		return c.fail(1, "missing operand")
	}
	edit := func(n *node) { n.owner, _, _ = strings.Cut(c.args[0], ":") }
	switch c.name {
	case "chgrp":
		edit = func(*node) {}
	case "chmod":
		m, err := strconv.ParseUint(c.args[0], 8, 12)
		switch {
		case err == nil:
			edit = func(n *node) { n.mode = fs.FileMode(m) }
		case strings.HasSuffix(c.args[0], "+x"):
			edit = func(n *node) { n.mode |= 0o111 }
		default:
			return c.fail(1, "invalid mode: '%s'", c.args[0])
		}
	}
	code := 0
	for _, name := range c.args[1:] {
		if err := c.fs().change(c.sh.abs(name), edit); err != nil {
			code = c.fail(1, "cannot access '%s': %s", name, reason(err))
		}
	}
	return code
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
		err = c.fs().mkdir(p, false)
	} else {
		_, err = c.fs().create(p, false, true, 0o600)
	}
	if err != nil {
		return c.fail(1, "failed to create: %s", reason(err))
	}
	fmt.Fprintln(c.out, p)
	return 0
}
