//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/transport/fleet"
)

// lab holds the things of one test: a folder, a fleet, and the processes that it starts.
type lab struct {
	t     *testing.T
	dir   string
	fleet *fleet.Fleet
	hosts string // the inventory file
	redis *redisServer
	queue string   // URL of the Redis that the processes share; "" for none
	trace bool     // see traced
	env   []string // more of the processes' environment
	under []string // a command line that starts the processes; nil for none
	other string   // another program in the place of the one under test
}

// traced lets lab.trace and lab.hold do their work: they write where the test reads, and name their
// worker by its process id. The sandbox keeps plugins from both, and lets nobody allow them to
// write, so it is off for the processes that are started from here on. All others have it.
func (l *lab) traced() *lab {
	l.trace = true
	return l
}

// pluginFlags are where the plugin lab is, and how plugins are confined.
func (l *lab) pluginFlags() []string {
	l.t.Helper()
	sandbox := "auto"
	if l.trace {
		sandbox = "off"
	}
	return []string{"--plugins", plugins(l.t), "--plugin-sandbox", sandbox, "--cpu-limit", "0", "--memory-limit", "0"}
}

// newLab makes the folder and a fleet with its inventory.
func newLab(t *testing.T, c fleet.Config) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir()}
	f, err := fleet.Start(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("close the fleet: %v", err)
		}
	})
	l.fleet = f
	l.env = append(l.env, "TURNUS_SECRETS="+l.file("logins.yaml", login(f.IdentityFile())))
	lines := make([]string, 0, c.Hosts)
	for _, h := range f.Hosts() {
		lines = append(lines, l.entry(h, ""))
	}
	l.hosts = l.file("hosts.yaml", "hosts:\n"+strings.Join(lines, ""))
	return l
}

// entry is a host's line of the inventory; more are further keys.
func (l *lab) entry(h core.Host, more string) string {
	return fmt.Sprintf("  %s: {address: %s, port: %d, user: %s, credential: default, host_key: [%q]%s}\n",
		h.Name, h.Address, h.SSH.Port, h.SSH.User, h.SSH.HostKeys[0], more)
}

// login is the default credential of a node's own file: a key, valid for the hosts that the tests
// of this machine start.
func login(key string) string {
	return fmt.Sprintf("credentials: {default: {identity_file: %s, addresses: [127.0.0.0/8, 100.64.0.0/10]}}\n", key)
}

// file writes a file of the test's folder and returns its path.
func (l *lab) file(name, content string) string {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return path
}

// playbook writes a playbook of all hosts with the given steps, a line each.
func (l *lab) playbook(name string, steps ...string) string {
	l.t.Helper()
	return l.playbookFor(name, "true", steps...)
}

// playbookFor is playbook with targets.
func (l *lab) playbookFor(name, targets string, steps ...string) string {
	l.t.Helper()
	text := fmt.Sprintf("playbook: %s\ntargets: %q\nsteps:\n", name, targets)
	for _, s := range steps {
		text += "  - " + s + "\n"
	}
	return l.file(name+".yaml", text)
}

// withRedis gives the lab a Redis of its own.
func (l *lab) withRedis(extra ...string) *lab {
	l.t.Helper()
	l.redis = startRedis(l.t, extra...)
	l.queue = l.redis.url()
	return l
}

// worker starts a worker on the lab's Redis and waits until it works.
func (l *lab) worker(args ...string) *process {
	l.t.Helper()
	p := l.start(slices.Concat([]string{"worker", "--redis", l.queue}, l.pluginFlags(), args)...)
	until(l.t, "a worker to begin", func() bool { return p.err.has("working as") || !p.running() })
	if !p.running() {
		l.t.Fatalf("worker: %s", p.err)
	}
	return p
}

// run starts a run. It leaves the work to the workers when the lab has a Redis.
func (l *lab) run(args ...string) *process {
	l.t.Helper()
	more := append([]string{"run", "-i", l.hosts}, l.pluginFlags()...)
	if l.queue != "" {
		more = append(more, "--redis", l.queue, "--no-worker")
	}
	return l.start(append(more, args...)...)
}

// report is the -o json document of run.
type report struct {
	Run      string               `json:"run"`
	Playbook string               `json:"playbook"`
	Phase    string               `json:"phase"`
	Reason   string               `json:"reason"`
	Exit     int                  `json:"exit_code"`
	Total    int                  `json:"total"`
	Outcomes map[core.Outcome]int `json:"outcomes"`
	Took     core.Seconds         `json:"took_seconds"`
	Results  []api.Result         `json:"results"`
}

// byHost finds a host's result.
func (r report) byHost(t *testing.T, host string) api.Result {
	t.Helper()
	for _, res := range r.Results {
		if res.Host == host {
			return res
		}
	}
	t.Fatalf("no result of %s", host)
	return api.Result{}
}

// reports reads the documents that a run with -o json wrote.
func (p *process) reports() []report {
	p.t.Helper()
	var all []report
	for dec := json.NewDecoder(strings.NewReader(p.out.String())); ; {
		var r report
		err := dec.Decode(&r)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			p.t.Fatalf("stdout is not JSON: %v\n%s", err, tail(p.out.String()))
		}
		all = append(all, r)
	}
}

func (p *process) report() report {
	p.t.Helper()
	all := p.reports()
	if len(all) != 1 {
		p.t.Fatalf("%d documents on stdout, expected 1; stderr:\n%s", len(all), p.err)
	}
	return all[0]
}

// event is a line of run --events.
type event struct {
	Event  string      `json:"event"`
	Run    string      `json:"run"`
	Job    string      `json:"job"`
	Host   string      `json:"host"`
	Step   string      `json:"step"`
	Time   time.Time   `json:"time"`
	Result *api.Result `json:"result"`
	Report *report     `json:"report"`
}

// events reads the events written so far; a last line without its end is left out. A line that
// is no JSON fails the test.
func (p *process) events() []event {
	p.t.Helper()
	s := p.out.String()
	s = s[:strings.LastIndexByte(s, '\n')+1]
	var all []event
	for line := range strings.Lines(s) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			p.t.Fatalf("event is not JSON: %v: %s", err, tail(line))
		}
		all = append(all, e)
	}
	return all
}

// done counts the recorded outcomes of each job, and keeps the last result of each.
func (p *process) done() (times map[string]int, last map[string]api.Result) {
	p.t.Helper()
	times, last = map[string]int{}, map[string]api.Result{}
	for _, e := range p.events() {
		if e.Event == "job_done" {
			times[e.Job]++
			last[e.Job] = *e.Result
		}
	}
	return times, last
}

// execution is one execution of lab.trace or lab.hold.
type execution struct {
	job, host, key string
	fence          uint64
	worker         int // its process id
	begin, end     time.Time
}

// executions reads a trace, in the order in which the executions began.
func executions(t *testing.T, file string) []*execution {
	t.Helper()
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []*execution
	open := map[string]*execution{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var what string
		var e execution
		var at int64
		if n, _ := fmt.Sscan(lines.Text(), &what, &e.job, &e.host, &e.fence, &e.worker, &at, &e.key); n != 7 {
			continue // still being written
		}
		id := fmt.Sprint(e.job, e.fence)
		if what == "end" {
			if open[id] == nil {
				t.Fatalf("an execution ended that never began: %s", lines.Text())
			}
			open[id].end = time.Unix(0, at)
			continue
		}
		e.begin = time.Unix(0, at)
		open[id] = &e
		all = append(all, &e)
	}
	return all
}
