package memory

import (
	"context"
	"slices"
	"time"
)

// waiter is one blocked Wait.
type waiter struct{ woken chan struct{} }

// Wait blocks until there may be work, until is reached, the queue is shut down, or ctx ends. A
// node that has reached its concurrency should wait for its own jobs instead: while jobs are ready,
// Wait returns immediately.
func (q *Queue) Wait(ctx context.Context, _ string, until time.Time) error {
	q.mu.Lock()
	now := q.now()
	left := until.Sub(now)
	if q.closed || left <= 0 || ctx.Err() != nil || (q.ready.len() > 0 || q.closes(now)) && !now.Before(q.heldUntil) {
		q.mu.Unlock()
		return nil
	}
	w := &waiter{woken: make(chan struct{})}
	q.waiters = append(q.waiters, w)
	q.arm()
	q.mu.Unlock()

	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-w.woken:
		if ctx.Err() == nil {
			return nil
		}
	case <-timer.C:
	case <-ctx.Done():
	}

	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiters, w); i >= 0 {
		q.waiters = slices.Delete(q.waiters, i, i+1)
	} else if ctx.Err() != nil {
		q.signalOne() // this node will not take the jobs that it was signalled for
	}
	return nil
}

// signalOne lets the longest waiting node go.
func (q *Queue) signalOne() {
	if len(q.waiters) == 0 {
		return
	}
	close(q.waiters[0].woken)
	q.waiters = slices.Delete(q.waiters, 0, 1)
}

// arm sets the timer to when something next becomes due or a session expires, while somebody waits.
func (q *Queue) arm() {
	if len(q.waiters) == 0 || q.closed || q.opt.Now != nil {
		return
	}
	var due time.Time
	if q.timed.len() > 0 {
		due = q.timed.top().nextDue
	}
	if q.expiry.len() > 0 && (due.IsZero() || q.expiry.top().until.Before(due)) {
		due = q.expiry.top().until
	}
	if q.closing.len() > 0 && (due.IsZero() || q.closing.top().due.Before(due)) {
		due = q.closing.top().due
	}
	if q.ready.len() > 0 && q.last.Before(q.heldUntil) && (due.IsZero() || q.heldUntil.Before(due)) {
		due = q.heldUntil
	}
	if len(q.sweeping) > 0 {
		due = q.last
	}
	if due.IsZero() || due.Equal(q.armed) {
		return
	}
	q.armed = due
	d := max(due.Sub(q.now()), 0)
	if q.timer == nil {
		q.timer = time.AfterFunc(d, q.tick)
	} else {
		q.timer.Reset(d)
	}
}

// tick does the work that is due, and notifies a waiter if a job became ready.
func (q *Queue) tick() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.armed = time.Time{}
	now := q.now()
	q.reap(now, reapBatch)
	q.activate(now, activateBatch)
	q.sweep(sweepBatch)
	if q.closes(now) {
		q.signalOne()
	}
	if !q.heldUntil.IsZero() && !now.Before(q.heldUntil) {
		q.heldUntil = time.Time{}
		if q.ready.len() > 0 {
			q.signalOne()
		}
	}
	q.arm()
}
