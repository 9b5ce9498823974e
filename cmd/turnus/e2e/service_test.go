//go:build linux

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/transport/fleet"
)

func has(workers []api.Worker, name string) bool {
	for _, w := range workers {
		if w.Name == name && w.State != api.WorkerAway {
			return true
		}
	}
	return false
}

// While Redis is away runs are accepted, shown as waiting, and queries are answered; they run when
// it is back.
func TestRunsAreAcceptedWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	s := newSite(l, 1, 5, fmt.Sprintf("{uses: lab.trace, with: {file: %s/trace}}", l.dir))
	a := s.server()
	c := s.ask(a)
	ask := func() *client.Client { return c }
	first := s.submit(ask, "before", "part0") // so that the definitions are there
	l.redis.kill()
	run := s.submit(ask, "while", "part0")
	shown, err := c.Run(context.Background(), run.ID)
	if err != nil || shown.Phase != api.Queued {
		t.Errorf("run accepted without Redis: phase %q, %v; expected queued", shown.Phase, err)
	}
	if again := s.submit(ask, "while", "part0"); again.ID != run.ID {
		t.Errorf("the same key made run %s, and then %s", run.ID, again.ID)
	}
	l.redis.launch()
	s.worker("-f", "4")
	for _, id := range []string{first.ID, run.ID} {
		until(t, "the run to finish", func() bool {
			shown, err := c.Run(context.Background(), id)
			return err == nil && shown.Phase == api.Finished
		})
		if outcomes, _ := accounted(t, s.open(), id); outcomes[core.Changed] != 5 {
			t.Errorf("run %s: %v", id, outcomes)
		}
	}
}
