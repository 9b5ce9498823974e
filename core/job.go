package core

import (
	"fmt"
	"strconv"
	"strings"
)

// JobID names one job: a run and the index of its host in the run's target list.
type JobID struct {
	Run   string `json:"run"`
	Index int    `json:"index"` // from 0
}

// String is RUN/INDEX.
func (id JobID) String() string { return id.Run + "/" + strconv.Itoa(id.Index) }

// ParseJobID reads what String wrote.
func ParseJobID(s string) (JobID, error) {
	run, index, ok := strings.Cut(s, "/")
	i, err := strconv.Atoi(index)
	if !ok || err != nil || run == "" || i < 0 {
		return JobID{}, fmt.Errorf("job id %q: expected RUN/INDEX, as in 20260102-030405-ab3cd5ef/17", s)
	}
	return JobID{Run: run, Index: i}, nil
}

// State is the state of a job.
type State string

// The states of a job. Only Pending needs no storage of its own.
const (
	Pending   State = "pending"   // behind the run's cursor, or not yet due
	Blocked   State = "blocked"   // due, but a lock is held by another job
	Leased    State = "leased"    // a worker has it
	Retrying  State = "retrying"  // waits for its next attempt
	Suspended State = "suspended" // suspended until a time or an event
	Done      State = "done"      // has its outcome
)

// Event moves a job from one state to the next.
type Event string

// The events of a job.
const (
	EvLease   Event = "lease"   // a worker took it
	EvBlock   Event = "block"   // its lock is held
	EvUnblock Event = "unblock" // its lock came free
	EvReturn  Event = "return"  // given back unstarted, no attempt counted
	EvRetry   Event = "retry"   // an attempt ended, another follows
	EvSuspend Event = "suspend" // suspended by its job type
	EvDue     Event = "due"     // its time or event came
	EvFinish  Event = "finish"  // outcome recorded
	EvCancel  Event = "cancel"  // ended by cancel or a spent threshold
)

var transitions = map[State]map[Event]State{
	Pending:   {EvLease: Leased, EvBlock: Blocked, EvCancel: Done},
	Blocked:   {EvUnblock: Pending, EvCancel: Done},
	Leased:    {EvReturn: Retrying, EvRetry: Retrying, EvSuspend: Suspended, EvFinish: Done, EvCancel: Done},
	Retrying:  {EvDue: Pending, EvCancel: Done},
	Suspended: {EvDue: Pending, EvCancel: Done},
}

// Next is the state that follows s after e; ok is false where e is not
// allowed in s. This table is the state machine that every queue implements.
func (s State) Next(e Event) (next State, ok bool) {
	next, ok = transitions[s][e]
	return next, ok
}

// EncryptionRoom is how many bytes a queue and a board accept over their bounds. Encryption adds no
// more than that. Callers that do not encrypt keep to the bounds.
const EncryptionRoom = 128
