package transport

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// maxPerHost bounds the connections to one host.
const maxPerHost = 4

// use is the purpose of a lease of a connection.
type use int

const (
	sessionUse use = iota // exec, subsystem: sshd limits these
	tunnelUse             // direct-tcpip: sshd does not
)

// entry is all connections of one key. Guarded by Pool.mu.
type entry struct {
	conns   []*conn
	flight  *flight       // the dial under way
	changed chan struct{} // closed and replaced when a waiter may find news
	waiting int
	full    bool // the last try to add a connection failed; do with those that stand
}

func (en *entry) wake() {
	close(en.changed)
	en.changed = make(chan struct{})
}

// flight is one dial that any number of callers wait for. It ends early only
// when all of them are gone, so a cancelled first caller harms nobody.
type flight struct {
	cancel  context.CancelFunc
	waiters int
	landed  bool
	err     error
}

// acquire leases a connection to the end of r, dialling it when needed. With all sessions taken, it
// dials a further connection (some 40 ms, while how long the others run is unknown) and takes
// whatever comes first, a free session or the new connection. reused reports that the connection
// stood before.
func (p *Pool) acquire(ctx context.Context, r route, u use) (c *conn, reused bool, err error) {
	key := r.key()
	p.mu.Lock()
	defer p.mu.Unlock()
	waited := false
	var joined *flight
	defer func() {
		if joined != nil && !joined.landed {
			joined.waiters--
		}
	}()
	for {
		if p.closed {
			return nil, false, r.last().fail("dial", "", true, errPoolClosed)
		}
		en := p.entries[key]
		if en == nil {
			en = &entry{changed: make(chan struct{})}
			p.entries[key] = en
		}
		if c := en.pick(u); c != nil {
			c.lease(u)
			p.noteIdle(c)
			if !waited {
				p.reused.Add(1)
			}
			return c, !waited, nil
		}
		if joined != nil && joined.landed {
			if joined.err != nil && len(en.conns) == 0 {
				return nil, false, joined.err
			}
			joined = nil
		}
		if en.flight == nil && len(en.conns) < maxPerHost && (!en.full || len(en.conns) == 0) {
			p.launch(ctx, en, key, r)
		}
		if joined == nil && en.flight != nil {
			joined = en.flight
			joined.waiters++
		}
		waited = true
		p.wait(ctx, en)
		if ctx.Err() != nil {
			p.quit(key, en, joined)
			return nil, false, r.last().ended(ctx, "dial", true)
		}
	}
}

// wait blocks without p.mu until there is news or ctx ends.
func (p *Pool) wait(ctx context.Context, en *entry) {
	changed := en.changed
	en.waiting++
	p.mu.Unlock()
	select {
	case <-changed:
	case <-ctx.Done():
	}
	p.mu.Lock()
	en.waiting--
}

// quit takes a caller out whose context ended. The last one to leave a dial
// calls it off.
func (p *Pool) quit(key string, en *entry, f *flight) {
	if f != nil && !f.landed && f.waiters == 1 { // acquire's defer takes the last one off
		f.cancel()
		if en.flight == f {
			en.flight = nil // a newcomer must not join a dial that was called off
		}
	}
	p.forget(key, en)
}

// launch starts the dial of r. Jump connections come from the pool as well, one
// goroutine a hop and no lock held: a circle was excluded when r was laid out. Many may wait for
// it; its span is under that of first.
func (p *Pool) launch(first context.Context, en *entry, key string, r route) {
	ctx, cancel := context.WithCancel(trace.ContextWithSpan(p.ctx, trace.SpanFromContext(first)))
	f := &flight{cancel: cancel}
	en.flight = f
	p.spawnLocked(func() {
		defer cancel()
		c, err := p.login(ctx, r)
		p.mu.Lock()
		defer p.mu.Unlock()
		if err == nil && c.gone {
			err = r.last().unreachable("session", "see the host's log: journalctl -u ssh", errors.New("server closed the connection right after login"))
		}
		f.landed, f.err = true, err
		if en.flight == f {
			en.flight, en.full = nil, err != nil
		}
		if err == nil {
			home := p.entries[key] // another entry, if this dial was called off too late
			if home == nil {
				home = en
				p.entries[key] = en
			}
			home.conns = append(home.conns, c)
			p.noteIdle(c)
			home.wake()
			p.yield(c)
		}
		en.wake()
		p.forget(key, en)
	})
}

// login dials the end of r, proves its key and logs in.
func (p *Pool) login(ctx context.Context, r route) (*conn, error) {
	proof, err := p.trust.proof(r.last())
	if err != nil {
		return nil, err
	}
	return p.dialRoute(ctx, r, proof)
}

// dialRoute dials the end of r through pooled connections to the hosts before it.
func (p *Pool) dialRoute(ctx context.Context, r route, keys verifier) (*conn, error) {
	if len(r) == 1 {
		return p.connect(ctx, r, nil, keys)
	}
	for first := true; ; first = false {
		via, reused, err := p.acquire(ctx, r[:len(r)-1], tunnelUse)
		if err != nil {
			return nil, err
		}
		c, err := p.connect(ctx, r, via, keys)
		if err == nil {
			return c, nil
		}
		p.release(via, tunnelUse)
		select {
		case <-via.dead: // the jump connection had died while idle: once more
			if reused && first && ctx.Err() == nil {
				continue
			}
		default:
		}
		return nil, err
	}
}

// pick finds the busiest connection with room, so that the others can idle away.
func (en *entry) pick(u use) *conn {
	var best *conn
	for _, c := range en.conns {
		if c.gone || (u == sessionUse && c.sessions >= c.limit) {
			continue
		}
		if best == nil || c.sessions > best.sessions {
			best = c
		}
	}
	return best
}

func (c *conn) lease(u use) {
	if u == sessionUse {
		c.sessions++
	} else {
		c.tunnels++
	}
}

// release gives a leased connection back.
func (p *Pool) release(c *conn, u use) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u == sessionUse {
		c.sessions--
	} else {
		c.tunnels--
	}
	c.lastUsed = time.Now()
	p.noteIdle(c)
	if en := p.entries[c.key]; en != nil && en.waiting > 0 {
		en.wake()
	}
	p.yield(c)
}

// lower notes that the server refused a session beyond those that are open, and
// reports whether there are any.
func (p *Pool) lower(c *conn) (others bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.limit = max(1, min(c.limit, c.sessions-1))
	return c.sessions > 1
}

// retire takes an idle connection out of the pool, and reports whether it did.
func (p *Pool) retire(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.sessions+c.tunnels > 0 || time.Since(c.lastUsed) < p.cfg.Idle {
		return false
	}
	p.remove(c)
	return true
}

// discard takes a connection out of the pool; nobody new gets it.
func (p *Pool) discard(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(c)
}

func (p *Pool) remove(c *conn) {
	c.gone = true
	p.noteIdle(c)
	en := p.entries[c.key]
	if en == nil {
		return
	}
	if i := slices.Index(en.conns, c); i >= 0 {
		en.conns = slices.Delete(en.conns, i, i+1)
		en.wake()
	}
	p.forget(c.key, en)
}

// forget drops an entry that nobody needs, so that the pool's memory follows the
// hosts in use.
func (p *Pool) forget(key string, en *entry) {
	if len(en.conns) == 0 && en.flight == nil && en.waiting == 0 && p.entries[key] == en {
		delete(p.entries, key)
	}
}
