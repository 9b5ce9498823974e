//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/transport/fleet"
)

// words are put where they must not be found: into the playbook, its vars, a host's vars, a schedule's definition, and what a host writes.
var words = []string{"Quisquilien", "Sanduhrglas", "Xanthippe", "Trampolinist", "Weinbergschnecke"}

// searched fails the test where one of the words is in a file of the folders; with found, where none is.
func searched(t *testing.T, found bool, folders ...string) {
	t.Helper()
	n := 0
	for _, dir := range folders {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			for _, w := range words {
				if bytes.Contains(text, []byte(w)) {
					if n++; !found {
						t.Errorf("%s is in %s", w, path)
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found && n < 3 {
		t.Errorf("the words were found %d times where nothing is sealed: the search does not see", n)
	}
}

// keys runs a subcommand of keys and reads its document.
func (l *lab) keys(doc any, args ...string) {
	l.t.Helper()
	p := l.start(append([]string{"keys", "-o", "json"}, args...)...)
	p.wants(0)
	if doc != nil {
		if err := json.Unmarshal([]byte(p.out.String()), doc); err != nil {
			l.t.Fatalf("%v: %s", err, p.out)
		}
	}
}

type keyDoc struct {
	Key string `json:"key"`
}

// chatty is a service over real hosts, whose words go everywhere that a service keeps something.
func chatty(t *testing.T, l *lab) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(l.dir, "ops", "playbooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	var inventory strings.Builder
	inventory.WriteString("hosts:\n")
	for _, h := range l.fleet.Hosts() {
		inventory.WriteString(l.entry(h, ", vars: {word: "+words[1]+"}"))
	}
	l.file("ops/inventory.yaml", inventory.String())
	l.file("ops/playbooks/all.yaml", "playbook: all\ndescription: "+words[0]+"\ntargets: true\nvars: {mine: "+words[2]+"}\n"+
		"schedule: {cron: \"0 3 1 1 *\", timezone: UTC}\nsteps:\n"+
		"  - {name: say, uses: command, with: {run: \"echo "+words[3]+" ${{ host.vars.word }} ${{ vars.mine }}\"}}\n"+
		"  - {name: flood, uses: command, with: {run: flood 200000}}\n"+
		"  - {name: fail, uses: command, with: {run: \"echo "+words[4]+" >&2; exit 3\"}}\n")
	return filepath.Join(l.dir, "ops")
}

// A whole service with SQLite, objects and Redis: of what people write and hosts say no word is legible in any of its files, and the service
// works. The negative control is the same without a key ring.
func TestNothingOfASealedServiceIsLegible(t *testing.T) {
	t.Parallel()
	for _, sealed := range []bool{true, false} {
		l := newLab(t, fleet.Config{Hosts: 3}).withRedis("--save", "3600 1")
		ops := chatty(t, l)
		data := filepath.Join(l.dir, "data")
		ring := filepath.Join(l.dir, "ring.json")
		args := []string{"up", "--redis", l.redis.url(), "--data", data, "--definitions", ops, "--listen", "127.0.0.1:0", "--context", "", "--private-key", l.fleet.IdentityFile()}
		args = append(args, l.pluginFlags()...)
		if sealed {
			l.keys(nil, "new", ring)
			args = append(args, "--keyring", ring)
		}
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
		run := submitted(t, c)
		finished(t, c, run.ID)
		id := core.JobID{Run: run.ID}
		job, err := c.Job(context.Background(), id)
		if err != nil || job.Outcome != core.Failed || len(job.Steps) != 3 || !strings.Contains(job.Steps[0].Stdout, words[3]+" "+words[1]+" "+words[2]) || !strings.Contains(job.Steps[2].Stderr, words[4]) {
			t.Errorf("job %+v, %v", job, err)
		}
		outputs, err := c.Outputs(context.Background(), id)
		if err != nil || len(outputs.Items) == 0 {
			t.Errorf("outputs %+v, %v", outputs, err)
		}
		if err := l.redis.admin().Save(context.Background()).Err(); err != nil {
			t.Error(err)
		}
		searched(t, !sealed, data, l.redis.dir)
		p.signal(syscall.SIGTERM)
		p.wants(0)
		searched(t, !sealed, data, l.redis.dir)
		l.redis.sound(nil)
		if !sealed {
			continue
		}
		for _, other := range [][]string{{"up", "--redis", l.redis.url(), "--data", data, "--listen", "127.0.0.1:0"}, {"doctor", "--ledger", "sqlite:" + filepath.Join(data, "ledger.db")}} {
			without := l.start(other...)
			without.wants(5)
			if !without.err.has("what it holds is sealed", "--keyring") {
				t.Errorf("%v without the key ring: %s", other, without.err)
			}
		}
	}
}

// Runs go on over two servers and two workers while a key is added, promoted, everything old is sealed anew, and the former key is retired: no
// job is lost or begun twice, and the doctor finds nothing. Meanwhile a worker without the key ring takes no job, and says so.
func TestRotationUnderLoadLosesNothing(t *testing.T) {
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
func TestWhatUpKeepsOfItsQueueIsSealed(t *testing.T) {
	t.Parallel()
	const hosts = 12
	for _, sealed := range []bool{true, false} {
		l := newLab(t, fleet.Config{Hosts: hosts}).traced()
		ops := chatty(t, l)
		trace := filepath.Join(l.dir, "trace")
		l.file("ops/playbooks/all.yaml", "playbook: all\ntargets: true\nsteps:\n  - {name: say, uses: command, with: {run: echo "+words[3]+"}}\n"+
			fmt.Sprintf("  - {name: hold, uses: lab.hold, with: {file: %s, ms: 1500}}\n  - {name: last, uses: lab.hold, with: {file: %s-last}}\n", trace, trace))
		data, ring := filepath.Join(l.dir, "data"), filepath.Join(l.dir, "ring.json")
		args := []string{"up", "--data", data, "--definitions", ops, "--listen", "127.0.0.1:0", "--context", "", "-f", "4", "--private-key", l.fleet.IdentityFile()}
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
