package queue

import (
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
)

// Bounds of a run. Submit refuses what is over them with core.ErrInvalid.
const (
	MaxTargets     = 10_000_000
	MaxIDLength    = 128       // of run ids, tenants, hosts and groups, in bytes
	MaxDataLength  = 64 << 10  // of Target.Data
	MaxPayload     = 8 << 20   // of Run.Payload
	MaxDetail      = 256 << 10 // of Ack.Detail and Ack.State
	MaxWeight      = 1000
	MaxPriority    = 10
	MaxAcksPerTurn = 256
	MaxLeasesTurn  = 256
	MaxFinished    = 1_000_000 // of Run.FinishedJobs
	MaxSubmit      = 1000      // runs of one Submit
	MaxAdjust      = 1000      // runs of one Adjust
	MaxCrashes     = 3         // of a job: the last one ends it as lost
)

// OnLost decides what happens to a job whose worker died while it had the lease.
type OnLost string

// The two answers.
const (
	LostRetry OnLost = "retry" // run it again, the attempt counted; lost at MaxCrashes
	LostHold  OnLost = "hold"  // end it as lost: nobody knows what the host saw
)

// Run is one launch of a playbook as the queue sees it: the unit of fairness
// (a flow), of cancelling, of progress and of the failure threshold.
type Run struct {
	ID           string // any UTF-8 up to MaxIDLength; the idempotency key of Submit
	Tenant       string // first level of fairness; "" is a tenant like any other
	TenantWeight int    // share of the tenant, 1 when zero; the last submitted run decides
	Weight       int    // share of this run within its tenant, 1 when zero
	Priority     int    // -MaxPriority … MaxPriority: a bounded head start, see HeadStart

	Targets  []Target
	Segments []Segment // none: all targets are due immediately
	// FinishedJobs are the targets whose outcome is known: the recorded outcomes of a run whose queue
	// was lost. They are never leased and give no Record, but count in Status.Outcomes and in the
	// thresholds. Submit compares neither FinishedJobs nor Paused of two runs with one id.
	FinishedJobs []FinishedJobs
	Paused       bool // starts paused

	Limit           int // released targets, a prefix of Targets (a wave); 0 means all
	MaxInFlight     int // leased jobs of this run at the same time; 0 means no limit
	PerGroup        int // leased jobs of one Target.Group at the same time; 0 means no limit
	StopAfter       int // threshold of bad outcomes; 0 means none
	StopUnreachable int // threshold of unreachable outcomes; 0 means none
	Disruptive      bool

	OnLost  OnLost // LostRetry when empty
	Payload []byte // the snapshot, given to workers by Payload
}

// Target is one host's share of a run.
type Target struct {
	Host    string // lock: one job at a time touches a host
	HAGroup string // lock of a Disruptive run; "" means none
	Group   string // unit of Run.PerGroup; "" means not limited
	Data    []byte // opaque, handed out with the lease
}

// FinishedJobs is Count targets in a row, from Index on, that ended with one outcome. Those of a
// run are sorted by index and do not overlap.
type FinishedJobs struct {
	Index, Count int
	Outcome      core.Outcome
}

// Segment is when the next Count targets become due. Segments follow the order of Targets and
// together cover them all; they become due each alone, in any order of time. A one-target segment
// is a timed job.
type Segment struct {
	Due   time.Time // by the queue's clock; zero means immediately
	Count int
}

// Phase is the state of a run in the queue.
type Phase string

// The phases of a run.
const (
	Active    Phase = "active"
	Paused    Phase = "paused"    // by an operator; Adjust resumes it
	Stopped   Phase = "stopped"   // its threshold is reached, a job was lost, or Adjust.Stop
	Cancelled Phase = "cancelled" // by an operator
	Finished  Phase = "finished"  // every job has its outcome and neither of the two above happened
)

// Unfinished calls visit for each stretch of remaining targets, from … to-1, of one segment, in
// order, in O(segments + finished).
func (r *Run) Unfinished(visit func(due time.Time, from, to int)) {
	segments, finished, from := r.Segments, r.FinishedJobs, 0
	if len(segments) == 0 {
		segments = []Segment{{Count: len(r.Targets)}}
	}
	for _, s := range segments {
		end := from + s.Count
		for len(finished) > 0 && finished[0].Index < end {
			known := finished[0]
			if from < known.Index {
				visit(s.Due, from, known.Index)
			}
			from = min(known.Index+known.Count, end)
			if known.Index+known.Count > end {
				break // it continues in the next segment
			}
			finished = finished[1:]
		}
		if from < end {
			visit(s.Due, from, end)
		}
		from = end
	}
}

// WhyFinished returns Explain's reason for a target of Run.FinishedJobs with outcome o.
func WhyFinished(o core.Outcome) core.Reason {
	return core.Because("", "ended as "+string(o)+" before its run was submitted to this queue")
}

// WhyEnded returns for Explain how a job ended, with the code of its record's reason.
func WhyEnded(o core.Outcome, reason core.Reason) core.Reason {
	text := "ended as " + string(o)
	if reason != "" {
		text += ": " + reason.Text()
	}
	return core.Because(reason.Code(), text)
}

// WhyLeased returns for Explain that node has had the job for a while.
func WhyLeased(node string, since time.Duration) core.Reason {
	return core.Because("", "leased by "+node+" for "+since.Round(time.Second).String())
}

// WhyRetrying returns for Explain that a job waits for its next attempt.
func WhyRetrying(attempts int) core.Reason {
	return core.Because(core.NextAttempt, fmt.Sprintf("waits for its next attempt, %d made so far", attempts))
}

// WhyPending returns for Explain why a job is not leased, by the reason's code. Its run has
// inFlight jobs in flight. For WaveClosed, bound is how many of the run are released. For RunFull
// it is how many may be in flight. For NoSlot it is how many its tenant has in flight.
func WhyPending(code core.ReasonCode, inFlight, bound int) core.Reason {
	switch code {
	case core.NotDue:
		return core.Because(code, "is not due yet")
	case core.RunOver:
		return core.Because(code, "is about to be cancelled: its run has ended")
	case core.RunPaused:
		return core.Because(code, "its run is paused")
	case core.WaveClosed:
		hosts := "hosts"
		if bound == 1 {
			hosts = "host"
		}
		return core.Because(code, fmt.Sprintf("waits for its wave: %d %s of the run may start so far", bound, hosts))
	case core.RunFull:
		return core.Because(code, fmt.Sprintf("its run has %s in flight, max_in_flight is %d", jobs(inFlight), bound))
	}
	return core.Because(core.NoSlot, fmt.Sprintf("waits for its turn: its run has %s in flight, its tenant %d", jobs(inFlight), bound))
}

func jobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}

// WhyCleanup returns for Explain that a job of a run that has ended is still to be leased.
func WhyCleanup() core.Reason {
	return core.Because(core.RunOver, "waits for a worker to run its cleanup: its run has ended")
}

// Status is a run's progress. Total = Pending + Blocked + InFlight + Waiting + Suspended + sum of
// Outcomes.
type Status struct {
	Run       string      `json:"run"`
	Tenant    string      `json:"tenant"`
	Phase     Phase       `json:"phase"`
	Reason    core.Reason `json:"reason,omitempty"` // of Stopped and Cancelled
	Complete  bool        `json:"complete"`         // every job has its outcome
	Total     int         `json:"total"`
	Limit     int         `json:"limit"` // Total when all are released
	Pending   int         `json:"pending"`
	Blocked   int         `json:"blocked"`
	InFlight  int         `json:"in_flight"`
	Waiting   int         `json:"waiting"` // for the next attempt, or for the time of a Return
	Suspended int         `json:"suspended"`
	// Deferred counts the released jobs, among Pending and Suspended, that wait for a time when they
	// may start: those of segments that are not due yet, and those suspended for EventWindow.
	Deferred int                  `json:"deferred"`
	Outcomes map[core.Outcome]int `json:"outcomes"`
	Served   time.Duration        `json:"served_ns"` // worker time so far
}

// Ended is how many jobs have their outcome.
func (s *Status) Ended() int {
	n := 0
	for _, count := range s.Outcomes {
		n += count
	}
	return n
}
