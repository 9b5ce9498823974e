package schedule

import "time"

// EventKind is the kind of an Event.
type EventKind string

// The kinds of event.
const (
	EventTriggered EventKind = "triggered" // launched, and recorded so
	EventSkipped   EventKind = "skipped"   // dropped: Skip has what and why
	EventFailed    EventKind = "failed"    // an attempt to launch failed; it is tried again
	EventTrouble   EventKind = "trouble"   // the engine could not do its work; Schedule is empty where it is not about one
)

// Event is something that happened. Of several engines the one that recorded it reports it. A
// server that dies between recording and reporting reports nothing: the truth is the schedule's
// counts and results.
type Event struct {
	Kind     EventKind
	Schedule ID
	At       time.Time     // by the store's clock
	Trigger  Trigger       // of EventTriggered and EventFailed, without its payload
	Late     time.Duration // of EventTriggered: the time from the start to the launch; over Grace it was missed or had to wait
	Skip     Skip          // of skipped
	Payload  []byte        // of skipped: that of the schedule
	Err      error         // of failed and trouble
}
