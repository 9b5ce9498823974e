package queue_test

import (
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

func TestOnceEvents(t *testing.T) {
	for _, phase := range []queue.OncePhase{queue.OnceElect, queue.OnceCalled, queue.OnceResult} {
		event := queue.OnceEvent(12, phase)
		step, got, ok := queue.ParseOnce(event)
		if !ok || step != 12 || got != phase || queue.ForPeople(event) {
			t.Errorf("%s: step %d, %s, %v; people may signal it: %v", event, step, got, ok, queue.ForPeople(event))
		}
		if why := queue.WhySuspended(event); why.Code() != core.AwaitsOnce || why.Text() == "" {
			t.Errorf("%s: %q %s", event, why.Code(), why)
		}
	}
	for _, event := range []string{"", "elect", "once/1/elect", "turnus:once/1", "turnus:once/x/elect", "turnus:once/01/elect", "turnus:once/-1/elect", "turnus:once/1/first", "turnus:once/1/elect/2", queue.TurnEvent(1, 2)} {
		if _, _, ok := queue.ParseOnce(event); ok {
			t.Errorf("%q is taken for an event of a step with once", event)
		}
	}
}
