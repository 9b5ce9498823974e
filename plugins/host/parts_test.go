package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/plugins/host/sandbox"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "lab" {
		labMain(os.Args[2])
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "worker" {
		workerMain(sandbox.Mode(os.Args[2]))
		return
	}
	goleak.VerifyTestMain(m)
}

// fleet is a reach whose hosts do what a test sets; by default every command prints its host's
// name.
type fleet struct {
	run  func(ctx context.Context, h core.Host, e transport.Exec) (transport.Exit, error)
	put  func(ctx context.Context, h core.Host, put transport.Put, data io.Reader) (transport.Written, error)
	get  func(ctx context.Context, h core.Host, path string, w io.Writer) (transport.FileInfo, error)
	dial func(ctx context.Context, h core.Host, address string) (net.Conn, error)

	ready func()
}

func (f *fleet) Run(ctx context.Context, h core.Host, e transport.Exec) (transport.Exit, error) {
	if f.run != nil {
		return f.run(ctx, h, e)
	}
	_, err := io.WriteString(e.Stdout, h.Name)
	return transport.Exit{}, err
}

func (f *fleet) Put(ctx context.Context, h core.Host, put transport.Put, data io.Reader) (transport.Written, error) {
	if f.put != nil {
		return f.put(ctx, h, put, data)
	}
	n, err := io.Copy(io.Discard, data)
	return transport.Written{Size: n}, err
}

func (f *fleet) Get(ctx context.Context, h core.Host, path string, _ core.Become, _ int64, w io.Writer) (transport.FileInfo, error) {
	if f.get != nil {
		return f.get(ctx, h, path, w)
	}
	n, err := io.WriteString(w, "content of "+path)
	return transport.FileInfo{Size: int64(n)}, err
}

func (f *fleet) Dial(ctx context.Context, h core.Host, address string) (net.Conn, error) {
	if f.dial != nil {
		return f.dial(ctx, h, address)
	}
	near, far := net.Pipe()
	go func() {
		defer func() { _ = far.Close() }()
		b := make([]byte, 64)
		n, _ := far.Read(b)
		_, _ = far.Write(bytes.ToUpper(b[:n]))
	}()
	return near, nil
}

func (f *fleet) Probe(context.Context, core.Host) error { return nil }

func (f *fleet) Ready(context.Context, core.Host) error {
	if f.ready != nil {
		f.ready()
	}
	return nil
}

// logs is a log that tests can read.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logs) has(s string) func() bool {
	return func() bool { return strings.Contains(l.String(), s) }
}

// bench is a supervisor with one lab, and its log.
type bench struct {
	*Supervisor
	log  *logs
	tree bool // its processes have process trees, and numbers, of their own
}

func (b *bench) pool() *pool { return b.pools["lab"] }

type option func(*Config, *Manifest, *[]string)

func mode(m string) option { return func(_ *Config, _ *Manifest, a *[]string) { (*a)[2] = m } }

func concurrency(n int) option {
	return func(_ *Config, m *Manifest, _ *[]string) { m.Concurrency = n }
}

func config(f func(*Config)) option { return func(c *Config, _ *Manifest, _ *[]string) { f(c) } }

// confining is the sandbox of tests: what the machine can, as for workers.
var confining = sync.OnceValues(func() (*sandbox.Sandbox, error) { return sandbox.New(sandbox.Config{Mode: sandbox.Auto}) })

// bare is without a sandbox.
func bare() option { return config(func(c *Config) { c.Sandbox = nil }) }

// allowed gives the lab more than the sandbox does.
func allowed(a Allow) option { return config(func(c *Config) { c.Allow = map[string]Allow{"lab": a} }) }

// deadline bounds what would hang when the code is wrong; no test waits for it.
const deadline = 60 * time.Second

// processes returns the processes of the lab once there are n.
func (b *bench) processes(t *testing.T, n int) (live []*process) {
	t.Helper()
	p := b.pool()
	until(t, "the processes", func() bool { p.mu.Lock(); defer p.mu.Unlock(); live = slices.Clone(p.live); return len(live) == n })
	return live
}

func self(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// open makes a supervisor with a lab over the fleet; the end of the test stops it and checks for
// orphans.
func open(t testing.TB, r reach, opts ...option) *bench {
	t.Helper()
	log := &logs{}
	box, err := confining()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Sandbox: box, Grace: 2 * time.Second, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	m, argv := labManifest(), []string{self(t), "lab", "good"}
	for _, o := range opts {
		o(&cfg, &m, &argv)
	}
	cfg.Builtins = append(cfg.Builtins, Plugin{Argv: argv, Manifest: m, Allow: cfg.Allow["lab"]})
	cfg.Allow = nil
	s, err := newSupervisor(cfg, r)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Supervisor: s, log: log, tree: cfg.Sandbox.Tree()}
	b.pool().restart.backoff.Interval = time.Millisecond
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("Stop: %v", err)
		}
		if t.Failed() {
			text := log.String()
			t.Log("log:\n" + text[:min(len(text), 8000)])
		}
	})
	return b
}

func call(job string, p labParams) Call {
	raw, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return Call{
		Job: core.JobID{Run: "r1", Index: 7}, Step: "s", Attempt: 1, Type: "lab." + job, Params: raw,
		Host: core.Host{Name: "fw1", Labels: map[string]string{"role": "firewall"}},
	}
}

// must runs a call that is expected to end well, and returns its outputs.
func (b *bench) must(t testing.TB, c Call) map[string]any {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	out, err := b.Run(ctx, c)
	if err != nil || out.Failed || out.Cancelled {
		t.Fatalf("%s: %+v, %v; expected a good end", c.Type, out, err)
	}
	b.renumber(t, out.Outputs)
	return out.Outputs
}

// renumber puts the number that a process has here in the place of the one that it has in its own
// tree.
func (b *bench) renumber(t testing.TB, outputs map[string]any) {
	t.Helper()
	inner, ok := outputs["pid"]
	if _, bench := t.(*testing.B); !ok || !b.tree || bench {
		return
	}
	all, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, status := range all {
		raw, _ := os.ReadFile(status)
		_, rest, _ := strings.Cut(string(raw), "NSpid:")
		line, _, _ := strings.Cut(rest, "\n")
		numbers := strings.Fields(line)
		tree, _ := os.Readlink(filepath.Join(filepath.Dir(status), "ns", "pid"))
		if len(numbers) < 2 || numbers[len(numbers)-1] != fmt.Sprint(inner) || tree != outputs["tree"] {
			continue
		}
		pid := filepath.Base(filepath.Dir(status))
		outputs["pid"], outputs["inner"] = pid, inner
		if _, number := inner.(float64); number {
			n, _ := strconv.Atoi(pid)
			outputs["pid"] = float64(n)
		}
		return
	}
	t.Fatalf("process %v of a plugin is not found", inner)
}

// until waits for a condition.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(deadline)
	for !cond() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never happened: %s", what)
		}
	}
}

// workerMain is a worker that starts a lab, prints its process number, and waits to be killed.
func workerMain(mode sandbox.Mode) {
	exe, err := os.Executable()
	var box *sandbox.Sandbox
	if err == nil {
		box, err = sandbox.New(sandbox.Config{Mode: mode})
	}
	if err == nil {
		var s *Supervisor
		if s, err = newSupervisor(Config{Sandbox: box, Builtins: []Plugin{{Argv: []string{exe, "lab", "stubborn"}, Manifest: labManifest()}}}, &fleet{}); err == nil {
			_, err = s.Run(context.Background(), call("echo", labParams{}))
			fmt.Println(s.pools["lab"].live[0].child.pid)
		}
	}
	if err != nil {
		fmt.Println(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// freeze stops a process, and returns when all of it stands still.
func freeze(pid int) {
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); runtime.GOOS == "linux" && time.Since(begin) < deadline; <-tick.C {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(stat), ") T ") {
			return
		}
	}
}

func (l *lab) exec(ctx context.Context, p labParams) (string, error) {
	s, err := l.hosts.Exec(ctx)
	if err != nil {
		return "", err
	}
	_ = s.Send(&wire.ExecRequest{Message: &wire.ExecRequest_Start{Start: &wire.ExecStart{Host: p.Host, Command: "cat", Stdin: true, ReadOnly: p.RO}}})
	_ = s.Send(&wire.ExecRequest{Message: &wire.ExecRequest_Stdin{Stdin: []byte(p.Text)}})
	_ = s.Send(&wire.ExecRequest{Message: &wire.ExecRequest_Eof{Eof: true}})
	var b strings.Builder
	for {
		m, err := s.Recv()
		if err != nil {
			return b.String(), err
		}
		b.Write(m.GetOutput().GetStdout())
		if m.GetExit() != nil {
			return fmt.Sprintf("%s exit %d", b.String(), m.GetExit().GetCode()), nil
		}
	}
}
