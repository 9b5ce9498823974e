package server

import (
	"context"
	"net/http"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/queue"
)

// countedQueue counts how often the queue is asked about runs.
type countedQueue struct {
	queue.Queue
	polls, statuses int
}

func (c *countedQueue) Poll(ctx context.Context, most int, asks ...queue.Ask) []queue.Sight {
	c.polls++
	return c.Queue.Poll(ctx, most, asks...)
}

func (c *countedQueue) Status(ctx context.Context, run string) (queue.Status, error) {
	c.statuses++
	return c.Queue.Status(ctx, run)
}

// A list with live has of each run what the view of that run has, and asks the queue once. Control:
// without live it has nothing of the queue.
func TestAListWithLiveAsksTheQueueOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.work()
	secret := b.token("acme", Viewer)
	const runs = 5
	for range runs {
		b.launch("acme", api.NewRun{})
	}
	list := func(more string) []api.Run {
		return want[struct{ Items []api.Run }](t, b.ask(secret, "GET", "/v1/runs"+more, nil), http.StatusOK).Items
	}
	until(t, "all runs are in the queue", func() bool {
		for _, run := range list("?live=true") {
			if run.Phase != api.Active || run.Live == nil {
				return false
			}
		}
		return true
	})
	counted := &countedQueue{Queue: b.server.cfg.Queue}
	b.server.cfg.Queue = counted
	all := list("?live=true")
	if counted.polls != 1 || counted.statuses != 0 || len(all) != runs {
		t.Errorf("%d runs: the queue was asked %d times about several, %d times about one", len(all), counted.polls, counted.statuses)
	}
	for _, run := range all {
		one := want[api.Run](t, b.ask(secret, "GET", "/v1/runs/"+run.ID, nil), http.StatusOK)
		if run.Live == nil || one.Live == nil || *run.Live != *one.Live || run.Weight != one.Weight || run.Reason != one.Reason || run.FinishP50.IsZero() {
			t.Errorf("in the list %+v %+v, alone %+v %+v", run, run.Live, one, one.Live)
		}
	}
	if counted.statuses != runs {
		t.Errorf("control: %d questions for %d views of runs", counted.statuses, runs)
	}
	for _, run := range list("") {
		if run.Live != nil || !run.FinishP50.IsZero() {
			t.Errorf("control: a list without live has %+v", run)
		}
	}
}
