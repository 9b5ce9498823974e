//go:build linux && labs

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/transport/fleet"
)

// A worker is killed every second and a half, seven times, while 20 runs of 500 hosts go on. Each job has exactly
// one recorded outcome, none is lost, and what a dead worker held runs again within ten seconds. No two runs share
// hosts: else a job could wait for another's, whose worker was killed in turn.
// The job type comes from a plugin folder, built in a module of its own.
func TestLabWorkersKilledAgainAndAgainLoseAndDoubleNothing(t *testing.T) {
	const hosts, runs = 500, 20
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis().traced() // the job type does not reach out to its host
	inventory := "hosts:\n"
	for i := range hosts * runs {
		inventory += fmt.Sprintf("  host-%05d: {address: 127.0.0.1, labels: {part: p%d}}\n", i, i%runs)
	}
	l.hosts = l.file("hosts.yaml", inventory)
	file := l.dir + "/trace"
	books := make([]string, runs)
	for i := range books {
		books[i] = l.bookFor(fmt.Sprintf("crash%d", i), fmt.Sprintf("host.labels.part == 'p%d'", i), fmt.Sprintf("{uses: lab.trace, with: {file: %s, ms: 25}}", file))
	}
	workers := make([]*process, 3)
	for i := range workers {
		workers[i] = l.worker("-f", "8")
	}
	run := l.run(append([]string{"--events"}, books...)...)
	killed := map[int]time.Time{} // by process id
	until(t, "the first jobs", func() bool { return len(executions(t, file)) > 0 })
	tick := time.NewTicker(1500 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < 7 && run.running(); i++ { // so few that no job can well meet three kills: then it is dead, by the rules
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
		case res.Outcome == core.Lost && res.Attempt == 3: // its worker was killed three times: by the rules it is dead
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
	t.Logf("%d jobs, %d kills, slowest recovery %v, %d dead", len(times), len(killed), slowest.Round(time.Millisecond), dead)
	if len(killed) < 5 {
		t.Errorf("only %d workers were killed", len(killed))
	}
}

// TestLabTrapLateWorkerAckIsRefused (bull#308, #1416): a worker that was stopped past its lease comes back
// with results. They count for nothing, the jobs are recorded once, and the worker goes on in a new session.
func TestLabTrapLateWorkerAckIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 8}).withRedis().traced()
	file := l.dir + "/trace"
	step := fmt.Sprintf("{uses: lab.trace, with: {file: %s, ms: 8000}}", file) // the first four must not end before their worker is stopped
	frozen := l.worker("-f", "4")
	run := l.run("--events", l.book("late", step))
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
	again := l.run("-o", "json", l.book("again", fmt.Sprintf("{uses: lab.trace, with: {file: %s}}", file)))
	again.wants(0)
	for _, res := range again.report().Results {
		if !strings.HasSuffix(res.Worker, "-"+strconv.Itoa(frozen.pid())) {
			t.Errorf("%s was run by %s, expected the worker that had been stopped", res.Host, res.Worker)
		}
	}
	l.redis.sound(map[string]int{id: 8})
}

// Runs go on over two servers and two workers while a key is added, promoted, everything old is sealed anew, and the former key is retired: no
// job is lost or begun twice, and the doctor finds nothing. Meanwhile a worker without the key ring takes no job, and says so.
func TestLabRotationUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	const parts, hosts = 6, 40
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	ring := filepath.Join(l.dir, "ring.json")
	var first, second keyDoc
	l.keys(&first, "new", ring)
	trace := l.dir + "/trace"
	s := newSite(l, parts, hosts, fmt.Sprintf("{uses: lab.trace, with: {file: %s, ms: 60}}", trace))
	s.follow = []string{"--definitions", s.ops, "--keyring", ring}
	a, b := s.server(), s.server()
	worker := func(name string) *process { return s.worker("-f", "4", "--name", name, "--keyring", ring) }
	poor := s.worker("-f", "4", "--name", "poor")
	ca, cb := s.ask(a), s.ask(b)
	var runs []api.Run
	submit := func(c *client.Client) {
		i := len(runs)
		runs = append(runs, s.submit(func() *client.Client { return c }, fmt.Sprintf("k%d", i), fmt.Sprintf("part%d", i)))
	}
	submit(ca)
	until(t, "the worker without the key ring to say so", func() bool { // alone: the others may leave it nothing to look at
		return poor.err.has("no job is taken that this worker cannot open", "left to other workers", first.Key, "--keyring")
	})
	one, two := worker("one"), worker("two")
	submit(cb)
	until(t, "jobs that run", func() bool { return len(executions(t, trace)) > 10 })

	l.keys(&second, "add", ring)
	submit(ca)
	l.keys(nil, "promote", ring, second.Key)
	submit(cb)
	until(t, "all four to have read the key ring again", func() bool {
		for _, p := range []*process{a, b, one, two} {
			if !p.err.has("it seals with key " + second.Key) {
				return false
			}
		}
		return true
	})
	submit(ca)
	places := []string{"--keyring", ring, "--ledger", s.ledger, "--redis", s.queue}
	var resealed struct{ Ledger, Failed int }
	l.keys(&resealed, append([]string{"reseal"}, places...)...)
	if resealed.Failed != 0 || resealed.Ledger == 0 {
		t.Errorf("reseal: %+v", resealed)
	}
	early := l.start(append([]string{"keys", "retire", first.Key}, places...)...)
	early.wants(5) // Redis has the first runs still
	if !early.err.has("key "+first.Key+" is needed", "redis") {
		t.Errorf("retired too early: %s", early.err)
	}
	submit(cb)
	for _, run := range runs {
		finished(t, cb, run.ID)
	}
	ledger := s.open(ring)
	for _, run := range runs {
		if outcomes, again := accounted(t, ledger, run.ID); outcomes[core.Changed] != hosts || again != 0 {
			t.Errorf("run %s: outcomes %v, %d jobs ran more than once", run.ID, outcomes, again)
		}
	}
	for _, e := range executions(t, trace) {
		if e.worker == poor.pid() {
			t.Errorf("the worker without the key ring ran %s", e.job)
		}
	}
	if n := len(executions(t, trace)); n != parts*hosts {
		t.Errorf("%d executions of %d jobs", n, parts*hosts)
	}
	doctor := l.start("doctor", "--ledger", s.ledger, "--redis", s.queue, "--keyring", ring)
	doctor.wants(0)
	if !doctor.out.has("sound: ledger and queue") {
		t.Errorf("doctor: %s", doctor.out)
	}

	// What is left under the first key are runs that are over, in Redis: once they are forgotten it can go, though the queue's incarnation goes on.
	keys, err := l.redis.admin().Keys(t.Context(), "*").Result()
	forgotten := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return strings.HasSuffix(key, ":b:"+queue.IncarnationDocument) })
	if err != nil || len(forgotten) != len(keys)-1 {
		t.Fatalf("of %q all but %q are forgotten: %v", keys, forgotten, err)
	}
	if err := l.redis.admin().Del(t.Context(), forgotten...).Err(); err != nil {
		t.Fatal(err)
	}
	l.keys(nil, append([]string{"retire", first.Key}, places...)...)
	var check struct {
		Plain int
		Keys  []keyDoc
	}
	l.keys(&check, append([]string{"check"}, places...)...)
	if check.Plain != 0 || len(check.Keys) != 1 || check.Keys[0].Key != second.Key {
		t.Errorf("check: %+v", check)
	}
	if shown, err := cb.Run(context.Background(), runs[0].ID); err != nil || shown.Phase != api.Finished {
		t.Errorf("the first run: %+v, %v", shown, err)
	}
	for _, p := range []*process{one, two, poor, a, b} {
		p.signal(syscall.SIGTERM)
		p.wants(0)
	}
}

// What turnus up keeps of its own queue between a stop and the next start is sealed, too, and jobs go on where they were: under the key that was
// promoted meanwhile. The negative control is the same without a key ring.
func TestLabWhatUpKeepsOfItsQueueIsSealed(t *testing.T) {
	t.Parallel()
	const hosts = 12
	for _, sealed := range []bool{true, false} {
		l := newLab(t, fleet.Config{Hosts: hosts}).traced()
		ops := chatty(t, l)
		trace := filepath.Join(l.dir, "trace")
		l.file("ops/playbooks/all.yaml", "playbook: all\ntargets: true\nsteps:\n  - {name: say, uses: command, with: {run: echo "+words[3]+"}}\n"+
			fmt.Sprintf("  - {name: hold, uses: lab.hold, with: {file: %s, ms: 1500}}\n  - {name: last, uses: lab.hold, with: {file: %s-last}}\n", trace, trace))
		data, ring := filepath.Join(l.dir, "data"), filepath.Join(l.dir, "ring.json")
		args := []string{"up", "--data", data, "--definitions", ops, "--listen", "127.0.0.1:0", "--context", "", "-f", "4"}
		args = append(args, l.pluginFlags()...)
		if sealed {
			l.keys(nil, "new", ring)
			args = append(args, "--keyring", ring)
		}
		up := func() (*process, *client.Client) {
			p := l.start(args...)
			until(t, "the service to listen", func() bool { return p.err.has("listening on ") || !p.running() })
			token, err := os.ReadFile(filepath.Join(data, "admin.token"))
			if err != nil {
				t.Fatalf("%v; %s", err, p.err)
			}
			c, err := client.New(client.Config{Server: address(p), Token: strings.TrimSpace(string(token))})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			return p, c
		}
		p, c := up()
		run := submitted(t, c)
		until(t, "jobs between their steps", func() bool { return len(executions(t, trace)) > 1 })
		p.signal(syscall.SIGTERM)
		p.wants(0)
		if n := len(executions(t, trace+"-last")); n >= hosts {
			t.Fatalf("all %d jobs were over before the stop: the test shows nothing", n)
		}
		remains, err := os.ReadFile(filepath.Join(data, "queue.json"))
		if err != nil || !strings.Contains(string(remains), run.ID) {
			t.Fatalf("queue.json: %.200s, %v", remains, err)
		}
		var kept struct{ Jobs []struct{ State []byte } }
		if err := json.Unmarshal(remains, &kept); err != nil {
			t.Fatal(err)
		}
		legible := 0
		for _, j := range kept.Jobs {
			if bytes.Contains(j.State, []byte(words[3])) {
				legible++
			}
		}
		if len(kept.Jobs) == 0 || (legible == 0) != sealed {
			t.Errorf("sealed %t: %d of %d kept states are legible", sealed, legible, len(kept.Jobs))
		}
		if sealed {
			searched(t, false, data)
			var next keyDoc
			l.keys(&next, "add", ring)
			l.keys(nil, "promote", ring, next.Key)
		}
		p, c = up()
		finished(t, c, run.ID)
		p.signal(syscall.SIGTERM)
		p.wants(0)
		if first, last := len(executions(t, trace)), len(executions(t, trace+"-last")); first != hosts || last != hosts {
			t.Errorf("sealed %t: %d second and %d last steps of %d jobs", sealed, first, last, hosts)
		}
	}
}

// In a fleet where each host answers its own name, with slow and failing hosts mixed in and two runs at
// once, no output is attributed to a wrong host.
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
	run := l.run("-o", "json", "--connect-timeout", "60s", l.book("one", step("first")), l.book("two", step("second")))
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

// Two servers and two workers over Redis and PostgreSQL: what one server accepted the other shows and follows; one
// server and one worker are replaced by newer ones in the middle, and one worker by an order. Every job ran exactly once.
func TestLabServiceIsUpgradedInTheMiddleWithoutLosingAJob(t *testing.T) {
	t.Parallel()
	const hosts = 300
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	trace := l.dir + "/trace"
	s := newSite(l, 1, hosts, fmt.Sprintf("{uses: lab.trace, with: {file: %s, ms: 40}}", trace))
	a, b := s.server(), s.server()
	one, two := s.worker("-f", "8", "--name", "one"), s.worker("-f", "8", "--name", "two")
	ca, cb := s.ask(a), s.ask(b)
	run := s.submit(func() *client.Client { return ca }, "k", "part0")

	watch := s.start("watch", run.ID, "--server", address(b), "--token-file", s.file("token", s.token()))
	until(t, "the first jobs", func() bool { return len(executions(t, trace)) > 20 })
	three := s.worker("-f", "8", "--name", "three")
	one.signal(syscall.SIGTERM)
	a.signal(syscall.SIGTERM)
	one.wants(0)
	a.wants(0)
	until(t, "worker two in the list", func() bool {
		workers, err := cb.Workers(context.Background(), client.Page{})
		return err == nil && has(workers.Items, "two") && has(workers.Items, "three")
	})
	if _, err := cb.DrainWorker(context.Background(), "two", "upgrade"); err != nil {
		t.Fatal(err)
	}
	two.wants(0)
	if !two.err.has("an order came to drain") {
		t.Errorf("worker two does not say why it ends: %s", two.err)
	}
	watch.wants(0)
	if !watch.out.has(fmt.Sprintf("part0: %d hosts", hosts), fmt.Sprintf("%d changed", hosts)) {
		t.Errorf("the recap of watch: %s", tail(watch.out.String()))
	}
	outcomes, again := accounted(t, s.open(), run.ID)
	if outcomes[core.Changed] != hosts || again != 0 {
		t.Errorf("outcomes %v, %d jobs ran more than once; expected %d changed at their first attempt", outcomes, again, hosts)
	}
	if n := len(executions(t, trace)); n != hosts {
		t.Errorf("%d executions of %d jobs", n, hosts)
	}
	three.signal(syscall.SIGTERM)
	three.wants(0)
	l.redis.sound(nil)
}

// The doctor tells of a run that somebody started beside the service, and lets it be, for whoever started it is there.
func TestLabDoctorLetsARunBesideTheServiceBe(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	trace := l.dir + "/trace"
	s := newSite(l, 1, 1, fmt.Sprintf("{uses: lab.trace, with: {file: %s/unused}}", l.dir))
	a := s.server()
	c := s.ask(a)
	mine := s.submit(func() *client.Client { return c }, "k", "part0")
	s.worker("-f", "4")
	finished(t, c, mine.ID)
	l.run(l.book("beside", fmt.Sprintf("{uses: lab.trace, with: {file: %s, ms: 600000}}", trace)))
	until(t, "its job to run", func() bool { return len(executions(t, trace)) == 1 })
	doctor := s.start("doctor", "--ledger", s.ledger, "--redis", s.queue, "--fix")
	doctor.wants(0)
	if !doctor.out.has("note ", "it was started beside the service", "sound: ledger and queue") {
		t.Errorf("doctor: %s", doctor.out)
	}
}

// Each single fault ends in its own outcome, with a reason that says what it is, within its time; every
// other host of the same run is done well, and memory stays bounded whatever a host sends.
func TestLabEveryFaultEndsInItsOwnClearOutcomeAndHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	flood := int64(256 << 20)
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
		{name: "unknown key", outcome: core.Unreachable, reason: []string{"host key", "host_key"}},
		{name: "changed key", profile: fleet.ChangedKey(), outcome: core.Unreachable, reason: []string{"host key"}},
		{name: "refuse auth", profile: fleet.RefuseAuth(), outcome: core.Unreachable, reason: []string{"auth"}},
		{name: "reset", profile: fleet.Reset(), outcome: core.Unreachable, reason: []string{"connection"}},
		{name: "cut", profile: fleet.Cut(), outcome: core.Unreachable, reason: []string{"connection"}},
		{name: "flood", profile: fleet.Flood(flood), outcome: core.Changed},
		{name: "binary", profile: fleet.Binary(), outcome: core.Changed},
		{name: "never ends", run: "never-ends", outcome: core.Failed, reason: []string{"timed out after"}},
		{name: "ignores everything", run: "hostname", profile: fleet.Profile{Hang: true, IgnoreTerm: true}, outcome: core.Failed, reason: []string{"timed out after"}},
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
				if f.name == "prompt" { // it ends by itself, without the short time limit
					key = "ask"
				}
				line = l.entry(h, fmt.Sprintf(", vars: {%s: %s}", key, f.run))
			}
		}
		inventory += line
	}
	l.hosts = l.file("hosts.yaml", inventory)
	book := l.book("faults",
		`{name: say, uses: command, when: 'host.vars.run == nil && host.vars.ask == nil', timeout: 60s, with: {run: hostname}}`,
		`{name: do, uses: command, when: 'host.vars.run != nil', timeout: 3s, with: {run: "${{ host.vars.run }}"}}`,
		`{name: ask, uses: command, when: 'host.vars.ask != nil', timeout: 60s, with: {run: "${{ host.vars.ask }}"}}`)
	run := l.run("-o", "json", "--connect-timeout", "60s", book)
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
				t.Errorf("%s: reason %q, expected it to say %q", f.name, res.Reason, part)
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
	if peak := run.peak(); !raceEnabled && peak > 400 {
		t.Errorf("peak memory %d MiB", peak)
	} else {
		t.Logf("peak memory %d MiB after a flood of %d MiB", peak, flood>>20)
	}
}

// Ten secrets, of every source, go every way on which a secret may go. Afterwards Redis (its files and what is live), the ledger, outputs,
// logs, events, traces, the API's answers, command lines and cores hold none of them, in no form; the marker is found in all of these but
// traces, which have no text of a step.
func TestLabSecretsShowNowhere(t *testing.T) {
	t.Parallel()
	g := newGuardedSite(t)
	traces := newSpans(t)
	g.env = append(g.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+traces.URL)
	stopLooking := g.seen.processes()
	p := g.start(append([]string{"up", "--redis", g.redis.url(), "--data", g.data, "--definitions", filepath.Join(g.dir, "ops"), "--listen", "127.0.0.1:0", "--context", "",
		"--secrets", filepath.Join(g.dir, "node.yaml"), "--secrets-identity", filepath.Join(g.dir, "worker.age")}, g.folders()...)...)
	until(t, "the service to listen", func() bool { return p.err.has("listening on ") || !p.running() })
	token, err := os.ReadFile(filepath.Join(g.data, "admin.token"))
	if err != nil {
		t.Fatalf("%v; %s", err, p.err)
	}
	c, err := client.New(client.Config{Server: address(p), Token: strings.TrimSpace(string(token))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, book := range []string{"all", "panic", "abort"} {
		g.drive(c, book)
	}
	g.redis.look(g.seen) // while all of it is there

	e := g.start(append([]string{"run", "--redis", g.redis.url(), "--pool", "other", "--events", "--diff", "-i", g.hosts, "--secrets", g.own,
		"--secrets-identity", filepath.Join(g.dir, "worker.age"), filepath.Join(g.dir, "ops/playbooks/all.yaml")}, g.folders()...)...)
	e.code()
	g.redis.look(g.seen)
	g.seen.files("ledger", filepath.Join(g.data, "ledger.db*")) // the WAL too, which is gone after the end
	p.signal(syscall.SIGTERM)
	p.wants(0)
	stopLooking()
	g.seen.text("events", e.out.String())
	g.seen.text("log", p.err.String())
	g.seen.text("log", e.err.String())
	for _, want := range []string{"told", "flood", "leaky.tell", "box"} {
		if !strings.Contains(traces.sent(), want) {
			t.Errorf("no trace tells of %q: what is searched?", want)
		}
	}
	g.seen.text("traces", traces.sent())
	g.seen.ledger(filepath.Join(g.data, "ledger.db"))
	g.seen.files("outputs", filepath.Join(g.data, "outputs"))
	g.seen.files("data", g.data)
	g.seen.files("record of the run", filepath.Join(g.dir, "state"))
	g.seen.judge("redis files", "redis live", "ledger", "outputs", "log", "events", "api", "command lines")
	for _, name := range []string{"core", "core.*"} {
		for _, dir := range []string{g.dir, g.data, os.TempDir()} {
			if cores, _ := filepath.Glob(filepath.Join(dir, name)); len(cores) > 0 {
				t.Errorf("there are cores: %v", cores)
			}
		}
	}
	if written, err := os.ReadFile(filepath.Join(g.dir, "written")); err != nil || !strings.Contains(string(written), "s3="+tenSecrets[3]) {
		t.Errorf("the host's file has not got the secrets: %v", err)
	}
}
