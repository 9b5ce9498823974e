package transport

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
)

// limiter admits a bounded number at the same time.
type limiter chan struct{}

func newLimiter(n int) limiter { return make(limiter, n) }

// try enters if there is room at this moment.
func (g limiter) try() bool {
	select {
	case g <- struct{}{}:
		return true
	default:
		return false
	}
}

func (g limiter) enter(ctx context.Context) error {
	if g.try() {
		return nil
	}
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g limiter) leave() { <-g }

// handshakesPerServer stays under sshd's MaxStartups (10:30:100), beyond which
// it drops connections.
const handshakesPerServer = 8

// serverLimiter is the limiter of dials to one server, kept while it is in use.
type serverLimiter struct {
	limiter
	users int
}

// admitHandshake waits for a place among the handshakes with one server. Call leave after.
func (p *Pool) admitHandshake(ctx context.Context, addr string) (leave func(), err error) {
	p.mu.Lock()
	d := p.serverLimiters[addr]
	if d == nil {
		d = &serverLimiter{limiter: newLimiter(handshakesPerServer)}
		p.serverLimiters[addr] = d
	}
	d.users++
	p.mu.Unlock()
	gone := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if d.users--; d.users == 0 {
			delete(p.serverLimiters, addr)
		}
	}
	if err := d.enter(ctx); err != nil {
		gone()
		return nil, err
	}
	return func() { d.leave(); gone() }, nil
}

// stage is how far a handshake has come.
type stage int32

const (
	stageDial      stage = iota // no TCP connection
	stageSilent                 // connected; the server has sent nothing
	stageHandshake              // versions and key exchange
	stageAuth                   // host key accepted, logging in
)

// handshakeConn is the connection under a handshake. It notes whether the server ever spoke, and
// holds a place at the CPU limiter exactly while the handshake computes: the place is given back
// while a read waits for the network. A slow or silent host therefore costs nobody else anything.
type handshakeConn struct {
	net.Conn
	ctx   context.Context //nolint:containedctx // ends the wait at the gate, for net.Conn passes none; lives no longer than the handshake
	cpu   limiter
	held  atomic.Bool
	over  atomic.Bool
	spoke atomic.Bool // the server's first bytes look like SSH
	head  []byte      // those bytes
	ahead []byte      // read, but not yet asked for
	stage atomic.Int32
}

func newHandshakeConn(ctx context.Context, c net.Conn, cpu limiter) *handshakeConn {
	h := &handshakeConn{Conn: c, ctx: ctx, cpu: cpu}
	h.stage.Store(int32(stageSilent))
	return h
}

// Read is called by one goroutine at a time, as x/crypto/ssh does. That reads the
// version byte by byte, so what came is kept in a buffer.
func (h *handshakeConn) Read(b []byte) (int, error) {
	if len(h.ahead) > 0 {
		n := copy(b, h.ahead)
		h.ahead = h.ahead[n:]
		return n, nil
	}
	if h.over.Load() {
		return h.Conn.Read(b)
	}
	h.drop()
	var buf [1024]byte
	n, err := h.Conn.Read(buf[:])
	if n == 0 {
		return 0, err
	}
	h.stage.CompareAndSwap(int32(stageSilent), int32(stageHandshake))
	if !h.spoke.Load() && len(h.head) < len(buf) {
		h.head = append(h.head, buf[:n]...)
		h.spoke.Store(bytes.Contains(h.head, []byte("SSH-")))
	}
	if !h.over.Load() && h.cpu.enter(h.ctx) == nil {
		h.held.Store(true)
		if h.over.Load() { // finished while this read waited for the limiter
			h.drop()
		}
	}
	used := copy(b, buf[:n])
	h.ahead = append([]byte(nil), buf[used:n]...)
	return used, err
}

// said is the first line that the server sent, as much of it as one wants to read. Call it when no
// Read is under way.
func (h *handshakeConn) said() string {
	line, _, _ := bytes.Cut(h.head, []byte("\n"))
	return string(bytes.TrimSpace(line[:min(len(line), 80)]))
}

// finish gives back the place at the limiter; from now on, reads pass straight through.
func (h *handshakeConn) finish() {
	h.over.Store(true)
	h.drop()
}

func (h *handshakeConn) drop() {
	if h.held.CompareAndSwap(true, false) {
		h.cpu.leave()
	}
}
