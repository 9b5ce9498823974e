package core

import (
	"context"
	"errors"
	"sync"
	"time"
)

// outageEvery is how often an outage that continues is reported.
const outageEvery = time.Minute

// NoAnswer reports whether an error means that something does not answer, rather than that it
// refuses.
func NoAnswer(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknown) || errors.Is(err, context.DeadlineExceeded)
}

// Outage decides when to report that something does not answer: when that begins, once a minute
// while it lasts, and when it has ended. The zero value is that it answers. It is safe for
// concurrent use.
type Outage struct {
	mu          sync.Mutex
	since, said time.Time
	failed      int
}

// Failed notes a call without an answer. It returns whether to report it now, and for how long
// there has been none: 0 is the first.
func (o *Outage) Failed() (report bool, lasts time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if o.failed++; o.failed == 1 {
		o.since, o.said = now, now
		return true, 0
	}
	if report = now.Sub(o.said) >= outageEvery; report {
		o.said = now
	}
	return report, now.Sub(o.since)
}

// Over notes an answer. It returns how long there was none, and how many calls failed: 0 if none
// had.
func (o *Outage) Over() (lasted time.Duration, failed int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if failed = o.failed; failed > 0 {
		lasted, o.failed = time.Since(o.since), 0
	}
	return lasted, failed
}

// Lasts reports whether the last call had no answer.
func (o *Outage) Lasts() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed > 0
}
