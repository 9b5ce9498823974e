package core

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ReasonCode names why something happened, for programs: decisions branch on it, never on the text.
// "" is a reason that has no code, as that of a person, or one that was recorded before there were
// codes.
type ReasonCode string

// The codes of reasons. docs/api-reasons.md lists them.
const (
	NeedsReapproval  ReasonCode = "needs_reapproval"  // a host: no window is left to it, or its approval has ended
	WorkerLost       ReasonCode = "worker_lost"       // a host: its worker went silent while it held the host
	QueueLost        ReasonCode = "queue_lost"        // a host or run: the queue was lost while hosts may have been under way
	QueueOlder       ReasonCode = "queue_older"       // a run: the queue came back older than the ledger
	BarrierClosed    ReasonCode = "barrier_closed"    // a host: another one did not reach the barrier that it waited at
	ThresholdReached ReasonCode = "threshold_reached" // a run: stop_after or stop_unreachable
	HostLost         ReasonCode = "host_lost"         // a run: the outcome of one of its hosts is unknown
	WaveFailed       ReasonCode = "wave_failed"       // a run: no host of a wave succeeded
	WaveRefused      ReasonCode = "wave_refused"      // a run: a person refused it, or its next wave
	OnceFailed       ReasonCode = "once_failed"       // a run: the host that calls a step with once has no result of it
	Missed           ReasonCode = "missed"            // a trigger: no server was there at its time
	TooLate          ReasonCode = "too_late"          // a trigger: later than start_within
	Refused          ReasonCode = "refused"           // a trigger: its run is not valid
	NotLaunched      ReasonCode = "not_launched"      // a trigger: its launch failed until it was too late
	Overlap          ReasonCode = "overlap"           // a trigger or run: another trigger of its schedule takes its place
	SourceStale      ReasonCode = "source_stale"      // a source: its last good hosts are older than its max_age or of other settings, and launches on them are refused

	// Of a host that waits.
	AwaitsApproval ReasonCode = "approval"      // its run, or its wave, waits for a person
	NotQueued      ReasonCode = "queue"         // its run is not in the queue
	QueueAway      ReasonCode = "queue_away"    // the queue does not answer
	Elsewhere      ReasonCode = "elsewhere"     // another process on this machine runs it
	RunPaused      ReasonCode = "paused"        // its run is paused
	RunOver        ReasonCode = "run_over"      // its run has stopped or was cancelled: it ends next
	WaveClosed     ReasonCode = "wave"          // its wave is not released
	NotDue         ReasonCode = "not_due"       // its start is later
	WindowClosed   ReasonCode = "window"        // its maintenance window is closed
	LockHeld       ReasonCode = "lock"          // another job has its host, its group's place or its HA group
	RunFull        ReasonCode = "max_in_flight" // its run has max_in_flight jobs under way
	NoWorker       ReasonCode = "worker"        // no worker of its pool reports
	NoSlot         ReasonCode = "concurrency"   // it is due and waits for a worker's concurrency
	NextAttempt    ReasonCode = "retry"         // its next attempt is later
	AtBarrier      ReasonCode = "barrier"       // other hosts have not reached the barrier
	AwaitsOnce     ReasonCode = "once"          // another host of its run calls the step
	GuestHeld      ReasonCode = "guest"         // another job is the guest of the host of its step's on
	AwaitsSignal   ReasonCode = "signal"        // its job type suspended it until an event
	ByJobType      ReasonCode = "job_type"      // its job type suspended it until a time

	// Of a step, and of the host whose outcome it decides.
	NotSelected    ReasonCode = "not_selected"    // its tags are not selected
	WhenFalse      ReasonCode = "when"            // its condition does not hold
	NoCheckMode    ReasonCode = "no_check_mode"   // its job type has no check mode
	NothingToDo    ReasonCode = "nothing_to_do"   // its job type found nothing to do
	NoItems        ReasonCode = "no_items"        // its foreach has no items
	WasKept        ReasonCode = "kept"            // a retry continues behind it, and an earlier run called it
	CalledOnce     ReasonCode = "called_once"     // it has once, and another host called it
	WouldRun       ReasonCode = "would_run"       // a handler in check mode
	Unchecked      ReasonCode = "unchecked"       // check mode: an earlier step may bring what the host lacks, or has a result that a dry run lacks; of a host: a step of it was not checked
	NothingFailed  ReasonCode = "nothing_failed"  // it is of rescue, and no step of its group failed
	Rescued        ReasonCode = "rescued"         // a host that succeeded: rescue of a group has dealt with a failure
	EarlierFailed  ReasonCode = "earlier_failed"  // a step of its group before it failed
	BadExpression  ReasonCode = "expression"      // an expression of it cannot be evaluated
	NoJobType      ReasonCode = "no_job_type"     // its worker has no such job type
	ParamsRefused  ReasonCode = "params"          // its job type refuses its params
	TimedOut       ReasonCode = "timeout"         // it took longer than its timeout
	PluginDied     ReasonCode = "plugin_died"     // the process of its plugin ended during the call
	Unavailable    ReasonCode = "unavailable"     // its plugin or its secrets could not be had
	RunCancelled   ReasonCode = "run_cancelled"   // its run was cancelled while it was under way
	LeaseLost      ReasonCode = "lease_lost"      // its worker lost its right to the host
	EffectsUnknown ReasonCode = "effects_unknown" // it was cut short, and its effects on the host are unknown
)

// ReasonCodes lists all codes.
func ReasonCodes() []ReasonCode {
	return []ReasonCode{
		NeedsReapproval, WorkerLost, QueueLost, QueueOlder, BarrierClosed, ThresholdReached, HostLost, WaveFailed, WaveRefused, OnceFailed,
		Missed, TooLate, Refused, NotLaunched, Overlap, SourceStale,
		AwaitsApproval, NotQueued, QueueAway, Elsewhere, RunPaused, RunOver, WaveClosed, NotDue, WindowClosed, LockHeld, RunFull,
		NoWorker, NoSlot, NextAttempt, AtBarrier, AwaitsOnce, GuestHeld, AwaitsSignal, ByJobType,
		NotSelected, WhenFalse, NoCheckMode, NothingToDo, NoItems, WasKept, CalledOnce, WouldRun, Unchecked, NothingFailed, EarlierFailed, Rescued, BadExpression, NoJobType, ParamsRefused, TimedOut,
		PluginDied, Unavailable, RunCancelled, LeaseLost, EffectsUnknown,
	}
}

// Reason is why something happened: a text for people, and a code where there is one. Its bytes are
// what queue and ledger store: the text, and behind codeMark the code. A stored text without a mark
// is a reason without a code.
type Reason string

// MaxReason bounds the reason that a person gives, in characters.
const MaxReason = 1000

// CheckReason returns the reason that a person gives without the spaces around it. "" is none. One
// that is not one short line, or that changes how a terminal or a page shows text, is ErrInvalid.
func CheckReason(text string) (string, error) {
	hidden := func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) }
	if n := utf8.RuneCountInString(text); n > MaxReason {
		return "", fmt.Errorf("the reason has %d characters, expected at most %d: %w", n, MaxReason, ErrInvalid)
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, hidden) {
		return "", fmt.Errorf("the reason %q: expected one line without control characters: %w", text, ErrInvalid)
	}
	return strings.TrimSpace(text), nil
}

// codeMark is a control character, which no text has: Because takes it out.
const codeMark = "\x1f"

// Because is a reason of a code, or of none, and a text.
func Because(code ReasonCode, text string) Reason {
	text = strings.ReplaceAll(text, codeMark, " ")
	if code == "" {
		return Reason(text)
	}
	return Reason(text + codeMark + string(code))
}

// Text is the text for people.
func (r Reason) Text() string {
	text, _, _ := strings.Cut(string(r), codeMark)
	return text
}

// Why is Text without the code, where that begins with it: of needs_reapproval, for one, the part
// behind its colon.
func (r Reason) Why() string { return strings.TrimPrefix(r.Text(), string(r.Code())+": ") }

// Code is the code that decisions branch on.
func (r Reason) Code() ReasonCode {
	_, code, _ := strings.Cut(string(r), codeMark)
	return ReasonCode(code)
}

// String is Text.
func (r Reason) String() string { return r.Text() }

// MarshalText is Text.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.Text()), nil }
