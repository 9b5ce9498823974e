package snapshot_test

import (
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
)

func TestOnceEvents(t *testing.T) {
	for _, phase := range []snapshot.OncePhase{snapshot.AwaitElect, snapshot.AwaitKeep, snapshot.AwaitResult} {
		event := snapshot.OnceEvent(12, phase)
		step, got, ok := snapshot.ParseOnce(event)
		if !ok || step != 12 || got != phase || event != "turnus:once/12/"+string(phase) {
			t.Errorf("%s: step %d, %s, %v", event, step, got, ok)
		}
		if why := snapshot.WhyWaits(event); why.Code() != core.AwaitsOnce || why.Text() == "" {
			t.Errorf("%s: %q %s", event, why.Code(), why)
		}
	}
	for _, event := range []string{"", "elect", "once/1/elect", "turnus:once/1", "turnus:once/x/elect", "turnus:once/01/elect", "turnus:once/-1/elect", "turnus:once/1/first", "turnus:once/1/elect/2", "turnus:once/1/elect ", snapshot.TurnEvent(1, 2)} {
		if _, _, ok := snapshot.ParseOnce(event); ok {
			t.Errorf("%q is taken for an event of a step with once", event)
		}
	}
}

func TestTurnEvents(t *testing.T) {
	if barrier, class, ok := snapshot.ParseTurn("turnus:turn/3/14"); !ok || barrier != 3 || class != 14 || snapshot.TurnEvent(3, 14) != "turnus:turn/3/14" {
		t.Errorf("barrier %d, class %d, %v", barrier, class, ok)
	}
	for _, event := range []string{"", "turn/0/1", "turnus:turn/1", "turnus:turn/x/1", "turnus:turn/01/1", "turnus:turn/-1/0", "turnus:turn/1/-1", "turnus:turn/1/2/3", "turnus:turn/1/2 ", snapshot.OnceEvent(1, snapshot.AwaitElect)} {
		if _, _, ok := snapshot.ParseTurn(event); ok {
			t.Errorf("%q is taken for an event of a barrier", event)
		}
	}
}

// Every event of the service has its reason, and people may signal none of them.
func TestEachEventHasItsReason(t *testing.T) {
	for event, code := range map[string]core.ReasonCode{
		"": core.ByJobType, "go": core.AwaitsSignal, queue.EventWindow: core.WindowClosed, snapshot.EventGuest: core.GuestHeld,
		snapshot.OnceEvent(0, snapshot.AwaitResult): core.AwaitsOnce, snapshot.TurnEvent(0, 0): core.AtBarrier, snapshot.TurnEvent(2, 1): core.AtBarrier,
	} {
		if got := snapshot.WhyWaits(event).Code(); got != code {
			t.Errorf("%q: code %q, expected %q", event, got, code)
		}
		if people := code == core.ByJobType || code == core.AwaitsSignal; queue.ForPeople(event) != people {
			t.Errorf("%q: people may signal it: %v", event, !people)
		}
	}
	if snapshot.WhyWaits(snapshot.TurnEvent(0, 0)) == snapshot.WhyWaits(snapshot.TurnEvent(1, 0)) {
		t.Error("waiting for hosts that go before has the reason of a barrier")
	}
}
