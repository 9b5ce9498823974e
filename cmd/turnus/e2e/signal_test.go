//go:build linux

package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/transport/fleet"
)

// The second Ctrl-C ends running jobs, also on the hosts.
func TestSecondInterruptEndsAtOnce(t *testing.T) {
	t.Parallel()
	var e ends
	l := newLab(t, fleet.Config{Hosts: 12, Handle: e.handle})
	run := l.run("-o", "json", "-f", "4", l.playbook("killed", "{uses: command, with: {run: never-ends}}"))
	until(t, "4 jobs on hosts", func() bool { return e.begun.Load() == 4 })
	run.signal(syscall.SIGINT)
	until(t, "the first signal to be told", func() bool { return run.err.has("once more") })
	run.signal(syscall.SIGINT)
	run.wants(3)
	r := run.report()
	if len(r.Results) != 12 {
		t.Errorf("%d results, expected one of each of 12 hosts: %v", len(r.Results), r.Outcomes)
	}
	for _, res := range r.Results {
		if res.Outcome != core.Cancelled && res.Outcome != core.Lost || res.Reason == "" {
			t.Errorf("%s: %s, reason %q", res.Host, res.Outcome, res.Reason)
		}
	}
	until(t, "the commands to end on their hosts", func() bool { return e.ended.Load() == e.begun.Load() })
}

// The second signal to a worker ends running jobs immediately; the jobs end with a reason or go to
// another worker.
func TestSecondSignalEndsAWorkerAtOnce(t *testing.T) {
	t.Parallel()
	var e ends
	l := newLab(t, fleet.Config{Hosts: 3, Handle: e.handle}).withRedis()
	w := l.worker()
	run := l.run("-o", "json", l.playbook("stuck", "{uses: command, with: {run: never-ends}}"))
	until(t, "jobs on hosts", func() bool { return e.begun.Load() == 3 })
	w.signal(syscall.SIGTERM)
	until(t, "the drain to be told", func() bool { return w.err.has("once more") })
	w.signal(syscall.SIGTERM)
	w.code()
	run.code()
	for _, res := range run.report().Results {
		if res.Outcome.Good() || !strings.Contains(res.Reason, "worker was stopped") {
			t.Errorf("%s: %s, reason %q", res.Host, res.Outcome, res.Reason)
		}
	}
	until(t, "the commands to end on their hosts", func() bool { return e.ended.Load() == 3 })
}

// Ctrl-C on a run whose work is done by other nodes: their running jobs finish, no more start; the
// second one ends them, also there.
func TestInterruptReachesOtherNodes(t *testing.T) {
	t.Parallel()
	var e ends
	held := newLatch()
	l := newLab(t, fleet.Config{Hosts: 12, Handle: func(ctx context.Context, c fleet.Command) (int, bool) {
		if code, ok := held.handle(ctx, c); ok {
			return code, true
		}
		return e.handle(ctx, c)
	}}).withRedis()
	l.worker("-f", "4")
	once := l.run("-o", "json", l.playbook("once", "{uses: command, with: {run: held}}"))
	until(t, "4 jobs on hosts", func() bool { return held.begun.Load() == 4 })
	once.signal(syscall.SIGINT)
	q := l.redis.queue()
	until(t, "the queue to hold the run", func() bool {
		runs, err := q.Runs(context.Background())
		if err != nil || len(runs) != 1 {
			return false
		}
		s, err := q.Status(context.Background(), runs[0])
		return err == nil && s.Phase == queue.Paused
	})
	held.open()
	once.wants(3)
	if r := once.report(); r.Outcomes[core.Changed] != 4 || r.Outcomes[core.Cancelled] != 8 {
		t.Errorf("after one signal: %v, expected 4 changed, 8 cancelled", r.Outcomes)
	}
	twice := l.run("-o", "json", l.playbook("twice", "{uses: command, with: {run: never-ends}}"))
	until(t, "4 jobs on hosts", func() bool { return e.begun.Load() == 4 })
	twice.signal(syscall.SIGINT)
	until(t, "the first signal to be told", func() bool { return twice.err.has("once more") })
	twice.signal(syscall.SIGINT)
	twice.wants(3)
	if r := twice.report(); len(r.Results) != 12 || r.Outcomes[core.Changed] > 0 {
		t.Errorf("after two signals: %v, expected that none of 12 was done", r.Outcomes)
	}
	until(t, "the commands to end on their hosts", func() bool { return e.ended.Load() == 4 })
}
