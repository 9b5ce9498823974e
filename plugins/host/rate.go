package host

import (
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/time/rate"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
)

// burst returns how much a limiter lets through without a wait: a twentieth of a second's worth, so
// that a cap also holds over short times, but no less than a read, which SFTP sends in one packet.
func burst(perSecond int64) int { return int(min(max(perSecond/20, 32<<10), 1<<20)) }

// newLimiter bounds bytes a second; nil for 0 bounds nothing.
func newLimiter(perSecond int64) *rate.Limiter {
	if perSecond <= 0 {
		return nil
	}
	l := rate.NewLimiter(rate.Limit(perSecond), burst(perSecond))
	l.AllowN(time.Now(), l.Burst()) // begins empty: a burst at first would exceed the cap of a short upload
	return l
}

// paced is a reader that every limiter delays.
type paced struct {
	ctx      context.Context //nolint:containedctx // of the transfer; io.Reader passes none
	r        io.Reader
	limiters []*rate.Limiter
}

// pace holds r back; nil limiters bound nothing.
func pace(ctx context.Context, r io.Reader, limiters ...*rate.Limiter) io.Reader {
	p := &paced{ctx: ctx, r: r}
	for _, l := range limiters {
		if l != nil {
			p.limiters = append(p.limiters, l)
		}
	}
	if len(p.limiters) == 0 {
		return r
	}
	return p
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	for _, l := range p.limiters {
		b = b[:min(len(b), l.Burst())]
	}
	n, err := p.r.Read(b)
	for _, l := range p.limiters {
		if wait := l.WaitN(p.ctx, n); wait != nil && n > 0 {
			return n, fmt.Errorf("waiting for the upload rate: %w", wait)
		}
	}
	return n, err
}

// boundedReach bounds all uploads together.
type boundedReach struct {
	reach
	uploads *rate.Limiter
}

// Put implements reach.
func (b *boundedReach) Put(ctx context.Context, h core.Host, put transport.Put, data io.Reader) (transport.Written, error) {
	return b.reach.Put(ctx, h, put, pace(ctx, data, b.uploads))
}
