//go:build linux && labs

package e2e

import (
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/transport/fleet"
)

// A run whose process was killed shows as interrupted, no other process continues with it, and what
// it left pending is the next run's. A run beside it, of the same record, leaves it alone while its
// process lives.
func TestLabKilledRunIsInterruptedInTheRecord(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 4})
	slow := l.file("slow.yaml", strings.ReplaceAll(handled, "WORK", "sleep 600"))
	quick := l.file("quick.yaml", strings.ReplaceAll(handled, "WORK", "echo done"))
	killed := l.run("-f", "2", slow)
	var pending []api.PendingHandler
	until(t, "two hosts to be changed", func() bool {
		pending = nil
		l.local(&pending, "hosts", "handlers", "ls")
		return len(pending) == 2
	})

	beside := l.run("--limit", l.fleet.Hosts()[3].Name, l.playbook("beside", "{uses: command, with: {run: echo beside}}"))
	beside.wants(0)
	runs := l.localRuns()
	if r := runs["beside"]; r.Phase != api.Finished || r.Outcomes[core.Changed] != 1 {
		t.Errorf("beside: %s, %v", r.Phase, r.Outcomes)
	}
	if r := runs["killed"]; r.Phase != api.Active || !r.Ended.IsZero() || !killed.running() {
		t.Fatalf("the run that continues is %s, %s", r.Phase, r.Reason)
	}
	var jobs []api.Job
	l.local(&jobs, "runs", "show", runs["killed"].ID, "--jobs")
	if len(jobs) != 4 || jobs[0].State != api.JobUnknown {
		t.Errorf("jobs of another process: %+v", jobs)
	}

	killed.kill()
	begun := l.fleet.Stats().Commands
	r := l.localRuns()["killed"]
	if r.Phase != api.Cancelled || r.Ended.IsZero() || r.Outcomes[core.Lost] != 4 || !strings.HasPrefix(r.Reason, "interrupted: ") {
		t.Errorf("killed: %s, ended %v, %v: %s", r.Phase, r.Ended, r.Outcomes, r.Reason)
	}
	l.run("--limit", l.fleet.Hosts()[3].Name, l.playbook("after", "{uses: command, with: {run: echo after}}")).wants(0)
	if n := l.fleet.Stats().Commands - begun; n != 1 {
		t.Errorf("%d commands after the run was killed, expected the 1 of another run", n)
	}

	retry := l.run("-o", "json", "--retry-failed", quick)
	retry.wants(0)
	restarted := 0
	for _, res := range retry.report().Results {
		for _, s := range res.Steps {
			if s.Handler && s.Outcome.Good() {
				restarted++
			}
		}
	}
	if total := retry.report().Total; total != 4 || restarted != 4 { // two were pending, and two hosts are changed now
		t.Errorf("--retry-failed: %d hosts, %d restarts", total, restarted)
	}
	l.local(&pending, "hosts", "handlers", "ls")
	if len(pending) != 0 {
		t.Errorf("still pending: %+v", pending)
	}
}
