package encrypted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/queue"
)

// Save encrypts the state of a leased job.
func (q *Queue) Save(ctx context.Context, s queue.Save) error {
	s.State = q.encrypt(s.State, place(stateOf, s.Job))
	return q.Backend.Save(ctx, s)
}

// Turn encrypts the bytes of acks and decrypts those of leases. Leases that this process must not
// work on go back immediately.
func (q *Queue) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	if err := t.Validate(); err != nil {
		return queue.TurnResult{}, err
	}
	own := q.toReturn(t.Session, queue.MaxAcksPerTurn-len(t.Acks))
	want, barred := q.may(t.Want)
	inner := queue.Turn{Session: t.Session, Want: want, Acks: make([]queue.Ack, 0, len(t.Acks)+len(own))}
	for _, a := range t.Acks {
		if len(a.Detail) > 0 {
			a.Detail = q.ring.Encrypt(a.Detail, place(detailOf, a.Job))
		}
		if len(a.State) > 0 {
			a.State = q.ring.Encrypt(a.State, place(stateOf, a.Job))
		}
		inner.Acks = append(inner.Acks, a)
	}
	inner.Acks = append(inner.Acks, own...)
	res, err := q.Backend.Turn(ctx, inner)
	if errors.Is(err, core.ErrSessionGone) {
		q.forget(t.Session)
	}
	if err != nil {
		return res, err
	}
	q.returned(t.Session, own)
	res.Stale = notOf(res.Stale, own)
	res.Leases = q.openLeases(t.Session, res.Leases)
	if own = q.toReturn(t.Session, queue.MaxAcksPerTurn); len(own) > 0 {
		// Should it fail, the next turn takes them along: what was leased must reach the worker.
		if _, err := q.Backend.Turn(ctx, queue.Turn{Session: t.Session, Acks: own}); err == nil {
			q.returned(t.Session, own)
		}
	}
	if barred || want < t.Want {
		res.More, res.Next = false, time.Time{} // what there is to do is not for this node
	}
	return res, nil
}

// Wait waits as the queue behind does. A node that takes nothing does not wait for work, because a
// new job ends the wait of one node only.
func (q *Queue) Wait(ctx context.Context, session string, until time.Time) error {
	q.mu.Lock()
	barred := time.Until(q.closed)
	q.mu.Unlock()
	if barred <= 0 {
		return q.Backend.Wait(ctx, session, until)
	}
	core.Pause(ctx, min(barred, firstPause), nil)
	return nil
}

// Adopt opens what the session holds; what this process must not work on is given back with the
// next turn.
func (q *Queue) Adopt(ctx context.Context, session string) ([]queue.Lease, error) {
	leases, err := q.Backend.Adopt(ctx, session)
	if err != nil {
		return leases, err
	}
	return q.openLeases(session, leases), nil
}

// Close ends the session; what it holds goes back with it.
func (q *Queue) Close(ctx context.Context, session string) error {
	err := q.Backend.Close(ctx, session)
	q.forget(session)
	return err
}

func (q *Queue) forget(session string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.refused, session)
}

// may is how many jobs may be leased of those that are wanted: one, to see whether the key has
// arrived, if it was missing.
func (q *Queue) may(want int) (most int, barred bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.pause == 0:
		return want, false
	case time.Now().Before(q.closed):
		return 0, true
	}
	return min(want, 1), false
}

// openLeases opens the leases that can be worked on, and notes the others as refused.
func (q *Queue) openLeases(session string, leases []queue.Lease) []queue.Lease {
	if len(leases) == 0 {
		return leases
	}
	opened := leases[:0:len(leases)]
	missing, able := false, false
	for _, l := range leases {
		err := q.openLease(&l)
		switch {
		case errors.Is(err, keyring.ErrNoKey):
			missing = true
			q.refuse(session, l, 0)
			q.report(noKey, "no job is taken that this worker cannot open, as "+l.Job.String()+"; they are left to other workers: "+err.Error())
		case errors.Is(err, keyring.ErrPlain):
			q.refuse(session, l, plainPause)
			q.report(notEncrypted, "job "+l.Job.String()+" is not taken: its data is not encrypted, and each job of a service with this key ring is; "+
				"while a service gets its first key ring, --keyring-accept-plain takes such jobs")
		default:
			able = able || err == nil
			l.Err = err
			opened = append(opened, l)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case missing:
		q.pause = min(max(2*q.pause, firstPause), mostPause)
		q.closed = time.Now().Add(q.pause)
	case able:
		q.pause, q.closed = 0, time.Time{}
	}
	return opened
}

func (q *Queue) openLease(l *queue.Lease) error {
	data, err := q.open(l.Data, place(dataOf, l.Job, l.Host))
	if err != nil {
		return fmt.Errorf("the data of job %s: %w", l.Job, err)
	}
	state, err := q.open(l.State, place(stateOf, l.Job))
	if err != nil {
		return fmt.Errorf("the state of job %s: %w", l.Job, err)
	}
	l.Data, l.State = data, state
	return nil
}

func (q *Queue) refuse(session string, l queue.Lease, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refused[session] == nil {
		q.refused[session] = map[uint64]queue.Ack{}
	}
	q.refused[session][l.Token] = queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckReturn, After: after}
}

// toReturn are acks that give refused leases back, at most so many, oldest first.
func (q *Queue) toReturn(session string, most int) []queue.Ack {
	q.mu.Lock()
	defer q.mu.Unlock()
	var acks []queue.Ack
	for _, a := range q.refused[session] {
		acks = append(acks, a)
	}
	slices.SortFunc(acks, func(a, b queue.Ack) int {
		if a.Token < b.Token {
			return -1
		}
		return 1
	})
	return acks[:min(len(acks), most)]
}

func (q *Queue) returned(session string, acks []queue.Ack) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range acks {
		delete(q.refused[session], a.Token)
	}
	if len(q.refused[session]) == 0 {
		delete(q.refused, session)
	}
}

// notOf leaves out the jobs of acks that the worker did not give.
func notOf(stale []core.JobID, own []queue.Ack) []core.JobID {
	if len(own) == 0 {
		return stale
	}
	return slices.DeleteFunc(stale, func(id core.JobID) bool {
		return slices.ContainsFunc(own, func(a queue.Ack) bool { return a.Job == id })
	})
}
