//go:build linux && labs

package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/transport/fleet"
)

// A worker is killed every 800 ms, seven times, while 20 runs of 200 hosts continue. Each job has
// exactly one recorded outcome, none is lost, and the jobs of a killed worker run again within ten
// seconds. No two runs share hosts: else a job could wait for another's, whose worker was killed in
// turn. The job type comes from a plugin folder, built in a module of its own.
func TestLabWorkersKilledAgainAndAgainLoseAndDoubleNothing(t *testing.T) {
	const hosts, runs = 200, 20
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis().traced() // the job type does not reach out to its host
	inventory := "hosts:\n"
	for i := range hosts * runs {
		inventory += fmt.Sprintf("  host-%05d: {address: 127.0.0.1, labels: {part: p%d}}\n", i, i%runs)
	}
	l.hosts = l.file("hosts.yaml", inventory)
	file := l.dir + "/trace"
	all := make([]string, runs)
	for i := range all {
		all[i] = l.playbookFor(fmt.Sprintf("crash%d", i), fmt.Sprintf("host.labels.part == 'p%d'", i), fmt.Sprintf("{uses: lab.trace, with: {file: %s, ms: 25}}", file))
	}
	workers := make([]*process, 3)
	for i := range workers {
		workers[i] = l.worker("-f", "8")
	}
	run := l.run(append([]string{"--events"}, all...)...)
	killed := map[int]time.Time{} // by process id
	until(t, "the first jobs", func() bool { return len(executions(t, file)) > 0 })
	tick := time.NewTicker(800 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < 7 && run.running(); i++ { // so few that no job can well meet three kills: then it is lost, by the rules
		select {
		case <-run.exited:
		case <-tick.C:
			victim := workers[i%len(workers)]
			killed[victim.pid()] = time.Now()
			victim.kill()
			workers[i%len(workers)] = l.worker("-f", "8")
		}
	}
	if code := run.code(); code != 0 && code != 2 {
		t.Fatalf("exit code %d; stderr:\n%s", code, tail(run.err.String()))
	}
	times, last := run.done()
	if len(times) != hosts*runs {
		t.Errorf("%d jobs have an outcome, expected %d", len(times), hosts*runs)
	}
	dead, perRun, attempts := 0, map[string]int{}, map[string]int{}
	for job, n := range times {
		id, _ := core.ParseJobID(job)
		perRun[id.Run]++
		res := last[job]
		attempts[job] = res.Attempt
		switch {
		case n != 1:
			t.Errorf("%s has %d recorded outcomes: %v", job, n, res)
		case res.Outcome == core.Lost && res.Attempt == 3: // its worker was killed three times: by the rules it is lost
			dead++
		case res.Outcome != core.Changed:
			t.Errorf("%s ended as %s: %s", job, res.Outcome, res.Reason)
		}
	}
	if dead > 2 {
		t.Errorf("%d jobs met three kills; that is more than bad luck", dead)
	}
	l.redis.sound(perRun)
	problems, slowest := recoveryProblems(executions(t, file), killed, attempts)
	for _, p := range problems[:min(len(problems), 20)] {
		t.Error(p)
	}
	t.Logf("%d jobs, %d kills, slowest recovery %v, %d lost", len(times), len(killed), slowest.Round(time.Millisecond), dead)
	if len(killed) < 5 {
		t.Errorf("only %d workers were killed", len(killed))
	}
}

// TestLabTrapLateWorkerAckIsRefused (bull#308, #1416): a worker that was stopped past its lease
// comes back with results. They count for nothing, the jobs are recorded once, and the worker
// continues in a new session.
func TestLabTrapLateWorkerAckIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 8}).withRedis().traced()
	file := l.dir + "/trace"
	step := fmt.Sprintf("{uses: lab.trace, with: {file: %s, ms: 8000}}", file) // the first four must not end before their worker is stopped
	frozen := l.worker("-f", "4")
	run := l.run("--events", l.playbook("late", step))
	until(t, "jobs on the worker", func() bool { return len(executions(t, file)) >= 4 })
	frozen.signal(syscall.SIGSTOP)
	other := l.worker("-f", "4")
	until(t, "the other worker to run all jobs", func() bool {
		times, _ := run.done()
		return len(times) == 8
	})
	run.wants(0)
	frozen.signal(syscall.SIGCONT)
	until(t, "the stopped worker to notice", func() bool { return frozen.err.has("session_lost") })
	times, last := run.done()
	var id string
	for job, n := range times {
		j, _ := core.ParseJobID(job)
		id = j.Run
		res := last[job]
		if n != 1 || !strings.HasSuffix(res.Worker, "-"+strconv.Itoa(other.pid())) || res.Outcome != core.Changed {
			t.Errorf("%s: %d records, the last %s by %s", job, n, res.Outcome, res.Worker)
		}
	}
	other.signal(syscall.SIGTERM)
	if code := other.code(); code != 0 && code != 3 {
		t.Errorf("drained worker: exit code %d: %s", code, other.err)
	}
	again := l.run("-o", "json", l.playbook("again", fmt.Sprintf("{uses: lab.trace, with: {file: %s}}", file)))
	again.wants(0)
	for _, res := range again.report().Results {
		if !strings.HasSuffix(res.Worker, "-"+strconv.Itoa(frozen.pid())) {
			t.Errorf("%s was run by %s, expected the worker that had been stopped", res.Host, res.Worker)
		}
	}
	l.redis.sound(map[string]int{id: 8})
}

// In a fleet where each host answers its own name, with slow and failing hosts mixed in and two
// runs at the same time, no output is attributed to a wrong host.
func TestLabNoOutputIsAttributedToAWrongHost(t *testing.T) {
	t.Parallel()
	hosts := 3000
	if raceEnabled {
		hosts = 400
	}
	faults := fleet.DemoProfile(7)
	profile := func(n int) fleet.Profile {
		p := faults(n)
		if p.Hang { // the timeout of hanging hosts is not the matter here
			return fleet.Slow(time.Second)
		}
		return p
	}
	l := newLab(t, fleet.Config{Hosts: hosts, Seed: 7, Profile: profile})
	step := func(word string) string {
		return fmt.Sprintf(`{uses: command, timeout: 60s, with: {run: "echo %s; hostname", env: {WANT: "${{ host.name }}"}}}`, word)
	}
	run := l.run("-o", "json", "--connect-timeout", "60s", l.playbook("one", step("first")), l.playbook("two", step("second")))
	if code := run.code(); code != 2 && code != 4 {
		t.Fatalf("exit code %d: %s", code, tail(run.err.String()))
	}
	all := run.reports()
	if len(all) != 2 {
		t.Fatalf("%d reports", len(all))
	}
	for i, word := range []string{"first", "second"} {
		seen, right := map[string]bool{}, 0
		for _, res := range all[i].Results {
			seen[res.Host] = true
			p, _ := l.fleet.Profile(res.Host)
			good := p.Kind == "ok" || p.Kind == "slow"
			want := word + "\n" + res.Host + "\n"
			switch {
			case good != res.Outcome.Good():
				t.Errorf("%s (%s): %s %s", res.Host, p.Kind, res.Outcome, res.Reason)
			case good && res.Steps[0].Stdout != want:
				t.Errorf("%s: output %q, expected %q", res.Host, res.Steps[0].Stdout, want)
			case good:
				right++
			}
		}
		if len(seen) != hosts || len(all[i].Results) != hosts || right < hosts*9/10 {
			t.Errorf("%s: %d of %d hosts have a result, %d answered", all[i].Playbook, len(seen), hosts, right)
		}
	}
}

// Each single fault ends in its own outcome, with a reason that names it, within its time; every
// other host of the same run succeeds, and memory stays bounded whatever a host sends.
func TestLabEveryFaultEndsInItsOwnClearOutcomeAndHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	flood := int64(512 << 20) // more than a process uses that keeps none of it
	if raceEnabled {
		flood = 64 << 20
	}
	refused := testparts.FreePort(t)
	faults := []fault{
		{name: "refused", outcome: core.Unreachable, reason: []string{"refused"}, entry: func(h core.Host) string {
			return fmt.Sprintf("  %s: {address: 127.0.0.1, port: %d}\n", h.Name, refused)
		}},
		{name: "no such name", outcome: core.Unreachable, reason: []string{"turnus-e2e.invalid"}, entry: func(h core.Host) string {
			return fmt.Sprintf("  %s: {address: turnus-e2e.invalid}\n", h.Name)
		}},
		{name: "silent", profile: fleet.Silent(), outcome: core.Unreachable, reason: []string{"3s"}},
		{name: "unknown key", outcome: core.Unreachable, reason: []string{"host key", "turnus hostkeys scan"}},
		{name: "changed key", profile: fleet.ChangedKey(), outcome: core.Unreachable, reason: []string{"host key"}},
		{name: "refuse auth", profile: fleet.RefuseAuth(), outcome: core.Unreachable, reason: []string{"auth"}},
		{name: "reset", profile: fleet.Reset(), outcome: core.Unreachable, reason: []string{"connection"}},
		{name: "cut", profile: fleet.Cut(), outcome: core.Unreachable, reason: []string{"connection"}},
		{name: "flood", profile: fleet.Flood(flood), outcome: core.Changed},
		{name: "binary", profile: fleet.Binary(), outcome: core.Changed},
		{name: "never ends", run: "never-ends", outcome: core.Failed, reason: []string{"timed out after"}},
		{name: "ignores everything", run: "hostname", profile: fleet.Profile{Hang: true, IgnoreTerm: true}, outcome: core.Lost, reason: []string{"timed out after", "may still run"}},
		{name: "prompt", run: "read answer", outcome: core.Failed, reason: []string{"no answer"}},
		{name: "fails", profile: fleet.Fail(7, "no such rule\n"), outcome: core.Failed, reason: []string{"7", "no such rule"}},
	}
	const well = 40
	byNumber := map[int]fleet.Profile{}
	for i, f := range faults {
		byNumber[i] = f.profile
	}
	var e ends
	l := newLab(t, fleet.Config{Hosts: len(faults) + well, Profile: fleet.Only(byNumber), Handle: e.handle})
	inventory := "hosts:\n"
	for i, h := range l.fleet.Hosts() {
		line := l.entry(h, "")
		if i < len(faults) {
			f := faults[i]
			switch {
			case f.entry != nil:
				line = f.entry(h)
			case f.name == "unknown key":
				line = fmt.Sprintf("  %s: {address: %s, port: %d, user: %s, credential: default}\n", h.Name, h.Address, h.SSH.Port, h.SSH.User)
			case f.profile.Silent:
				line = l.entry(h, ", connect_timeout: 3s")
			case f.run != "":
				key := "run"
				if f.name == "prompt" { // it ends without the short time limit
					key = "ask"
				}
				line = l.entry(h, fmt.Sprintf(", vars: {%s: %s}", key, f.run))
			}
		}
		inventory += line
	}
	l.hosts = l.file("hosts.yaml", inventory)
	playbook := l.playbook("faults",
		`{name: say, uses: command, when: 'host.vars.run == nil && host.vars.ask == nil', timeout: 10m, with: {run: hostname}}`,
		`{name: do, uses: command, when: 'host.vars.run != nil', timeout: 3s, with: {run: "${{ host.vars.run }}"}}`,
		`{name: ask, uses: command, when: 'host.vars.ask != nil', timeout: 10m, with: {run: "${{ host.vars.ask }}"}}`)
	run := l.run("-o", "json", "--connect-timeout", "60s", playbook)
	run.wants(2)
	r := run.report()
	names := l.fleet.Hosts()
	for i, f := range faults {
		res := r.byHost(t, names[i].Name)
		if res.Outcome != f.outcome {
			t.Errorf("%s: outcome %s (%s), expected %s", f.name, res.Outcome, res.Reason, f.outcome)
		}
		for _, part := range f.reason {
			if !strings.Contains(strings.ToLower(res.Reason), part) {
				t.Errorf("%s: reason %q, expected it to contain %q", f.name, res.Reason, part)
			}
		}
		t.Logf("%-18s %-11s %s", f.name, res.Outcome, res.Reason)
	}
	for _, h := range names[len(faults):] {
		if res := r.byHost(t, h.Name); res.Outcome != core.Changed || res.Steps[0].Stdout != h.Name+"\n" {
			t.Errorf("%s, which is well: %s %s", h.Name, res.Outcome, res.Reason)
		}
	}
	if e.begun.Load() != 1 || e.ended.Load() != 1 {
		t.Errorf("never-ending command: begun %d times, ended %d times on its host", e.begun.Load(), e.ended.Load())
	}
	if out := run.out.String(); !utf8.ValidString(out) || !json.Valid([]byte(out)) {
		t.Error("-o json is not valid UTF-8 JSON")
	}
	if peak := run.peak(); !raceEnabled && peak >= flood>>20 {
		t.Errorf("peak memory %d MiB after a flood of %d MiB: it was kept", peak, flood>>20)
	}
}
