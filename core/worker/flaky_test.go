package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// flaky is a Queue whose calls fail as a test sets.
type flaky struct {
	queue.Worker
	// fault is asked before each call: nil lets it through.
	fault func(call string) *fault

	mu    sync.Mutex
	turns []queue.Turn
}

// fault is how one call fails.
type fault struct {
	reached bool // the call took effect, its reply was lost
	hang    bool // and it takes until its context ends
	err     error
}

func away(string) *fault {
	return &fault{err: fmt.Errorf("dial: connection refused: %w", core.ErrUnavailable)}
}

func (f *flaky) set(fault func(string) *fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

func (f *flaky) through(ctx context.Context, call string, do func() error) error {
	f.mu.Lock()
	ask := f.fault
	f.mu.Unlock()
	if ask == nil {
		return do()
	}
	x := ask(call)
	if x == nil {
		return do()
	}
	if x.reached {
		_ = do()
	}
	if x.hang {
		<-ctx.Done()
		return fmt.Errorf("%s: %w", call, core.ErrUnknown)
	}
	return x.err
}

func (f *flaky) Open(ctx context.Context, node string) (id string, err error) {
	err = f.through(ctx, "open", func() error { id, err = f.Worker.Open(ctx, node); return err })
	return id, err
}

func (f *flaky) Turn(ctx context.Context, t queue.Turn) (res queue.TurnResult, err error) {
	f.mu.Lock()
	t.Acks = append([]queue.Ack(nil), t.Acks...)
	f.turns = append(f.turns, t)
	f.mu.Unlock()
	err = f.through(ctx, "turn", func() error { res, err = f.Worker.Turn(ctx, t); return err })
	if err != nil {
		res = queue.TurnResult{}
	}
	return res, err
}

func (f *flaky) Beat(ctx context.Context, s string) (res queue.BeatResult, err error) {
	err = f.through(ctx, "beat", func() error { res, err = f.Worker.Beat(ctx, s); return err })
	if err != nil {
		res = queue.BeatResult{}
	}
	return res, err
}

func (f *flaky) Wait(ctx context.Context, s string, until time.Time) error {
	return f.through(ctx, "wait", func() error { return f.Worker.Wait(ctx, s, until) })
}

func (f *flaky) Adopt(ctx context.Context, s string) (l []queue.Lease, err error) {
	err = f.through(ctx, "adopt", func() error { l, err = f.Worker.Adopt(ctx, s); return err })
	if err != nil {
		l = nil
	}
	return l, err
}

func (f *flaky) Save(ctx context.Context, s queue.Save) error {
	return f.through(ctx, "save", func() error { return f.Worker.Save(ctx, s) })
}

func (f *flaky) Close(ctx context.Context, s string) error {
	return f.through(ctx, "close", func() error { return f.Worker.Close(ctx, s) })
}

// sometimes fails calls with probability p, in every way a network can.
func sometimes(r *rand.Rand, p float64) func(string) *fault {
	var mu sync.Mutex
	return func(call string) *fault {
		mu.Lock()
		defer mu.Unlock()
		if r.Float64() >= p {
			return nil
		}
		switch r.IntN(4) {
		case 0:
			return away(call)
		case 1:
			return &fault{reached: true, err: fmt.Errorf("%s: read: %w", call, core.ErrUnknown)}
		case 2:
			return &fault{err: fmt.Errorf("%s: write: %w", call, core.ErrUnknown)}
		}
		return &fault{reached: r.IntN(2) == 0, hang: true}
	}
}
