package redis

import (
	"context"
	"fmt"
	"strconv"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Save keeps the state of a leased job, in one round trip.
func (q *Queue) Save(ctx context.Context, s queue.Save) error {
	if err := s.Validate(); err != nil {
		return err
	}
	r, err := q.sessionCall(ctx, q.scripts.save, s.Session, s.Job.Run, leasedIndex(s.Job, s.Token), strconv.FormatUint(s.Token, 10), strconv.FormatUint(s.Seq, 10), s.State)
	if err != nil {
		return fmt.Errorf("save the state of %s: %w", s.Job, err)
	}
	held := r.int() == 1
	if err := r.end("save"); err != nil {
		return err
	}
	if !held {
		return fmt.Errorf("save the state of %s: it is no longer leased to session %q: %w", s.Job, s.Session, core.ErrConflict)
	}
	return nil
}

// leasedIndex is the index of a leased job for a script: -1, which no job has, where the index or
// the token is out of bounds. The script then reports what else is wrong.
func leasedIndex(job core.JobID, token uint64) int {
	if job.Index < 0 || job.Index >= queue.MaxTargets || token >= 1<<53 {
		return -1
	}
	return job.Index
}
