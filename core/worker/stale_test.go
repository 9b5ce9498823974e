package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/plugins/host"
)

// A host that saw a newer lease refuses the job's: the job is not this worker's, whatever the job type makes of it. It gets no outcome
// here. Where the queue was set back, and the lease is the newest after all, the job is given back and runs with a newer one.
func TestFaultR3RefusedFenceIsNoOutcome(t *testing.T) {
	inLab(t, func(l *lab) {
		refused := 0
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			if c.Queue != "life" || c.Fence == 0 {
				t.Errorf("a call has the fence %q %d", c.Queue, c.Fence)
			}
			if refused++; refused <= 3 {
				return host.Outcome{Cancelled: true, Effects: host.EffectsUnknown}, fmt.Errorf("%w: web1", core.ErrSessionGone)
			}
			return host.Outcome{Changed: true}, nil
		}
		if _, err := l.q.Post(t.Context(), queue.IncarnationDocument, []byte("life"), queue.MaxKeep); err != nil {
			t.Fatal(err)
		}
		la := l.submit("r", 1, oneStep)
		c := l.config()
		c.Board = l.q
		n := l.start(c)
		pass(time.Minute)
		res := l.results(la)
		n.drain()
		calls := l.plugins.seen()
		if count(res)[core.Changed] != 1 || len(calls) != 4 {
			t.Fatalf("%d calls, outcomes %v", len(calls), count(res))
		}
		for i, call := range calls[1:] {
			if call.Fence <= calls[i].Fence || call.Attempt != 1 {
				t.Errorf("call %d: fence %d after %d, attempt %d", i+1, call.Fence, calls[i].Fence, call.Attempt)
			}
		}
	})
}
