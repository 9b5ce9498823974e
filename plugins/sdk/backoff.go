package sdk

import (
	"context"
	"time"
)

// Poll calls try until it is done or returns an error, waiting first between the calls,
// then half as long again each time, up to most. When ctx ends it returns the reason of ctx, with
// any error of try.
func Poll(ctx context.Context, first, most time.Duration, try func(ctx context.Context) (done bool, err error)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	pause := max(first, time.Millisecond)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
		done, err := try(ctx)
		if err != nil && ctx.Err() != nil { // what failed then is no news: a cancelled job is not one whose host is away
			return context.Cause(ctx)
		}
		if done || err != nil {
			return err
		}
		timer.Reset(pause)
		pause = min(pause+pause/2, max(most, first))
	}
}

// Sleep waits, or returns the reason of ctx when that ends first.
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
