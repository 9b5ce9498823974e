package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	hclog "github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/redact"
	"github.com/turnus/turnus/plugins/host/sandbox"
	"github.com/turnus/turnus/plugins/host/wiregrpc"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// Flow control, both ways: what one slow reader can make the worker hold for it.
const (
	streamWindow = wire.ChunkSize
	connWindow   = 4 << 20
)

// process is one running plugin process with its connection and its host services.
type process struct {
	plugin   *Plugin
	log      *slog.Logger
	dir      string
	child    *child
	conn     *grpc.ClientConn
	rpc      wiregrpc.PluginClient
	services *services
	hidden   *redact.Set   // what its calls were given, and it must not print
	stdio    chan struct{} // closed when the copy of go-plugin's stdio has ended
	born     time.Time

	// Of the pool, under its mutex.
	calls     int
	alone     bool // the one call of it has it to itself
	crowded   bool // it died, or was condemned, with several calls in it
	retired   bool
	unused    time.Time // since when calls is 0
	idle      *time.Timer
	retire    chan struct{} // closed: no new calls; end when those that run are done
	drained   chan struct{} // closed: retired and no call runs
	condemned chan struct{} // closed: a call would not end, or nothing answers; die soon
	why       string        // of condemned; may be read once that is closed
}

// launch has the settings with which processes are started.
type launch struct {
	root    *folder
	reach   reach
	log     *slog.Logger
	adapter []string
	sandbox *sandbox.Sandbox
}

// start starts a process and returns when it answers. An error leaves nothing behind.
func (l launch) start(ctx context.Context, plugin *Plugin) (*process, error) {
	plugin, err := plugin.private(l.root)
	if err != nil {
		return nil, err
	}
	root, err := l.root.open()
	if err != nil {
		return nil, err
	}
	// Nobody guesses the name, so nobody finds its sockets who may not list the folder.
	dir := filepath.Join(root, rand.Text()[:processName])
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder for a plugin process: %w", err)
	}
	p := &process{
		plugin: plugin, dir: dir, born: time.Now(),
		log:    l.log.With("plugin", plugin.Name, "version", plugin.Version),
		stdio:  make(chan struct{}),
		retire: make(chan struct{}), drained: make(chan struct{}), condemned: make(chan struct{}),
	}
	p.hidden, _ = redact.New() // it fails on values only
	socket := filepath.Join(dir, "h")
	p.child = newChild(plugin, environment(dir, socket), dir, l.sandbox, p.log)
	p.child.stdout.hide(p.hidden)
	p.child.stderr.hide(p.hidden)
	p.services, err = serveHosts(socket, l.reach, p.child, p.log)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	if err := p.connect(ctx); err != nil {
		late := ctx.Err() != nil
		_ = p.child.Kill(context.Background())
		p.close()
		if why := p.child.problem(late); why != "" && !errors.Is(err, errSpeaks) {
			err = errors.New(why)
		}
		name := "the plugin" // that is asked what it is
		if plugin.Version != "" {
			name = "plugin " + plugin.Name + " " + plugin.Version
		}
		if n := p.child.protocol(); n != 0 && n != wire.ProtocolVersion {
			return nil, fmt.Errorf("%s %w", name, &protocolError{n})
		}
		return nil, fmt.Errorf("%s did not start: %w", name, err)
	}
	p.log.Debug("plugin process started", "pid", p.child.pid, "took", time.Since(p.born))
	return p, nil
}

// processName is how long the name of a process's folder is; see socketTail.
const processName = 12

// profile returns the rights of a process of the plugin, with its private folder.
func (p *Plugin) profile(dir string) sandbox.Profile {
	read := slices.Clone(p.Allow.Read)
	self, err := os.Executable()
	switch {
	case p.Dir != "":
		read = append(read, p.Dir)
	case err != nil || p.Argv[0] != self: // a program that is only asked what it is
		read = append(read, filepath.Dir(p.Argv[0]))
	}
	return sandbox.Profile{Dir: dir, Read: read, Network: p.Allow.Network}
}

// environment is all that a plugin sees: never the worker's agent socket or secrets. Home
// is a private folder, so that no file of the worker's user is found through it.
func environment(dir, socket string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "LANG=" + cmp.Or(os.Getenv("LANG"), "C.UTF-8"),
		"HOME=" + dir, "TMPDIR=" + dir, wire.HostSocketEnv + "=" + socket,
	}
}

// errSpeaks marks errors of a plugin that did answer.
var errSpeaks = errors.New("plugin answered")

// connect starts the process, shakes hands through go-plugin, and dials it.
// go-plugin's Start takes no context and holds a lock, so it is ended by killing the process.
func (p *process) connect(ctx context.Context) error {
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue},
		VersionedPlugins: map[int]goplugin.PluginSet{wire.ProtocolVersion: {}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		SkipHostEnv:      true,
		Logger:           hclog.NewNullLogger(),
		StartTimeout:     startTimeout,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: p.dir},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
			p.child.env = append(p.child.env, cmd.Env...)
			p.child.env = append(p.child.env, goplugin.EnvUnixSocketDir+"="+p.dir) // the last one counts; a short path
			return p.child, nil
		},
	})
	type started struct {
		addr net.Addr
		err  error
	}
	done := make(chan started, 1)
	go func() {
		addr, err := client.Start()
		done <- started{addr, err}
	}()
	var s started
	select {
	case s = <-done:
	case <-ctx.Done():
		_ = p.child.Kill(ctx)
		<-done
		return ctx.Err()
	}
	// client.Kill is never called: it asks a process to end that may be frozen, and waits
	// for pipes that a grandchild may hold. Its goroutines end with the process.
	if s.err != nil {
		return s.err
	}
	if err := p.dial(s.addr); err != nil {
		return err
	}
	_, err := grpc_health_v1.NewHealthClient(p.conn).Check(ctx,
		&grpc_health_v1.HealthCheckRequest{Service: goplugin.GRPCServiceName}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("health check after the handshake: %w", err)
	}
	return nil
}

func (p *process) dial(addr net.Addr) error {
	conn, err := grpc.NewClient("passthrough:///"+p.plugin.Name,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, addr.Network(), addr.String())
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a Unix socket in a private folder
		grpc.WithNoProxy(),
		grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(wire.MaxMessage), grpc.MaxCallSendMsgSize(wire.MaxMessage)),
	)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	p.conn, p.rpc = conn, wiregrpc.NewPluginClient(conn)
	go func() {
		defer close(p.stdio)
		copyStdio(conn, p.child.stdout, p.child.stderr)
	}()
	return nil
}

// describe asks the plugin for its manifest.
func (p *process) describe(ctx context.Context) (Manifest, error) {
	m, err := p.rpc.Describe(ctx, &wire.DescribeRequest{})
	if err != nil {
		return Manifest{}, fmt.Errorf("%w, but not to Describe: %w", errSpeaks, err)
	}
	return manifestFromWire(m), nil
}

// drain asks the process to take nothing new and to finish, as the first word of its end.
func (p *process) drain(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_, err := p.rpc.Signal(ctx, &wire.SignalRequest{Kind: wire.SignalRequest_DRAIN, GraceMs: grace.Milliseconds()})
	if err != nil {
		p.log.Debug("drain was not taken", "err", err)
	}
}

// answers reports whether the process is alive enough to answer.
func (p *process) answers(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := grpc_health_v1.NewHealthClient(p.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: goplugin.GRPCServiceName})
	return err == nil
}

// cancel asks one call to end.
func (p *process) cancel(ctx context.Context, token string, grace time.Duration) {
	_, err := p.rpc.Signal(ctx, &wire.SignalRequest{Kind: wire.SignalRequest_CANCEL, Lease: token, GraceMs: grace.Milliseconds()})
	if err != nil && ctx.Err() == nil {
		p.log.Debug("cancel of a call was not taken", "err", err)
	}
}

// end stops a retired process. The order matters: its calls finish; then DRAIN, TERM and KILL to
// the whole group; only then the connection, which would otherwise wait for the process.
// DRAIN does not come earlier: a call that has its slot, but is not sent yet, would be refused.
func (p *process) end(grace time.Duration, hurry <-chan struct{}) {
	p.awaitCalls(grace, hurry)
	p.drain(grace)
	p.child.terminate(grace)
}

func (p *process) awaitCalls(grace time.Duration, hurry <-chan struct{}) {
	select {
	case <-p.drained:
		return
	case <-p.child.exited:
		return
	case <-hurry:
		return
	case <-p.condemned:
	}
	if !p.answers(context.Background(), grace) { // frozen: its other calls end now
		return
	}
	bound := time.NewTimer(condemnedGraces * grace)
	defer bound.Stop()
	select {
	case <-p.drained:
	case <-p.child.exited:
	case <-hurry:
	case <-bound.C:
	}
}

// close releases what an ended process leaves behind.
func (p *process) close() {
	p.services.stop()
	if p.conn != nil {
		_ = p.conn.Close()
		<-p.stdio
	}
	_ = p.child.line.Close()
	p.child.wg.Wait()
	if err := removeAll(p.dir); err != nil {
		p.log.Warn("folder of a plugin process is left behind", "err", err)
	}
}

// died is the error of a call whose process ended under it.
func (p *process) died(grace time.Duration) error {
	t := time.NewTimer(grace)
	defer t.Stop()
	how := "its connection broke"
	select {
	case <-p.child.exited:
		how = p.child.how
	case <-t.C:
	}
	select {
	case <-p.condemned:
		how = p.why + "; it was killed"
	default:
	}
	return fmt.Errorf("%w: %s %s (process %s): %s; what it did on the host is unknown",
		core.ErrPluginFailed, p.plugin.Name, p.plugin.Version, p.child.ID(), how)
}

// dead reports whether the process is known to have ended.
func (p *process) dead() bool {
	select {
	case <-p.child.exited:
		return true
	default:
		return false
	}
}

// concurrency is how many calls may share the process.
func (p *Plugin) concurrency() int {
	return min(max(p.Manifest.Concurrency, 1), math.MaxInt16)
}
