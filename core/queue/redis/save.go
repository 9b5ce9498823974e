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
	index := s.Job.Index
	if index < 0 || index >= queue.MaxTargets || s.Token >= 1<<53 {
		index = -1 // no job has it: the script says what else is wrong
	}
	r, err := q.sessionCall(ctx, q.scripts.save, s.Session, s.Job.Run, index, strconv.FormatUint(s.Token, 10), strconv.FormatUint(s.Seq, 10), s.State)
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
