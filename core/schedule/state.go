package schedule

import (
	"slices"
	"time"

	"github.com/turnus/turnus/core"
)

// Grace, retries and bounds of what a schedule's state holds.
const (
	Grace        = time.Minute         // a trigger that no server checked for so long after its start is missed
	RetryFor     = 10 * time.Minute    // how long a launch is tried where nothing else bounds it
	MaxCatchUp   = 1000                // missed fire times that catch_up: all goes back
	MaxBackfill  = 1000                // fire times of one backfill
	MaxBackfills = 4                   // backfills of a schedule that are not done
	MaxActive    = 16                  // runs of a schedule that are not complete; more are not triggered
	MaxLast      = 5                   // results kept
	MaxReason    = 200                 // bytes of a reason kept
	MaxKey       = 128                 // bytes of a trigger's key
	KeepOnce     = 30 * 24 * time.Hour // how long a schedule that triggered once is kept
)

// Pauses after a launch that failed: the first, and the longest.
const (
	retryFirst = time.Second
	retryMost  = 30 * time.Second
)

// State is the state of a schedule. Times are kept to the millisecond.
type State struct {
	Since     time.Time // nominal times after it are not decided yet
	Paused    bool
	Reason    string // of the pause
	Triggered int64  // launches confirmed
	Skipped   int64  // fire times that were not launched; of a long range at least its first MaxCatchUp
	Active    []Run  // launched, and not known to be complete
	Claimed   []Claim
	Waiting   *Waiting
	Backfill  []Span
	Last      []Result // newest last
}

// Run is one that was launched.
type Run struct {
	ID    string
	Cause Cause
	At    time.Time // of the launch
}

// Claim is a trigger that is decided and not launched yet. A claim is kept only while its launch
// fails.
type Claim struct {
	RunID    string
	Nominal  time.Time
	Cause    Cause
	Decided  time.Time
	Cancel   []string  // runs to cancel first
	Attempts int       // that failed
	After    time.Time // not before; zero: immediately
	Err      string    // of the last attempt
}

// Waiting is the one trigger that waits for a run to end: queued, or the latest of those missed.
type Waiting struct {
	Nominal time.Time
	Cause   Cause
}

// Span is a backfill: the nominal times in (After, To] are still to be launched.
type Span struct{ After, To time.Time }

// Result is the result of a trigger, or of a range of fire times with the same result.
type Result struct {
	RunID     string      `json:"run,omitempty"` // of one trigger
	Nominal   time.Time   `json:"nominal"`       // of the last one of a range
	Count     int         `json:"count"`
	Cause     Cause       `json:"cause"`
	Triggered bool        `json:"fired"`
	At        time.Time   `json:"at"`
	Reason    core.Reason `json:"reason,omitempty"` // why it was skipped
}

// Skip reports fire times that were not launched.
type Skip struct {
	From, To time.Time // the first and the last nominal time
	Count    int       // of them; at most MaxCatchUp are counted
	More     bool      // there were more than Count
	RunID    string    // of a single trigger
	Cause    Cause
	Reason   core.Reason
}

// clone copies a state, so that a decision changes nothing that it was given.
func (s State) clone() State {
	s.Active = slices.Clone(s.Active)
	s.Claimed = slices.Clone(s.Claimed)
	s.Backfill = slices.Clone(s.Backfill)
	s.Last = slices.Clone(s.Last)
	return s
}

// busy reports whether a run is not complete, or still to be launched.
func (s *State) busy() bool { return len(s.Active)+len(s.Claimed) > 0 }

// waits reports whether something can continue only when a run has ended.
func (s *State) waits() bool { return s.Waiting != nil || len(s.Backfill) > 0 }

// knows reports whether a run is being launched, runs, or was lately launched.
func (s *State) knows(run string) bool {
	return slices.ContainsFunc(s.Active, func(r Run) bool { return r.ID == run }) ||
		slices.ContainsFunc(s.Claimed, func(c Claim) bool { return c.RunID == run }) ||
		slices.ContainsFunc(s.Last, func(r Result) bool { return r.Triggered && r.RunID == run })
}

func (s *State) note(r Result) {
	r.Reason = cutReason(r.Reason)
	if s.Last = append(s.Last, r); len(s.Last) > MaxLast {
		s.Last = slices.Clone(s.Last[len(s.Last)-MaxLast:])
	}
}

// skip records fire times that are not launched.
func (s *State) skip(k Skip, now time.Time) {
	s.Skipped += int64(k.Count)
	s.note(Result{RunID: k.RunID, Nominal: k.To, Count: k.Count, Cause: k.Cause, At: now, Reason: k.Reason})
}

// claimsAfter is when the first claim that must still wait may be launched, zero if there is none;
// ok is false if one is due now.
func (s *State) claimsAfter(now time.Time) (after time.Time, ok bool) {
	for _, c := range s.Claimed {
		if !c.After.After(now) {
			return time.Time{}, false
		}
		after = earlier(after, c.After)
	}
	return after, true
}

// earlier is the earlier of two times, where zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
