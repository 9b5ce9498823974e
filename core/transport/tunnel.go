package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
)

// Dial opens a TCP connection from the host to address. A deadline set on it
// closes it when reached. A refusal of address is no failure of the host: that
// error does not wrap core.ErrUnreachable.
func (p *Pool) Dial(ctx context.Context, h core.Host, address string) (net.Conn, error) {
	r, err := p.resolve(h)
	if err != nil {
		return nil, err
	}
	e := r.last()
	for {
		c, reused, err := p.acquire(ctx, r, tunnelUse)
		if err != nil {
			return nil, err
		}
		t, err := c.tunnel(ctx, address)
		if err == nil {
			t.leased = true
			return t, nil
		}
		var refused *ssh.OpenChannelError
		switch {
		case ctx.Err() != nil:
			p.release(c, tunnelUse)
			return nil, e.ended(ctx, "dial", true)
		case errors.As(err, &refused) && refused.Reason == ssh.Prohibited:
			p.release(c, tunnelUse)
			return nil, e.fail("dial", "the host forbids forwarding: set AllowTcpForwarding (or PermitOpen) in its sshd_config", true, err)
		case errors.As(err, &refused), errors.Is(err, core.ErrInvalid):
			p.release(c, tunnelUse)
			return nil, e.fail("dial", "", true, fmt.Errorf("to %s from the host: %w", address, err))
		}
		p.discard(c)
		c.kill(err)
		p.release(c, tunnelUse)
		if !reused {
			return nil, e.unreachable("dial", "", err)
		}
	}
}

// tunnel opens a direct-tcpip channel (RFC 4254 §7.2). It does not touch c's lease.
func (c *conn) tunnel(ctx context.Context, address string) (*tunnel, error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, mark(fmt.Errorf("address %q: %w", address, err), core.ErrInvalid)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil || port == 0 {
		return nil, mark(fmt.Errorf("address %q: expected a port from 1 to 65535", address), core.ErrInvalid)
	}
	ch, reqs, err := c.open(ctx, "direct-tcpip", ssh.Marshal(struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}{host, uint32(port), "127.0.0.1", 0}))
	if err != nil {
		return nil, err
	}
	t := &tunnel{Channel: ch, c: c, remote: &net.TCPAddr{IP: net.IPv4zero}}
	if ip := net.ParseIP(host); ip != nil {
		t.remote = &net.TCPAddr{IP: ip, Port: int(port)}
	}
	if !c.pool.spawn(func() { ssh.DiscardRequests(reqs) }) {
		_ = ch.Close()
		ssh.DiscardRequests(reqs)
	}
	return t, nil
}

// tunnel is a channel as a net.Conn.
type tunnel struct {
	ssh.Channel
	c      *conn
	remote net.Addr
	leased bool // gives c back when closed
	once   sync.Once

	late atomic.Bool // closed by a deadline
	mu   sync.Mutex
	wake [2]*time.Timer // read, write
}

func (t *tunnel) LocalAddr() net.Addr  { return t.c.ssh.LocalAddr() }
func (t *tunnel) RemoteAddr() net.Addr { return t.remote }

func (t *tunnel) Read(b []byte) (int, error) {
	n, err := t.Channel.Read(b)
	if err != nil && t.late.Load() {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

func (t *tunnel) Write(b []byte) (int, error) {
	n, err := t.Channel.Write(b)
	if err != nil && t.late.Load() {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// Close closes the tunnel. Safe to call more than once.
func (t *tunnel) Close() error {
	var err error
	t.once.Do(func() {
		t.setTimer(0, time.Time{})
		t.setTimer(1, time.Time{})
		err = t.Channel.Close()
		if t.leased {
			t.c.pool.release(t.c, tunnelUse)
		}
	})
	return err
}

func (t *tunnel) SetDeadline(at time.Time) error {
	t.setTimer(0, at)
	t.setTimer(1, at)
	return nil
}

func (t *tunnel) SetReadDeadline(at time.Time) error  { t.setTimer(0, at); return nil }
func (t *tunnel) SetWriteDeadline(at time.Time) error { t.setTimer(1, at); return nil }

func (t *tunnel) setTimer(which int, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wake[which] != nil {
		t.wake[which].Stop()
		t.wake[which] = nil
	}
	if !at.IsZero() {
		t.wake[which] = time.AfterFunc(time.Until(at), func() {
			t.late.Store(true)
			_ = t.Channel.Close()
		})
	}
}
