package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Save keeps the state of a leased job.
func (q *Queue) Save(ctx context.Context, s queue.Save) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.Validate(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	own, err := q.session(s.Session, q.now())
	if err != nil {
		return err
	}
	j := q.leased(own, s.Job, s.Token)
	if j == nil {
		return fmt.Errorf("save the state of %s: it is no longer leased to session %q: %w", s.Job, s.Session, core.ErrConflict)
	}
	if s.Seq > j.saved {
		j.data, j.saved, j.unheard = slices.Clone(s.State), s.Seq, ""
	}
	return nil
}
