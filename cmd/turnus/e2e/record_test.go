//go:build linux

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/transport/fleet"
)

// local reads a list of the record on this machine.
func (l *lab) local(into any, args ...string) {
	l.t.Helper()
	p := l.start(append(args, "--local", "-o", "json")...)
	p.wants(0)
	list := struct{ Items any }{into}
	if err := json.Unmarshal([]byte(p.out.String()), &list); err != nil {
		l.t.Fatalf("%v: %v: %s", args, err, p.out)
	}
}

func (l *lab) localRuns() map[string]api.Run {
	l.t.Helper()
	var all []api.Run
	l.local(&all, "runs", "ls")
	byPlaybook := map[string]api.Run{}
	for _, r := range all {
		if _, ok := byPlaybook[r.Playbook]; !ok { // newest first
			byPlaybook[r.Playbook] = r
		}
	}
	return byPlaybook
}

const handled = `playbook: killed
targets: "true"
steps:
  - {name: conf, uses: file, with: {path: /tmp/site.conf, content: "a"}, notify: [restart]}
  - {name: work, uses: command, with: {run: WORK}}
handlers:
  - {name: restart, uses: command, with: {run: echo restarted}}
`

// A run whose process was killed shows as interrupted, no other process goes on with it, and what
// it left pending is the next run's. A run beside it, of the same record, leaves it alone while its
// process lives.
func TestKilledRunIsInterruptedInTheRecord(t *testing.T) {
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
		t.Fatalf("the run that goes on is %s, %s", r.Phase, r.Reason)
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

// Runs of one user at the same time share the record.
func TestRunsAtOnceShareTheRecord(t *testing.T) {
	t.Parallel()
	const at = 5
	l := newLab(t, fleet.Config{Hosts: 20})
	var all []*process
	for i := range at {
		all = append(all, l.run(l.playbook("r"+string(rune('a'+i)), "{uses: command, with: {run: hostname}}")))
	}
	for _, p := range all {
		p.wants(0)
	}
	runs := l.localRuns()
	for playbook, r := range runs {
		if r.Phase != api.Finished || r.Outcomes[core.Changed] != 20 {
			t.Errorf("%s: %s, %v", playbook, r.Phase, r.Outcomes)
		}
	}
	if len(runs) != at {
		t.Errorf("%d runs are recorded", len(runs))
	}
}
