//go:build linux

package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
)

// Probes counts what the resolver answered.
type Probes struct {
	Sent, Answered, Secure, ServFail int
	FirstServFail                    time.Duration // after the first probe
}

// Prober asks the resolver for names of the child, every 100 ms: one that caches know, and one that
// nobody has ever asked for.
type Prober struct {
	stop    context.CancelFunc
	reading sync.WaitGroup

	mu     sync.Mutex
	counts Probes
	begun  time.Time
}

// Probe begins to ask; Stop must follow.
func (l *DNS) Probe() *Prober {
	l.tb.Helper()
	conn, err := new(net.Dialer).DialContext(l.tb.Context(), "udp4", net.JoinHostPort(l.Net.Address, "53"))
	if err != nil {
		l.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Prober{stop: func() { cancel(); _ = conn.Close() }, begun: time.Now()}
	p.reading.Go(func() { p.read(conn) })
	p.reading.Go(func() { p.write(ctx, conn) })
	return p
}

func (p *Prober) write(ctx context.Context, conn net.Conn) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		name := "www." + Zone
		if i%2 == 1 {
			name = fmt.Sprintf("p%d-%d.%s", i, p.begun.UnixNano(), Zone)
		}
		if _, err := conn.Write(query(uint16(i), name)); err == nil {
			p.mu.Lock()
			p.counts.Sent++
			p.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// query is a question for an A record, with the AD bit set: the answer then reports whether it is
// secure.
func query(id uint16, name string) []byte {
	q := []byte{byte(id >> 8), byte(id), 1, 0x20, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(name, ".") {
		q = append(append(q, byte(len(label))), label...)
	}
	return append(q, 0, 0, 1, 0, 1)
}

func (p *Prober) read(conn net.Conn) {
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || n < 12 {
			continue
		}
		p.mu.Lock()
		p.counts.Answered++
		switch buf[3] & 0x0f {
		case 0, 3: // NOERROR, NXDOMAIN
			if buf[3]&0x20 != 0 {
				p.counts.Secure++
			}
		case 2:
			if p.counts.ServFail++; p.counts.FirstServFail == 0 {
				p.counts.FirstServFail = time.Since(p.begun)
			}
		}
		p.mu.Unlock()
	}
}

// Counts are the numbers of observations so far.
func (p *Prober) Counts() Probes { return core.Locked(&p.mu, &p.counts) }

// Stop ends the asking, and returns what was seen. Safe to call twice.
func (p *Prober) Stop() Probes {
	p.stop()
	p.reading.Wait()
	return p.Counts()
}
