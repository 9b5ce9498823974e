package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/host/sandbox"
	"github.com/turnus/turnus/plugins/host/wiregrpc"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

const (
	startLimit = 20 * time.Second // for the handshake, as a worker gives
	pipeLimit  = 3 * time.Second
	healthName = "plugin"
	socketName = "h"
)

// process is the plugin's program as the suite started it: as a worker does, in an environment and
// a session of its own.
type process struct {
	pid      int
	dir      string
	socket   string // of the host services; its path is in the environment of every descendant
	before   tape   // stdout ahead of the handshake
	after    tape   // stdout behind it
	stderr   tape
	services *host.Services
	log      *callLog
	server   *grpc.Server
	served   chan struct{}
	conn     *grpc.ClientConn
	rpc      wiregrpc.PluginClient

	line   chan string   // the handshake line
	exited chan struct{} // closed when reaped
	piped  chan struct{} // closed when nobody holds stdout and stderr any more
	how    string        // "exit status 1"; read after exited
	ended  atomic.Bool   // the suite has sent it a signal that may end it
	calls  atomic.Int64  // that it was asked for
}

// launching has the settings of a start.
type launching struct {
	argv     []string
	noCookie bool
	apart    bool // in an empty network namespace
	box      *sandbox.Sandbox
	profile  sandbox.Profile // within box, without the private folder
}

// errUnconfined is that nothing confines processes here.
var errUnconfined = errors.New("this machine confines nothing")

// spawn starts the program and its host services. Nothing is expected of it yet.
func spawn(l launching, reach host.Reach) (*process, error) {
	parent := os.TempDir()
	if len(parent) > 60 { // a socket's path is short
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, "tc-")
	if err != nil {
		return nil, fmt.Errorf("folder for a plugin process: %w", err)
	}
	p := &process{
		dir: dir, socket: filepath.Join(dir, socketName), log: &callLog{}, served: make(chan struct{}),
		line: make(chan string, 1), exited: make(chan struct{}), piped: make(chan struct{}),
		services: host.NewServices(reach, slog.New(slog.DiscardHandler)),
	}
	listener, err := net.Listen("unix", p.socket) //nolint:noctx // a Unix socket: it does not wait
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("socket of the host services: %w", err)
	}
	p.server = grpc.NewServer(grpc.MaxRecvMsgSize(wire.MaxMessage), grpc.MaxSendMsgSize(wire.MaxMessage),
		grpc.InitialWindowSize(wire.ChunkSize), grpc.InitialConnWindowSize(4<<20),
		grpc.UnaryInterceptor(p.log.unary), grpc.StreamInterceptor(p.log.stream))
	p.services.Register(p.server)
	go func() { defer close(p.served); _ = p.server.Serve(listener) }()
	if err := p.exec(l); err != nil {
		close(p.exited)
		close(p.piped)
		p.release()
		return nil, err
	}
	return p, nil
}

func (p *process) environment(l launching) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + p.dir, "TMPDIR=" + p.dir, wire.HostSocketEnv + "=" + p.socket,
		"PLUGIN_MIN_PORT=10000", "PLUGIN_MAX_PORT=25000", fmt.Sprintf("PLUGIN_PROTOCOL_VERSIONS=%d", wire.ProtocolVersion),
		"PLUGIN_UNIX_SOCKET_DIR=" + p.dir,
	}
	if !l.noCookie {
		env = append(env, wire.CookieKey+"="+wire.CookieValue)
	}
	return env
}

func (p *process) exec(l launching) error {
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return errors.Join(err, outR.Close(), outW.Close())
	}
	cmd, release, err := p.command(l)
	if err == nil {
		cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, outW, errW
		err = p.own(cmd)
		release()
	}
	_, _ = outW.Close(), errW.Close()
	if err != nil {
		_, _ = outR.Close(), errR.Close()
		return fmt.Errorf("start %s: %w", l.argv[0], err)
	}
	errDone := make(chan struct{})
	go func() { defer close(errDone); defer errR.Close(); _, _ = io.Copy(&p.stderr, errR) }()
	go func() {
		defer close(p.piped)
		p.readStdout(outR)
		<-errDone
	}()
	return nil
}

// command is how the program is started; release comes after that.
func (p *process) command(l launching) (cmd *exec.Cmd, release func(), err error) {
	if l.box == nil {
		cmd = exec.Command(l.argv[0], l.argv[1:]...) //nolint:gosec,noctx // the program under test; it is ended by its group
		cmd.Env, cmd.SysProcAttr = p.environment(l), &syscall.SysProcAttr{Setsid: true}
		if l.apart {
			apart(cmd.SysProcAttr)
		}
		return cmd, func() {}, nil
	}
	program, err := os.Open(l.argv[0])
	if err != nil {
		return nil, nil, err
	}
	l.profile.Dir = p.dir
	confined, err := l.box.Confine(program, l.argv, p.environment(l), l.profile)
	if err == nil && confined == nil {
		err = errUnconfined
	}
	if err != nil {
		return nil, nil, errors.Join(err, program.Close())
	}
	return confined.Command(), func() { _, _ = confined.Close(), program.Close() }, nil
}

// own starts the process and reaps it on one thread: a confined one ends with the thread that
// started it.
func (p *process) own(cmd *exec.Cmd) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		_ = cmd.Wait()
		p.how = cmd.ProcessState.String()
		close(p.exited)
	}()
	return <-started
}

// readStdout looks for the handshake line, and keeps what stands before and behind it.
func (p *process) readStdout(r *os.File) {
	defer r.Close()
	br := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := br.ReadString('\n')
		if strings.Count(line, "|") >= 4 && line[0] >= '0' && line[0] <= '9' {
			p.line <- strings.TrimSpace(line)
			break
		}
		_, _ = p.before.Write([]byte(line))
		if err != nil {
			return
		}
	}
	_, _ = io.Copy(&p.after, br)
}

// shake waits for the handshake and connects.
func (p *process) shake(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	var line string
	select {
	case line = <-p.line:
	case <-p.exited:
		within(p.piped, pipeLimit) // its last words
		return fmt.Errorf("it ended before the handshake: %s%s", p.how, p.words())
	case <-ctx.Done():
		return fmt.Errorf("no handshake within %v%s", startLimit, p.words())
	}
	parts := strings.Split(line, "|")
	if parts[1] != fmt.Sprint(wire.ProtocolVersion) {
		return fmt.Errorf("handshake line %q: the plugin speaks protocol %s, this turnus speaks %d", line, parts[1], wire.ProtocolVersion)
	}
	if parts[0] != "1" || parts[4] != "grpc" {
		return fmt.Errorf("handshake line %q: expected 1|%d|unix|PATH|grpc", line, wire.ProtocolVersion)
	}
	rel, err := filepath.Rel(p.dir, parts[3])
	if parts[2] != "unix" || err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("it listens on %s %s: expected a Unix socket in the folder of PLUGIN_UNIX_SOCKET_DIR", parts[2], parts[3])
	}
	p.conn, err = grpc.NewClient("passthrough:///plugin",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", parts[3])
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxMessage), grpc.MaxCallSendMsgSize(wire.MaxMessage)))
	if err != nil {
		return err
	}
	p.rpc = wiregrpc.NewPluginClient(p.conn)
	if err := p.healthy(ctx); err != nil {
		return fmt.Errorf("the health service does not report that %q serves: %w%s", healthName, err, p.words())
	}
	return nil
}

func (p *process) words() string {
	if last := p.stderr.last(); last != "" {
		return "; its last words: " + last
	}
	return ""
}

func (p *process) healthy(ctx context.Context) error {
	resp, err := grpc_health_v1.NewHealthClient(p.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: healthName}, grpc.WaitForReady(true))
	if err == nil && resp.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		err = fmt.Errorf("it reports %s", resp.GetStatus())
	}
	return err
}

func (p *process) signal(sig syscall.Signal) {
	select {
	case <-p.exited:
	default:
		if sig != syscall.SIGSTOP && sig != syscall.SIGCONT {
			p.ended.Store(true)
		}
		_ = syscall.Kill(-p.pid, sig)
	}
}

// kill ends the process group immediately, and waits for the process.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// ending is how a process went away.
type ending struct {
	forced bool     // it had to be killed
	held   bool     // somebody held stdout or stderr longer than the process lived
	left   []string // descendants that outlived it
}

// stop ends the process as a worker does: DRAIN, TERM, and KILL after grace.
func (p *process) stop(grace time.Duration) ending {
	var e ending
	if p.rpc != nil {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		_, _ = p.rpc.Signal(ctx, &wire.SignalRequest{Kind: wire.SignalRequest_DRAIN, GraceMs: grace.Milliseconds()})
		cancel()
	}
	p.signal(syscall.SIGTERM)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.exited:
	case <-t.C:
		e.forced = true
		p.kill()
	}
	e.held = !within(p.piped, pipeLimit)
	e.left = outliving(p.socket)
	p.release()
	return e
}

// outliving are the descendants that are still there when a process has ended: not those that the
// system is just ending with it.
func outliving(socket string) []string {
	const often = 20 * time.Millisecond
	tick := time.NewTicker(often)
	defer tick.Stop()
	for range pipeLimit / often {
		if len(descendants(socket)) == 0 {
			return nil
		}
		<-tick.C
	}
	return descendants(socket)
}

// release ends the rest of it.
func (p *process) release() {
	if p.pid != 0 {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL) // its group: the number is not free while a member lives
		endDescendants(p.socket)
	}
	<-p.exited
	if p.conn != nil {
		_ = p.conn.Close()
	}
	p.server.Stop()
	<-p.served
	within(p.piped, pipeLimit)
	_ = os.RemoveAll(p.dir)
}

func within(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// private returns what of the process's own environment a text holds; "" is nothing.
func (p *process) private(text string) string {
	switch {
	case strings.Contains(text, p.dir):
		return "a path of the process's private folder, as of " + wire.HostSocketEnv + " or HOME"
	case strings.Contains(text, wire.CookieValue):
		return "the value of " + wire.CookieKey
	}
	return ""
}
