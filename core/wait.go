package core

import (
	"context"
	"time"
)

// Sleep waits for d. If ctx ends before, it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// Pause waits for d, or until ctx ends or something is sent. sent may be nil.
func Pause(ctx context.Context, d time.Duration, sent <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-sent:
	case <-timer.C:
	}
}

// Notify sends to a channel with room for one, and never blocks. If the last value was not received
// yet, it does nothing.
func Notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
