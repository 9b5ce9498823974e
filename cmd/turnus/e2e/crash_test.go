//go:build linux

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/turnus/turnus/core/transport/fleet"
)

// recoveryLimit is how long after a worker's death its jobs may run again at the latest.
const recoveryLimit = 10 * time.Second

// recoveryProblems checks that every execution that was cut off by a kill was followed by another
// one within the limit. It also checks hosts, on which never two executions may overlap. Where the
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

// A Redis that may evict or forgets everything is warned of at start, by each process that uses it.
func TestUnsuitableRedisIsWarnedOf(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis("--appendonly", "no", "--maxmemory-policy", "allkeys-lru")
	w := l.worker()
	run := l.run(l.playbook("warned", `{uses: command, with: {run: "true"}}`))
	run.wants(0)
	for name, p := range map[string]*process{"worker": w, "run": run} {
		if !p.err.has("warning: ", "maxmemory-policy noeviction", "appendonly yes") {
			t.Errorf("%s prints: %s", name, p.err)
		}
	}
	sound := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	if w := sound.worker(); w.err.has("warning: ") { // the negative control
		t.Errorf("a sound Redis is warned of: %s", w.err)
	}
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
		t.Errorf("all is well, and it reports: %s", bad)
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
		t.Errorf("all is well, and it reports: %v", problems)
	}
}
