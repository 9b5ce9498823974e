package core

import "strings"

// ReasonCode names why something happened, for programs: decisions branch on it, never on the text. "" is a reason
// that has no code, as that of a person, or one that was recorded before there were codes.
type ReasonCode string

// The codes of reasons. docs/api.md lists them ("Reasons").
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
	Missed           ReasonCode = "missed"            // a fire: no server was there at its time
	TooLate          ReasonCode = "too_late"          // a fire: later than start_within
	Refused          ReasonCode = "refused"           // a fire: its run is not valid
	NotLaunched      ReasonCode = "not_launched"      // a fire: its launch failed until it was too late
	Overlap          ReasonCode = "overlap"           // a fire or run: another fire of its schedule takes its place
)

// ReasonCodes lists all codes.
func ReasonCodes() []ReasonCode {
	return []ReasonCode{
		NeedsReapproval, WorkerLost, QueueLost, QueueOlder, BarrierClosed, ThresholdReached, HostLost, WaveFailed, WaveRefused,
		Missed, TooLate, Refused, NotLaunched, Overlap,
	}
}

// Reason is why something happened: a text for people, and a code where there is one. Its bytes are what queue and
// ledger store: the text, and behind codeMark the code. A stored text without a mark is a reason without a code.
type Reason string

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

// Text is what people read.
func (r Reason) Text() string {
	text, _, _ := strings.Cut(string(r), codeMark)
	return text
}

// Why is Text without the code, where that begins with it: what needs_reapproval, for one, says behind its colon.
func (r Reason) Why() string { return strings.TrimPrefix(r.Text(), string(r.Code())+": ") }

// Code is what decisions branch on.
func (r Reason) Code() ReasonCode {
	_, code, _ := strings.Cut(string(r), codeMark)
	return ReasonCode(code)
}

// String is Text.
func (r Reason) String() string { return r.Text() }

// MarshalText is Text.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.Text()), nil }
