package plugintest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/turnus/turnus/plugins/sdk/shell"
	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/wire/wirerpc"
)

// Call is one command that reached a host. The command that validates an upload has the path of the
// new file in the variable f: visudo -cf %s comes as visudo -cf "$f".
type Call struct {
	Command  string
	Env      map[string]string
	Secrets  map[string]string // values of the variables that are secrets of the step, which are also in its environment
	Stdin    string
	ReadOnly bool
	Fresh    bool

	dir string // where it runs, "" for the folder of the test
}

// Reply is the output and the exit code of a command.
type Reply struct {
	Stdout, Stderr string
	Code           int
	Signal         string
	Err            error // instead: the call itself fails, as by Unreachable()
}

// Handler answers commands.
type Handler func(ctx context.Context, c Call) Reply

// Unreachable is the error of a host that cannot be reached; before reports that nothing was sent
// to it.
func Unreachable(host string, before bool) error {
	down := wirerpc.Errorf(wirerpc.CodeUnavailable, "%s: dial: connection refused", host)
	down.Fault = &wire.HostFault{Host: host, Op: "dial", Before: before}
	return down
}

// File is a file of a scripted host.
type File struct {
	Content string
	Mode    uint32
	Owner   string
}

type rule struct {
	pattern string
	handler Handler
}

// Host is a scripted host. Commands go to the first rule that fits, then to the
// handler, and fail with 127 where there is none. Safe for concurrent use.
type Host struct {
	name string

	mu       sync.Mutex
	rules    []rule
	fallback Handler
	local    bool
	files    map[string]File
	calls    []Call
	probes   int
	onProbe  func(n int) error
	dials    map[string]func(net.Conn)
	down     error
}

// On answers the commands that match pattern, in which * is any text ("uptime", "systemctl *"). The
// rule that was made first goes first.
func (h *Host) On(pattern string, reply Reply) *Host {
	return h.OnFunc(pattern, func(context.Context, Call) Reply { return reply })
}

// OnFunc is On with a function.
func (h *Host) OnFunc(pattern string, handler Handler) *Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rules = append(h.rules, rule{pattern, handler})
	return h
}

// Handle answers commands without a rule.
func (h *Host) Handle(handler Handler) *Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fallback = handler
	return h
}

// Local makes the host this machine: commands that no rule answers run in /bin/sh, and files
// are real ones. For tests that work in a temporary folder.
func (h *Host) Local() *Host {
	h.mu.Lock()
	h.local = true
	h.mu.Unlock()
	return h.Handle(Shell)
}

// Put writes a file of the host.
func (h *Host) Put(path string, f File) *Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.files[path] = f
	return h
}

// File reads a file of the host.
func (h *Host) File(path string) (File, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, ok := h.files[path]
	return f, ok
}

// Listen answers connections from the host to address; others are refused.
func (h *Host) Listen(address string, serve func(net.Conn)) *Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dials[address] = serve
	return h
}

// OnProbe answers the n-th probe, from 1. Without it every probe works.
func (h *Host) OnProbe(answer func(n int) error) *Host {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.onProbe = answer
	return h
}

// Down makes every call fail with err, as Unreachable(name, true); nil ends it.
func (h *Host) Down(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down = err
}

// Calls lists the commands that reached the host, in order.
func (h *Host) Calls() []Call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.calls)
}

func (h *Host) reachable() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down
}

func (h *Host) handlerOf(c Call) (Handler, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down != nil {
		return nil, h.down
	}
	h.calls = append(h.calls, c)
	for _, r := range h.rules {
		if matches(r.pattern, c.Command) {
			return r.handler, nil
		}
	}
	return h.fallback, nil
}

func (h *Host) answer(ctx context.Context, c Call) (Reply, error) {
	handler, err := h.handlerOf(c)
	if err != nil {
		return Reply{}, err
	}
	if handler == nil {
		return Reply{Code: 127, Stderr: "plugintest: no rule for this command: " + c.Command + "\n"}, nil
	}
	reply := handler(ctx, c)
	return reply, reply.Err
}

// matches is a glob of * alone.
func matches(pattern, text string) bool {
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '*' {
			if text == "" || text[0] != pattern[i] {
				return false
			}
			text = text[1:]
			continue
		}
		for cut := 0; cut <= len(text); cut++ {
			if matches(pattern[i+1:], text[cut:]) {
				return true
			}
		}
		return false
	}
	return text == ""
}

// Shell is a Handler that runs commands in /bin/sh of this machine.
func Shell(ctx context.Context, c Call) Reply { return inShell(ctx, c, nil) }

// ShellAs is Shell as another user, without further groups and in the folder /. The test must be
// root.
func ShellAs(uid, gid uint32) Handler {
	return func(ctx context.Context, c Call) Reply {
		return inShell(ctx, c, &syscall.Credential{Uid: uid, Gid: gid})
	}
}

func inShell(ctx context.Context, c Call, as *syscall.Credential) Reply {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", c.Command) //nolint:gosec // a test host runs what its test says
	cmd.Env = os.Environ()
	for _, env := range []map[string]string{c.Env, c.Secrets} {
		for _, k := range slices.Sorted(maps.Keys(env)) {
			cmd.Env = append(cmd.Env, k+"="+env[k])
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader([]byte(c.Stdin)), &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: as}
	cmd.Dir = c.dir
	if as != nil {
		cmd.Dir = "/"
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	reply := Reply{Stdout: stdout.String(), Stderr: stderr.String()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		reply.Err = ctx.Err()
	case errors.As(err, &exit):
		reply.Code = exit.ExitCode()
		if reply.Code < 0 {
			reply.Code, reply.Signal = 128, "KILL"
		}
	case err != nil:
		reply.Err = err
	}
	return reply
}

// write stores a file as the worker's Put does.
func (h *Host) write(ctx context.Context, p *wire.PutStart, content []byte) error {
	h.mu.Lock()
	local, down := h.local, h.down
	h.mu.Unlock()
	switch {
	case down != nil:
		return down
	case local:
		return h.writeLocally(ctx, p, content)
	}
	file, part := h.newFile(p, content), p.GetPath()+".part"
	if p.GetValidate() != "" {
		defer h.remove(part)
		if err := h.Put(part, file).validate(ctx, p, part); err != nil {
			return err
		}
		if now, _ := h.File(part); now != file {
			return verification(p)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if old, ok := h.files[p.GetPath()]; ok && p.GetBackup() != "" {
		h.files[p.GetPath()+p.GetBackup()] = old
	}
	h.files[p.GetPath()] = file
	return nil
}

// newFile has the mode and the owner of the old one, if the upload gives no others.
func (h *Host) newFile(p *wire.PutStart, content []byte) File {
	old, _ := h.File(p.GetPath())
	mode := p.GetMode()
	if mode == 0 {
		mode = 0o644
		if old.Mode != 0 {
			mode = old.Mode
		}
	}
	return File{Content: string(content), Mode: mode, Owner: cmp.Or(p.GetOwner(), old.Owner)}
}

func (h *Host) remove(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.files, path)
}

// validate runs the command that checks the new file, as the worker's Put does.
func (h *Host) validate(ctx context.Context, p *wire.PutStart, part string) error {
	if p.GetValidate() == "" {
		return nil
	}
	if strings.ContainsAny(p.GetValidate(), "\x00\r\n") {
		return fault(wirerpc.CodeInvalidArgument, "validate command %q: expected one line", p.GetValidate())
	}
	reply, err := h.answer(ctx, Call{Command: shell.ValidateCommand(p.GetValidate()), Env: map[string]string{"f": part}, dir: "/"})
	if err != nil || reply.Code == 0 {
		return err
	}
	why := strings.ReplaceAll(strings.TrimRight(reply.Stdout+reply.Stderr, "\n"), "\n", " ")
	return fault(wirerpc.CodeUnknown, "%s: the validate command refused the new file, nothing was written: %s", p.GetPath(), why)
}

func verification(p *wire.PutStart) error {
	return fault(wirerpc.CodeUnknown, "%s: verification failed: the validate command changed the new file; nothing was replaced", p.GetPath())
}

func (h *Host) writeLocally(ctx context.Context, p *wire.PutStart, content []byte) error {
	path, mode := p.GetPath(), fileMode(p.GetMode())
	if mode == 0 {
		mode = 0o644
		if old, err := os.Lstat(path); err == nil && old.Mode().IsRegular() {
			mode = old.Mode().Perm()
		}
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".part-*") // with what the validate command leaves there
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	part := filepath.Join(dir, "new")
	if err = os.WriteFile(part, content, 0o600); err == nil {
		err = os.Chmod(part, mode)
	}
	if err != nil {
		return err
	}
	if err := h.validate(ctx, p, part); err != nil {
		return err
	}
	if now, err := os.ReadFile(part); p.GetValidate() != "" && (err != nil || !bytes.Equal(now, content)) {
		return verification(p)
	}
	if p.GetBackup() != "" {
		old, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path+p.GetBackup(), old, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Rename(part, path)
}

// fileMode has setuid, setgid and sticky where Go expects them.
func fileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}

func (h *Host) read(path string) ([]byte, uint32, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.down != nil {
		return nil, 0, h.down
	}
	if h.local {
		info, err := os.Stat(path)
		if err != nil {
			return nil, 0, notFound(err)
		}
		content, err := os.ReadFile(path)
		return content, uint32(info.Mode().Perm()), notFound(err)
	}
	f, ok := h.files[path]
	if !ok {
		return nil, 0, fault(wirerpc.CodeNotFound, "%s: no such file", path)
	}
	return []byte(f.Content), f.Mode, nil
}

func notFound(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return wirerpc.Errorf(wirerpc.CodeNotFound, "%w", err)
	}
	return err
}

func (h *Host) probe() error {
	h.mu.Lock()
	h.probes++
	n, answer, down := h.probes, h.onProbe, h.down
	h.mu.Unlock()
	if down != nil || answer == nil {
		return down
	}
	return answer(n)
}

// dial connects to a scripted listener, or to the real address of a local host.
func (h *Host) dial(ctx context.Context, address string) (io.ReadWriteCloser, <-chan struct{}, error) {
	h.mu.Lock()
	serve, local, down := h.dials[address], h.local, h.down
	h.mu.Unlock()
	done := make(chan struct{})
	switch {
	case down != nil:
		return nil, nil, down
	case serve != nil:
		ours, theirs := net.Pipe()
		go func() {
			defer close(done)
			defer func() { _ = theirs.Close() }()
			serve(theirs)
		}()
		return ours, done, nil
	case local:
		close(done)
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, nil, fault(wirerpc.CodeAborted, "%s: %v", address, err)
		}
		return conn, done, nil
	}
	return nil, nil, fault(wirerpc.CodeAborted, "%s: connection refused", address)
}
