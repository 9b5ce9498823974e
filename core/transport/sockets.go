package transport

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// errEvicted ends an idle connection whose file descriptor another host needs.
var errEvicted = errors.New("closed while idle: the file descriptor limit was reached")

// Descriptors returns how many files this process may have open. Go raises the
// soft limit to the hard limit at the start of a process.
func Descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024 // what POSIX systems give at least
	}
	return int(min(limit.Cur, 1<<20))
}

// socketsOf is the share of the limit that connections may use. The rest is for
// plugins, files, Redis and clients.
func socketsOf(descriptors int) int { return max(1, descriptors*3/4) }

// sockets bounds the TCP connections that stand or are being dialled. At the
// bound, the connection that was idle for longest makes room; if none is idle,
// dials wait. The fields but free are guarded by Pool.mu.
type sockets struct {
	free    limiter
	idle    *list.List // of *conn in the pool without a lease, the longest idle first
	starved int        // dials that wait, with no idle connection to close
	warned  bool
}

func newSockets(limit int) sockets { return sockets{free: newLimiter(limit), idle: list.New()} }

// socket waits for a place for one more TCP connection. Give it back by p.sockets.free.leave.
func (p *Pool) socket(ctx context.Context) error {
	for {
		if p.sockets.free.try() {
			return nil
		}
		p.mu.Lock()
		p.warnLocked()
		oldest := p.sockets.idle.Front()
		if oldest == nil {
			p.sockets.starved++
			p.mu.Unlock()
			err := p.sockets.free.enter(ctx)
			p.mu.Lock()
			p.sockets.starved--
			p.mu.Unlock()
			return err
		}
		c, _ := oldest.Value.(*conn)
		p.remove(c)
		p.mu.Unlock()
		c.kill(errEvicted)
		<-c.dead
	}
}

// warnLocked logs once that connections are bounded by the limit of files.
func (p *Pool) warnLocked() {
	if p.sockets.warned {
		return
	}
	p.sockets.warned = true
	p.cfg.Log.Warn("the file descriptor limit bounds SSH connections: idle ones are closed early, hosts may wait",
		"connections", p.cfg.MaxConns, "descriptors", Descriptors(), "hint", "raise ulimit -n, or LimitNOFILE= of the unit")
}

// noteIdle keeps the list of idle connections in step with c.
func (p *Pool) noteIdle(c *conn) {
	switch idle := !c.gone && c.sessions+c.tunnels == 0; {
	case idle && c.idle == nil:
		c.idle = p.sockets.idle.PushBack(c)
	case !idle && c.idle != nil:
		p.sockets.idle.Remove(c.idle)
		c.idle = nil
	}
}

// yield closes c if it is idle and nobody waits for it, while dials wait for a place.
func (p *Pool) yield(c *conn) {
	if c.idle == nil || p.sockets.starved == 0 {
		return
	}
	if en := p.entries[c.key]; en != nil && en.waiting > 0 {
		return
	}
	p.remove(c)
	p.spawnLocked(func() { c.kill(errEvicted) }) // not under p.mu: it writes to the network
}

// dial opens a TCP connection to e. It checks the address of the socket itself, after the name was
// looked up: a name may mean another machine from one moment to the next. It names the limit when
// the process is out of file descriptors all the same.
func dial(ctx context.Context, e *endpoint) (net.Conn, error) {
	d := net.Dialer{ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		socket, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("address %q: %w", address, err)
		}
		return e.admit(machine{e.target().dialled, socket.Addr().Unmap()})
	}}
	c, err := d.DialContext(ctx, "tcp", e.addr)
	if errors.Is(err, syscall.EMFILE) {
		err = fmt.Errorf("all %d file descriptors of this process are in use: %w", Descriptors(), err)
	}
	return c, err
}
