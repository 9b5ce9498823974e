package testparts

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// readyTime bounds the start of a program on a loaded machine.
const readyTime = time.Minute

// Process is a program that a test started. Safe for concurrent use.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	once   sync.Once

	mu  sync.Mutex // guards log
	log []byte
}

// Run starts a program, which is killed when the test ends. Its output, on stdout or stderr, is its
// log.
func Run(tb testing.TB, cmd *exec.Cmd) *Process {
	tb.Helper()
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = (*logOf)(p), (*logOf)(p)
	if err := cmd.Start(); err != nil {
		tb.Fatalf("start %s: %v", p.name(), err)
	}
	go func() { _ = cmd.Wait(); close(p.exited) }()
	tb.Cleanup(p.Stop)
	return p
}

// logOf takes what the program writes.
type logOf Process

func (l *logOf) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = append(l.log, b...)
	return len(b), nil
}

func (p *Process) name() string { return filepath.Base(p.cmd.Path) }

// Log is the output of the program so far.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.log)
}

// Wait calls ok again and again until it returns nil. The test fails with the last error of ok, and
// with the log, when that takes more than a minute or the program ends.
func (p *Process) Wait(tb testing.TB, what string, ok func() error) {
	tb.Helper()
	limit := time.NewTimer(readyTime)
	defer limit.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-p.exited:
			tb.Fatalf("%s has ended, waited for %s: %v\n%s", p.name(), what, err, p.Log())
		case <-limit.C:
			tb.Fatalf("%s: waited %v for %s: %v\n%s", p.name(), readyTime, what, err, p.Log())
		}
	}
}

// Stop kills the program, as a crash would, and waits for its end. It may be called twice.
func (p *Process) Stop() {
	p.once.Do(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
	})
}

// Interrupt types Ctrl-C, waits for the program's end, and returns its exit code.
func (p *Process) Interrupt(tb testing.TB) int {
	tb.Helper()
	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.exited:
	case <-time.After(readyTime):
		tb.Fatalf("%s: it does not end within %v of Ctrl-C\n%s", p.name(), readyTime, p.Log())
	}
	return p.cmd.ProcessState.ExitCode()
}
