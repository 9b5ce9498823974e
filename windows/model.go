package windows

import (
	"errors"
	"time"
)

// ErrInvalid is the error about a definition, a rule or a need: the caller's input is wrong.
var ErrInvalid = errors.New("invalid")

// Definitions are the window sets, freezes and holiday calendars of one or more files.
// They are read-only once loaded.
type Definitions struct {
	Sets     map[string]*Set
	Freezes  map[string]*Freeze
	Holidays map[string]*Calendar
	Given    []*Given // approvals that stand apart from their sets
}

// Set is one window set.
type Set struct {
	Name string
	// Scope names whom the set is for. A set inherits from every set of a wider scope: one
	// whose keys and values are a part of its own. nil takes no part; {} is wider than all.
	Scope    map[string]string
	Timezone string
	Inherit  Inherit
	// Allow opens. nil (the key is not given) takes the allows of the wider scope; empty is closed.
	Allow    []Rule
	Requires []string // names of window sets that must also be open
	Deny     []Deny
	Cutoff   *time.Duration // no start later than this before close; nil: the wider scope's
	Overrun  Overrun        // "": the wider scope's, else finish
	Approval *Approval      // of all allows without one of their own; nil: none is needed
	Carry    *CarryOver
	FourEyes bool `json:",omitempty"` // a run that waits for the set waits for another person's approval first
}

// Inherit defines what a set's allows do with those of the wider scope. Denies and requires
// always add up.
type Inherit string

// The default is intersect: a narrower scope can only narrow.
const (
	Intersect Inherit = "intersect"
	Replace   Inherit = "replace"
	Extend    Inherit = "extend"
)

// Overrun defines what becomes of work that still runs at close.
type Overrun string

// The effects of a close on running work.
const (
	Finish           Overrun = "finish"
	StopAtCheckpoint Overrun = "stop_at_checkpoint"
)

// Rule opens or, in a deny, closes. Exactly one of RRule, Cron and At is given.
type Rule struct {
	ID       string
	RRule    string        // RFC 5545, FREQ DAILY to YEARLY; gives days
	Cron     string        // five fields; gives starts
	At       time.Time     // a single wall time (floating)
	AtUTC    time.Time     // the instant that was approved for At; if zone data moves it, the rule waits for a person
	From     time.Duration // wall clock of the start, since midnight; with RRule
	To       *Clock        // wall clock of the end; or Duration
	ToAt     time.Time     // the end of At, as wall time
	Duration time.Duration // elapsed time
	Offset   int           // days added to each day of RRule
	Valid    *Span         // local dates on which an occurrence may start, both included
	Approval *Approval

	recur recurrence // parsed RRule or Cron
}

// Clock is a wall clock time some days after the start's date.
type Clock struct {
	Days int
	Time time.Duration // since midnight
}

// length is the wall time from the midnight that begins the start's date.
func (c *Clock) length() time.Duration { return time.Duration(c.Days)*24*time.Hour + c.Time }

// Span is a range of local dates, both included, as floating midnights.
type Span struct{ First, Last time.Time }

// Deny takes time out of what is allowed: a freeze, a holiday calendar, or a rule.
type Deny struct {
	Use    string // freeze/NAME or holidays/NAME; "" for a rule
	Rule   *Rule
	Effect Effect
}

// Effect defines what a deny does to an occurrence it touches.
type Effect string

// Clip takes the denied time out; Cancel drops the whole occurrence.
const (
	Clip   Effect = "clip"
	Cancel Effect = "cancel"
)

// Freeze forbids [From, To), as wall times in its own zone. Nothing beats it but an approval
// that names it, by its owner, made after it.
type Freeze struct {
	Name     string
	Timezone string
	From, To time.Time // floating
	Owner    string
	Made     time.Time // instant; zero: no approval lifts it
	Reason   string
}

// Calendar is a set of holidays: dates of its own, and calendars it includes.
type Calendar struct {
	Name    string
	Dates   []time.Time // floating midnights
	Include []string
}

// State is the state of an approval. Its expiry depends on the time, and is not stored.
type State string

// The states that are written down.
const (
	Proposed State = "proposed"
	Approved State = "approved"
	Revoked  State = "revoked"
)

// Approval is the customer's consent to the allows it stands at.
type Approval struct {
	ID    string
	By    string
	State State
	At    time.Time // when it was given; zero: not known
	Until time.Time // first instant at which it no longer holds; zero: no end
	// MaxOccurrences is how many occurrences it covers, counted from At (else from the first
	// valid date, else from the start of the horizon); 0: no limit.
	MaxOccurrences int
	Freezes        []string  // freezes it lifts, if it may
	RevokedAt      time.Time // from when on nothing more starts
	// The hashes of the approved window, change and targets, as sha256:HEX. An empty one is not
	// checked; another value voids the approval.
	Window, Change, Targets string
}

// Work is the properties of a launch that approvals may be bound to: hashes of a change and of its
// targets, as sha256:HEX.
type Work struct{ Change, Targets string }

// CarryOver limits how often and how long a host may wait for another window.
type CarryOver struct {
	Max      int       // windows it may miss; 0: no limit
	Deadline time.Time // instant; zero: none
}

// Covers reports what voids the approval for a change and its targets, given as sha256:HEX. It is
// nil if the approval has no hash of a change or targets, or just these.
func (a *Approval) Covers(change, targets string) error {
	switch {
	case a == nil:
		return nil
	case a.Change != "" && a.Change != change:
		return errors.New(a.name() + " was given for another change")
	case a.Targets != "" && a.Targets != targets:
		return errors.New(a.name() + " was given for other targets")
	}
	return nil
}

func (a *Approval) name() string {
	switch {
	case a.ID != "":
		return "approval " + a.ID
	case a.By != "":
		return "the approval by " + a.By
	}
	return "the approval"
}
