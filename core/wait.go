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

// Notify sends, unless that is to be received yet. It never blocks. The channel has room for one.
func Notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
