package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Cancel ends the run. It gives the queue free between batches of jobs.
func (q *Queue) Cancel(ctx context.Context, id, reason string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now()
	r, err := q.find(id)
	if err != nil {
		return err
	}
	if r.complete || r.phase == queue.Cancelled {
		return nil
	}
	if reason == "" {
		reason = "cancelled by an operator"
	}
	q.stop(r, queue.Cancelled, reason)
	for _, j := range r.jobs {
		if j.state == core.Leased {
			j.session.stopping[j] = struct{}{}
		}
	}
	q.finishSweep(r)
	q.arm()
	return nil
}

// finishSweep ends what a stop or cancel left over. It gives the lock free between batches.
func (q *Queue) finishSweep(r *run) {
	for r.sweeping && q.sweepRun(r, sweepBatch) <= 0 {
		q.mu.Unlock()
		q.mu.Lock()
	}
	if r.sweeping {
		r.sweeping = false
		q.sweeping = slices.DeleteFunc(q.sweeping, func(o *run) bool { return o == r })
	}
}

// Adjust pauses, resumes, reweights, or releases a wave.
func (q *Queue) Adjust(ctx context.Context, id string, a queue.Adjust) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := a.Validate(); err != nil {
		return fmt.Errorf("adjust run %q: %w", id, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now()
	r, err := q.find(id)
	if err != nil {
		return err
	}
	if r.complete || r.over() {
		return nil
	}
	if a.Paused != nil {
		r.phase = queue.Active
		if *a.Paused {
			r.phase = queue.Paused
		}
	}
	if a.Weight != nil {
		r.weight = *a.Weight
	}
	if a.Limit != nil {
		limit := *a.Limit
		if limit == 0 {
			limit = len(r.submitted.Targets)
		}
		r.limit = max(r.limit, min(limit, len(r.submitted.Targets)))
		r.late = r.releasedOf(r.later.items)
	}
	if a.Stop != "" {
		q.stop(r, queue.Stopped, a.Stop)
		q.finishSweep(r)
	}
	q.sync(r)
	q.arm()
	return nil
}

// Redrive gives dead jobs a new life.
func (q *Queue) Redrive(ctx context.Context, id string, indexes ...int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now()
	r, err := q.find(id)
	if err != nil {
		return 0, err
	}
	q.finishSweep(r)
	if r.phase == queue.Cancelled {
		return 0, fmt.Errorf("redrive: run %q is cancelled, no job of it may start: %w", id, core.ErrConflict)
	}
	for _, i := range indexes {
		if i < 0 || i >= len(r.submitted.Targets) {
			return 0, fmt.Errorf("redrive: run %q has no job %d, expected 0 to %d: %w", id, i, len(r.submitted.Targets)-1, core.ErrInvalid)
		}
	}
	if len(indexes) == 0 {
		for i := range r.dead {
			indexes = append(indexes, i)
		}
	}
	n := 0
	for _, i := range indexes {
		if _, dead := r.dead[i]; dead {
			q.revive(r, i)
			n++
		}
	}
	if n > 0 {
		q.reopen(r)
	}
	q.arm()
	return n, nil
}

// revive makes a dead job ready; its record stays, its outcome no longer counts.
func (q *Queue) revive(r *run, index int) {
	delete(r.dead, index)
	j := q.newJob(r, index)
	j.state = core.Dead
	r.jobs[index] = j
	r.outcomes[outcomeCode(core.Lost)]--
	r.ended--
	q.move(j, core.EvRedrive)
	r.ready.push(j)
}

// reopen makes a run active again that had been stopped or complete.
func (q *Queue) reopen(r *run) {
	if r.complete {
		r.complete = false
		r.tenant.open++
	}
	if r.phase != queue.Paused {
		r.phase, r.reason = queue.Active, ""
	}
	q.sync(r)
}

// Dismiss ends the jobs that wait for event as cancelled, in batches as Wake.
func (q *Queue) Dismiss(ctx context.Context, id, event, reason string) (int, error) {
	return q.eachAwaiting(ctx, "dismiss", id, event, func(j *job) {
		r := j.r
		q.unpark(j)
		q.finish(j, core.EvCancel, core.Cancelled, reason, j.data)
		q.settle(r)
	})
}

// Wake ends the suspension of the jobs that wait for event. It gives the queue free between batches of jobs,
// so some of them may be leased before the last one is woken.
func (q *Queue) Wake(ctx context.Context, id, event string) (int, error) {
	return q.eachAwaiting(ctx, "wake", id, event, q.wakeJob)
}

func (q *Queue) eachAwaiting(ctx context.Context, verb, id, event string, do func(*job)) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if event == "" {
		return 0, fmt.Errorf("%s run %q: the event has no name: %w", verb, id, core.ErrInvalid)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now()
	r, err := q.find(id)
	if err != nil {
		return 0, err
	}
	n := 0
	for batch := range slices.Chunk(slices.Collect(maps.Keys(r.events[event])), wakeBatch) {
		if n > 0 {
			q.mu.Unlock()
			q.mu.Lock()
		}
		for _, j := range batch {
			if _, waits := r.events[event][j]; waits { // else it ended meanwhile
				do(j)
				n++
			}
		}
		q.retime(r)
		q.sync(r)
		q.arm()
	}
	return n, nil
}
