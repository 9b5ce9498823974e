package fleet

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Bounds of one host: bytes of files, and entries.
const (
	maxHostBytes = 1 << 30
	maxHostFiles = 1 << 16
)

// memFS is a host's tiny file system: a base that every host has, computed when
// it is read, under what was written to this host. The zero value with host set
// is ready.
type memFS struct {
	host *host

	mu    sync.Mutex
	nodes map[string]*node // over the base; a nil node hides a path of the base
	bytes int64
	links int    // symbolic links: without any, no path is searched for them
	inode uint32 // the last that was given
}

type node struct {
	dir   bool
	link  bool // a symbolic link, whose target is data
	odd   bool // a device or a named pipe: it is there, and nothing more
	data  []byte
	mode  fs.FileMode // permission bits as chmod has them, also setuid, setgid and sticky
	uid   uint32
	gid   uint32
	names int32 // entries that are this file
	inode uint32
	mtime time.Time
}

// actor makes files: they get its numbers, and not the bits of its umask.
type actor struct {
	uid, gid uint32
	umask    fs.FileMode
}

// login is the actor of file transfer.
func login() actor { return actor{userID, userID, 0o022} }

// base returns a path of the file system that every host has.
func (m *memFS) base(p string) *node {
	h := m.host
	file := func(text string) *node { return &node{data: []byte(text), mode: 0o644} }
	switch p {
	case "/", "/etc", "/proc", "/proc/self", "/proc/self/fd", "/proc/sys", "/proc/sys/kernel/random", "/bin", "/usr", "/usr/bin",
		"/usr/local", "/usr/local/bin", "/home", "/opt", "/srv", "/dev", "/run", "/run/systemd", "/run/systemd/system", "/etc/nginx", "/etc/cron.d",
		"/etc/sysctl.d", "/etc/systemd", unitFolder, "/var", "/var/log", "/var/lib":
		return &node{dir: true, mode: 0o755}
	case "/root":
		return &node{dir: true, mode: 0o700}
	case "/home/" + User:
		return &node{dir: true, mode: 0o755, uid: userID, gid: userID}
	case "/tmp", "/var/tmp":
		return &node{dir: true, mode: 0o1777}
	case "/etc/hostname":
		return file(h.name + "\n")
	case "/etc/machine-id":
		return file(fmt.Sprintf("%032x\n", mix(h.fleet.cfg.Seed, uint64(h.n), saltMachine)))
	case "/etc/os-release":
		return file("PRETTY_NAME=\"Turnus simulated host\"\nID=turnus\nVERSION_ID=\"1\"\n")
	case "/etc/motd":
		return file("Welcome to " + h.name + ", a simulated host.\n")
	case passwdFile:
		return file(basePasswd)
	case groupFile:
		return file(baseGroup)
	case shadowFile:
		return &node{data: []byte(baseShadow), mode: 0o640}
	case "/etc/fstab":
		return file("/dev/root / ext4 defaults 0 1\n")
	case nginxConfig:
		return file("events {}\nhttp {\n  server { listen 80; }\n}\n")
	case "/proc/sys/kernel/random/boot_id":
		return file(h.bootID() + "\n")
	case "/proc/uptime":
		up := h.uptime().Seconds()
		return file(fmt.Sprintf("%.2f %.2f\n", up, up))
	case "/proc/loadavg":
		return file("0.08 0.03 0.01 1/94 1234\n")
	case "/proc/self/mountinfo":
		return file(h.mountInfo())
	case "/proc/swaps":
		return file(h.swaps())
	case "/bin/sh", "/bin/bash":
		return &node{data: []byte("#!simulated\n"), mode: 0o755}
	case "/dev/null":
		return &node{odd: true, mode: 0o666}
	case spareDisk:
		return &node{odd: true, mode: 0o660}
	}
	if key, ok := strings.CutPrefix(p, procSys); ok {
		return h.setting(key)
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
		"/bin", "/bin/bash", "/bin/sh", "/dev", "/dev/null", spareDisk, "/etc", "/etc/cron.d", "/etc/fstab", groupFile, "/etc/hostname", "/etc/machine-id",
		"/etc/motd", "/etc/nginx", nginxConfig, "/etc/os-release", passwdFile, shadowFile, "/etc/sysctl.d", "/etc/systemd", unitFolder,
		"/home", "/home/" + User, "/opt", "/proc", "/proc/loadavg", "/proc/sys", "/proc/uptime", "/root", "/run", "/run/systemd", "/run/systemd/system", "/srv", "/tmp",
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

// put sets or hides a node, and counts what came and went; the caller holds mu.
func (m *memFS) put(p string, n *node) {
	old := m.nodes[p]
	if n != nil {
		m.count(n, 1)
	}
	if old != nil {
		m.count(old, -1)
	}
	switch {
	case n == nil && m.base(p) == nil:
		delete(m.nodes, p)
		return
	case m.nodes == nil:
		m.nodes = make(map[string]*node)
	}
	m.nodes[p] = n
}

// count adds a name of a node, or takes one away; the last takes its content along.
func (m *memFS) count(n *node, names int32) {
	n.names += names
	if n.names != 0 && (n.names != 1 || names < 0) {
		return
	}
	m.bytes += int64(names) * int64(len(n.data))
	if n.link {
		m.links += int(names)
	}
	if n.inode == 0 {
		m.inode++
		n.inode = m.inode
	}
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

// stat describes what is at a path, or what a link there leads to.
func (m *memFS) stat(p string) (node, error) { return m.look(p, true) }

// lstat describes what is at a path, also if it is a link.
func (m *memFS) lstat(p string) (node, error) { return m.look(p, false) }

func (m *memFS) look(p string, follow bool) (node, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.check(m.resolve(p, follow))
	if n == nil {
		return node{}, perr("stat", p, syscall.ENOENT)
	}
	return *n, nil
}

// open opens a file for reading what it holds at each moment.
func (m *memFS) open(p string) (*memFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.check(m.resolve(p, true))
	if n == nil {
		return nil, perr("open", p, syscall.ENOENT)
	}
	if n.dir {
		return nil, perr("read", p, syscall.EISDIR)
	}
	return &memFile{fs: m, node: n}, nil
}

// kernels reports a path whose entries only the kernel makes and removes.
func kernels(p string) bool { return p == "/proc" || strings.HasPrefix(p, "/proc/") }

// parent finds the folder that is to get an entry; the caller holds mu.
func (m *memFS) parent(op, p string) (*node, error) {
	parent := m.check(path.Dir(p))
	switch {
	case len(p) > maxTarget:
		return nil, perr(op, p, syscall.ENAMETOOLONG)
	case kernels(p):
		return nil, perr(op, p, syscall.EACCES)
	case parent == nil:
		return nil, perr(op, p, syscall.ENOENT)
	case !parent.dir:
		return nil, perr(op, p, syscall.ENOTDIR)
	case len(m.nodes) >= maxHostFiles:
		return nil, perr(op, p, syscall.ENOSPC)
	}
	return parent, nil
}

// create makes an empty file, or opens one that exists, cut to nothing if wanted.
func (m *memFS) create(p string, truncate, exclusive bool, mode fs.FileMode, by actor) (*memFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p = m.resolve(p, !exclusive)
	if p == "/dev/null" {
		return &memFile{fs: m, node: &node{}, discard: true}, nil
	}
	if kernels(p) {
		key, ok := strings.CutPrefix(p, procSys)
		if n := m.host.setting(key); !ok || n == nil || n.dir || by.uid != 0 {
			return nil, perr("open", p, syscall.EACCES)
		}
		return &memFile{fs: m, node: m.check(p), setting: p}, nil
	}
	parent, err := m.parent("open", p)
	n := m.own(p)
	switch {
	case n == nil && err != nil:
		return nil, err
	case n == nil:
		n = newNode(parent, mode, by)
		m.put(p, n)
	case n.dir:
		return nil, perr("open", p, syscall.EISDIR)
	case exclusive:
		return nil, perr("open", p, syscall.EEXIST)
	case n.odd:
		return nil, perr("open", p, syscall.EACCES)
	case truncate:
		m.bytes -= int64(len(n.data))
		n.data, n.mtime = nil, time.Now()
	}
	return &memFile{fs: m, node: n}, nil
}

// newNode is a file in a folder, whose group it takes if the folder has setgid.
func newNode(parent *node, mode fs.FileMode, by actor) *node {
	n := &node{mode: mode & 0o7777 &^ by.umask, uid: by.uid, gid: by.gid, mtime: time.Now()}
	if parent.mode&0o2000 != 0 {
		n.gid = parent.gid
	}
	return n
}

// memFile is an open file. Its methods are safe for concurrent use.
type memFile struct {
	fs      *memFS
	node    *node
	discard bool
	setting string // path of the setting of the kernel that it is
	at      int64  // where Write continues
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	if f.discard {
		return len(b), nil
	}
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.setting != "" {
		return len(b), f.fs.set(f.setting, string(b))
	}
	end := off + int64(len(b))
	if grow := end - int64(len(f.node.data)); grow > 0 {
		if off < 0 || f.fs.full(grow) {
			return 0, syscall.ENOSPC
		}
		f.fs.bytes += grow
		f.node.data = slices.Grow(f.node.data, int(grow))[:end]
	}
	copy(f.node.data[off:], b)
	f.node.mtime = time.Now()
	return len(b), nil
}

// full reports whether the host cannot store that many bytes more; the caller holds mu.
func (m *memFS) full(grow int64) bool {
	return grow > 0 && (m.bytes+grow > maxHostBytes || m.host.profile.Load().FullDisk)
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

func (m *memFS) mkdir(p string, parents bool, mode fs.FileMode, by actor) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p = m.resolve(p, parents)
	if n := m.check(p); n != nil {
		if parents && n.dir {
			return nil
		}
		return perr("mkdir", p, syscall.EEXIST)
	}
	missing := []string{p}
	for d := path.Dir(p); parents && m.check(d) == nil && d != "."; d = path.Dir(d) {
		missing = append(missing, d)
	}
	for _, d := range slices.Backward(missing) {
		parent, err := m.parent("mkdir", d)
		if err != nil {
			return err
		}
		n := newNode(parent, mode, by)
		n.dir, n.mode = true, n.mode|parent.mode&0o2000
		m.put(d, n)
	}
	return nil
}

// names lists what is in a folder, sorted.
func (m *memFS) names(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir = m.resolve(dir, true)
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

// remove deletes a file, a link or an empty folder, or with all everything below.
func (m *memFS) remove(p string, all bool) error {
	m.mu.Lock()
	p = m.resolve(p, false)
	m.mu.Unlock()
	names, err := m.names(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.check(p)
	switch {
	case n == nil:
		return perr("remove", p, syscall.ENOENT)
	case p == "/" || kernels(p):
		return perr("remove", p, syscall.EBUSY)
	case n.dir && !all && (err != nil || len(names) > 0):
		return perr("remove", p, syscall.ENOTEMPTY)
	}
	if n.dir {
		for _, q := range m.under(p) {
			m.put(q, nil)
		}
	}
	m.put(p, nil)
	return nil
}

// under lists all paths below a folder, each after its own folder; the caller holds mu.
func (m *memFS) under(dir string) []string {
	below := strings.TrimSuffix(dir, "/") + "/"
	var out []string
	for q, n := range m.nodes {
		if n != nil && strings.HasPrefix(q, below) && q != dir {
			out = append(out, q)
		}
	}
	for _, q := range basePaths() {
		if _, over := m.nodes[q]; !over && strings.HasPrefix(q, below) {
			out = append(out, q)
		}
	}
	slices.Sort(out)
	return out
}

// rename moves a file or folder, over an existing file or an empty folder.
func (m *memFS) rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, to = m.resolve(from, false), m.resolve(to, false)
	n, old := m.check(from), m.check(to)
	if n == nil {
		return perr("rename", from, syscall.ENOENT)
	}
	if parent := m.check(path.Dir(to)); parent == nil || !parent.dir {
		return perr("rename", to, syscall.ENOENT)
	}
	switch {
	case from == to || n == old:
		return nil
	case kernels(from) || kernels(to):
		return perr("rename", to, syscall.EACCES)
	case n.dir && strings.HasPrefix(to, from+"/"):
		return perr("rename", to, syscall.EINVAL)
	case len(to) > maxTarget:
		return perr("rename", to, syscall.ENAMETOOLONG)
	case old == nil:
	case old.dir && !n.dir:
		return perr("rename", to, syscall.EISDIR)
	case n.dir && !old.dir:
		return perr("rename", to, syscall.ENOTDIR)
	case old.dir && len(m.under(to)) > 0:
		return perr("rename", to, syscall.ENOTEMPTY)
	}
	if n.dir {
		below := m.under(from)
		for _, q := range below {
			if len(to)+len(q)-len(from) > maxTarget {
				return perr("rename", q, syscall.ENAMETOOLONG)
			}
		}
		for _, q := range below {
			m.put(to+q[len(from):], m.check(q))
			m.put(q, nil)
		}
	}
	m.put(to, n)
	m.put(from, nil)
	return nil
}

// change edits the attributes of what is at p, or of what a link there leads to.
func (m *memFS) change(p string, follow bool, edit func(*node)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p = m.resolve(p, follow)
	switch {
	case m.check(p) == nil:
		return perr("setstat", p, syscall.ENOENT)
	case kernels(p):
		return perr("setstat", p, syscall.EPERM)
	}
	n := m.own(p)
	before := int64(len(n.data))
	edit(n)
	m.bytes += int64(len(n.data)) - before
	return nil
}

// replace gives a file, or what a link there leads to, new content as a whole, or leaves it as it
// is.
func (m *memFS) replace(p, text string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p = m.resolve(p, true)
	n, grow := m.check(p), int64(len(text))
	switch {
	case n == nil:
		if _, err := m.parent("write", p); err != nil {
			return err
		}
	case n.dir:
		return perr("write", p, syscall.EISDIR)
	case n.odd || kernels(p):
		return perr("write", p, syscall.EACCES)
	default:
		grow -= int64(len(n.data))
	}
	if m.full(grow) {
		return perr("write", p, syscall.ENOSPC)
	}
	if n = m.own(p); n == nil {
		n = &node{mode: 0o644}
		m.put(p, n)
	}
	m.bytes += grow
	n.data, n.mtime = []byte(text), time.Now()
	return nil
}

// clearVolatile empties what does not outlive a boot.
func (m *memFS) clearVolatile() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, n := range m.nodes {
		if !strings.HasPrefix(p, "/tmp/") && !strings.HasPrefix(p, "/run/") && !kernels(p) {
			continue
		}
		if n != nil {
			m.put(p, nil)
		}
		delete(m.nodes, p) // also what hides a path of the base
	}
}
