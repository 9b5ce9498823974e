package queue

import (
	"context"
	"fmt"

	"github.com/turnus/turnus/core"
)

// Saver keeps what a job has reached while it runs. Methods are safe for concurrent use.
type Saver interface {
	// Save makes State the state of the job's next lease, if this lease ends without an ack that
	// replaces it: its node died, or returned the job. When Save returns nil, State is as durable as
	// the queue. The job stays leased.
	//
	// A save whose Seq is not higher than that of an applied one of the same lease changes nothing and
	// is no error: after core.ErrUnknown or core.ErrUnavailable call it again. A job that is not
	// leased to the session under the token is core.ErrConflict, a session that has ended is
	// core.ErrSessionGone: after both the job belongs to another lease or has ended.
	Save(ctx context.Context, s Save) error
}

// Save is one state of a leased job.
type Save struct {
	Session string
	Job     core.JobID
	Token   uint64 // of the lease
	Seq     uint64 // from 1, grows within the lease
	State   []byte // at most MaxDetail
}

// Validate reports what Save refuses.
func (s *Save) Validate() error {
	if len(s.State) > MaxDetail+core.EncryptionRoom {
		return fmt.Errorf("state of %s has %d bytes, expected at most %d: %w", s.Job, len(s.State), MaxDetail, core.ErrInvalid)
	}
	if s.Seq == 0 || s.Seq >= 1<<53 {
		return fmt.Errorf("state of %s has number %d, expected 1 or more: %w", s.Job, s.Seq, core.ErrInvalid)
	}
	return nil
}
