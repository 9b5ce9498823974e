package plugintest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/wire/wirerpc"
)

// patience bounds a call whose test gives no deadline: a hung job type fails its
// test instead of the whole package.
const patience = 60 * time.Second

// Kit runs job types against scripted hosts. Safe for concurrent use.
type Kit struct {
	tb       testing.TB
	client   wirerpc.Plugin
	services *services
	types    []string
	death    *death
	work     *work

	mu       sync.Mutex
	calls    int
	patience time.Duration
	fake     bool
}

// New serves the job types. Run calls the first of them, unless [Type] selects another.
func New(tb testing.TB, defs ...sdk.Def) *Kit {
	tb.Helper()
	k := &Kit{tb: tb, services: newServices(), death: &death{seen: map[string][]string{}}, work: newWork(), patience: patience}
	for _, t := range sdk.Describe(defs...).Types {
		k.types = append(k.types, t.Name)
	}
	worker := wirerpc.NewHandler()
	worker.Intercept = k.death.intercept
	wirerpc.RegisterHosts(worker, k.services)
	wirerpc.RegisterJob(worker, k.services)
	plugin := sdk.NewServer(serve(tb, worker), defs...).Handler()
	k.client = wirerpc.Plugin{Client: serve(tb, k.work.counted(plugin))}
	return k
}

// serve starts a gRPC server in memory and returns a client of it; both end with the test.
func serve(tb testing.TB, handler http.Handler) *wirerpc.Client {
	tb.Helper()
	listener := &memory{conns: make(chan net.Conn), closed: make(chan struct{})}
	server, served := wirerpc.NewServer(handler), make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	client := wirerpc.NewClient(listener.dial)
	tb.Cleanup(func() {
		client.CloseIdleConnections()
		_ = server.Close()
		<-served
	})
	return client
}

// memory is a listener without a socket.
type memory struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (m *memory) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case m.conns <- theirs:
		return ours, nil
	case <-m.closed:
	case <-ctx.Done():
	}
	return nil, net.ErrClosed
}

// Accept implements [net.Listener].
func (m *memory) Accept() (net.Conn, error) {
	select {
	case conn := <-m.conns:
		return conn, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (m *memory) Close() error { m.once.Do(func() { close(m.closed) }); return nil }

// Addr implements [net.Listener].
func (m *memory) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// Host returns the host of that name, made on first use.
func (k *Kit) Host(name string) *Host { return k.services.host(name) }

// Secret makes the step list a secret, and gives it a value; others are refused.
func (k *Kit) Secret(name, value string) *Kit {
	k.services.mu.Lock()
	defer k.services.mu.Unlock()
	k.services.secrets[name] = value
	return k
}

// Artifact adds a file of the worker.
func (k *Kit) Artifact(name, content string) *Kit {
	k.services.mu.Lock()
	defer k.services.mu.Unlock()
	k.services.artifacts[name] = content
	return k
}

// Saved is the content of a file that SaveFile wrote.
func (k *Kit) Saved(name string) (string, bool) {
	k.services.mu.Lock()
	defer k.services.mu.Unlock()
	content, ok := k.services.saved[name]
	return content, ok
}

// Option changes one call.
type Option func(*call)

type call struct {
	ctx context.Context //nolint:containedctx // options carry it to Start
	req *wire.RunRequest

	window func(need time.Duration) string
}

// Type calls another job type than the first.
func Type(name string) Option { return func(c *call) { c.req.Type = name } }

// CheckMode changes nothing; differences are reported. No earlier step would change the host.
func CheckMode() Option {
	return func(c *call) { c.req.Check, c.req.Diff, c.req.Untouched = true, true, true }
}

// AfterChange is check mode behind a step that would change the host, see [sdk.Run.Lacks].
func AfterChange() Option {
	return func(c *call) { c.req.Check, c.req.Diff, c.req.Untouched = true, true, false }
}

// Attempt numbers the attempt, from 1.
func Attempt(n int) Option { return func(c *call) { c.req.Attempt = uint32(n) } }

// Key is the idempotency key, which is the same for all attempts of a step; "key-1" by default.
func Key(key string) Option { return func(c *call) { c.req.IdempotencyKey = key } }

// Labels are the host's labels.
func Labels(labels map[string]string) Option { return func(c *call) { c.req.HostLabels = labels } }

// Deadline ends the call after d.
func Deadline(d time.Duration) Option {
	return func(c *call) { c.req.DeadlineUnixMs = time.Now().Add(d).UnixMilli() }
}

// Resume hands the job type a state that an earlier call saved.
func Resume(s *State) Option {
	return func(c *call) {
		if s != nil {
			c.req.State = &wire.State{Version: uint32(s.Version), Json: s.JSON}
		}
	}
}

// Context ends the call as a broken connection to the worker does.
func Context(ctx context.Context) Option { return func(c *call) { c.ctx = ctx } }

// Run calls the job type and returns how it ended. params is anything that encodes to
// the JSON of a with:.
func (k *Kit) Run(params any, opts ...Option) *Result {
	k.tb.Helper()
	return k.Start(params, opts...).Wait()
}

// Check is Run in check mode, with differences.
func (k *Kit) Check(params any, opts ...Option) *Result {
	k.tb.Helper()
	return k.Run(params, append([]Option{CheckMode()}, opts...)...)
}

// Validate returns what is wrong with params, as "POINTER: SUMMARY" lines.
func (k *Kit) Validate(params any) []string {
	k.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := k.client.Validate(ctx, &wire.ValidateRequest{Type: k.types[0], Params: k.encode(params)})
	if err != nil {
		k.tb.Fatalf("Validate: %v", err)
	}
	return diagnostics(resp.GetDiagnostics())
}

func (k *Kit) encode(params any) []byte {
	k.tb.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		k.tb.Fatalf("params %v: %v", params, err)
	}
	return raw
}

// Running is a call under way.
type Running struct {
	kit    *Kit
	lease  string
	result chan *Result
	fault  chan error
}

// Start calls the job type and returns immediately. Wait must follow.
func (k *Kit) Start(params any, opts ...Option) *Running {
	k.tb.Helper()
	k.mu.Lock()
	k.calls++
	n, patience := k.calls, k.patience
	k.mu.Unlock()
	lease := fmt.Sprintf("lease-%d-%s", n, rand.Text()) // scripts end all processes of a lease, also those of other tests
	c := &call{ctx: context.Background(), req: &wire.RunRequest{
		Job: "20260102-030405-test/0", Step: "step", Attempt: 1, Lease: lease, Type: k.types[0],
		Params: k.encode(params), Host: k.services.first(), Diff: true, IdempotencyKey: "key-1", Fence: uint64(n),
	}}
	c.req.Secrets = k.services.secretNames()
	for _, o := range opts {
		o(c)
	}
	k.services.open(lease, c.req.GetCheck(), c.window)
	r := &Running{kit: k, lease: lease, result: make(chan *Result, 1), fault: make(chan error, 1)}
	go func() {
		ctx, cancel := context.WithTimeout(c.ctx, patience)
		defer cancel()
		result, err := collect(ctx, k.client, c.req)
		k.services.close(lease) // before Wait returns: what a test sees next is after the lease
		if err != nil {
			r.fault <- err
			return
		}
		result.Checkpoints = k.services.checkpoints(lease)
		r.result <- result
	}()
	return r
}

// Cancel asks the job to end, as an operator's cancel does.
func (r *Running) Cancel() {
	_, err := r.kit.client.Signal(context.Background(), &wire.SignalRequest{Kind: wire.SignalRequest_CANCEL, Lease: r.lease, GraceMs: 1000})
	if err != nil {
		r.kit.tb.Errorf("Signal: %v", err)
	}
}

// Wait returns how the call ended. A call that breaks the contract fails the test.
func (r *Running) Wait() *Result {
	r.kit.tb.Helper()
	select {
	case result := <-r.result:
		return result
	case err := <-r.fault:
		r.kit.tb.Fatalf("the call broke the contract of job types: %v", err)
		return nil
	}
}

// Drain asks the plugin to take nothing new.
func (k *Kit) Drain() {
	if _, err := k.client.Signal(context.Background(), &wire.SignalRequest{Kind: wire.SignalRequest_DRAIN}); err != nil {
		k.tb.Errorf("Signal: %v", err)
	}
}

// Try is Run for tests of the contract itself: it returns the fault.
func (r *Running) Try() (*Result, error) {
	select {
	case result := <-r.result:
		return result, nil
	case err := <-r.fault:
		return nil, err
	}
}

func collect(ctx context.Context, client wirerpc.Plugin, req *wire.RunRequest) (*Result, error) {
	stream, err := client.Run(ctx, req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	result, outcome := &Result{}, (*wire.Outcome)(nil)
	for stream.Receive() {
		event := stream.Msg()
		if outcome != nil {
			return nil, fmt.Errorf("an event after the outcome: %v", event)
		}
		if outcome = event.GetOutcome(); outcome == nil {
			result.add(event)
		}
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	if outcome == nil {
		return nil, errors.New("the stream ended without an outcome")
	}
	return result, result.finish(outcome)
}
