package queue

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/turnus/turnus/core"
)

// EventWindow is the event for which a job is suspended while its window is closed. Such a
// job holds nothing, and its wave need not wait for it.
const EventWindow = "window"

// EventGuest is the event for which a job is suspended before it asks again whether it may be the
// guest of a host. It is never signalled: the job waits for the time only.
const EventGuest = servicePrefix + "guest"

// TurnEvent is the event for which the jobs of one class, from 0, are suspended before a barrier,
// from 0, until it is their turn. Such a job holds nothing.
func TurnEvent(barrier, class int) string {
	return turnPrefix + strconv.Itoa(barrier) + "/" + strconv.Itoa(class)
}

// ParseTurn reads what TurnEvent made.
func ParseTurn(event string) (barrier, class int, ok bool) {
	g, c, both := strings.Cut(strings.TrimPrefix(event, turnPrefix), "/")
	barrier, err := strconv.Atoi(g)
	class, err2 := strconv.Atoi(c)
	return barrier, class, both && err == nil && err2 == nil && event == TurnEvent(barrier, class)
}

// OncePhase is a reason to wait at a step with once, which one host of the run calls.
type OncePhase string

// The phases.
const (
	OnceElect  OncePhase = "elect"  // until the ledger has the host that calls it
	OnceCalled OncePhase = "called" // the job called it: until the ledger has the result
	OnceResult OncePhase = "result" // another host calls it: until the ledger has the result
)

// OnceEvent is the event for which jobs are suspended at a step with once, by its index in the
// playbook. Such a job holds nothing.
func OnceEvent(step int, phase OncePhase) string {
	return oncePrefix + strconv.Itoa(step) + "/" + string(phase)
}

// ParseOnce reads what OnceEvent made.
func ParseOnce(event string) (step int, phase OncePhase, ok bool) {
	number, rest, _ := strings.Cut(strings.TrimPrefix(event, oncePrefix), "/")
	step, err := strconv.Atoi(number)
	phase = OncePhase(rest)
	known := phase == OnceElect || phase == OnceCalled || phase == OnceResult
	return step, phase, err == nil && step >= 0 && known && event == OnceEvent(step, phase)
}

const (
	servicePrefix = "turnus:"               // of names that the service may come to use
	turnPrefix    = servicePrefix + "turn/" // a job type cannot suspend itself until such an event
	oncePrefix    = servicePrefix + "once/" // nor until such a one
)

// CheckEvent returns the error of Signal for an event's name; nil if Signal accepts it.
func CheckEvent(event string) error {
	if event == "" || len(event) > MaxIDLength {
		return fmt.Errorf("the event's name has %d bytes, expected 1 to %d: %w", len(event), MaxIDLength, core.ErrInvalid)
	}
	return checkID("the event's name", event, true)
}

// ForPeople reports whether job types may wait for an event and people may signal it: it is not the
// service's own, and its name is not in the prefix that the service reserves.
func ForPeople(event string) bool {
	return event != EventWindow && !strings.HasPrefix(event, servicePrefix)
}
