package redis

import (
	"context"
	"fmt"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// SignalJob ends the suspension of one job that waits for event.
func (q *Queue) SignalJob(ctx context.Context, id core.JobID, event string) (bool, error) {
	if err := queue.CheckEvent(event); err != nil {
		return false, fmt.Errorf("signal job %s: %w", id, err)
	}
	if id.Index < 0 || id.Index >= queue.MaxTargets {
		return false, fmt.Errorf("signal job %s: a run has at most %d jobs: %w", id, queue.MaxTargets, core.ErrInvalid)
	}
	n, err := q.number(ctx, q.scripts.signaljob, id.Run, id.Index, event)
	switch {
	case err != nil:
		return false, fmt.Errorf("signal job %s: %w", id, err)
	case n == 2:
		return false, fmt.Errorf("signal job %s: its run has fewer jobs: %w", id, core.ErrInvalid)
	}
	return n == 1, nil
}
