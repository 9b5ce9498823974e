package memory

import (
	"context"

	"github.com/turnus/turnus/core/queue"
)

// Doubt returns none: a queue in memory is never set back.
func (q *Queue) Doubt(ctx context.Context) (queue.Doubt, error) { return queue.Doubt{}, ctx.Err() }

// Trust has no effect.
func (q *Queue) Trust(ctx context.Context, _ queue.Doubt) error { return ctx.Err() }

// Hold has no job leased for the life of a session.
func (q *Queue) Hold(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := q.now(); !now.Before(q.heldUntil) {
		q.heldUntil = now.Add(q.opt.SessionTTL)
	}
	q.arm()
	return nil
}

// Drop removes a paused run with fewer outcomes than recorded and no job in flight.
func (q *Queue) Drop(ctx context.Context, id string, recorded int) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	r := q.runs[id]
	if r == nil {
		return true, nil
	}
	if s := q.status(r, now); s.Phase != queue.Paused || s.InFlight > 0 || s.Ended() >= recorded {
		return false, nil
	}
	for _, j := range r.jobs {
		j.cleanup = false // the run is submitted again, and continues there
	}
	q.stop(r, queue.Cancelled, queue.Dropped)
	q.finishSweep(r)
	delete(q.runs, id)
	q.arm()
	return true, nil
}
