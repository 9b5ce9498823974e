package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
)

// SessionTTL is how long a node may be silent before its jobs are recovered,
// BeatEvery how often it speaks. Together with the backstop of Wait (1 s) they
// keep recovery under 10 s.
const (
	SessionTTL = 6 * time.Second
	BeatEvery  = 2 * time.Second
)

// Queue is the whole contract; rooms take the narrower part they need.
// All methods are safe for concurrent use. Errors wrap core.ErrInvalid,
// ErrNotFound, ErrConflict, ErrUnavailable, ErrUnknown or ErrSessionGone, or the context's.
type Queue interface {
	Worker
	Control
	Inspect
	Census
}

// Worker is a worker's side.
type Worker interface {
	Node
	Saver
	Guests
}

// Node leases jobs and gives them back.
type Node interface {
	// Open starts a session with an id that was never used before.
	Open(ctx context.Context, node string) (session string, err error)
	// Turn acknowledges finished jobs and leases jobs for the node's free concurrency, in one atomic
	// step. After core.ErrUnknown the caller reconciles with Adopt and sends its acks again: acks that
	// had been applied come back as stale.
	Turn(ctx context.Context, t Turn) (TurnResult, error)
	// Beat keeps the session and all its leases alive.
	Beat(ctx context.Context, session string) (BeatResult, error)
	// Wait blocks until there may be work for the session, until is reached, or ctx ends (which is no
	// error). It may return early; it returns within milliseconds of the time while the backend is
	// well. For one new job one waiter returns.
	Wait(ctx context.Context, session string, until time.Time) error
	// Adopt lists what the session holds.
	Adopt(ctx context.Context, session string) ([]Lease, error)
	// Close ends the session and gives back what it still holds, as by Return.
	Close(ctx context.Context, session string) error
}

// Control changes runs.
type Control interface {
	Submitter
	Recovery
	// Cancel ends the run: when it returns, no job of it will start, except for its cleanup.
	Cancel(ctx context.Context, run string, reason core.Reason) error
	// Adjust pauses, resumes, reweights, stops, or releases waves, of up to MaxAdjust runs in one
	// round trip, except large waves and those that are stopped. It adjusts each run alone, and
	// returns an error for each, in order.
	Adjust(ctx context.Context, runs ...Adjust) []error
	Signaller
}

// Submitter accepts runs.
type Submitter interface {
	// Submit accepts up to MaxSubmit runs and answers for each of them, in order. A refused run does
	// not keep out the others. The same id with the same content is accepted again without effect;
	// with other content it is core.ErrConflict.
	Submit(ctx context.Context, runs ...Run) []Submission
}

// Submission is the answer to one run of a Submit.
type Submission struct {
	Created bool // false if the queue already had the run
	Err     error
}

// SubmitOne submits one run.
func SubmitOne(ctx context.Context, to Submitter, r Run) (created bool, err error) {
	answer := to.Submit(ctx, r)[0]
	return answer.Created, answer.Err
}

// SubmitEach answers a Submit run by run. More than MaxSubmit runs are refused as a whole.
func SubmitEach(runs []Run, submit func(Run) (created bool, err error)) []Submission {
	answers := make([]Submission, len(runs))
	err := ValidateSubmit(len(runs))
	for i := range runs {
		if answers[i].Err = err; err == nil {
			answers[i].Created, answers[i].Err = submit(runs[i])
		}
	}
	return answers
}

// AdjustEach answers an Adjust run by run. More than MaxAdjust runs are refused as a whole.
func AdjustEach(runs []Adjust, adjust func(Adjust) error) []error {
	answers := make([]error, len(runs))
	for i, a := range runs {
		err := a.Validate()
		if len(runs) > MaxAdjust {
			err = fmt.Errorf("adjust of %d runs, expected at most %d: %w", len(runs), MaxAdjust, core.ErrInvalid)
		}
		if err == nil {
			err = adjust(a)
		}
		if err != nil {
			answers[i] = fmt.Errorf("adjust run %q: %w", a.Run, err)
		}
	}
	return answers
}

// AdjustOne adjusts one run.
func AdjustOne(ctx context.Context, q Control, run string, a Adjust) error {
	a.Run = run
	return q.Adjust(ctx, a)[0]
}

// Signaller ends suspensions.
type Signaller interface {
	// Signal ends the suspension of the run's jobs that wait for event, and returns how many. It works
	// in bounded steps with turns in between; after an error some may be signalled.
	Signal(ctx context.Context, run, event string) (int, error)
	// SignalJob ends the suspension of one job that waits for event, and reports whether it did: a job
	// that does not wait for it, now or any more, stays as it is. Errors are those of Signal; an index
	// outside the run is core.ErrInvalid.
	SignalJob(ctx context.Context, job core.JobID, event string) (bool, error)
	// Dismiss ends the run's jobs that wait for event as cancelled, for reason, and returns how many.
	// It works in bounded steps as Signal does, and may be called again as Signal may.
	Dismiss(ctx context.Context, run, event string, reason core.Reason) (int, error)
}

// Inspect reads.
type Inspect interface {
	Watch
	Status(ctx context.Context, run string) (Status, error)
	// Payload returns Run.Payload.
	Payload(ctx context.Context, run string) ([]byte, error)
	// Explain returns why a job is where it is.
	Explain(ctx context.Context, job core.JobID) (Explanation, error)
	// Leased returns the jobs of a run that are leased, the longest ones first. Between its steps jobs
	// may move.
	Leased(ctx context.Context, run string) ([]Leased, error)
	// Holders returns which jobs hold the locks of a host and of an HA group, where "" is none.
	Holders(ctx context.Context, host, haGroup string) ([]Holder, error)
}

// Census reports the queue as a whole.
type Census interface {
	Stats(ctx context.Context) (Stats, error)
	// Load is Stats with each tenant's part; ahead is the time span of Load.Soon. It checks every run
	// that is not complete, and sums of a busy queue may be off by what moved meanwhile.
	Load(ctx context.Context, ahead time.Duration) (Load, error)
	// Runs lists the ids of the runs that are not complete, in no order. It reads every run, which is
	// slow: it is for checks, not for daily work. It may or may not list a run that begins or ends
	// meanwhile.
	Runs(ctx context.Context) ([]string, error)
	// Check returns broken invariants, and with repair repairs them without losing a job. A sound
	// queue has no findings.
	Check(ctx context.Context, repair bool) ([]Finding, error)
}

// Turn is one call of a node.
type Turn struct {
	Session string
	Acks    []Ack // at most MaxAcksPerTurn
	Want    int   // free concurrency, at most MaxLeasesTurn
}

// TurnResult is the answer.
type TurnResult struct {
	Leases []Lease
	Stale  []core.JobID // acks that were refused
	Stop   []core.JobID // leased by this session in a cancelled run; at most 256 a call
	Now    time.Time    // the queue's clock
	Next   time.Time    // when something next becomes due; zero when nothing is timed
	Doubt  bool         // the queue may have forgotten leases, see Recovery: the node compares them by Adopt
	More   bool         // work was left that would have fitted, had Want been larger, or bounded work is unfinished
}

// BeatResult is the answer to a beat.
type BeatResult struct {
	Stop  []core.JobID
	Now   time.Time
	Until time.Time // the session's leases are safe until then, by the queue's clock
}

// Lease is a worker's right to a job until its session ends.
type Lease struct {
	Job     core.JobID
	Host    string
	Data    []byte      // Target.Data
	Token   uint64      // fence: grows with every lease of the queue, and is never below the queue's clock in µs
	Attempt int         // from 1; counts retries and crashes, not suspensions or returns
	State   []byte      // of the last Save, Suspend or Retry ack
	Over    core.Reason // of a job that is leased for its cleanup only: why its run has ended
	Err     error       // why Data or State must not be worked on, as they are not what was given; nil from the queues themselves
}

// AckKind is the kind of an ack.
type AckKind string

// The kinds of ack.
const (
	AckDone    AckKind = "done"    // Outcome is final
	AckRetry   AckKind = "retry"   // again after After; Outcome if that is not granted
	AckSuspend AckKind = "suspend" // wait until After has passed or Event is signalled; no attempt counted
	AckReturn  AckKind = "return"  // not started; again after After; no attempt counted
)

// Ack is a worker's report on a job that it has leased.
type Ack struct {
	Job       core.JobID
	Token     uint64
	Kind      AckKind
	Outcome   core.Outcome // of Done; of Retry where the run has stopped
	Detail    []byte       // opaque record of Done, and of Retry where it becomes final
	After     time.Duration
	State     []byte // of Suspend and Retry: handed out with the next lease
	Event     string // of Suspend: the event of Signal; "" means time only
	KeepLocks bool   // of Suspend: host, HA group and the place in the group stay taken
	Cleanup   bool   // of Suspend and Retry: if the run ends meanwhile, the job is leased once more, see Lease.Over
}

// Record is one recorded outcome, or a range of jobs cancelled together.
type Record struct {
	Index   int // of the first job
	Count   int // jobs in a row, 1 except bulk cancels
	Outcome core.Outcome
	Reason  core.Reason // of outcomes that the queue itself decided
	Attempt int
	Detail  []byte
	State   []byte // of outcomes that the queue itself decided: the job's last, as a lease would have it
}

// Adjust changes a run. Nil fields stay as they are.
type Adjust struct {
	Run         string
	Paused      *bool
	Weight      *int
	MaxInFlight *int        // 0: no limit; jobs that are leased continue
	Limit       *int        // only grows; 0 means all
	Stop        core.Reason // why the run is stopped, as a reached failure threshold stops it; "" means it is not
}

// Stats is the state of the whole queue.
type Stats struct {
	Runs       int           `json:"runs"` // not complete
	Tenants    int           `json:"tenants"`
	Ready      int           `json:"ready_runs"` // runs with a job that could be leased now
	InFlight   int           `json:"in_flight"`
	Timed      int           `json:"timed"` // timed segments, retries and suspended jobs
	Sessions   int           `json:"sessions"`
	StaleAcks  int64         `json:"stale_acks"`
	Reaped     int64         `json:"reaped_sessions"`
	Turns      int64         `json:"turns"`
	EmptyTurns int64         `json:"empty_turns"`
	Oldest     time.Duration `json:"oldest_overdue_ns"`
}

// Explanation is the reason why a job is where it is.
type Explanation struct {
	Job    core.JobID  `json:"job"`
	State  core.State  `json:"state"`
	Reason core.Reason `json:"reason"`         // with a code while the job waits, except suspended; a sentence that names no other run: "waits for host fw-1, held by another job"
	Node   string      `json:"node,omitempty"` // of a leased job: that has the lease
	Since  time.Time   `json:"since,omitzero"` // of a leased job: when its lease began
	Until  time.Time   `json:"until,omitzero"`
	Event  string      `json:"event,omitempty"`  // of a suspended job: what Ack.Event names; it has no Reason
	Holder string      `json:"holder,omitempty"` // RUN/INDEX of the job that a blocked one waits for, which may be another tenant's
}

// Leased is a job that a node works on.
type Leased struct {
	Index int
	Node  string
	Since time.Time // when its lease began
}

// SortLeased puts the longest leases first.
func SortLeased(all []Leased) {
	slices.SortFunc(all, func(a, b Leased) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Index, b.Index)) })
}

// Holder is a job that holds a lock.
type Holder struct {
	HAGroup bool // the lock is that of the HA group, else of the host
	Job     core.JobID
	Kept    bool      // the lock is kept for the job, which is leased next
	Since   time.Time // when its lease began; zero without one: Kept, or suspended with its locks
}

// Ends of Explanation.Reason of a blocked job: Holder has the lock, or gets it next.
const (
	HeldBy  = ", held by another job"
	KeptFor = ", kept for another job"
)

// Finding is one broken invariant.
type Finding struct {
	What     string `json:"what"`
	Run      string `json:"run,omitempty"`
	Repaired bool   `json:"repaired"`
}
