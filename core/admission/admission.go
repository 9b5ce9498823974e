// Package admission owns whether the disruptive steps of a host's job may start now. It decides
// which window set applies, how much time must fit, which hashes bind an approval, and how long a
// host may carry its work over to a later window. Launch asks it for each host's earliest start, a
// worker before each disruptive step, a forecast for both.
//
// It also owns the current windows on their way to the workers: one document on the board
// for each launcher. turnus run and the service publish it by a Publisher, which also signals
// suspended host tasks to ask again. Workers read it by a CalendarReader.
//
// It must not know which runs there are, who may edit windows, or where definitions are kept.
package admission

import (
	"cmp"
	"time"

	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/windows"
)

// The words of a playbook's or a step's window: key that are no name of a window set.
const (
	Service = "service"          // the host's own set, Host.WindowSet; a host without one is closed
	Own     = "own"              // the host's own set; a host without one is open
	None    = playbooks.NoWindow // at any time
)

// Question asks about one host.
type Question struct {
	Set  string        // name of the window set; "" is a host without one: closed
	Need time.Duration // of the steps with a window that are left, rollback included; 0 is unknown: an error
	// Hashes that approvals may be bound to, as sha256:HEX; see ChangeHash and TargetsHash.
	Change, Targets string
	Missed          int // windows that the job was given and could not use
}

// Answer is whether work may start, and why not.
type Answer struct {
	Open      bool
	Close     time.Time       // of the window that is open: when the work must be done
	Overrun   windows.Overrun // what becomes of what still runs at Close
	Next      time.Time       // when not open: the earliest start; zero if none is known
	Reapprove bool            // the host has waited long enough, or its approval has ended: somebody must decide
	By        windows.Cause   // what decides
	Reason    string          // a sentence that names it; with Reapprove its code is core.NeedsReapproval
	Zone      *time.Location  // of the set; UTC if that is not known
}

// Local writes a time for people: in the zone, and in UTC.
func Local(t time.Time, zone *time.Location) string {
	zone = cmp.Or(zone, time.UTC)
	return t.In(zone).Format("Mon 2006-01-02 15:04 MST") + " (" + t.UTC().Format(time.RFC3339) + ")"
}
