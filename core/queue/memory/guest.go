package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// guest is the job that works on a host which is not its own, the token of the lease under which it
// does, and its fence there.
type guest struct {
	job   *job
	token uint64
	fence uint64
}

// present reports whether that lease still is.
func (g guest) present() bool {
	return g.job != nil && g.job.state == core.Leased && g.job.token == g.token
}

// Enter makes a leased job the guest of a host.
func (q *Queue) Enter(ctx context.Context, g queue.Guest) (fence uint64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j, err := q.guest(ctx, g)
	if err != nil {
		return 0, err
	}
	if j == nil {
		return 0, fmt.Errorf("%s enters host %s: it is no longer leased to session %q: %w", g.Job, g.Host, g.Session, core.ErrConflict)
	}
	other, now := q.guests[g.Host], q.now()
	switch {
	case g.Fence == 0 && now.Before(q.heldUntil):
		return 0, fmt.Errorf("%s enters host %s: the queue was emptied, and admits no new guest yet: %w", g.Job, g.Host, core.ErrUnavailable)
	case other.present() && other.job != j && (g.Fence == 0 || g.Fence < other.fence):
		return 0, nil
	}
	fence = g.Fence
	if fence == 0 {
		fence = q.nextToken(now)
	}
	q.guests[g.Host] = guest{j, g.Token, fence}
	return fence, nil
}

// Leave ends that.
func (q *Queue) Leave(ctx context.Context, g queue.Guest) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	j, err := q.guest(ctx, g)
	if err == nil && j != nil && q.guests[g.Host].job == j {
		delete(q.guests, g.Host)
	}
	return err
}

// guest returns the leased job of a guest; nil where it is not leased so.
func (q *Queue) guest(ctx context.Context, g queue.Guest) (*job, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := g.Validate(); err != nil {
		return nil, err
	}
	own, err := q.session(g.Session, q.now())
	if err != nil {
		return nil, err
	}
	return q.leased(own, g.Job, g.Token), nil
}

// leased returns a job that is leased to a session under a token; nil where it is not.
func (q *Queue) leased(own *session, id core.JobID, token uint64) *job {
	r := q.runs[id.Run]
	if r == nil {
		return nil
	}
	j := r.jobs[id.Index]
	if j == nil || j.state != core.Leased || j.session != own || j.token != token {
		return nil
	}
	return j
}

// nextToken is a fence that is above all before it, also after a restart.
func (q *Queue) nextToken(now time.Time) uint64 {
	q.token = max(q.token+1, uint64(max(now.UnixMicro(), 0)))
	return q.token
}
