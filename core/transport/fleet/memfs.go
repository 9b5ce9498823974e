package fleet

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxHostBytes bounds what one host stores.
const maxHostBytes = 1 << 30

// memFS is a host's tiny file system: a base that every host has, computed when
// it is read, under what was written to this host. The zero value with host set
// is ready. Links and devices do not exist.
type memFS struct {
	host *host

	mu    sync.Mutex
	nodes map[string]*node // over the base; a nil node hides a path of the base
	bytes int64
}

type node struct {
	dir   bool
	data  []byte
	mode  fs.FileMode // permission bits
	owner string
	mtime time.Time
}

// base returns a path of the file system that every host has.
func (m *memFS) base(p string) *node {
	h := m.host
	file := func(text string) *node { return &node{data: []byte(text), mode: 0o644, owner: "root"} }
	switch p {
	case "/", "/etc", "/proc", "/proc/sys", "/proc/sys/kernel", "/proc/sys/kernel/random", "/bin", "/usr", "/usr/bin",
		"/usr/local", "/usr/local/bin", "/home", "/opt", "/dev", "/run", "/run/systemd", "/run/systemd/system", "/etc/nginx", "/etc/cron.d", "/var", "/var/log", "/var/lib", "/root":
		return &node{dir: true, mode: 0o755, owner: "root"}
	case "/home/" + User:
		return &node{dir: true, mode: 0o755, owner: User}
	case "/tmp", "/var/tmp":
		return &node{dir: true, mode: 0o777, owner: "root"}
	case "/etc/hostname":
		return file(h.name + "\n")
	case "/etc/machine-id":
		return file(fmt.Sprintf("%032x\n", mix(h.fleet.cfg.Seed, uint64(h.n), saltMachine)))
	case "/etc/os-release":
		return file("PRETTY_NAME=\"Turnus simulated host\"\nID=turnus\nVERSION_ID=\"1\"\n")
	case "/etc/motd":
		return file("Welcome to " + h.name + ", a simulated host.\n")
	case nginxConfig:
		return file("events {}\nhttp {\n  server { listen 80; }\n}\n")
	case "/proc/sys/kernel/random/boot_id":
		return file(h.bootID() + "\n")
	case "/proc/uptime":
		up := h.uptime().Seconds()
		return file(fmt.Sprintf("%.2f %.2f\n", up, up))
	case "/proc/loadavg":
		return file("0.08 0.03 0.01 1/94 1234\n")
	case "/bin/sh", "/bin/bash":
		return &node{data: []byte("#!simulated\n"), mode: 0o755, owner: "root"}
	case "/dev/null":
		return &node{mode: 0o666, owner: "root"}
	}
	if pid, of, _ := strings.Cut(strings.TrimPrefix(p, "/proc/"), "/"); of == "cmdline" {
		if line, runs := h.cmdline(pid); runs {
			return file(line + "\x00")
		}
	}
	return nil
}

// basePaths are those of base that a listing of their folder shows.
func basePaths() []string {
	return []string{
		"/bin", "/bin/bash", "/bin/sh", "/dev", "/dev/null", "/etc", "/etc/cron.d", "/etc/hostname", "/etc/machine-id",
		"/etc/motd", "/etc/nginx", nginxConfig, "/etc/os-release",
		"/home", "/home/" + User, "/opt", "/proc", "/proc/loadavg", "/proc/sys", "/proc/uptime", "/root", "/run", "/run/systemd", "/run/systemd/system", "/tmp",
		"/usr", "/usr/bin", "/usr/local", "/usr/local/bin", "/var", "/var/lib", "/var/log", "/var/tmp",
	}
}

func perr(op, p string, err error) error { return &fs.PathError{Op: op, Path: p, Err: err} }

// check finds a node; the caller holds mu.
func (m *memFS) check(p string) *node {
	if n, ok := m.nodes[p]; ok {
		return n
	}
	return m.base(p)
}

// put sets or hides a node; the caller holds mu.
func (m *memFS) put(p string, n *node) {
	if m.nodes == nil {
		m.nodes = make(map[string]*node)
	}
	if n == nil && m.base(p) == nil {
		delete(m.nodes, p)
		return
	}
	m.nodes[p] = n
}

// own returns a node that may be changed in place; the caller holds mu.
func (m *memFS) own(p string) *node {
	n := m.check(p)
	if n == nil {
		return nil
	}
	if _, ok := m.nodes[p]; !ok {
		m.put(p, n)
	}
	return n
}

func (m *memFS) stat(p string) (node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.check(p)
	if n == nil {
		return node{}, perr("stat", p, syscall.ENOENT)
	}
	return *n, nil
}

// open opens a file for reading what it holds at each moment.
func (m *memFS) open(p string) (*memFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.check(p)
	if n == nil {
		return nil, perr("open", p, syscall.ENOENT)
	}
	if n.dir {
		return nil, perr("read", p, syscall.EISDIR)
	}
	return &memFile{fs: m, node: n}, nil
}

// create makes an empty file, or opens one that exists, cut to nothing if wanted.
func (m *memFS) create(p string, truncate, exclusive bool, mode fs.FileMode) (*memFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p == "/dev/null" {
		return &memFile{fs: m, node: &node{}, discard: true}, nil
	}
	if parent := m.check(path.Dir(p)); parent == nil {
		return nil, perr("open", p, syscall.ENOENT)
	} else if !parent.dir {
		return nil, perr("open", p, syscall.ENOTDIR)
	}
	if strings.HasPrefix(p, "/proc/") {
		return nil, perr("open", p, syscall.EACCES)
	}
	n := m.own(p)
	switch {
	case n == nil:
		n = &node{mode: mode.Perm(), owner: User, mtime: time.Now()}
		m.put(p, n)
	case n.dir:
		return nil, perr("open", p, syscall.EISDIR)
	case exclusive:
		return nil, perr("open", p, syscall.EEXIST)
	case truncate:
		m.bytes -= int64(len(n.data))
		n.data, n.mtime = nil, time.Now()
	}
	return &memFile{fs: m, node: n}, nil
}

// memFile is an open file. Its methods are safe for concurrent use.
type memFile struct {
	fs      *memFS
	node    *node
	discard bool
	at      int64 // where Write continues
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	if f.discard {
		return len(b), nil
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	end := off + int64(len(b))
	if grow := end - int64(len(f.node.data)); grow > 0 {
		if off < 0 || f.fs.bytes+grow > maxHostBytes || f.fs.host.profile.Load().FullDisk {
			return 0, syscall.ENOSPC
		}
		f.fs.bytes += grow
		f.node.data = slices.Grow(f.node.data, int(grow))[:end]
	}
	copy(f.node.data[off:], b)
	f.node.mtime = time.Now()
	return len(b), nil
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if off < 0 || off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.node.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// reader reads the file from its beginning.
func (f *memFile) reader() io.Reader { return io.NewSectionReader(f, 0, maxHostBytes) }

// Write continues at the file's own position.
func (f *memFile) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, f.at)
	f.at += int64(n)
	return n, err
}

// seekEnd lets Write continue behind what the file holds.
func (f *memFile) seekEnd() {
	f.fs.mu.Lock()
	f.at = int64(len(f.node.data))
	f.fs.mu.Unlock()
}

func (m *memFS) mkdir(p string, parents bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := m.check(p); n != nil {
		if parents && n.dir {
			return nil
		}
		return perr("mkdir", p, syscall.EEXIST)
	}
	missing := []string{p}
	for d := path.Dir(p); ; d = path.Dir(d) {
		n := m.check(d)
		if n != nil && !n.dir {
			return perr("mkdir", p, syscall.ENOTDIR)
		}
		if n != nil {
			break
		}
		if !parents {
			return perr("mkdir", p, syscall.ENOENT)
		}
		missing = append(missing, d)
	}
	for _, d := range missing {
		m.put(d, &node{dir: true, mode: 0o755, owner: User, mtime: time.Now()})
	}
	return nil
}

// names lists what is in a folder, sorted.
func (m *memFS) names(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.check(dir)
	if n == nil {
		return nil, perr("open", dir, syscall.ENOENT)
	}
	if !n.dir {
		return nil, perr("readdir", dir, syscall.ENOTDIR)
	}
	var out []string
	for _, p := range basePaths() {
		if path.Dir(p) == dir && p != dir && m.check(p) != nil {
			out = append(out, path.Base(p))
		}
	}
	for p, n := range m.nodes {
		if n != nil && path.Dir(p) == dir && p != dir && !slices.Contains(out, path.Base(p)) {
			out = append(out, path.Base(p))
		}
	}
	slices.Sort(out)
	return out, nil
}

// remove deletes a file or an empty folder, or with all everything below.
func (m *memFS) remove(p string, all bool) error {
	names, err := m.names(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.check(p)
	switch {
	case n == nil:
		return perr("remove", p, syscall.ENOENT)
	case p == "/":
		return perr("remove", p, syscall.EBUSY)
	case n.dir && !all && (err != nil || len(names) > 0):
		return perr("remove", p, syscall.ENOTEMPTY)
	}
	below := p + "/"
	for q, sub := range m.nodes {
		if sub != nil && strings.HasPrefix(q, below) {
			m.bytes -= int64(len(sub.data))
			m.put(q, nil)
		}
	}
	for _, q := range basePaths() {
		if strings.HasPrefix(q, below) {
			m.put(q, nil)
		}
	}
	m.bytes -= int64(len(n.data))
	m.put(p, nil)
	return nil
}

// rename moves a file or folder, over an existing file.
func (m *memFS) rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.check(from)
	if n == nil {
		return perr("rename", from, syscall.ENOENT)
	}
	if parent := m.check(path.Dir(to)); parent == nil || !parent.dir {
		return perr("rename", to, syscall.ENOENT)
	}
	if old := m.check(to); old != nil {
		if old.dir {
			return perr("rename", to, syscall.EISDIR)
		}
		if from == to {
			return nil
		}
		m.bytes -= int64(len(old.data))
	}
	if n.dir {
		if to == from || strings.HasPrefix(to, from+"/") {
			return perr("rename", to, syscall.EINVAL)
		}
		moved := maps.Clone(m.nodes)
		for q, sub := range moved {
			if sub != nil && strings.HasPrefix(q, from+"/") {
				m.put(to+q[len(from):], sub)
				m.put(q, nil)
			}
		}
	}
	m.put(to, n)
	m.put(from, nil)
	return nil
}

// change edits the attributes of what is at p.
func (m *memFS) change(p string, edit func(*node)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.own(p)
	if n == nil {
		return perr("setstat", p, syscall.ENOENT)
	}
	before := int64(len(n.data))
	edit(n)
	m.bytes += int64(len(n.data)) - before
	return nil
}

// clearVolatile empties what does not outlive a boot.
func (m *memFS) clearVolatile() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, n := range m.nodes {
		if n != nil && (strings.HasPrefix(p, "/tmp/") || strings.HasPrefix(p, "/run/")) {
			m.bytes -= int64(len(n.data))
			m.put(p, nil)
		}
	}
}
