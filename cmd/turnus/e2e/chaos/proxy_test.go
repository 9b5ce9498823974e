//go:build linux

package chaos

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// way is the effect of a proxy on one direction.
type way int

const (
	open  way = iota
	held      // bytes wait until the way is open again, as of a network that is cut
	lossy     // bytes are lost; connections that lost any end when the way is open again
)

// proxy forwards TCP from a port of 127.0.0.1, and cuts, loses or delays what it carries.
type proxy struct {
	addr     string
	network  string
	listener net.Listener
	wg       sync.WaitGroup

	mu       sync.Mutex
	target   string
	changed  *sync.Cond
	up, down way           // requests and replies
	delay    time.Duration // of each piece of a reply
	closed   bool
	conns    map[net.Conn]bool // true: it lost bytes
}

// newProxy forwards to target until the test ends.
func newProxy(t *testing.T, network, target string) *proxy {
	t.Helper()
	return newProxyAt(t, "127.0.0.1:0", network, target)
}

// newProxyAt is newProxy that listens at an address.
func newProxyAt(t *testing.T, listen, network, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), network: network, target: target, listener: l, conns: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		_ = c.Close()
	}
	p.changed.Broadcast()
	p.mu.Unlock()
	p.wg.Wait()
}

// retarget forwards new connections to another target.
func (p *proxy) retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		far, err := net.DialTimeout(p.network, target, 5*time.Second)
		if err != nil {
			_ = c.Close()
			continue
		}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			_, _ = c.Close(), far.Close()
			return
		}
		p.conns[c], p.conns[far] = false, false
		p.mu.Unlock()
		p.wg.Go(func() { p.carry(c, far, &p.up, false) })
		p.wg.Go(func() { p.carry(far, c, &p.down, true) })
	}
}

// carry copies one direction until either end is gone.
func (p *proxy) carry(from, to net.Conn, state *way, slow bool) {
	defer func() {
		p.mu.Lock()
		delete(p.conns, from)
		p.mu.Unlock()
		if t, ok := to.(interface{ CloseWrite() error }); !ok || t.CloseWrite() != nil {
			_ = to.Close()
		}
		if slow { // the server's side has ended: so has the connection
			_, _ = from.Close(), to.Close()
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			ok, lost := p.pass(from, to, state)
			if !ok {
				return
			}
			if slow {
				p.wait()
			}
			if !lost {
				if _, err := to.Write(buf[:n]); err != nil {
					return
				}
			}
		}
		if err != nil {
			_, _ = p.pass(from, to, state) // an end is as late as bytes are
			return
		}
	}
}

// pass waits while the way is blocked. It reports false when the proxy is closed.
func (p *proxy) pass(from, to net.Conn, state *way) (ok, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for *state == held && !p.closed {
		p.changed.Wait()
	}
	if *state == lossy {
		p.conns[from], p.conns[to] = true, true
	}
	return !p.closed, *state == lossy
}

// wait delays a piece.
func (p *proxy) wait() {
	p.mu.Lock()
	d := p.delay
	p.mu.Unlock()
	if d > 0 {
		pass(d)
	}
}

// set changes both ways and the delay; what lost bytes ends, since its two ends no longer agree.
func (p *proxy) set(up, down way, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up, p.down, p.delay = up, down, delay
	for c, lost := range p.conns {
		if lost && up != lossy && down != lossy {
			_ = c.Close()
		}
	}
	p.changed.Broadcast()
}

// pass lets time pass.
func pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// A proxy carries both ways, holds what is cut and delivers it afterwards, and loses replies of
// what was carried out.
func TestAProxyHoldsAndLoses(t *testing.T) {
	seen := make(chan string, 10)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = c.Close() }()
				b := make([]byte, 1)
				for {
					if _, err := io.ReadFull(c, b); err != nil {
						return
					}
					seen <- string(b)
					_, _ = c.Write(b)
				}
			})
		}
	})
	p := newProxy(t, "tcp", l.Addr().String())
	t.Cleanup(func() { _ = l.Close(); p.close(); wg.Wait() })
	dial := func() net.Conn {
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	c, b := dial(), make([]byte, 1)
	say := func(what string) {
		if _, err := c.Write([]byte(what)); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(what string) {
		if _, err := io.ReadFull(c, b); err != nil || string(b) != what {
			t.Fatalf("heard %q, %v, expected %q", b, err, what)
		}
	}
	say("1")
	hear("1")
	<-seen
	p.set(held, open, 0)
	say("2")
	select {
	case got := <-seen:
		t.Fatalf("%s went through a way that is cut", got)
	case <-time.After(50 * time.Millisecond): // it may only come later, and fail below
	}
	p.set(open, held, 0)
	if got := <-seen; got != "2" {
		t.Fatalf("the server saw %s, expected 2", got)
	}
	p.set(open, open, time.Millisecond)
	hear("2")
	p.set(open, lossy, 0)
	say("3")
	if got := <-seen; got != "3" {
		t.Fatalf("the server saw %s, expected 3", got)
	}
	p.mu.Lock()
	for !p.conns[c] && len(p.conns) > 0 && !lostAny(p.conns) {
		p.mu.Unlock()
		pass(time.Millisecond)
		p.mu.Lock()
	}
	p.mu.Unlock()
	p.set(open, open, 0)
	if _, err := io.ReadFull(c, b); err == nil {
		t.Error("a connection that lost a reply continues")
	}
	c = dial()
	say("4")
	hear("4")
}

func lostAny(conns map[net.Conn]bool) bool {
	for _, lost := range conns {
		if lost {
			return true
		}
	}
	return false
}
