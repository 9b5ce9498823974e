//go:build linux

package chaos

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
)

// How long it continues, and by which plan. `make chaos` sets them.
var (
	minutes = flag.Float64("chaos.minutes", 0, "how long faults are made; 0 is the short form of make test-labs")
	seed    = flag.Uint64("chaos.seed", 0, "which faults come when; 0 draws one")
	only    = flag.String("chaos.only", "", "kinds of faults, separated by commas; all when empty")
	variant = flag.String("chaos.ledger", "", "postgres or sqlite; both, one after the other, when empty")
	keep    = flag.String("chaos.keep", "", "folder to copy the logs of hosts and processes to")
)

// patience bounds what only a hang reaches.
const patience = 3 * time.Minute

// The program under test, its plugin, and the library that shifts a clock.
type built struct{ turnus, plugins, leap string }

// base is the folder of what build makes. TestMain sets it before any test runs.
var base string

// build makes them once for all tests.
var build = sync.OnceValues(func() (*built, error) {
	dir := base
	b := &built{turnus: filepath.Join(dir, "turnus"), plugins: filepath.Join(dir, "plugins"), leap: filepath.Join(dir, "leap.so")}
	sdk, err := filepath.Abs("../../../../plugins/sdk")
	if err != nil {
		return b, err
	}
	source, folder := filepath.Join(dir, "source"), filepath.Join(b.plugins, "chaos", "1.0.0")
	mod := "module example.org/chaos\n\ngo 1.26.0\n\nrequire github.com/turnus/turnus/plugins/sdk v0.0.0\n\nreplace github.com/turnus/turnus/plugins/sdk => " + sdk + "\n"
	for _, d := range []string{source, folder} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return b, err
		}
	}
	if err := os.WriteFile(filepath.Join(source, "go.mod"), []byte(mod), 0o600); err != nil {
		return b, err
	}
	for to, from := range map[string]string{"main.go": "testdata/oracle/main.go", "go.sum": filepath.Join(sdk, "go.sum")} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(source, to), text, 0o600)
		}
		if err != nil {
			return b, err
		}
	}
	for _, c := range []struct {
		dir  string
		env  []string
		line []string
	}{
		{".", testparts.Shipped(), []string{"go", "build", "-ldflags=-s -w", "-o", b.turnus, "github.com/turnus/turnus/cmd/turnus"}},
		{source, append(testparts.Shipped("-mod=mod"), "GOWORK=off"), []string{"go", "build", "-o", filepath.Join(folder, "plugin"), "."}},
		{".", os.Environ(), []string{"gcc", "-shared", "-fPIC", "-O1", "-o", b.leap, "testdata/leap.c"}},
	} {
		cmd := exec.Command(c.line[0], c.line[1:]...)
		cmd.Dir, cmd.Env = c.dir, c.env
		if out, err := cmd.CombinedOutput(); err != nil {
			return b, fmt.Errorf("%v: %w\n%s", c.line, err, out)
		}
	}
	return b, nil
})

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "turnus-chaos-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	base = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// process is a program that the cluster started. Safe for concurrent use.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}

	mu  sync.Mutex
	log bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// start starts a program that ends with the test.
func start(t *testing.T, env []string, line ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(line[0], line[1:]...), exited: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %v: %v", line, err)
	}
	go func() { _ = p.cmd.Wait(); close(p.exited) }()
	t.Cleanup(p.kill)
	return p
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill ends the process as a power cut would, and waits for it. It may be called twice.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// until polls a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
		pass(20 * time.Millisecond)
	}
}
