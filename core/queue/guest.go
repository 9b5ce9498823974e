package queue

import (
	"context"
	"fmt"

	"github.com/turnus/turnus/core"
)

// Guests lets a leased job work on a host that is not its own. A host has one guest at a time. A
// guest has nothing to do with the lock of Target.Host: the host's own job runs beside it. A job
// may be the guest of one host at a time, so guests never wait for each other in a circle.
//
// Methods are safe for concurrent use. A session that has ended is core.ErrSessionGone.
type Guests interface {
	// Enter makes the job the guest of Host until it leaves, or its lease ends. The answer is its
	// fence there, which is higher than that of each guest before it; 0 is that another job is the
	// guest. A job that is the guest already gets another fence. A job that is not leased to the
	// session under the token is core.ErrConflict. While no job is leased because of Recovery, no new
	// guest is admitted: core.ErrUnavailable.
	//
	// With g.Fence it brings back a guest of which the backend may have lost the note. The answer is
	// g.Fence, or 0 if a later guest was admitted.
	Enter(ctx context.Context, g Guest) (fence uint64, err error)
	// Leave ends that. A job that is no guest of Host is no error.
	Leave(ctx context.Context, g Guest) error
}

// Guest is a leased job, and the host that it works on for a while.
type Guest struct {
	Session string
	Job     core.JobID
	Token   uint64 // of the lease
	Host    string
	Fence   uint64 // that Enter gave before; 0 for a new guest
}

// Validate reports what Enter and Leave refuse.
func (g *Guest) Validate() error {
	if g.Host == "" || len(g.Host) > MaxIDLength {
		return fmt.Errorf("%s: the host that it works on has a name of %d bytes, expected 1 to %d: %w", g.Job, len(g.Host), MaxIDLength, core.ErrInvalid)
	}
	return nil
}
