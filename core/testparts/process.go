package testparts

import (
	"math/rand/v2"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
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

// Run starts a program, which is killed when the test ends. What it writes, to stdout or stderr, is its log.
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

// Log is what the program has written so far.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.log)
}

// Wait looks again and again until ok says nil. The test fails with what ok said last, and with the log, when that takes more than a minute or
// the program ends.
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

// FreePort is one of 127.0.0.1, see FreePortOf.
func FreePort(tb testing.TB) int {
	tb.Helper()
	return FreePortOf(tb, "127.0.0.1")
}

// FreePortOf is a port of an address of this machine that is the test's own until it ends: its server may start on it, stop, and start again.
// It lies below those that kernels give to whoever asks for any, and who asks here gets no port of another test that runs.
func FreePortOf(tb testing.TB, ip string) int {
	tb.Helper()
	var err error
	for range 100 {
		port := 10_000 + rand.IntN(22_000) //nolint:gosec // no secret
		if err = hold(tb, ip, port); err == nil {
			return port
		}
	}
	tb.Fatalf("no free port of %s in 100 tries: %v", ip, err)
	return 0
}

// hold keeps a port on which nobody listens from other tests until this one ends: as a name that one process at a time may have.
func hold(tb testing.TB, ip string, port int) error {
	tb.Helper()
	release, err := claim("port-" + strconv.Itoa(port))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port))) //nolint:noctx // returns at once
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		release()
		return err
	}
	tb.Cleanup(release)
	return nil
}

// Claim makes a name the test's own until it ends, among all tests that run on this machine. An error says that another has it.
func Claim(tb testing.TB, name string) error {
	tb.Helper()
	release, err := claim(name)
	if err == nil {
		tb.Cleanup(release)
	}
	return err
}

func claim(name string) (release func(), err error) {
	if runtime.GOOS != "linux" { // such a name would be a file
		return func() {}, nil
	}
	l, err := net.Listen("unix", "@turnus-test-"+name) //nolint:noctx // returns at once
	if err != nil {
		return nil, err
	}
	return func() { _ = l.Close() }, nil
}
