package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host/sandbox"
)

const (
	maxNoise  = 64 << 10        // stdout bytes before the handshake that are forgiven
	pipeDrain = 2 * time.Second // for output still in the pipes after the group has ended: a log may be slow, and a machine busy
)

var handshakeLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d{1,3}\|\d{1,6}\|(unix|tcp)\|`) })

// child is one plugin process: go-plugin's runner.Runner, but stricter. go-plugin sees exactly one
// line of stdout and none of stderr, so nothing that a plugin prints can stop or panic it. Its Kill
// is the kill of the whole process group.
type child struct {
	argv []string
	env  []string // in place of the worker's; go-plugin's variables are added
	want string   // sha256 of the program; empty: any
	dir  string   // the process's private folder, also its working directory

	sandbox *sandbox.Sandbox // nil: the process has all rights of this user
	profile sandbox.Profile

	stdout, stderr *lines

	line    *io.PipeReader // the handshake line, for go-plugin
	lineOut *io.PipeWriter

	mu      sync.Mutex
	aborted bool
	pid     int

	shook  bool          // the handshake line came
	speaks int           // the protocol that it names
	noise  string        // first line before the handshake, when there was too much of it
	exited chan struct{} // closed when the process is reaped and its group has ended
	how    string        // "exit status 3"; read after exited
	wg     sync.WaitGroup
}

var _ runner.Runner = (*child)(nil)

func newChild(plugin *Plugin, env []string, dir string, box *sandbox.Sandbox, log *slog.Logger) *child {
	c := &child{
		argv: plugin.Argv, env: env, want: plugin.SHA256, dir: dir, exited: make(chan struct{}),
		sandbox: box, profile: plugin.profile(dir),
	}
	c.stdout, c.stderr = newLines(log, "stdout", c.exited), newLines(log, "stderr", c.exited)
	c.line, c.lineOut = io.Pipe()
	return c
}

// Start implements runner.Runner. A Kill before it makes it fail.
func (c *child) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.aborted || ctx.Err() != nil {
		return errors.New("the start was cancelled")
	}
	program, err := openProgram(c.argv[0], c.want)
	if err != nil {
		return err
	}
	defer func() { _ = program.Close() }()
	confined, err := c.sandbox.Confine(program, c.argv, c.env, c.profile)
	if err != nil {
		return err
	}
	defer func() { _ = confined.Close() }()
	outR, outW, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("stdout: %w", err)
	}
	defer func() { _ = outW.Close() }()
	errR, errW, err := os.Pipe()
	if err != nil {
		_ = outR.Close()
		return fmt.Errorf("stderr: %w", err)
	}
	defer func() { _ = errW.Close() }()

	command := func() *exec.Cmd {
		var cmd *exec.Cmd // whose stdin stays nil: /dev/null
		if confined != nil {
			cmd = confined.Command()
		} else {
			cmd = execFile(program, c.argv)
			cmd.Env = c.env
			isolate(cmd)
		}
		cmd.Dir = c.dir
		cmd.Stdout, cmd.Stderr = outW, errW // files, so that Wait never waits for a copy
		return cmd
	}
	started := make(chan error, 1)
	c.wg.Go(func() { c.own(command, started, outR, errR) })
	if err := <-started; err != nil {
		_, _ = outR.Close(), errR.Close()
		return fmt.Errorf("start %s: %w", c.argv[0], err)
	}
	c.wg.Go(func() { c.readStdout(outR) })
	c.wg.Go(func() { defer errR.Close(); _, _ = io.Copy(c.stderr, errR); c.stderr.flush() })
	return nil
}

// own starts the process and reaps it on one locked thread: the kernel sends the
// parent-death signal when the thread that started a child ends, not when the
// process does (golang/go#27505).
func (c *child) own(command func() *exec.Cmd, started chan<- error, pipes ...*os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := command()
	err := cmd.Start()
	for i := 0; i < 20 && errors.Is(err, syscall.ETXTBSY); i++ {
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // 20 times at most: a fork elsewhere holds a fresh binary open for writing (golang/go#22315)
		cmd = command()
		err = cmd.Start()
	}
	if err == nil {
		c.pid = cmd.Process.Pid // Start holds the lock
		noCore(c.pid)
	}
	started <- err
	if err != nil {
		return
	}
	awaitExit(cmd)
	c.mu.Lock() // no signal between the reaping and the end of exited
	defer c.mu.Unlock()
	killGroup(cmd.Process.Pid, syscall.SIGKILL) // before the reaping: after it the number may be somebody else's
	_ = cmd.Wait()
	c.how = howEnded(cmd.ProcessState, c.sandbox.Tree())
	// Only a descendant that left the group can still hold the pipes. It is not waited for.
	for _, p := range pipes {
		_ = p.SetReadDeadline(time.Now().Add(pipeDrain))
	}
	close(c.exited)
}

// howEnded returns how a process ended. Of one with a process tree of its own, the first of the
// tree reports it.
func howEnded(state *os.ProcessState, tree bool) string {
	if n := state.ExitCode() - 128; tree && n > 0 {
		return "signal: " + syscall.Signal(n).String()
	}
	return state.String()
}

// readStdout hands the handshake line to go-plugin, and everything else to the log.
func (c *child) readStdout(r *os.File) {
	defer func() { _ = r.Close() }()
	defer func() { _ = c.lineOut.Close() }()
	br := bufio.NewReaderSize(r, maxNoise)
	for noise := 0; noise < maxNoise; {
		line, more, err := br.ReadLine()
		if err != nil {
			return
		}
		if !more && handshakeLine().Match(line) {
			c.mu.Lock()
			c.shook = true
			fields := strings.SplitN(string(line), "|", 6)
			c.speaks, _ = strconv.Atoi(fields[1]) // digits, by handshakeLine
			c.mu.Unlock()
			// A sixth field is a certificate: go-plugin panics on one that it did not ask for.
			_, _ = fmt.Fprintln(c.lineOut, strings.Join(fields[:min(len(fields), 5)], "|"))
			_ = c.lineOut.Close()
			break
		}
		if c.setNoise(line); noise+len(line)+1 >= maxNoise {
			_ = c.lineOut.Close() // go-plugin ends immediately
		}
		noise += len(line) + 1
		_, _ = c.stdout.Write(append(line, '\n'))
	}
	_, _ = io.Copy(c.stdout, br)
	c.stdout.flush()
}

func (c *child) setNoise(line []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noise == "" {
		c.noise = string(line[:min(len(line), 200)])
	}
}

// signal sends sig to the whole group, unless it is known to have ended.
func (c *child) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.exited:
	default:
		if c.pid != 0 {
			killGroup(c.pid, sig)
		}
	}
}

// Kill implements runner.Runner: SIGKILL to the group, then wait until it is reaped.
func (c *child) Kill(context.Context) error {
	c.mu.Lock()
	c.aborted = true
	started := c.pid != 0
	c.mu.Unlock()
	if !started {
		return nil
	}
	c.signal(syscall.SIGKILL)
	<-c.exited
	return nil
}

// terminate ends the group: TERM, and KILL after grace.
func (c *child) terminate(grace time.Duration) {
	c.signal(syscall.SIGTERM)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-c.exited:
	case <-t.C:
		_ = c.Kill(context.Background())
	}
}

// Wait implements runner.Runner.
func (c *child) Wait(context.Context) error {
	<-c.exited
	return nil
}

// PluginToHost implements runner.Runner: a plugin listens in its own folder, or not at all. The
// folder is the plugin's: what stands there by the socket's name may be a link to somebody else's
// socket, and be exchanged at any time. The socket is opened once, without following links, and the
// worker connects to that.
func (c *child) PluginToHost(network, addr string) (string, string, error) {
	rel, err := filepath.Rel(c.dir, addr)
	if network != "unix" || err != nil || !filepath.IsLocal(rel) {
		return "", "", fmt.Errorf("plugin listens on %s %s; expected a Unix socket in the folder of PLUGIN_UNIX_SOCKET_DIR", network, addr)
	}
	socket, path, err := openSocket(c.dir, rel)
	if err != nil {
		return "", "", fmt.Errorf("plugin listens on %s: %w; expected a Unix socket, not a link to one", addr, err)
	}
	c.wg.Go(func() { // for as long as go-plugin may connect
		<-c.exited
		_ = socket.Close()
	})
	return network, path, nil
}

// isSocket takes the answer of a Stat.
func isSocket(info os.FileInfo, err error) error {
	if err == nil && info.Mode()&os.ModeSocket == 0 {
		err = errors.New("it is no socket")
	}
	return err
}

// HostToPlugin implements runner.Runner.
func (c *child) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}

// Stdout implements runner.Runner.
func (c *child) Stdout() io.ReadCloser { return c.line }

// Stderr implements runner.Runner. It is empty: go-plugin's reader panics on JSON
// lines whose @message, @level or @timestamp is not a string.
func (c *child) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name implements runner.Runner.
func (c *child) Name() string { return c.argv[0] }

// ID implements runner.Runner.
func (c *child) ID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strconv.Itoa(c.pid)
}

// group is the number of the process group; 0 before the start.
func (c *child) group() int { return core.Locked(&c.mu, &c.pid) }

// Diagnose implements runner.Runner. See [child.problem].
func (c *child) Diagnose(context.Context) string { return "" }

// protocol is the one that the handshake line names; 0 before it.
func (c *child) protocol() int { return core.Locked(&c.mu, &c.speaks) }

// problem returns why there was no handshake. Call it after Kill.
func (c *child) problem(killed bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var s strings.Builder
	switch {
	case c.pid == 0 || c.shook:
		return ""
	case c.noise != "":
		fmt.Fprintf(&s, "it wrote %q to stdout where the handshake was expected", c.noise)
	case killed:
		s.WriteString("no handshake in time")
	default:
		s.WriteString("it ended before the handshake: " + c.how)
	}
	if tail := c.stderr.last(); tail != "" {
		s.WriteString("; its last words: " + tail)
	}
	return s.String()
}
