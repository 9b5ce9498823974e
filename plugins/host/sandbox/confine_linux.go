//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// self stays right when the program is replaced on disk while it runs.
const self = "/proc/self/exe"

// order is the instructions for the process that confines itself.
type order struct {
	Level    level    `json:"level"`
	Landlock int      `json:"landlock"`
	Memory   int64    `json:"memory"`
	Tasks    int      `json:"tasks"`
	Network  bool     `json:"network"`
	UID      int      `json:"uid"`
	GID      int      `json:"gid"`
	Parent   int      `json:"parent"`
	Dir      string   `json:"dir"`
	Argv     []string `json:"argv"`
	Env      []string `json:"env"`
	Paths    []path   `json:"paths"`
	Trial    bool     `json:"trial"` // confine, and end
}

// levels are tried in this order. Containers often hide parts of /proc, so that no new one may be
// mounted for a process tree of its own; some systems give user namespaces to root only, or not at
// all.
func levels() []level {
	all := []level{{User: true, Mount: true, PID: true}, {User: true, Mount: true}}
	if os.Geteuid() == 0 {
		all = append(all, level{Mount: true, PID: true}, level{Mount: true})
	}
	return append(all, level{})
}

// find tries what the kernel gives, by confining a process that does nothing.
func find() (means, error) {
	m := means{landlock: landlockABI()}
	var why error
	for _, m.level = range levels() {
		err := m.try()
		if err == nil {
			break
		}
		if why == nil {
			why = err
		}
		m.nothing = m.level == (level{})
	}
	m.missing = m.lacks(why)
	return m, nil
}

// lacks names the parts that are missing, and why the best level does not work.
func (m means) lacks(why error) (missing []string) {
	if m.landlock == 0 {
		missing = append(missing, "the kernel has no Landlock")
	}
	switch {
	case m.nothing:
		missing = []string{fmt.Sprintf("nothing works (%v), so plugins run with the rights of this user", why)}
	case !m.level.Mount:
		missing = append(missing, fmt.Sprintf("no namespaces, so a plugin may connect to the Unix sockets of this user, and signal its processes (%v)", why))
	case !m.level.PID:
		lost := "what a plugin leaves running may outlive it"
		if m.landlock < 6 {
			lost += ", and it may signal this user's processes"
		}
		missing = append(missing, fmt.Sprintf("no process tree of its own, so %s (%v)", lost, why))
	}
	return missing
}

// try confines a process that ends immediately.
func (m means) try() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	f, err := m.order(order{Dir: os.TempDir(), Tasks: maxProcesses, Trial: true}, Profile{})
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	base := m.command(f, f, false)
	cmd := exec.CommandContext(ctx, base.Path) //nolint:gosec // this program
	cmd.Args, cmd.ExtraFiles, cmd.SysProcAttr, cmd.Env = base.Args, base.ExtraFiles, base.SysProcAttr, base.Env
	out, err := cmd.CombinedOutput()
	if words := strings.TrimSpace(string(out)); err != nil && words != "" {
		err = errors.New(words[:min(len(words), 300)])
	}
	return err
}

// Confined is a program that is ready to be started, as often as it takes.
type Confined struct {
	means          means
	program, order *os.File
	network        bool
}

// Confine makes the opened program ready: it runs with the arguments, the environment, of which the
// last one of a name counts, and the profile. Nil for a nil
// sandbox: the program is started as it is.
func (s *Sandbox) Confine(program *os.File, argv, env []string, p Profile) (*Confined, error) {
	if s == nil {
		return nil, nil //nolint:nilnil // see New
	}
	if p.Dir == "" {
		return nil, errNoDir
	}
	m, err := s.found()
	if err != nil || m.nothing {
		return nil, err
	}
	f, err := m.order(order{Dir: p.Dir, Argv: argv, Env: (&exec.Cmd{Env: env}).Environ(), Memory: s.memory, Tasks: s.processes, Network: p.Network}, p)
	if err != nil {
		return nil, err
	}
	return &Confined{means: m, program: program, order: f, network: p.Network}, nil
}

// Command is a new command that starts it. Its folder and standard files are the caller's; its
// environment and SysProcAttr must stay, for until the program starts they are this one's. The
// program must be open until it has started.
func (c *Confined) Command() *exec.Cmd { return c.means.command(c.program, c.order, c.network) }

// Close releases what the commands need. Processes that were started continue.
func (c *Confined) Close() error {
	if c == nil {
		return nil
	}
	return c.order.Close()
}

func (m means) command(program, order *os.File, network bool) *exec.Cmd {
	attr := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if m.level.User {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		// They outlive the start of the next program, in which this user has no number yet.
		attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
	}
	if m.level.Mount {
		attr.Cloneflags |= unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
		if !network {
			attr.Cloneflags |= unix.CLONE_NEWNET
		}
	}
	if m.level.PID {
		attr.Cloneflags |= unix.CLONE_NEWPID
	}
	return &exec.Cmd{Path: self, Args: []string{"turnus", verb}, Env: environment(), ExtraFiles: []*os.File{program, order}, SysProcAttr: attr}
}

// order completes an order and writes it into a file without a name: an argument, or the
// environment, would be read by others.
func (m means) order(o order, p Profile) (*os.File, error) {
	o.Level, o.Landlock, o.UID, o.GID, o.Parent = m.level, m.landlock, os.Geteuid(), os.Getegid(), os.Getpid()
	from, err := filepath.EvalSymlinks(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	o.Paths = append(visible(p), path{At: o.Dir, From: from, Kind: private})
	slices.SortStableFunc(o.Paths, func(a, b path) int { return strings.Compare(a.At, b.At) }) // a folder before what is in it
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	fd, err := unix.MemfdCreate("order", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	f := os.NewFile(uintptr(fd), "order")
	if _, err := bytes.NewReader(raw).WriteTo(f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	return f, nil
}

// Harden keeps processes of the same user from reading this one's memory, environment and open
// files in /proc, and from tracing it. It leaves no core files.
func Harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep others from reading this process: %w", err)
	}
	return nil
}

// kind names the operations that may be done with a path.
type kind string

const (
	readable kind = "readable" // and run
	private  kind = "private"  // all
	device   kind = "device"   // read and write
	link     kind = "link"     // a symbolic link, as it is
	process  kind = "process"  // /proc
)

// path is something that the process may see.
type path struct {
	At   string `json:"at"`   // for it
	From string `json:"from"` // where that leads to; the text of a link; empty: At
	Kind kind   `json:"kind"`
}

// system returns the paths that programs of any language need; those that do not exist are left
// out. Of /etc, which also holds keys and passwords, only what programs and libraries look up.
func system() []string {
	all := []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/nix/store", "/gnu/store"}
	for _, name := range []string{
		"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "alternatives", "localtime", "timezone", "locale.alias", "locale.conf", "os-release", "debian_version",
		"passwd", "group", "nsswitch.conf", "hosts", "host.conf", "resolv.conf", "gai.conf", "services", "protocols", "mime.types",
		"ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "ca-certificates", "pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/ca-trust", "crypto-policies", "terminfo",
	} {
		all = append(all, "/etc/"+name)
	}
	return all
}

// visible are the paths of a profile, without its private folder.
func visible(p Profile) []path {
	all := []path{{At: "/proc", Kind: process}}
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		all = append(all, path{At: "/dev/" + name, Kind: device})
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		all = append(all, path{At: "/dev/" + name, From: to, Kind: link})
	}
	for _, at := range append(system(), p.Read...) {
		at = filepath.Clean(at)
		to, err := filepath.EvalSymlinks(at)
		if err != nil {
			continue // it is not there, or not for this user
		}
		one := path{At: at, From: to, Kind: readable}
		if text, err := os.Readlink(at); err == nil && strings.Count(at, "/") == 1 { // /bin is a link to usr/bin
			one.From, one.Kind = text, link
		}
		all = append(all, one)
	}
	return all
}
