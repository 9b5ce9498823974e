package snapshot

import (
	"fmt"
	"strconv"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

const (
	turnFormat = queue.Reserved + "turn/%d/%d"
	onceFormat = queue.Reserved + "once/%d/%s"
)

// EventGuest is the event for which a job is suspended before it asks again whether it may be the
// guest of a host. It is never signalled: the job waits for the time only.
const EventGuest = queue.Reserved + "guest"

// TurnEvent is the event for which the jobs of one class, from 0, are suspended before a barrier,
// from 0, until it is their turn. Such a job holds nothing.
func TurnEvent(barrier, class int) string { return fmt.Sprintf(turnFormat, barrier, class) }

// ParseTurn reads what TurnEvent made.
func ParseTurn(event string) (barrier, class int, ok bool) {
	_, err := fmt.Sscanf(event, turnFormat, &barrier, &class)
	return barrier, class, err == nil && min(barrier, class) >= 0 && event == TurnEvent(barrier, class)
}

// OncePhase is a reason to wait at a step with once, which one host of the run calls.
type OncePhase string

// The phases.
const (
	AwaitElect  OncePhase = "elect"  // until the ledger has the host that calls it
	AwaitKeep   OncePhase = "called" // the job called it: until the ledger has the result
	AwaitResult OncePhase = "result" // another host calls it: until the ledger has the result
)

var whyOnce = map[OncePhase]string{
	AwaitElect:  "waits until it is on record which host of its run calls the step",
	AwaitKeep:   "has called the step for its run, and waits until the result is on record",
	AwaitResult: "waits until another host of its run has called the step, which has once",
}

// OnceEvent is the event for which jobs are suspended at a step with once, by its index in the
// playbook. Such a job holds nothing.
func OnceEvent(step int, phase OncePhase) string { return fmt.Sprintf(onceFormat, step, phase) }

// ParseOnce reads what OnceEvent made.
func ParseOnce(event string) (step int, phase OncePhase, ok bool) {
	_, err := fmt.Sscanf(event, onceFormat, &step, &phase)
	return step, phase, err == nil && step >= 0 && whyOnce[phase] != "" && event == OnceEvent(step, phase)
}

// WhyWaits returns what a job waits for that is suspended until event, beside a time.
func WhyWaits(event string) core.Reason {
	_, phase, once := ParseOnce(event)
	barrier, _, turn := ParseTurn(event)
	switch {
	case event == "":
		return core.Because(core.ByJobType, "suspended by its job type")
	case event == queue.EventWindow:
		return core.Because(core.WindowClosed, "waits for its maintenance window")
	case event == EventGuest:
		return core.Because(core.GuestHeld, "waits for the host of a step with on, which has another guest")
	case once:
		return core.Because(core.AwaitsOnce, whyOnce[phase])
	case turn && barrier == 0:
		return core.Because(core.AtBarrier, "waits for the hosts that go before its own")
	case turn:
		return core.Because(core.AtBarrier, "waits until every host of its run has done the steps before, and for its wave")
	}
	return core.Because(core.AwaitsSignal, "suspended by its job type until event "+strconv.Quote(event))
}
