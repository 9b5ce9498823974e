package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// marking hands out a job with the reason why it must not be worked on.
type marking struct {
	queue.Worker
	index int
}

func (m marking) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	res, err := m.Worker.Turn(ctx, t)
	for i := range res.Leases {
		if res.Leases[i].Job.Index == m.index {
			res.Leases[i].Err = fmt.Errorf("the data of the job: it is not what was encrypted: %w", core.ErrInvalid)
		}
	}
	return res, err
}

// A job whose bytes are not what was given ends as failed, with that reason, and nothing of it is
// done. The others run.
func TestAJobThatWasTamperedWithIsNotBegun(t *testing.T) {
	inLab(t, func(l *lab) {
		la := l.submit("r", 3, oneStep)
		c := l.config()
		c.Queue = marking{c.Queue, 1}
		n := l.start(c)
		res := l.results(la)
		n.drain()
		for _, r := range res {
			i := r.Job.Index
			if bad := i == 1; bad != (r.Outcome == core.Failed) || bad != strings.Contains(r.Reason, "not what was encrypted") {
				t.Errorf("job %d: %s, %q", i, r.Outcome, r.Reason)
			}
		}
		for _, c := range l.plugins.seen() {
			if c.Host.Name == la.Hosts[1].Name {
				t.Error("its job type was called")
			}
		}
	})
}
