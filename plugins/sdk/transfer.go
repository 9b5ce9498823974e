package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/wire/wirerpc"
)

// PutFile defines where and how to write a file. It is written beside Path, verified by
// its hash on the host and renamed, so that nobody sees half of it.
type PutFile struct {
	Path   string // absolute
	Mode   uint32 // permission bits, setuid, setgid and sticky; 0 keeps those of the file there, and is 0644 for a new one
	Owner  string // user[:group]; empty leaves it
	SHA256 string // hex; empty: what was sent
	Size   int64  // 0: unknown
	Backup string // suffix; the old file is kept under Path+Backup
	Rate   int64  // most bytes a second, 0 for any; the worker also limits all uploads together
	// Validate is a command that checks the new file before it replaces the old one; %s is its path.
	// "" is none. A worker older than it ignores it.
	Validate string
}

// Written is the result of a transfer.
type Written struct {
	Size   int64
	SHA256 string // hex
}

// Put writes data to a file of the host.
func (h *Host) Put(ctx context.Context, f PutFile, data io.Reader) (Written, error) {
	return h.put(ctx, f, "", data)
}

// PutArtifact writes a file of the worker to the host; its bytes do not pass
// through the plugin. artifact is a digest or a path relative to the playbook.
func (h *Host) PutArtifact(ctx context.Context, f PutFile, artifact string) (Written, error) {
	return h.put(ctx, f, artifact, nil)
}

func (h *Host) put(ctx context.Context, f PutFile, artifact string, data io.Reader) (Written, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := h.s.hosts.Put(h.s.withLease(ctx))
	err := stream.Send(&wire.PutRequest{Message: &wire.PutRequest_Start{Start: &wire.PutStart{
		Host: h.Name, Path: f.Path, Mode: f.Mode, Owner: f.Owner, Size: cmp.Or(f.Size, -1),
		Sha256: f.SHA256, Artifact: artifact, Backup: f.Backup, Rate: f.Rate, Validate: f.Validate,
	}}})
	if err == nil && data != nil {
		err = sendChunks(data, func(b []byte) error {
			return stream.Send(&wire.PutRequest{Message: &wire.PutRequest_Data{Data: b}})
		})
	}
	if err != nil && !errors.Is(err, io.EOF) { // EOF: the worker ended the call, CloseAndReceive returns why
		return Written{}, fmt.Errorf("put %s: %w", f.Path, err) // ctx ends, so the worker gives the file up
	}
	resp, err := stream.CloseAndReceive()
	if err = h.ended(ctx, "put", false, err); err != nil {
		return Written{}, err
	}
	return Written{Size: resp.GetSize(), SHA256: resp.GetSha256()}, nil
}

// FileInfo describes what was read.
type FileInfo struct {
	Size   int64
	Mode   uint32 // permission bits
	SHA256 string // hex
}

// Get copies a file of the host into w. More than maxSize bytes are ErrTooLarge (0:
// any); w may then have got some of it.
func (h *Host) Get(ctx context.Context, path string, maxSize int64, w io.Writer) (FileInfo, error) {
	return h.s.get(ctx, &wire.GetRequest{Host: h.Name, Path: path, MaxSize: maxSize}, w)
}

func (s *session) get(ctx context.Context, req *wire.GetRequest, w io.Writer) (FileInfo, error) {
	streamCtx, cancel := context.WithCancel(ctx)
	stream, err := s.hosts.Get(s.withLease(streamCtx), req)
	if err != nil {
		cancel()
		return FileInfo{}, hostError(ctx, req.GetHost(), "get", err)
	}
	defer release(cancel, stream.Close)
	var info FileInfo
	for stream.Receive() {
		msg := stream.Msg()
		if i := msg.GetInfo(); i != nil {
			info = merge(info, i)
		}
		if err := writeTo(w, msg.GetData()); err != nil {
			return info, fmt.Errorf("get %s: %w", req.GetPath(), err)
		}
	}
	return info, hostError(ctx, req.GetHost(), "get", stream.Err())
}

// merge: the first info has what comes, the last its hash.
func merge(info FileInfo, i *wire.FileInfo) FileInfo {
	if i.GetSize() > 0 || i.GetSha256() != "" { // -1 at first: not known yet
		info.Size = i.GetSize()
	}
	if i.GetMode() != 0 {
		info.Mode = i.GetMode()
	}
	if i.GetSha256() != "" {
		info.SHA256 = i.GetSha256()
	}
	return info
}

// Dial opens a TCP connection from the host to address (host:port as the host sees it). It returns
// once the connection is open; ctx ends the whole connection, not the dialling alone. Check mode
// refuses it, because data sent over it may change anything.
func (h *Host) Dial(ctx context.Context, address string) (net.Conn, error) {
	streamCtx, cancel := context.WithCancel(ctx)
	stream := h.s.hosts.Dial(h.s.withLease(streamCtx))
	err := stream.Send(&wire.DialMessage{Message: &wire.DialMessage_Start{Start: &wire.DialStart{Host: h.Name, Address: address}}})
	if err == nil || errors.Is(err, io.EOF) {
		_, err = stream.Receive() // its start, as soon as the connection stands
	}
	if err = h.ended(ctx, "dial "+address, false, err); err != nil {
		cancel()
		return nil, err
	}
	return &tunnel{ctx: streamCtx, cancel: cancel, stream: stream, host: h, address: address}, nil
}

type dialStream = *wirerpc.DialClient

// tunnel is a net.Conn over a Dial stream. A deadline that passes ends the whole connection: a
// stream cannot end one read alone.
type tunnel struct {
	ctx     context.Context //nolint:containedctx // it is the connection's life
	cancel  context.CancelFunc
	stream  dialStream
	host    *Host
	address string

	readMu  sync.Mutex
	pending []byte
	eof     bool

	writeMu sync.Mutex

	timerMu sync.Mutex
	timer   *time.Timer
	expired bool
}

func (t *tunnel) Read(b []byte) (int, error) {
	t.readMu.Lock()
	defer t.readMu.Unlock()
	for len(t.pending) == 0 {
		if t.eof {
			return 0, io.EOF
		}
		msg, err := t.stream.Receive()
		switch {
		case errors.Is(err, io.EOF):
			t.eof = true
		case err != nil:
			return 0, t.failed(err)
		case msg.GetEof():
			t.eof = true
		default:
			t.pending = msg.GetData()
		}
	}
	n := copy(b, t.pending)
	t.pending = t.pending[n:]
	return n, nil
}

func (t *tunnel) Write(b []byte) (int, error) {
	t.writeMu.Lock()
	defer t.writeMu.Unlock()
	written := 0
	for len(b) > 0 {
		n := min(len(b), wire.ChunkSize)
		if err := t.stream.Send(&wire.DialMessage{Message: &wire.DialMessage_Data{Data: b[:n]}}); err != nil {
			return written, t.failed(err)
		}
		written, b = written+n, b[n:]
	}
	return written, nil
}

func (t *tunnel) failed(err error) error {
	t.timerMu.Lock()
	expired := t.expired
	t.timerMu.Unlock()
	if expired {
		return os.ErrDeadlineExceeded
	}
	if t.ctx.Err() != nil {
		return net.ErrClosed
	}
	return hostError(t.ctx, t.host.Name, "dial "+t.address, err)
}

// CloseWrite ends the sending direction.
func (t *tunnel) CloseWrite() error {
	t.writeMu.Lock()
	defer t.writeMu.Unlock()
	if err := t.stream.Send(&wire.DialMessage{Message: &wire.DialMessage_Eof{Eof: true}}); err != nil {
		return t.failed(err)
	}
	return t.stream.CloseRequest()
}

func (t *tunnel) Close() error {
	release(t.cancel, t.stream.CloseResponse)
	return t.SetDeadline(time.Time{})
}

func (t *tunnel) LocalAddr() net.Addr  { return tunnelAddr(t.host.Name) }
func (t *tunnel) RemoteAddr() net.Addr { return tunnelAddr(t.address) }

func (t *tunnel) SetReadDeadline(at time.Time) error  { return t.SetDeadline(at) }
func (t *tunnel) SetWriteDeadline(at time.Time) error { return t.SetDeadline(at) }

func (t *tunnel) SetDeadline(at time.Time) error {
	t.timerMu.Lock()
	defer t.timerMu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if !at.IsZero() {
		t.timer = time.AfterFunc(time.Until(at), func() {
			t.timerMu.Lock()
			t.expired = true
			t.timerMu.Unlock()
			t.cancel()
		})
	}
	return nil
}

type tunnelAddr string

func (a tunnelAddr) Network() string { return "tcp" }
func (a tunnelAddr) String() string  { return string(a) }
