//go:build linux

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

// recoveryLimit is how long after a worker's death its jobs may run again at the latest.
const recoveryLimit = 10 * time.Second

// recoveryProblems looks at what every execution that was cut off by a kill was followed by:
// another one within the limit; and at hosts, on which never two executions may overlap. Where the
// queue counted more attempts of a job than executions began, its next worker was killed as well
// before it began, and each such attempt has a limit of its own.
func recoveryProblems(all []*execution, killed map[int]time.Time, attempts map[string]int) (problems []string, slowest time.Duration) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	byJob := map[string][]*execution{}
	busy := map[string]*execution{}
	for _, e := range all {
		byJob[e.job] = append(byJob[e.job], e)
		if before := busy[e.host]; before != nil {
			end := before.end
			if end.IsZero() {
				end = killed[before.worker]
			}
			if end.IsZero() || e.begin.Before(end) {
				bad("host %s: %s began at %v, before %s ended at %v", e.host, e.job, e.begin, before.job, end)
			}
		}
		busy[e.host] = e
	}
	for job, list := range byJob {
		for i, e := range list[:len(list)-1] {
			again := list[i+1]
			died, ok := killed[e.worker]
			if !ok {
				bad("%s ran twice, though worker %d was not killed", job, e.worker)
				continue
			}
			if again.fence <= e.fence || again.key != e.key {
				bad("%s: fence %d and key %s, after %d and %s", job, again.fence, again.key, e.fence, e.key)
			}
			unseen := max(attempts[job]-len(list), 0)
			slowest = max(slowest, again.begin.Sub(died)/time.Duration(1+unseen))
		}
		if list[len(list)-1].end.IsZero() {
			bad("%s was cut off and never ran again", job)
		}
	}
	if slowest > recoveryLimit {
		bad("the slowest recovery took %v, expected %v at most", slowest, recoveryLimit)
	}
	return problems, slowest
}

// Where a job type may not be repeated, a killed worker's job ends as lost, with a reason, and the
// run stops.
func TestKilledWorkerStopsARunWhoseJobsMayNotBeRepeated(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 12}).withRedis()
	w := l.worker("-f", "4")
	run := l.run("-o", "json", l.playbook("hold", "{name: once, uses: command, with: {run: sleep 8}}"))
	until(t, "jobs on hosts", func() bool { return l.fleet.Stats().Commands >= 4 })
	w.kill()
	l.worker("-f", "4") // who recovers
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

// Redis away: what runs goes on while its lease is safe, everything else waits and says so, and
// goes on when Redis is back, first after it stood still, then after it was killed and started from
// its file.
func TestRedisAwayOnlyDelays(t *testing.T) {
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

// A Redis that may evict or forgets everything is warned of at start, by whoever uses it.
func TestUnfitRedisIsWarnedOf(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis("--appendonly", "no", "--maxmemory-policy", "allkeys-lru")
	w := l.worker()
	run := l.run(l.playbook("warned", `{uses: command, with: {run: "true"}}`))
	run.wants(0)
	for name, p := range map[string]*process{"worker": w, "run": run} {
		if !p.err.has("warning: ", "maxmemory-policy noeviction", "appendonly yes") {
			t.Errorf("%s says: %s", name, p.err)
		}
	}
	sound := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	if w := sound.worker(); w.err.has("warning: ") { // the negative control
		t.Errorf("a sound Redis is warned of: %s", w.err)
	}
}

// An accepted run is not lost with the process that launched it: the workers bring it to its end.
func TestKilledLauncherLosesNothing(t *testing.T) {
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

// The negative controls: what judges the tests above sees a missing job, a double one, a late
// recovery.
func TestJudgesNoticeWhatIsWrong(t *testing.T) {
	for name, seen := range map[string]map[int]int{
		"missing": {0: 1}, "double": {0: 1, 1: 2}, "foreign": {0: 1, 1: 1, 7: 1},
	} {
		if notOnce(seen, 2) == "" {
			t.Errorf("%s: nothing was noticed", name)
		}
	}
	if bad := notOnce(map[int]int{0: 1, 1: 1}, 2); bad != "" {
		t.Errorf("all is well, and it says: %s", bad)
	}
	at := time.Now()
	cut := &execution{job: "r/0", host: "h", fence: 1, worker: 1, begin: at}
	late := &execution{job: "r/0", host: "h", fence: 2, worker: 2, begin: at.Add(12 * time.Second), end: at.Add(13 * time.Second)}
	early := &execution{job: "r/0", host: "h", fence: 2, worker: 2, begin: at.Add(time.Millisecond), end: at.Add(time.Second)}
	killed := map[int]time.Time{1: at.Add(time.Second)}
	for name, all := range map[string][]*execution{"late": {cut, late}, "never again": {cut}, "overlap": {cut, early}} {
		if problems, _ := recoveryProblems(all, killed, nil); len(problems) == 0 {
			t.Errorf("%s: nothing was noticed", name)
		}
	}
	if problems, _ := recoveryProblems([]*execution{cut, late}, map[int]time.Time{1: at.Add(4 * time.Second)}, nil); len(problems) > 0 {
		t.Errorf("all is well, and it says: %v", problems)
	}
}
