//go:build linux && labs

package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/transport/fleet"
)

// Where a job type may not be repeated, a killed worker's job ends as lost, with a reason, and the
// run stops.
func TestLabKilledWorkerStopsARunWhoseJobsMayNotBeRepeated(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 12}).withRedis()
	w := l.worker("-f", "4")
	run := l.run("-o", "json", l.playbook("hold", "{name: once, uses: command, with: {run: sleep 8}}"))
	until(t, "jobs on hosts", func() bool { return l.fleet.Stats().Commands >= 4 })
	w.kill()
	l.worker("-f", "4") // it recovers the jobs
	run.wants(2)
	r := run.report()
	if r.Phase != string(queue.Stopped) || r.Outcomes[core.Lost] != 4 || r.Outcomes[core.Cancelled] < 4 {
		t.Errorf("phase %s, outcomes %v; expected stopped, 4 lost, and cancelled what had not begun by then", r.Phase, r.Outcomes)
	}
	for _, res := range r.Results {
		if res.Reason == "" && !res.Outcome.Good() || res.Outcome == core.Lost && !strings.Contains(res.Reason, "worker") {
			t.Errorf("%s: %s, reason %q", res.Host, res.Outcome, res.Reason)
		}
	}
	l.redis.sound(map[string]int{r.Run: 12})
}

// Redis away: what runs continues while its lease is safe, everything else waits and reports that,
// and continues when Redis is back, first after it stood still, then after it was killed and
// started from its file.
func TestLabRedisAwayOnlyDelays(t *testing.T) {
	t.Parallel()
	// With everysec a killed Redis forgets up to two seconds, and what it forgot is done and recorded
	// once more.
	l := newLab(t, fleet.Config{Hosts: 40}).withRedis("--appendfsync", "always").traced()
	file := l.dir + "/trace"
	w := l.worker("-f", "4")
	run := l.run("--events", l.playbook("away", fmt.Sprintf("{uses: lab.trace, with: {file: %s, ms: 700}}", file)))
	began := func() int { return len(executions(t, file)) }
	until(t, "the first jobs", func() bool { return began() >= 4 })

	l.redis.signal(syscall.SIGSTOP)
	stopped, before := time.Now(), began()
	until(t, "both to say that the queue is away", func() bool {
		return w.err.has("queue_away") && run.err.has("does not answer")
	})
	l.redis.signal(syscall.SIGCONT)
	resumed := time.Now()
	until(t, "both to say that it is back", func() bool { return w.err.has("queue_back") && run.err.has("answers again") })
	until(t, "more jobs", func() bool { return began() > before+4 })
	wentOn := 0
	for _, e := range executions(t, file) {
		if e.begin.Before(stopped) && e.end.After(stopped) && e.end.Before(resumed) {
			wentOn++
		}
	}
	if wentOn == 0 {
		t.Error("no running job came to its end while Redis was away")
	}

	l.redis.kill()
	until(t, "the worker to notice again", func() bool { return strings.Count(w.err.String(), "queue_away") >= 2 })
	l.redis.launch()
	run.wants(0)
	times, last := run.done()
	perRun := map[string]int{}
	for job, n := range times {
		id, _ := core.ParseJobID(job)
		perRun[id.Run]++
		if n != 1 || last[job].Outcome != core.Changed {
			t.Errorf("%s: %d records, the last %s: %s", job, n, last[job].Outcome, last[job].Reason)
		}
	}
	if len(times) != 40 {
		t.Errorf("%d jobs have an outcome, expected 40", len(times))
	}
	l.redis.sound(perRun)
}

// An accepted run is not lost with the process that launched it: the workers bring it to its end.
func TestLabKilledLauncherLosesNothing(t *testing.T) {
	t.Parallel()
	const hosts = 100
	l := newLab(t, fleet.Config{Hosts: hosts}).withRedis().traced()
	file := l.dir + "/trace"
	l.worker("-f", "8")
	run := l.run("--events", l.playbook("orphan", fmt.Sprintf("{uses: lab.trace, with: {file: %s, ms: 50}}", file)))
	until(t, "the first jobs", func() bool { return len(executions(t, file)) > 0 })
	all := executions(t, file)
	run.kill()
	id, err := core.ParseJobID(all[0].job)
	if err != nil {
		t.Fatal(err)
	}
	q := l.redis.queue()
	until(t, "the run to end without its launcher", func() bool {
		s, err := q.Status(context.Background(), id.Run)
		return err == nil && s.Complete && s.Outcomes[core.Changed] == hosts
	})
	l.redis.sound(map[string]int{id.Run: hosts})
}
