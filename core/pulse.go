package core

import (
	"sync/atomic"
	"time"
)

// Pulse reports whether a loop still turns. The zero value is that of a loop that has not begun. It
// is safe for concurrent use.
type Pulse struct {
	at atomic.Pointer[time.Time] // with the monotonic clock, which nobody sets; nil before the loop and after it
}

// Beat notes that the loop has come round.
func (p *Pulse) Beat() {
	now := time.Now()
	p.at.Store(&now)
}

// End notes that the loop has ended: nothing is expected of it any more.
func (p *Pulse) End() { p.at.Store(nil) }

// Beats reports whether the loop has begun, and is not over.
func (p *Pulse) Beats() bool { return p.at.Load() != nil }

// Stuck is for how long the loop has not come round, where that is longer than the limit: only a
// new process helps then. It is 0 else.
func (p *Pulse) Stuck(limit time.Duration) time.Duration {
	at := p.at.Load()
	if at == nil {
		return 0
	}
	if since := time.Since(*at); since > limit {
		return since
	}
	return 0
}
