package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Enter makes a leased job the guest of a host, in one round trip.
func (q *Queue) Enter(ctx context.Context, g queue.Guest) (fence uint64, err error) {
	answer, err := q.guest(ctx, g, false)
	if err != nil {
		return 0, fmt.Errorf("%s enters host %s: %w", g.Job, g.Host, err)
	}
	if answer == distrusted {
		return 0, fmt.Errorf("%s enters host %s: Redis restarted or failed over, and the queue admits no new guest yet: %w", g.Job, g.Host, core.ErrUnavailable)
	}
	if answer < 0 {
		return 0, fmt.Errorf("%s enters host %s: it is no longer leased to session %q: %w", g.Job, g.Host, g.Session, core.ErrConflict)
	}
	q.given(uint64(answer))
	return uint64(answer), nil
}

// Leave ends that, in one round trip.
func (q *Queue) Leave(ctx context.Context, g queue.Guest) error {
	if _, err := q.guest(ctx, g, true); err != nil {
		return fmt.Errorf("%s leaves host %s: %w", g.Job, g.Host, err)
	}
	return nil
}

// distrusted is the script's answer while the queue may have lost changes.
const distrusted = -2

// guest returns the script's answer: a fence, 0 while another job is the guest, -1 where the job is
// not leased so, or distrusted.
func (q *Queue) guest(ctx context.Context, g queue.Guest, leaves bool) (int64, error) {
	if err := g.Validate(); err != nil {
		return 0, err
	}
	leave := ""
	if leaves {
		leave = "1"
	}
	r, err := q.sessionCall(ctx, q.scripts.guest, g.Session, g.Job.Run, leasedIndex(g.Job, g.Token), strconv.FormatUint(g.Token, 10), g.Host, leave, g.Fence, q.seen.Load())
	if err != nil {
		return 0, err
	}
	answer := r.int64()
	return answer, r.end("guest")
}
