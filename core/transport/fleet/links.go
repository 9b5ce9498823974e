package fleet

import (
	"context"
	"path"
	"strings"
	"syscall"
)

const (
	maxHops   = 40   // links on the way to a path
	maxTarget = 4096 // bytes of a path
)

// resolve follows the links on the way to a path, and with last the one that it names. Where it
// follows too many it returns a path at which nothing is. The caller holds mu.
func (m *memFS) resolve(p string, last bool) string {
	if m.links == 0 {
		return p
	}
	for range maxHops {
		next := m.hop(p, last)
		if next == p {
			return p
		}
		p = next
	}
	return "\x00"
}

// hop puts its target in the place of the first link on the way.
func (m *memFS) hop(p string, last bool) string {
	if len(p) > maxTarget {
		return "\x00"
	}
	for i := 1; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' || i == len(p) && !last {
			continue
		}
		if n := m.nodes[p[:i]]; n != nil && n.link {
			target := string(n.data)
			if !path.IsAbs(target) {
				target = path.Join(path.Dir(p[:i]), target)
			}
			return path.Join(target, p[i:])
		}
	}
	return p
}

// real returns the path without links; "" if its folder does not exist.
func (m *memFS) real(p string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	p = m.resolve(p, true)
	if parent := m.check(path.Dir(p)); parent == nil || !parent.dir {
		return ""
	}
	return p
}

// symlink makes a link to a target, which need not exist.
func (m *memFS) symlink(target, p string, by actor) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p = m.resolve(p, false)
	parent, err := m.parent("symlink", p)
	switch {
	case err != nil:
		return err
	case m.check(p) != nil:
		return perr("symlink", p, syscall.EEXIST)
	case target == "":
		return perr("symlink", p, syscall.ENOENT)
	case len(target) > maxTarget:
		return perr("symlink", p, syscall.ENAMETOOLONG)
	}
	n := newNode(parent, 0o777, by)
	n.link, n.data, n.mode = true, []byte(target), 0o777
	m.put(p, n)
	return nil
}

// hardlink gives a file one more name.
func (m *memFS) hardlink(old, p string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, p = m.resolve(old, false), m.resolve(p, false)
	_, err := m.parent("link", p)
	n := m.check(old)
	switch {
	case n == nil:
		return perr("link", old, syscall.ENOENT)
	case err != nil:
		return err
	case n.dir || kernels(old):
		return perr("link", old, syscall.EPERM)
	case m.check(p) != nil:
		return perr("link", p, syscall.EEXIST)
	}
	m.put(p, m.own(old))
	return nil
}

// same reports whether two paths name one entry.
func (m *memFS) same(p, q string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.resolve(p, false) == m.resolve(q, false)
}

func ln(_ context.Context, c *call, o options) int {
	target, name := c.args[0], c.args[1]
	p := c.sh.abs(name)
	at, err := c.fs().lstat(p)
	if into, e := c.fs().stat(p); e == nil && into.dir && (!at.link || !o.has('n')) {
		p = path.Join(p, path.Base(target))
		at, err = c.fs().lstat(p)
	}
	if err == nil && o.has('f') && !at.dir {
		if c.fs().same(c.sh.abs(target), p) {
			return c.fail(1, "'%s' and '%s' are the same file", target, name)
		}
		_ = c.fs().remove(p, false) // what stays, the next lines report
	}
	if o.has('s') {
		err = c.fs().symlink(target, p, c.sh.actor())
	} else {
		err = c.fs().hardlink(c.sh.abs(target), p)
	}
	if err != nil {
		return c.fail(1, "failed to create link '%s': %s", name, reason(err))
	}
	return 0
}

func readlink(_ context.Context, c *call, o options) int {
	p := c.sh.abs(c.args[0])
	if o.has('f') {
		if p = c.fs().real(p); p == "" {
			return 1
		}
		return c.print(p + "\n")
	}
	n, err := c.fs().lstat(p)
	if err != nil || !n.link {
		return 1
	}
	return c.print(string(n.data) + "\n")
}

// entry is a path below a folder, with what is there.
type entry struct {
	path string
	node
}

// tree lists a folder, or a file, and all below it.
func (m *memFS) tree(p string) []entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	p = m.resolve(p, false)
	n := m.check(p)
	if n == nil {
		return nil
	}
	all := []entry{{p, *n}}
	if n.dir {
		for _, q := range m.under(p) {
			all = append(all, entry{q, *m.check(q)})
		}
	}
	return all
}

// kind is the letter of what a node is, as find has it.
func (n *node) kind() string {
	switch {
	case n.dir:
		return "d"
	case n.link:
		return "l"
	case n.odd:
		return "c"
	}
	return "f"
}

// permissions shows the kind and mode of a node as ls does.
func (n *node) permissions() string {
	out := []byte(strings.Replace(n.kind(), "f", "-", 1) + "rwxrwxrwx")
	for i := range 9 {
		if n.mode>>(8-i)&1 == 0 {
			out[1+i] = '-'
		}
	}
	for i, letter := range []byte("sst") { // setuid, setgid, sticky
		if n.mode>>(11-i)&1 == 0 {
			continue
		}
		if at := &out[3+3*i]; *at == '-' {
			*at = letter - 'a' + 'A'
		} else {
			*at = letter
		}
	}
	return string(out)
}

// linkCount is how many names a node has.
func (n *node) linkCount() int {
	if n.dir {
		return 2
	}
	return max(int(n.names), 1)
}
