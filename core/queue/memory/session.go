package memory

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

const maxStops = 256

// session is one life of a node.
type session struct {
	id, node string
	until    time.Time
	place    int // in Queue.expiry
	first    *job
	stopping map[*job]struct{} // leased here, in cancelled runs
}

// add puts a leased job into the session's list.
func (s *session) add(j *job) {
	j.session, j.prev, j.next = s, nil, s.first
	if s.first != nil {
		s.first.prev = j
	}
	s.first = j
}

func (s *session) remove(j *job) {
	if j.prev != nil {
		j.prev.next = j.next
	} else {
		s.first = j.next
	}
	if j.next != nil {
		j.next.prev = j.prev
	}
	j.session, j.prev, j.next = nil, nil, nil
	delete(s.stopping, j)
}

func (s *session) stopList() []core.JobID {
	if len(s.stopping) == 0 {
		return nil
	}
	list := make([]core.JobID, 0, min(len(s.stopping), maxStops))
	for j := range s.stopping { // in no order, so that each has its turn
		if len(list) == maxStops {
			break
		}
		list = append(list, j.id())
	}
	slices.SortFunc(list, func(a, b core.JobID) int {
		if c := strings.Compare(a.Run, b.Run); c != 0 {
			return c
		}
		return a.Index - b.Index
	})
	return list
}

// session finds a session that is alive.
func (q *Queue) session(id string, now time.Time) (*session, error) {
	if s := q.sessions[id]; s != nil && now.Before(s.until) {
		return s, nil
	}
	return nil, fmt.Errorf("session %q: %w", id, core.ErrSessionGone)
}

func (q *Queue) keepAlive(s *session, now time.Time) {
	s.until = now.Add(q.opt.SessionTTL)
	q.expiry.fix(s.place)
}

// Open starts a session with an id that was never used before.
func (q *Queue) Open(ctx context.Context, node string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if node == "" || len(node) > queue.MaxIDLength {
		return "", fmt.Errorf("node name %q: expected 1 to %d bytes: %w", node, queue.MaxIDLength, core.ErrInvalid)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s := &session{id: node + "#" + rand.Text(), node: node, until: q.now().Add(q.opt.SessionTTL), stopping: map[*job]struct{}{}}
	q.sessions[s.id] = s
	q.expiry.push(s)
	return s.id, nil
}

// Beat keeps the session and all its leases alive.
func (q *Queue) Beat(ctx context.Context, id string) (queue.BeatResult, error) {
	if err := ctx.Err(); err != nil {
		return queue.BeatResult{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	s, err := q.session(id, now)
	if err != nil {
		return queue.BeatResult{}, err
	}
	q.keepAlive(s, now)
	return queue.BeatResult{Stop: s.stopList(), Now: now, Until: s.until}, nil
}

// Adopt lists what the session holds, in the order in which it was leased.
func (q *Queue) Adopt(ctx context.Context, id string) ([]queue.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s, err := q.session(id, q.now())
	if err != nil {
		return nil, err
	}
	var leases []queue.Lease
	for j := s.first; j != nil; j = j.next {
		leases = append(leases, j.lease())
	}
	slices.Reverse(leases)
	return leases, nil
}

// Close ends the session and gives back what it holds.
func (q *Queue) Close(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	s, err := q.session(id, now)
	if err != nil {
		return err
	}
	for s.first != nil {
		q.ack(s, &queue.Ack{Job: s.first.id(), Token: s.first.token, Kind: queue.AckReturn}, now)
	}
	q.bury(s)
	q.arm()
	return nil
}

func (q *Queue) bury(s *session) {
	q.expiry.remove(s.place)
	delete(q.sessions, s.id)
}

// reap recovers the jobs of sessions that fell silent, at most threshold jobs;
// false when some are left.
func (q *Queue) reap(now time.Time, threshold int) bool {
	for q.expiry.len() > 0 && !now.Before(q.expiry.top().until) {
		s := q.expiry.top()
		for ; s.first != nil; threshold-- {
			if threshold == 0 {
				return false
			}
			q.crash(s.first, s.node, now)
		}
		q.bury(s)
		q.stats.Reaped++
	}
	return true
}
