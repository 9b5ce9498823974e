package servers

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// RedisProxy forwards TCP on 127.0.0.1, in the clear, to a server that may speak TLS; it can
// swallow answers, or go silent on the connections that exist.
type RedisProxy struct {
	Addr   string
	target *Redis
	Lose   atomic.Value // string: a connection that has carried this word gives no answer any more
	Silent atomic.Int64 // connections with a number up to this neither answer nor end
	N      atomic.Int64 // connections so far
	mu     sync.Mutex
	conns  []net.Conn
	wg     sync.WaitGroup
}

// ImpatientTimeout is the timeout of a client that is to lose answers: it is long enough for a
// proxy to make a connection.
func ImpatientTimeout() time.Duration {
	if TLSEverywhere() {
		return 2 * time.Second
	}
	return 300 * time.Millisecond
}

// NewRedisProxy starts a proxy of a server, until the test ends.
func NewRedisProxy(tb testing.TB, target *Redis) *RedisProxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a moment
	if err != nil {
		tb.Fatal(err)
	}
	p := &RedisProxy{Addr: l.Addr().String(), target: target}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.serve(c)
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.wg.Wait()
	})
	return p
}

func (p *RedisProxy) serve(c net.Conn) {
	up, err := p.target.Open(context.Background())
	if err != nil {
		_ = c.Close()
		return
	}
	no := p.N.Add(1)
	p.mu.Lock()
	p.conns = append(p.conns, c, up)
	p.mu.Unlock()
	var lost atomic.Bool
	p.wg.Go(func() {
		defer func() { _ = up.Close() }()
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			if word, _ := p.Lose.Load().(string); word != "" && bytes.Contains(buf[:n], []byte(word)) {
				lost.Store(true)
			}
			if err != nil {
				return
			}
			if _, err := up.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	p.wg.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := up.Read(buf)
			if err != nil {
				_ = c.Close()
				return
			}
			if lost.Load() || no <= p.Silent.Load() {
				continue
			}
			if _, err := c.Write(buf[:n]); err != nil {
				return
			}
		}
	})
}
