package host

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

const (
	defaultOutput = 1 << 20
	largestOutput = (wire.MaxMessage - 64<<10) / 2 // of each stream, so that an answer fits a message
)

// prepare checks the start of a command.
func (l *lease) prepare(ctx context.Context, start *wire.ExecStart) (core.Host, error) {
	if start == nil {
		return core.Host{}, errNoStart
	}
	h, err := l.host(start.GetHost())
	if err != nil {
		return h, err
	}
	if start.GetCommand() == "" {
		return h, invalid("command is empty")
	}
	if !start.GetReadOnly() {
		return h, l.change(ctx, "a command that is not marked read-only")
	}
	return h, nil
}

func limit(ctx context.Context, ms int64) (context.Context, context.CancelFunc) {
	if ms <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, time.Duration(ms)*time.Millisecond, core.ErrTimeout)
}

func wireExit(e transport.Exit) *wire.Exit {
	return &wire.Exit{Code: int32(e.Code), Signal: e.Signal}
}

// Command implements wiregrpc.HostsServer.
func (s *services) Command(ctx context.Context, req *wire.CommandRequest) (*wire.CommandResponse, error) {
	l, ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	start := req.GetStart()
	h, err := l.prepare(ctx, start)
	if err != nil {
		return nil, err
	}
	keep := cmp.Or(int(req.GetMaxOutput()), defaultOutput)
	stdout, stderr := &head{keep: min(keep, largestOutput)}, &head{keep: min(keep, largestOutput)}
	ctx, cancel := limit(ctx, start.GetTimeoutMs())
	defer cancel()
	hidden, err := l.environment(start)
	if err != nil {
		return nil, err
	}
	var stdin io.Reader
	if in := req.GetStdin(); len(in) > 0 {
		stdin = bytes.NewReader(in)
	}
	if err := l.elevated(ctx, h); err != nil {
		return nil, err
	}
	exit, err := l.run(ctx, h, transport.Exec{
		Command: start.GetCommand(), Env: start.GetEnv(), Secrets: hidden, Fresh: start.GetNewConnection(),
		Stdin: stdin, Stdout: stdout, Stderr: stderr,
	}, start.GetReadOnly())
	if err != nil {
		return nil, fault(h.Name, "exec", err)
	}
	return &wire.CommandResponse{
		Exit: wireExit(exit), Stdout: stdout.kept, Stderr: stderr.kept,
		Truncated: stdout.cut || stderr.cut,
	}, nil
}

// head keeps the beginning of what is written.
type head struct {
	keep int
	kept []byte
	cut  bool
}

func (h *head) Write(p []byte) (int, error) {
	fit := p[:min(len(p), h.keep-len(h.kept))]
	h.kept = append(h.kept, fit...)
	h.cut = h.cut || len(fit) < len(p)
	return len(p), nil
}

// Exec implements wiregrpc.HostsServer. Output and input are never buffered beyond a
// chunk: a slow reader at either end slows the other.
func (s *services) Exec(stream grpc.BidiStreamingServer[wire.ExecRequest, wire.ExecResponse]) error {
	return s.stream(stream.Context(), func(ctx context.Context, l *lease) error {
		first, err := stream.Recv()
		if err != nil {
			return err
		}
		start := first.GetStart()
		h, err := l.prepare(ctx, start)
		if err != nil {
			return err
		}
		hidden, err := l.environment(start)
		if err != nil {
			return err
		}
		ctx, cancel := limit(ctx, start.GetTimeoutMs())
		defer cancel()
		var send sync.Mutex
		output := func(chunk func([]byte) *wire.Chunk) io.Writer {
			return chunkWriter(func(b []byte) error {
				send.Lock()
				defer send.Unlock()
				return stream.Send(&wire.ExecResponse{Message: &wire.ExecResponse_Output{Output: chunk(b)}})
			})
		}
		var stdin io.Reader
		if start.GetStdin() {
			stdin = &recvReader{next: func() ([]byte, error) {
				m, err := stream.Recv()
				if err != nil || m.GetEof() {
					return nil, eofOr(err)
				}
				return m.GetStdin(), nil
			}}
		}
		if err := l.elevated(ctx, h); err != nil {
			return err
		}
		exit, err := l.run(ctx, h, transport.Exec{
			Command: start.GetCommand(), Env: start.GetEnv(), Secrets: hidden, Fresh: start.GetNewConnection(), Stdin: stdin,
			Stdout: output(func(b []byte) *wire.Chunk { return &wire.Chunk{Stdout: b} }),
			Stderr: output(func(b []byte) *wire.Chunk { return &wire.Chunk{Stderr: b} }),
		}, start.GetReadOnly())
		if err != nil {
			return fault(h.Name, "exec", err)
		}
		return stream.Send(&wire.ExecResponse{Message: &wire.ExecResponse_Exit{Exit: wireExit(exit)}})
	})
}

func eofOr(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

// chunkWriter passes on at most a chunk at a time.
type chunkWriter func([]byte) error

func (w chunkWriter) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		end := min(n+wire.ChunkSize, len(p))
		if err := w(p[n:end]); err != nil {
			return n, err
		}
		n = end
	}
	return len(p), nil
}

// recvReader reads the bytes of a stream's messages.
type recvReader struct {
	next func() ([]byte, error) // io.EOF at the end
	rest []byte
	err  error
}

func (r *recvReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.rest, r.err = r.next()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// Probe implements wiregrpc.HostsServer.
func (s *services) Probe(ctx context.Context, req *wire.ProbeRequest) (*wire.ProbeResponse, error) {
	l, ctx, leave, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	h, err := l.host(req.GetHost())
	if err != nil {
		return nil, err
	}
	ctx, cancel := limit(ctx, req.GetTimeoutMs())
	defer cancel()
	if err := l.last(ctx, h); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := s.reach.Probe(ctx, h); err != nil {
		return nil, fault(h.Name, "probe", err)
	}
	return &wire.ProbeResponse{TookMs: time.Since(begin).Milliseconds()}, nil
}

// Dial implements wiregrpc.HostsServer.
func (s *services) Dial(stream grpc.BidiStreamingServer[wire.DialMessage, wire.DialMessage]) error {
	return s.stream(stream.Context(), func(ctx context.Context, l *lease) error {
		first, err := stream.Recv()
		if err != nil {
			return err
		}
		start := first.GetStart()
		if start == nil {
			return errNoStart
		}
		h, err := l.host(start.GetHost())
		if err != nil {
			return err
		}
		if err := l.change(ctx, "a connection to "+start.GetAddress()); err != nil {
			return err
		}
		if err := l.last(ctx, h); err != nil {
			return err
		}
		conn, err := s.reach.Dial(ctx, h, start.GetAddress())
		switch {
		case err == nil:
		case errors.Is(err, core.ErrUnreachable), ctx.Err() != nil:
			return fault(h.Name, "dial", err)
		case forbidden(err): // not an answer of the address: nothing was asked there
			return status.Errorf(codes.PermissionDenied, "%s from %s: %s", start.GetAddress(), h.Name, err)
		default:
			return status.Errorf(codes.Aborted, "%s from %s: %s", start.GetAddress(), h.Name, err)
		}
		defer func() { _ = conn.Close() }()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		if err := stream.Send(&wire.DialMessage{Message: &wire.DialMessage_Start{Start: start}}); err != nil {
			return err
		}
		return relay(stream, conn)
	})
}

// forbidden reports whether the host's SSH server opens no connections for the login.
func forbidden(err error) bool {
	refused, ok := errors.AsType[*ssh.OpenChannelError](err)
	return ok && refused.Reason == ssh.Prohibited
}

// relay copies both ways until the host's side is at its end. eof ends one direction only.
func relay(stream grpc.BidiStreamingServer[wire.DialMessage, wire.DialMessage], conn net.Conn) error {
	up := make(chan struct{})
	go func() {
		defer close(up)
		in := &recvReader{next: func() ([]byte, error) {
			m, err := stream.Recv()
			if err != nil || m.GetEof() {
				return nil, eofOr(err)
			}
			return m.GetData(), nil
		}}
		_, err := io.Copy(conn, in)
		half, ok := conn.(interface{ CloseWrite() error })
		if err == nil && ok {
			_ = half.CloseWrite()
			return
		}
		_ = conn.Close()
	}()
	_, err := io.CopyBuffer(chunkWriter(func(b []byte) error {
		return stream.Send(&wire.DialMessage{Message: &wire.DialMessage_Data{Data: b}})
	}), struct{ io.Reader }{conn}, make([]byte, wire.ChunkSize))
	if err != nil && !errors.Is(err, net.ErrClosed) {
		_ = conn.Close()
		return status.Errorf(codes.Aborted, "connection through the host broke: %s", err)
	}
	if err := stream.Send(&wire.DialMessage{Message: &wire.DialMessage_Eof{Eof: true}}); err != nil {
		return err
	}
	<-up // the plugin may still write: it ends by eof, by closing, or with the lease
	return nil
}
