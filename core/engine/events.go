package engine

import "time"

// EventKind is the kind of an event.
type EventKind string

// The kinds of events.
const (
	EventSubmitted EventKind = "submitted"
	EventReleased  EventKind = "released" // wave Wave
	EventAsk       EventKind = "ask"      // wave Wave waits for an approval
	EventPause     EventKind = "pause"    // wave Wave waits until Until
	EventWaiting   EventKind = "waiting"  // Waiting hosts wait for windows, of which Set opens next, at Until
	EventAway      EventKind = "away"     // the queue does not answer; Err is why
	EventBack      EventKind = "back"     // it answers again
	EventEnding    EventKind = "ending"   // cancelled: no new job starts, running ones finish
	EventCancelled EventKind = "cancelled"
	EventClosed    EventKind = "closed"  // a barrier stays closed: Waiting hosts that wait at it are cancelled, for Reason
	EventStopped   EventKind = "stopped" // the threshold is reached or a job was lost, by Reason
)

// Event is something that an operator should know of a run.
type Event struct {
	Kind   EventKind
	Run    string
	Wave   int // from 0
	Until  time.Time
	Reason string
	Err    error
	// Of EventWaiting. A zero Until means that no opening is known.
	Waiting int
	Set     string
	Zone    *time.Location
}
