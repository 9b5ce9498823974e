package worker

import (
	"time"

	"github.com/turnus/turnus/core"
)

// EventKind is the kind of an event.
type EventKind string

// The kinds of events. Those of jobs carry Job and Host.
const (
	JobStarted   EventKind = "job_started"
	StepStarted  EventKind = "step_started"  // Step, Uses, Attempt
	Output       EventKind = "output"        // Step, Stdout or Stderr
	Diff         EventKind = "diff"          // Step, Text (a unified diff), Title
	Progress     EventKind = "progress"      // Step, Text (the phase), Done
	Message      EventKind = "message"       // Step, Text: what the job type logs
	StepRetry    EventKind = "step_retry"    // Step, Attempt, Text (why), After
	StepDone     EventKind = "step_done"     // StepResult
	JobSuspended EventKind = "job_suspended" // Text (why), After: the job continues later, perhaps elsewhere
	JobDone      EventKind = "job_done"      // Result, as it is sent to the queue

	QueueAway   EventKind = "queue_away"   // Text: the queue does not answer; running jobs continue while their leases are safe
	QueueBack   EventKind = "queue_back"   // it answers again
	SessionLost EventKind = "session_lost" // Text: the leases can no longer be trusted; running jobs are stopped
	ClockLeaped EventKind = "clock_leaped" // Text, After: the queue's clock leaped by After, which may be negative
	Overloaded  EventKind = "overloaded"   // Text: no new jobs are taken
	Eased       EventKind = "eased"        // new jobs are taken again
	Draining    EventKind = "draining"     // nothing new is taken
)

// Event is something that happened on a worker. Which fields are set depends on Kind.
// Its slices belong to the receiver only until it returns.
type Event struct {
	Kind       EventKind
	Time       time.Time
	Job        core.JobID
	Host       string
	Trace      string // id of the job's trace; "" for none
	Step       string
	Uses       string
	Attempt    int // of the step, from 1
	Stdout     []byte
	Stderr     []byte
	Title      string
	Text       string
	ReasonCode core.ReasonCode // of the text of StepRetry and JobSuspended, where it has one
	Done       float64
	After      time.Duration
	StepResult *core.StepResult
	Result     *core.Result
}
