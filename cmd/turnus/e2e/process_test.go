//go:build linux

package e2e

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a condition may take on a loaded machine. Only a test that fails waits so
// long.
const patience = 3 * time.Minute

// process is a turnus process.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	exited chan struct{}
	out    *text
	err    *text
}

// text is the output of a process. Safe for concurrent use.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

// has reports whether the text holds all of these.
func (x *text) has(parts ...string) bool {
	s := x.String()
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

// start starts the binary with a home of its own. It is killed when the test ends.
func (l *lab) start(args ...string) *process {
	l.t.Helper()
	p := &process{t: l.t, exited: make(chan struct{}), out: &text{}, err: &text{}}
	line := slices.Concat(l.under, []string{cmp.Or(l.other, binary)}, args)
	p.cmd = exec.Command(line[0], line[1:]...)
	p.cmd.Dir = l.dir
	p.cmd.Env = slices.Concat(os.Environ(), []string{"HOME=" + l.dir, "TURNUS_STATE=" + filepath.Join(l.dir, "state"), "SSH_AUTH_SOCK=", "GORACE=halt_on_error=1 " + os.Getenv("GORACE")}, l.env)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.exited) }()
	l.t.Cleanup(func() {
		p.kill()
		if l.t.Failed() {
			l.t.Logf("%v: exit code %d\n%s", args, p.cmd.ProcessState.ExitCode(), tail(p.err.String()))
		}
		if strings.Contains(p.err.String(), "WARNING: DATA RACE") || strings.Contains(p.err.String(), "\npanic: ") {
			l.t.Errorf("%v:\n%s", args, p.err)
		}
	})
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatalf("signal %v: %v", s, err)
	}
}

// kill ends the process as a power cut would, and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// code waits for the end and returns the exit code.
func (p *process) code() int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.t.Fatalf("%v does not end; stderr:\n%s", p.cmd.Args, p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// wants checks the exit code.
func (p *process) wants(code int) {
	p.t.Helper()
	if got := p.code(); got != code {
		p.t.Fatalf("exit code %d, expected %d; stderr:\n%s\nstdout:\n%s", got, code, tail(p.err.String()), tail(p.out.String()))
	}
}

// peak is the largest resident memory, in MiB, of the process and of any plugin process that it
// had.
func (p *process) peak() int64 {
	return p.cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

// until polls a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited %v for %s", patience, what)
		case <-tick.C:
		}
	}
}
