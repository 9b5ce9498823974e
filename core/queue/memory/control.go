package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Cancel ends the run. It gives the queue free between batches of jobs.
func (q *Queue) Cancel(ctx context.Context, id string, reason core.Reason) error {
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
	reason = cmp.Or(reason, "cancelled by an operator")
	q.stop(r, queue.Cancelled, reason)
	for _, j := range r.jobs {
		if j.state == core.Leased && !j.closing {
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

// Adjust changes runs, each alone.
func (q *Queue) Adjust(ctx context.Context, runs ...queue.Adjust) []error {
	return queue.AdjustEach(runs, func(a queue.Adjust) error { return q.adjust(ctx, a) })
}

func (q *Queue) adjust(ctx context.Context, a queue.Adjust) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now()
	r, err := q.find(a.Run)
	if err != nil {
		return err
	}
	if r.complete || r.over() {
		return nil
	}
	phase, limit := r.phase, r.limit
	if a.Paused != nil {
		r.phase = queue.Active
		if *a.Paused {
			r.phase = queue.Paused
		}
	}
	if a.Weight != nil {
		r.weight = *a.Weight
	}
	if a.MaxInFlight != nil {
		r.maxInFlight = *a.MaxInFlight
	}
	if a.Limit != nil {
		r.limit = max(r.limit, r.released(*a.Limit))
		r.late = r.releasedOf(r.later.items)
	}
	if r.phase != phase || r.limit != limit {
		q.report(r)
	}
	if a.Stop != "" {
		q.stop(r, queue.Stopped, a.Stop)
		q.finishSweep(r)
	}
	q.sync(r)
	q.arm()
	return nil
}

// released is how many targets a limit releases.
func (r *run) released(limit int) int {
	if all := len(r.submitted.Targets); limit == 0 || limit > all {
		return all
	}
	return limit
}

// Dismiss ends the jobs that wait for event as cancelled, in batches as Signal.
func (q *Queue) Dismiss(ctx context.Context, id, event string, reason core.Reason) (int, error) {
	return q.eachAwaiting(ctx, "dismiss", id, event, func(j *job) {
		r := j.r
		q.endWait(j)
		q.finish(j, core.EvCancel, core.Cancelled, reason, j.data)
		q.update(r)
	})
}

// Signal ends the suspension of the jobs that wait for event. It unlocks the queue between batches
// of jobs, so some of them may be leased before the last one is signalled.
func (q *Queue) Signal(ctx context.Context, id, event string) (int, error) {
	return q.eachAwaiting(ctx, "wake", id, event, q.signalJob)
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
	for batch := range slices.Chunk(slices.Collect(maps.Keys(r.events[event])), signalBatch) {
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
