//go:build linux

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/transport/fleet"
)

// TURNUS_IDEMPOTENCY_KEY and TURNUS_FENCE reach the command on its host: the key is stable over
// attempts and differs between hosts and steps, the fence grows with each lease.
func TestIdempotencyKeyAndFenceReachTheHost(t *testing.T) {
	t.Parallel()
	type call struct{ step, key, fence string }
	var mu sync.Mutex
	calls := map[string][]call{}
	handle := func(_ context.Context, c fleet.Command) (int, bool) {
		step, ok := strings.CutPrefix(strings.TrimSpace(c.Script), "step-")
		if !ok {
			return 0, false
		}
		mu.Lock()
		defer mu.Unlock()
		calls[c.Host] = append(calls[c.Host], call{step, c.Env["TURNUS_IDEMPOTENCY_KEY"], c.Env["TURNUS_FENCE"]})
		if step == "a" && len(calls[c.Host]) < 3 {
			return 1, true
		}
		return 0, true
	}
	l := newLab(t, fleet.Config{Hosts: 3, Handle: handle})
	run := l.run(l.playbook("keys", // over 2 s between attempts the job is suspended, and leased again
		"{uses: command, with: {run: step-a}, retry: {attempts: 3, interval: 2100ms, max_interval: 2100ms}}",
		"{uses: command, with: {run: step-b}}"))
	run.wants(0)
	keys := map[string]string{}
	for host, list := range calls {
		if len(list) != 4 {
			t.Fatalf("%s: %d calls, expected 3 attempts and one more step: %v", host, len(list), list)
		}
		before := int64(0)
		for i, c := range list {
			fence, err := strconv.ParseInt(c.fence, 10, 64)
			if err != nil || i < 3 && fence <= before {
				t.Errorf("%s: fence %q after %d", host, c.fence, before)
			}
			before = fence
			who := host + " " + c.step
			if other, ok := keys[c.key]; c.key == "" || ok && other != who {
				t.Errorf("%s has the key %q of %q", who, c.key, other)
			}
			keys[c.key] = who
		}
	}
	if len(keys) != 6 {
		t.Errorf("%d keys for 2 steps on 3 hosts", len(keys))
	}
}

// --retry-failed, --limit, --tags, --skip-tags and -e work through the whole program.
func TestChoosingHostsStepsAndVars(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 6, Profile: fleet.Only(map[int]fleet.Profile{1: fleet.Fail(3, "no\n"), 2: fleet.RefuseAuth()})})
	names := l.fleet.Hosts()
	playbook := l.file("choose.yaml", `playbook: choose
targets: "true"
vars: {word: plain}
steps:
  - {name: greet, uses: command, tags: [hello], with: {run: "echo ${{ vars.word }}"}}
  - {name: leave, uses: command, tags: [bye], with: {run: echo bye}}
`)
	report := func(code int, args ...string) report {
		t.Helper()
		run := l.run(append([]string{"-o", "json", playbook}, args...)...)
		run.wants(code)
		return run.report()
	}
	steps := func(res api.Result) (ran []string) {
		for _, s := range res.Steps {
			if s.Outcome != core.Skipped {
				ran = append(ran, s.Name)
			}
		}
		return ran
	}
	if r := report(2); r.Outcomes[core.Failed] != 1 || r.Outcomes[core.Unreachable] != 1 || r.Outcomes[core.Changed] != 4 {
		t.Errorf("first run: %v", r.Outcomes)
	}
	if r := report(2, "--retry-failed"); r.Total != 2 {
		t.Errorf("--retry-failed: %d hosts, expected the 2 that did not succeed", r.Total)
	}
	r := report(0, "--limit", names[0].Name, "--tags", "hello", "-e", "word=given")
	if res := r.byHost(t, names[0].Name); r.Total != 1 || fmt.Sprint(steps(res)) != "[greet]" || res.Steps[0].Stdout != "given\n" {
		t.Errorf("--limit --tags -e: %d hosts, steps %v: %+v", r.Total, steps(res), res.Steps)
	}
	r = report(0, "--limit", names[0].Name, "--skip-tags", "hello")
	if res := r.byHost(t, names[0].Name); fmt.Sprint(steps(res)) != "[leave]" {
		t.Errorf("--skip-tags: %v", steps(res))
	}
}

// With --events every line is a JSON object, each job has exactly one job_done, and the last line
// is the run's report.
func TestEventsAreOneJSONObjectALine(t *testing.T) {
	t.Parallel()
	const hosts = 60
	l := newLab(t, fleet.Config{Hosts: hosts, Profile: fleet.Only(map[int]fleet.Profile{
		3: fleet.Binary(), 4: fleet.Fail(1, "a\xffb\n"), 5: fleet.RefuseAuth(), 6: fleet.Cut(), 7: fleet.Flood(3 << 20),
	})})
	run := l.run("--events", "--connect-timeout", "60s", l.playbook("events", "{uses: command, with: {run: hostname}}", "{uses: command, with: {run: uptime}}"))
	run.wants(2)
	times, _ := run.done() // reads every line
	if len(times) != hosts {
		t.Errorf("%d jobs have a job_done, expected %d", len(times), hosts)
	}
	for job, n := range times {
		if n != 1 {
			t.Errorf("%s has %d job_done", job, n)
		}
	}
	all := run.events()
	last := all[len(all)-1]
	if last.Event != "run_done" || last.Report == nil || last.Report.Total != hosts || last.Report.Exit != 2 {
		t.Errorf("last event: %+v", last)
	}
}

// --check calls no job type that does not declare check support, and changes nothing by those that
// do.
func TestCheckCallsNoTypeWithoutCheckSupport(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 3}).traced() // under the sandbox it could not write anyway
	file := l.dir + "/trace"
	run := l.run("-o", "json", "--check", l.playbook("check",
		fmt.Sprintf("{name: cannot, uses: lab.trace, with: {file: %s}}", file),
		"{name: can, uses: command, with: {run: touch /tmp/changed}}"))
	run.wants(0)
	for _, res := range run.report().Results {
		if s := res.Steps[0]; s.Outcome != core.Skipped || !strings.Contains(s.Reason, "check") {
			t.Errorf("%s: step of a type without check: %s, reason %q", res.Host, s.Outcome, s.Reason)
		}
		if s := res.Steps[1]; s.Outcome != core.Changed && s.Outcome != core.Unchanged {
			t.Errorf("%s: step of a type with check: %s %s", res.Host, s.Outcome, s.Reason)
		}
	}
	if all := executions(t, file); len(all) > 0 {
		t.Errorf("the job type was called %d times", len(all))
	}
	if n := l.fleet.Stats().Commands; n > 0 {
		t.Errorf("%d commands reached hosts", n)
	}
}
