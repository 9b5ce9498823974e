package launch

import (
	"context"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// Driver is the part of a queue that Drive needs.
type Driver interface {
	queue.Control
	queue.Inspect
}

// DriveOptions guide Drive. All functions are called by one goroutine at a time,
// except Approve, which has its own.
type DriveOptions struct {
	// OnRecord gets the result of each job exactly once for each of its lives, in the
	// order of the queue. Jobs cancelled in bulk come one by one, with their reason.
	OnRecord func(core.Result)
	// OnStatus gets the run's progress after it has changed, a few times a second at most.
	OnStatus func(queue.Status)
	// OnEvent gets what an operator should be told.
	OnEvent func(Event)
	// Approve returns nil when the wave (from 0) may start; an error cancels the run.
	// Nil leaves it to others: Drive waits until somebody else raises the run's limit.
	Approve func(ctx context.Context, wave int) error
	// Now, when closed, cancels the run at once, those jobs included that run. Without
	// it, or before, a cancelled context lets them finish.
	Now <-chan struct{}
	// Patience is how long Drive follows a run after Now was closed, before it gives up
	// on jobs that do not end; 30 s when zero.
	Patience time.Duration
}

// EventKind says what happened.
type EventKind string

// The kinds of events.
const (
	EventSubmitted EventKind = "submitted"
	EventReleased  EventKind = "released" // wave Wave
	EventAsk       EventKind = "ask"      // wave Wave waits for an approval
	EventPause     EventKind = "pause"    // wave Wave waits until Until
	EventAway      EventKind = "away"     // the queue does not answer; Err says why
	EventBack      EventKind = "back"     // it answers again
	EventEnding    EventKind = "ending"   // cancelled: no new job starts, running ones finish
	EventCancelled EventKind = "cancelled"
	EventStopped   EventKind = "stopped" // the budget is spent or a job was lost; Reason says it
)

// Event is something that an operator should be told of a run.
type Event struct {
	Kind   EventKind
	Run    string
	Wave   int // from 0
	Until  time.Time
	Reason string
	Err    error
}

// Drive submits the run and follows it until every job has its outcome: it
// releases waves, hands on each record, and waits while the queue is away.
//
// When ctx ends, no new job starts, running ones finish, the rest is cancelled, and
// Drive returns when that is done, with the context's cause. Closing
// o.Now also stops the jobs that run. Other errors mean that the run was
// not accepted, or that it is gone.
func Drive(ctx context.Context, q Driver, l *Launch, o DriveOptions) (queue.Status, error) {
	return queue.Status{}, nil
}
