package host

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "lab" {
		labMain(os.Args[2])
		return
	}
	goleak.VerifyTestMain(m)
}

// fleet is a reach whose hosts do what a test says; by default every command prints its host's name.
type fleet struct {
	run  func(ctx context.Context, h core.Host, e transport.Exec) (transport.Exit, error)
	put  func(ctx context.Context, h core.Host, put transport.Put, data io.Reader) (transport.Written, error)
	get  func(ctx context.Context, h core.Host, path string, w io.Writer) (transport.FileInfo, error)
	dial func(ctx context.Context, h core.Host, address string) (net.Conn, error)
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

func (f *fleet) Get(ctx context.Context, h core.Host, path string, _ int64, w io.Writer) (transport.FileInfo, error) {
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
	log *logs
}

func (b *bench) pool() *pool { return b.pools["lab"] }

type option func(*Config, *Manifest, *[]string)

func mode(m string) option { return func(_ *Config, _ *Manifest, a *[]string) { (*a)[2] = m } }

func concurrency(n int) option {
	return func(_ *Config, m *Manifest, _ *[]string) { m.Concurrency = n }
}

func config(f func(*Config)) option { return func(c *Config, _ *Manifest, _ *[]string) { f(c) } }

// deadline bounds what would hang when the code is wrong; no test waits for it.
const deadline = 60 * time.Second

func self(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// open makes a supervisor with a lab over the fleet; the end of the test stops it and checks for orphans.
func open(t testing.TB, r reach, opts ...option) *bench {
	t.Helper()
	log := &logs{}
	cfg := Config{Grace: 2 * time.Second, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	m, argv := labManifest(), []string{self(t), "lab", "good"}
	for _, o := range opts {
		o(&cfg, &m, &argv)
	}
	cfg.Builtins = append(cfg.Builtins, Plugin{Argv: argv, Manifest: m})
	s, err := newSupervisor(cfg, r)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Supervisor: s, log: log}
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
		Host: core.Host{Name: "fw1", Labels: map[string]string{"role": "firewall"}}, Also: []core.Host{{Name: "fw2"}},
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
	return out.Outputs
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
