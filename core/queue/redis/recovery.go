package redis

import (
	"context"
	"fmt"

	"github.com/turnus/turnus/core/queue"
)

// Doubt returns whether Redis restarted or failed over, and nobody trusts it since.
func (q *Queue) Doubt(ctx context.Context) (queue.Doubt, error) { return q.askRecovery(ctx, "") }

// Trust ends a doubt.
func (q *Queue) Trust(ctx context.Context, d queue.Doubt) error {
	_, err := q.askRecovery(ctx, "trust", d.ID)
	return err
}

// Hold has no job leased until workers of a queue that was lost cannot be at work any more.
func (q *Queue) Hold(ctx context.Context) error {
	_, err := q.askRecovery(ctx, "hold")
	return err
}

func (q *Queue) askRecovery(ctx context.Context, args ...any) (queue.Doubt, error) {
	v, err := q.eval(ctx, q.scripts.recovery, args...)
	if err != nil {
		return queue.Doubt{}, fmt.Errorf("ask whether Redis restarted: %w", err)
	}
	r := newReply(v)
	if r.empty() && r.bad == nil {
		return queue.Doubt{}, nil
	}
	d := queue.Doubt{ID: r.text(), Older: r.int() == 1}
	return d, r.end("recovery")
}

// Drop removes a run that came back older.
func (q *Queue) Drop(ctx context.Context, run string, recorded int) (bool, error) {
	n, err := q.number(ctx, q.scripts.drop, run, recorded)
	if err != nil {
		return false, fmt.Errorf("drop run %q: %w", run, err)
	}
	return n == 1, nil
}

// given notes a token or fence that this process was given. The highest one is sent with each call
// of a node: it shows a queue that has forgotten it.
func (q *Queue) given(token uint64) {
	for seen := q.seen.Load(); token > seen; seen = q.seen.Load() {
		if q.seen.CompareAndSwap(seen, token) {
			return
		}
	}
}
