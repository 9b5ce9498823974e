package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/plugins/host/wiregrpc"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// reach is the part of the transport that host services need; tests have their own.
type reach interface {
	Run(ctx context.Context, h core.Host, e transport.Exec) (transport.Exit, error)
	Put(ctx context.Context, h core.Host, put transport.Put, data io.Reader) (transport.Written, error)
	Get(ctx context.Context, h core.Host, path string, as core.Become, maxSize int64, w io.Writer) (transport.FileInfo, error)
	Dial(ctx context.Context, h core.Host, address string) (net.Conn, error)
	Probe(ctx context.Context, h core.Host) error
	Ready(ctx context.Context, h core.Host) error
}

// services is the gRPC server that one plugin process calls back: Hosts and Job.
type services struct {
	wiregrpc.UnimplementedHostsServer
	wiregrpc.UnimplementedJobServer

	reach  reach
	log    *slog.Logger
	server *grpc.Server
	served chan struct{}

	mu     sync.Mutex
	leases map[string]*lease
}

// serveHosts serves on a Unix socket that only the child's process group may use.
func serveHosts(socket string, r reach, c *child, log *slog.Logger) (*services, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket of the host services: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("socket of the host services: %w", err)
	}
	s := &services{reach: r, log: log, leases: map[string]*lease{}, served: make(chan struct{})}
	s.server = grpc.NewServer(
		grpc.MaxRecvMsgSize(wire.MaxMessage), grpc.MaxSendMsgSize(wire.MaxMessage),
		grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connWindow),
	)
	wiregrpc.RegisterHostsServer(s.server, s)
	wiregrpc.RegisterJobServer(s.server, s)
	go func() {
		defer close(s.served)
		_ = s.server.Serve(&peerListener{UnixListener: listener, child: c, log: log})
	}()
	return s, nil
}

// stop ends every lease and the server.
func (s *services) stop() {
	s.mu.Lock()
	for _, l := range s.leases {
		l.cut()
	}
	s.mu.Unlock()
	s.server.Stop()
	<-s.served
}

// maxConnections bounds what the connections of one process cost the worker in descriptors and
// memory. Few plugins need a second one.
const maxConnections = 256

// peerListener drops connections of anybody but the plugin, and of the plugin more than
// maxConnections.
type peerListener struct {
	*net.UnixListener
	child   *child
	log     *slog.Logger
	open    atomic.Int64
	refused atomic.Int64
}

// Accept implements net.Listener.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		err = checkPeer(conn, l.child.group())
		if err == nil && l.open.Load() >= maxConnections { // only this goroutine adds
			err = fmt.Errorf("the process has %d connections: that is the limit", maxConnections)
		}
		if err == nil {
			l.open.Add(1)
			return &peer{conn, sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		_ = conn.Close()
		if l.refused.Add(1) == 1 { // one line a process: a loop of attempts must not fill the log
			l.log.Warn("connection to host services refused", "err", err)
		}
	}
}

// peer is a counted connection.
type peer struct {
	*net.UnixConn
	gone func()
}

// Close implements net.Conn.
func (p *peer) Close() error {
	defer p.gone()
	return p.UnixConn.Close()
}

// fault translates an error of the transport or of a callback to a status, as plugin.proto defines.
func fault(host, op string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	code := codes.Unknown
	switch {
	case errors.Is(err, core.ErrUnreachable): // first: one that did not answer in time is both
		return unreachable(host, op, err)
	case errors.Is(err, core.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, core.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		code = codes.NotFound
	case errors.Is(err, core.ErrInvalid):
		code = codes.InvalidArgument
	}
	return status.Error(code, err.Error())
}

// unreachable adds what is known, for the plugin to judge whether trying again is safe.
func unreachable(host, op string, err error) error {
	detail, text := &wire.HostFault{Host: host, Op: op}, err.Error()
	if te, ok := errors.AsType[*transport.Error](err); ok {
		detail.Op, detail.Before, detail.Hint = te.Op, te.Before, te.Hint
		text = strings.TrimSuffix(text, "\nhint: "+te.Hint) // the plugin's end adds it once, at the end
	}
	s := status.New(codes.Unavailable, text)
	if with, derr := s.WithDetails(detail); derr == nil {
		s = with
	}
	return s.Err()
}

var errNoStart = invalid("the first message must be start")

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}
