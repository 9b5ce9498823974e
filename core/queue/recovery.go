package queue

import (
	"context"

	"github.com/turnus/turnus/core"
)

// Recovery has the calls of servers after the backend of the queue may have lost changes.
type Recovery interface {
	// Doubt returns whether the backend restarted or failed over, and nobody trusts it since. From
	// then on no job is leased, until Trust or for SessionTTL.
	Doubt(ctx context.Context) (Doubt, error)
	// Trust ends d. Jobs are leased again as soon as each session that lives has called since d began.
	// It has no effect on another doubt, or after Hold.
	Trust(ctx context.Context, d Doubt) error
	// Hold has no job leased for SessionTTL, counted from the begin of the doubt if there is one:
	// workers may be at work on leases that this queue does not know.
	Hold(ctx context.Context) error
	// Drop removes a paused run that came back older: it has no job in flight, and fewer outcomes than
	// the number recorded. The same id can be submitted again. It reports whether the queue now lacks
	// the run.
	Drop(ctx context.Context, run string, recorded int) (bool, error)
}

// Doubt is one restart or failover of the backend. The zero value is none.
type Doubt struct {
	ID    string
	Older bool // proven: a node holds a lease that the queue has forgotten, or Hold was called
}

// Dropped is the reason of a run that Drop removed, as long as its keys remain.
const Dropped = "the queue came back older than what is recorded"

// Cleans reports whether the jobs of a run that has ended for this reason are leased for their
// cleanup. In a queue that came back older they may have had it.
func Cleans(reason core.Reason) bool {
	return reason.Code() != core.QueueOlder
}
