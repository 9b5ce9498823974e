//go:build linux && labs

package e2e

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport/fleet"
)

// The first Ctrl-C lets running jobs finish and starts no more; the exit code is 3 and the recap
// shows what was not done.
func TestLabInterruptLetsRunningJobsFinishAndStartsNoMore(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 12})
	run := l.run("-f", "4", l.playbook("interrupted", "{uses: command, with: {run: sleep 10}}")) // a busy machine needs seconds to obey
	until(t, "4 jobs on hosts", func() bool { return l.fleet.Stats().Commands >= 4 })
	run.signal(syscall.SIGINT)
	run.wants(3)
	if n := l.fleet.Stats().Commands; n != 4 {
		t.Errorf("%d commands were run, expected the 4 that ran when the signal came", n)
	}
	if !run.out.has("4 changed", "8 cancelled", "cancelled   8 hosts: ") {
		t.Errorf("recap: %s", run.out)
	}
}

// TestLabTrapRollingRestartStrandsNoJob (sidekiq#4635): each of three workers gets SIGTERM while a
// run continues, and another takes its place. Running jobs finish, nothing is lost and nothing runs
// twice.
func TestLabTrapRollingRestartStrandsNoJob(t *testing.T) {
	t.Parallel()
	const hosts = 300
	l := newLab(t, fleet.Config{Hosts: hosts}).withRedis().traced()
	file := l.dir + "/trace"
	workers := []*process{l.worker("-f", "8"), l.worker("-f", "8"), l.worker("-f", "8")}
	run := l.run("--events", l.playbook("rolling", fmt.Sprintf("{uses: lab.hold, with: {file: %s, ms: 150}}", file)))
	for i, old := range workers {
		until(t, "more jobs", func() bool { return len(executions(t, file)) > 20*(i+1) })
		old.signal(syscall.SIGTERM)
		l.worker("-f", "8")
	}
	for _, old := range workers {
		old.wants(0)
	}
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
	if all := executions(t, file); len(all) != hosts || len(times) != hosts {
		t.Errorf("%d executions and %d outcomes of %d jobs", len(all), len(times), hosts)
	}
	l.redis.sound(perRun)
}
