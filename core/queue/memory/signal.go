package memory

import (
	"context"
	"fmt"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// SignalJob ends the suspension of one job that waits for event.
func (q *Queue) SignalJob(ctx context.Context, id core.JobID, event string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := queue.CheckEvent(event); err != nil {
		return false, fmt.Errorf("signal job %s: %w", id, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now()
	r, err := q.find(id.Run)
	if err != nil {
		return false, err
	}
	if id.Index < 0 || id.Index >= len(r.submitted.Targets) {
		return false, fmt.Errorf("signal job %s: its run has %d jobs: %w", id, len(r.submitted.Targets), core.ErrInvalid)
	}
	j := r.jobs[id.Index]
	if j == nil {
		return false, nil
	}
	if _, waits := r.events[event][j]; !waits {
		return false, nil
	}
	q.signalJob(j)
	q.retime(r)
	q.sync(r)
	q.arm()
	return true, nil
}
