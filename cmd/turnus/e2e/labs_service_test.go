//go:build linux && labs

package e2e

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/transport/fleet"
)

// Runs continue over two servers and two workers while a key is added, promoted, everything old is
// encrypted again, and the former key is retired: no job is lost or begun twice, and the doctor
// finds nothing. Meanwhile a worker without the key ring takes no job, and reports that.
func TestLabRotationUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	const parts, hosts = 6, 40
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	ring := filepath.Join(l.dir, "ring.json")
	var first, second keyDoc
	l.keys(&first, "new", ring)
	trace := l.dir + "/trace"
	s := newSite(l, parts, hosts, fmt.Sprintf("{uses: lab.trace, with: {file: %s, ms: 60}}", trace))
	s.follow = []string{"--project", s.ops, "--keyring", ring}
	a, b := s.server(), s.server()
	worker := func(name string) *process { return s.worker("-f", "4", "--name", name, "--keyring", ring) }
	poor := s.worker("-f", "4", "--name", "poor")
	ca, cb := s.ask(a), s.ask(b)
	var runs []api.Run
	submit := func(c *client.Client) {
		i := len(runs)
		runs = append(runs, s.submit(func() *client.Client { return c }, fmt.Sprintf("k%d", i), fmt.Sprintf("part%d", i%parts)))
	}
	submit(ca)
	until(t, "the worker without the key ring to say so", func() bool { // alone: the others may take every job
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
			if !p.err.has("it encrypts with key " + second.Key) {
				// A process reads the file again when it needs a key: a process without work gets some.
				if run, err := cb.Run(t.Context(), runs[len(runs)-1].ID); err == nil && run.Phase.Over() {
					submit(ca)
					submit(cb)
				}
				return false
			}
		}
		return true
	})
	submit(ca)
	places := []string{"--keyring", ring, "--ledger", s.ledger, "--redis", s.queue}
	var reencrypted struct{ Ledger, Failed int }
	l.keys(&reencrypted, "re-encrypt", "--keyring", ring, "--ledger", s.ledger)
	if reencrypted.Failed != 0 || reencrypted.Ledger == 0 {
		t.Errorf("re-encrypt: %+v", reencrypted)
	}
	early := l.start(append([]string{"admin", "keys", "retire", first.Key}, places...)...)
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
	if n := len(executions(t, trace)); n != len(runs)*hosts {
		t.Errorf("%d executions of %d jobs", n, len(runs)*hosts)
	}
	doctor := l.start("admin", "doctor", "--ledger", s.ledger, "--redis", s.queue, "--keyring", ring)
	doctor.wants(0)
	if !doctor.out.has("sound: ledger and queue") {
		t.Errorf("doctor: %s", doctor.out)
	}

	// Only ended runs in Redis remain under the first key: once they are forgotten it can go, though
	// the queue's incarnation continues.
	keys, err := l.redis.admin().Keys(t.Context(), "*").Result()
	forgotten := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return strings.HasSuffix(key, ":b:"+board.Incarnation) })
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

// The queue that turnus up keeps between a stop and the next start is also encrypted, and jobs
// continue where they were: under the key that was promoted meanwhile. The negative control is the
// same without a key ring.
func TestLabWhatUpKeepsOfItsQueueIsEncrypted(t *testing.T) {
	t.Parallel()
	const hosts = 12
	for _, encrypted := range []bool{true, false} {
		l := newLab(t, fleet.Config{Hosts: hosts}).traced()
		chatty(t, l)
		trace := filepath.Join(l.dir, "trace")
		l.file("ops/playbooks/all.yaml", "playbook: all\ntargets: true\nsteps:\n  - {name: say, uses: command, with: {run: echo "+words[3]+"}}\n"+
			fmt.Sprintf("  - {name: hold, uses: lab.hold, with: {file: %s, ms: 1500}}\n  - {name: last, uses: lab.hold, with: {file: %s-last}}\n", trace, trace))
		data, ring := filepath.Join(l.dir, "data"), filepath.Join(l.dir, "ring.json")
		args := append([]string{"-f", "4"}, l.pluginFlags()...)
		if encrypted {
			l.keys(nil, "new", ring)
			args = append(args, "--keyring", ring)
		}
		p, c := l.startUp(data, args...)
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
		if len(kept.Jobs) == 0 || (legible == 0) != encrypted {
			t.Errorf("encrypted %t: %d of %d kept states are legible", encrypted, legible, len(kept.Jobs))
		}
		if encrypted {
			searched(t, false, data)
			var next keyDoc
			l.keys(&next, "add", ring)
			l.keys(nil, "promote", ring, next.Key)
		}
		p, c = l.startUp(data, args...)
		finished(t, c, run.ID)
		p.signal(syscall.SIGTERM)
		p.wants(0)
		if first, last := len(executions(t, trace)), len(executions(t, trace+"-last")); first != hosts || last != hosts {
			t.Errorf("encrypted %t: %d second and %d last steps of %d jobs", encrypted, first, last, hosts)
		}
	}
}

// Two servers and two workers over Redis and PostgreSQL: what one server accepted the other shows
// and follows; one server and one worker are replaced by newer ones in the middle, and one worker
// by an order. Every job ran exactly once.
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
		t.Errorf("worker two does not report why it ends: %s", two.err)
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

// The doctor reports a run that somebody started beside the service, and lets it be, because that
// person's process is there.
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
	l.run(l.playbook("beside", fmt.Sprintf("{uses: lab.trace, with: {file: %s, ms: 600000}}", trace)))
	until(t, "its job to run", func() bool { return len(executions(t, trace)) == 1 })
	doctor := s.start("admin", "doctor", "--ledger", s.ledger, "--redis", s.queue, "--fix")
	doctor.wants(0)
	if !doctor.out.has("note ", "it was started beside the service", "sound: ledger and queue") {
		t.Errorf("doctor: %s", doctor.out)
	}
}

// Ten secrets, of every source, go every way on which a secret may go. Afterwards Redis (its files
// and memory), the ledger, outputs, logs, events, traces, the API's answers, command lines and
// cores hold none of them, in no form. The marker is found in all of these except traces, which
// have no text of a step.
func TestLabSecretsShowNowhere(t *testing.T) {
	t.Parallel()
	began := time.Now()
	aCoreIsKnown(t)
	g := newGuardedSite(t)
	traces := newSpans(t)
	g.env = append(g.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+traces.URL)
	stopLooking := g.seen.processes()
	p, c := g.startUp(g.data, append([]string{"--redis", g.redis.url(), "--secrets", filepath.Join(g.dir, "node.yaml"), "--secrets-identity", filepath.Join(g.dir, "worker.age")}, g.folders()...)...)
	for _, playbook := range []string{"all", "panic", "abort"} {
		g.drive(c, playbook)
	}
	g.redis.poll(g.seen) // while all of it is there

	e := g.start(append([]string{"run", "--redis", g.redis.url(), "--pool", "other", "--events", "--diff", "-i", g.hosts, "--secrets", g.own,
		"--secrets-identity", filepath.Join(g.dir, "worker.age"), filepath.Join(g.dir, "ops/playbooks/all.yaml")}, g.folders()...)...)
	e.code()
	g.redis.poll(g.seen)
	g.seen.files("ledger", filepath.Join(g.data, "ledger.db*")) // also the WAL, which is gone after the end
	p.signal(syscall.SIGTERM)
	p.wants(0)
	stopLooking()
	g.seen.text("events", e.out.String())
	g.seen.text("log", p.err.String())
	g.seen.text("log", e.err.String())
	for _, want := range []string{"told", "flood", "leaky.tell", "box"} {
		if !strings.Contains(traces.sent(), want) {
			t.Errorf("no trace shows %q: what is searched?", want)
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
			files, _ := filepath.Glob(filepath.Join(dir, name))
			for _, file := range files {
				if isCore(t, file, began) {
					t.Errorf("there is a core: %s", file)
				}
			}
		}
	}
	if written, err := os.ReadFile(filepath.Join(g.dir, "written")); err != nil || !strings.Contains(string(written), "s3="+tenSecrets[3]) {
		t.Errorf("the host's file has not got the secrets: %v", err)
	}
}

// isCore reports whether file is what a process left that was aborted since then. The folder for
// temporary files is everybody's: other names there may also begin with "core".
func isCore(t *testing.T, file string, since time.Time) bool {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil || info.ModTime().Before(since) {
		return false
	}
	program, err := elf.Open(file)
	if err != nil {
		return false
	}
	defer program.Close()
	return program.Type == elf.ET_CORE
}

// The control of isCore: the header of a core is known as one, and the same of a program is not.
func aCoreIsKnown(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "core")
	for kind, want := range map[elf.Type]bool{elf.ET_CORE: true, elf.ET_EXEC: false} {
		header := make([]byte, 64)
		copy(header, elf.ELFMAG)
		header[4], header[5], header[6] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
		header[16], header[18], header[20], header[54] = byte(kind), byte(elf.EM_X86_64), byte(elf.EV_CURRENT), 56
		if err := os.WriteFile(file, header, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := isCore(t, file, time.Time{}); got != want {
			t.Fatalf("a file of type %s is a core: %t, want %t", kind, got, want)
		}
	}
}
