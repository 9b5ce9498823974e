package transport

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
)

// openTimeout bounds opening a channel. Nothing of a command has been sent by then, so a connection
// that lets it pass is closed and dialled again.
const openTimeout = 10 * time.Second

// conn is one authenticated connection. Its watch goroutine owns its end.
type conn struct {
	pool       *Pool
	e          *endpoint
	key        string
	ssh        ssh.Conn
	via        *conn         // the jump connection underneath, leased until this one ends
	at         machine       // the server at its end
	rtt        time.Duration // a guess, from the handshake
	unverified bool          // its host key was pinned at the first contact: nothing secret is sent
	dead       chan struct{} // closed when the connection has ended and all is given back

	killOnce sync.Once
	cause    error // why, set before the connection is closed by us

	// Guarded by pool.mu.
	sessions int // counted against the limit
	tunnels  int // not limited by sshd
	limit    int // sessions at the same time; lowered when the server refuses
	lastUsed time.Time
	gone     bool          // not to be handed out again
	idle     *list.Element // in pool.sockets.idle
}

// newConn takes a finished handshake over and starts watching it.
func (p *Pool) newConn(r route, sc ssh.Conn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request, via *conn, at machine, unverified bool, took time.Duration) *conn {
	c := &conn{
		pool: p, e: r.last(), key: r.key(), ssh: sc, via: via, at: at, unverified: unverified,
		rtt:  min(took/4, time.Second), // a handshake has at least four round trips
		dead: make(chan struct{}), limit: p.cfg.MaxSessions, lastUsed: time.Now(),
	}
	p.mu.Lock()
	watched := p.spawnLocked(func() { c.watch(chans, reqs) })
	if watched {
		p.live[c] = struct{}{}
	}
	p.mu.Unlock()
	if !watched {
		c.kill(errPoolClosed)
		c.watch(chans, reqs)
	}
	return c
}

// kill closes the connection. The first cause stands.
func (c *conn) kill(cause error) {
	c.killOnce.Do(func() {
		c.cause = cause
		_ = c.ssh.Close()
	})
}

// watch serves the connection until it ends: it answers the server's requests,
// sends keepalives (x/crypto has none, go#19338), and closes an idle one.
func (c *conn) watch(chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) {
	defer c.buried()
	unused := time.NewTicker(min(c.e.keepAlive, c.pool.cfg.Idle))
	defer unused.Stop()
	alive := time.NewTicker(c.e.keepAlive)
	defer alive.Stop()
	var pong chan error // of the keepalive under way
	defer func() {
		if pong != nil {
			<-pong //nolint:errcheck // awaited, so that its goroutine has ended; the connection is over
		}
	}()
	missed := 0
	for {
		select {
		case r, ok := <-reqs:
			if !ok {
				return
			}
			if r.WantReply {
				_ = r.Reply(false, nil)
			}
		case nc, ok := <-chans:
			if !ok {
				chans = nil
				continue
			}
			_ = nc.Reject(ssh.Prohibited, "this client opens channels only")
		case err := <-pong:
			pong, missed = nil, 0
			if err != nil {
				c.kill(err)
			}
		case <-unused.C:
			if c.pool.retire(c) {
				c.kill(errIdle)
			}
		case <-alive.C:
			if pong == nil {
				pong = c.ping()
				continue
			}
			if missed++; missed == 2 {
				c.pool.discard(c)
				c.kill(errNoAnswer)
			}
		}
	}
}

// ping sends a keepalive; any answer will do, also a refusal. The goroutine ends with the answer or
// the connection, and watch waits for it.
func (c *conn) ping() chan error {
	pong := make(chan error, 1)
	go func() {
		_, _, err := c.ssh.SendRequest("keepalive@openssh.com", true, nil)
		pong <- err
	}()
	return pong
}

// buried runs once the connection has ended.
func (c *conn) buried() {
	_ = c.ssh.Close()
	c.pool.discard(c)
	c.pool.mu.Lock()
	delete(c.pool.live, c)
	c.pool.mu.Unlock()
	if c.via != nil {
		c.pool.release(c.via, tunnelUse)
	} else {
		c.pool.sockets.free.leave()
	}
	close(c.dead)
}

// lost returns why the connection ended. Call it after buried has returned.
func (c *conn) lost() error {
	c.killOnce.Do(func() {}) // the killer has written cause
	return fmt.Errorf("connection lost: %w", cmp.Or(c.cause, errors.New("closed by the host or the network")))
}

// open opens a channel. NewSession and its like can hang (go#26643), so the
// wait is bounded; a channel that opens after all is closed.
func (c *conn) open(ctx context.Context, kind string, payload []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	type opened struct {
		ch   ssh.Channel
		reqs <-chan *ssh.Request
		err  error
	}
	done := make(chan opened)
	abandoned := make(chan struct{})
	if !c.pool.spawn(func() {
		ch, reqs, err := c.ssh.OpenChannel(kind, payload)
		select {
		case done <- opened{ch, reqs, err}:
		case <-abandoned:
			if err == nil {
				_ = ch.Close()
				ssh.DiscardRequests(reqs)
			}
		}
	}) {
		return nil, nil, errPoolClosed
	}
	limit := time.NewTimer(openTimeout)
	defer limit.Stop()
	select {
	case o := <-done:
		return o.ch, o.reqs, o.err
	case <-ctx.Done():
		close(abandoned)
		return nil, nil, context.Cause(ctx)
	case <-limit.C:
		close(abandoned)
		return nil, nil, fmt.Errorf("%w: no channel after %v", core.ErrTimeout, openTimeout)
	}
}
