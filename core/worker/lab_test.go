package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(stoppableEnv); addr != "" {
		stoppable(addr)
		return
	}
	goleak.VerifyTestMain(m)
}

var _ Plugins = (*host.Supervisor)(nil)

// script is a Plugins whose job types do what a test sets.
type script struct {
	do   func(ctx context.Context, c host.Call) (host.Outcome, error)
	boot string // id that hosts give; "": there is no job type facts

	mu     sync.Mutex
	calls  []host.Call
	warmed [][]string
	now    int
	most   int // calls at the same time
	byHost map[string]int
	clash  string // a host that two calls had at the same time
}

// The script's job types: what a crash of their plugin means is all that differs.
var scriptTypes = map[string]host.Type{
	"command":      {Name: "command", Check: true, OnLost: "hold"},
	"file":         {Name: "file", Check: true, Idempotent: true, OnLost: "retry"},
	"firmware.set": {Name: "firmware.set", Disruptive: true, OnLost: "hold"},
	"api":          {Name: "api", OnLost: "hold", Params: json.RawMessage(`{"type":"object","properties":{"token":{"type":"string","x-turnus-secret":true},"url":{"type":"string"}}}`)},
	"reboot":       {Name: "reboot", Disruptive: true, Idempotent: true, OnLost: "retry"},
}

func (s *script) Type(name string) (host.Type, bool) {
	if name == factsType && s.boot != "" {
		return host.Type{Name: factsType, Check: true, Idempotent: true, OnLost: "retry"}, true
	}
	t, ok := scriptTypes[name]
	return t, ok
}

func (s *script) Warm(types []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warmed = append(s.warmed, types)
}

func (s *script) Run(ctx context.Context, c host.Call) (host.Outcome, error) {
	s.mu.Lock()
	if s.byHost == nil {
		s.byHost = map[string]int{}
	}
	s.calls = append(s.calls, c)
	s.now++
	s.most = max(s.most, s.now)
	s.byHost[c.Host.Name]++
	if s.byHost[c.Host.Name] > 1 {
		s.clash = c.Host.Name
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.byHost[c.Host.Name]--
		s.mu.Unlock()
	}()
	if c.Type == factsType && s.boot != "" {
		return host.Outcome{Outputs: map[string]any{"boot_id": s.boot}}, nil
	}
	if s.do == nil {
		return host.Outcome{}, nil
	}
	return s.do(ctx, c)
}

func (s *script) seen() []host.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// steps lists the seen calls as STEP.ATTEMPT.
func (s *script) steps() string {
	var names []string
	for _, c := range s.seen() {
		names = append(names, fmt.Sprintf("%s.%d", c.Step, c.Attempt))
	}
	return strings.Join(names, " ")
}

// lab is a memory queue and what is run on it. It is used inside a synctest bubble.
type lab struct {
	t        *testing.T
	q        *memory.Queue
	plugins  *script
	careless bool                     // its nodes do not conceal secrets
	pace     pace                     // of its nodes; zero is the usual one
	pending  map[string]core.Handlers // that earlier runs left, by host
	files    map[string]string        // that playbooks include

	mu     sync.Mutex
	events []Event
}

// inLab runs a test on fake time.
func inLab(t *testing.T, f func(l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, q: memory.New(memory.Options{}), plugins: &script{}}
		defer l.q.Shutdown()
		f(l)
	})
}

// inDays is inLab for tests in which days pass: nodes and queue look and speak at longer intervals.
func inDays(t *testing.T, f func(l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, q: memory.New(memory.Options{SessionTTL: proofPace.ttl}), plugins: &script{}, pace: proofPace}
		defer l.q.Shutdown()
		f(l)
	})
}

func (l *lab) config() Config {
	return Config{
		Queue: l.q, Payload: l.q.Payload, Plugins: l.plugins, Name: "node-1", Concurrency: 4, Grace: time.Second,
		Events: func(e Event) {
			e.Stdout, e.Stderr = slices.Clone(e.Stdout), slices.Clone(e.Stderr)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.events = append(l.events, e)
		},
	}
}

// said lists the kinds of the events seen, those wanted only.
func (l *lab) said(kinds ...EventKind) []EventKind {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []EventKind
	for _, e := range l.events {
		if slices.Contains(kinds, e.Kind) {
			out = append(out, e.Kind)
		}
	}
	return out
}

// node is a worker that runs.
type node struct {
	*Worker
	l    *lab
	stop context.CancelFunc
	done chan error
}

func (l *lab) start(c Config) *node { l.t.Helper(); return l.startWith(c, func(*Worker) {}) }

// startWith starts a node that is changed before.
func (l *lab) startWith(c Config, alter func(*Worker)) *node {
	l.t.Helper()
	w, err := New(c)
	if err != nil {
		l.t.Fatal(err)
	}
	alter(w)
	if l.pace != (pace{}) {
		w.pace, w.clock.beat = l.pace, l.pace.beat
	}
	ctx, stop := context.WithCancel(context.Background())
	n := &node{Worker: w, l: l, stop: stop, done: make(chan error, 1)}
	go func() { n.done <- w.Run(ctx) }()
	return n
}

// drain ends the node and fails on an unclean end.
func (n *node) drain() {
	n.l.t.Helper()
	n.stop()
	if err := <-n.done; err != nil {
		n.l.t.Errorf("Run: %v", err)
	}
}

// pass lets fake time go by.
func pass(d time.Duration) { <-time.After(d) }

func hosts(n int) []core.Host {
	out := make([]core.Host, n)
	for i := range out {
		out[i] = core.Host{Name: fmt.Sprintf("h%05d", i), Labels: map[string]string{"role": "web"}, Vars: map[string]any{"port": 8000000 + i}}
	}
	return out
}

type change func(*launch.Options, *queue.Run)

// submit launches a playbook, whose steps are given as YAML, on n hosts.
func (l *lab) submit(id string, n int, steps string, changes ...change) *launch.Launch {
	l.t.Helper()
	return l.submitOn(id, hosts(n), steps, changes...)
}

// submitOn is submit on hosts of the caller's.
func (l *lab) submitOn(id string, on []core.Host, steps string, changes ...change) *launch.Launch {
	l.t.Helper()
	la := l.prepareOn(id, on, steps, changes...)
	if _, err := queue.SubmitOne(context.Background(), l.q, la.Run); err != nil {
		l.t.Fatal(err)
	}
	return la
}

func (l *lab) prepare(id string, n int, steps string, changes ...change) *launch.Launch {
	l.t.Helper()
	return l.prepareOn(id, hosts(n), steps, changes...)
}

func (l *lab) prepareOn(id string, on []core.Host, steps string, changes ...change) *launch.Launch {
	l.t.Helper()
	src := "playbook: test\ntargets: true\n" + steps
	p, err := playbooks.Parse("test.yaml", []byte(src), playbooks.Options{Steps: playbooks.ReadFrom(l.files)})
	if err != nil {
		l.t.Fatal(err)
	}
	o := launch.Options{RunID: id, Types: func(name string) (playbooks.Type, bool) {
		t, ok := scriptTypes[name]
		return playbooks.Type{Name: t.Name, Check: t.Check, Idempotent: t.Idempotent, Disruptive: t.Disruptive, OnLost: t.OnLost}, ok
	}}
	for _, c := range changes {
		c(&o, &queue.Run{})
	}
	la, err := launch.Prepare(p, on, o)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, c := range changes {
		c(&launch.Options{}, &la.Run)
	}
	if err := la.SetPending(l.pending); err != nil {
		l.t.Fatal(err)
	}
	return la
}

// calendar gives a run definitions, and has a worker see each of its jobs immediately. They are
// posted first: a worker that waits takes the run as soon as it is there.
func (l *lab) calendar(run, text string) change {
	l.t.Helper()
	l.post(run, text)
	return func(o *launch.Options, r *queue.Run) {
		r.Segments = nil
		if o.RunID != "" {
			o.Windows, o.Board = calendarOf(l.t, text), "windows/"+run
		}
	}
}

// cancel cancels the run "r".
func (l *lab) cancel() {
	l.t.Helper()
	if err := l.q.Cancel(context.Background(), "r", "enough"); err != nil {
		l.t.Error(err)
	}
}

// results waits until the run is complete and returns what was recorded, in order.
func (l *lab) results(la *launch.Launch) []core.Result {
	l.t.Helper()
	out, status := l.resultsWithin(la, 7*24*time.Hour)
	if !status.Complete {
		l.t.Fatalf("run is not complete after a week: %+v", status)
	}
	return out
}

// resultsWithin is results of a run that may never be complete: it waits for so long.
func (l *lab) resultsWithin(la *launch.Launch, patience time.Duration) ([]core.Result, queue.Status) {
	l.t.Helper()
	deadline := time.Now().Add(patience)
	news, cursor := map[int]string{queue.Part(la.Run.ID): ""}, ""
	var out []core.Result
	for {
		got, err := l.q.News(context.Background(), news, max(l.pace.beat, time.Second))
		if err != nil {
			l.t.Fatal(err)
		}
		news = got.Next
		seen := queue.Sight{Next: cursor, More: true}
		for seen.More {
			seen = l.q.Poll(context.Background(), 1000, queue.Ask{Run: la.Run.ID, Cursor: seen.Next})[0]
			if seen.Err != nil {
				l.t.Fatal(seen.Err)
			}
			for _, r := range seen.Records {
				la.Results(r, func(r core.Result) { out = append(out, r) })
			}
		}
		if cursor = seen.Next; seen.Status.Complete || time.Now().After(deadline) {
			return out, seen.Status
		}
	}
}

// one runs steps on one host and returns its result.
func (l *lab) one(steps string, changes ...change) core.Result {
	l.t.Helper()
	la := l.submit("r", 1, steps, changes...)
	n := l.start(l.config())
	defer n.drain()
	res := l.results(la)
	if len(res) != 1 {
		l.t.Fatalf("%d results, expected 1: %+v", len(res), res)
	}
	return res[0]
}

// exactlyOnce fails unless every job of the run has one result.
func (l *lab) exactlyOnce(la *launch.Launch, results []core.Result) {
	l.t.Helper()
	for _, problem := range onceProblems(la, results) {
		l.t.Error(problem)
	}
}

// onceProblems returns which jobs of a run do not have one result, with a reason if it is not good.
// That a launch finds no reason in a record is none.
func onceProblems(la *launch.Launch, results []core.Result) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	times := make([]int, len(la.Hosts))
	for _, r := range results {
		times[r.Job.Index]++
		if r.Host != la.Hosts[r.Job.Index].Name {
			bad("job %d has the result of host %s", r.Job.Index, r.Host)
		}
		if !r.Outcome.Valid() {
			bad("job %d: outcome %q", r.Job.Index, r.Outcome)
		}
		if !r.Outcome.Good() && (r.Reason == "" || strings.HasPrefix(r.Reason, "no reason was recorded")) {
			bad("job %d: %s without a reason", r.Job.Index, r.Outcome)
		}
		for _, step := range r.Steps {
			if !step.Outcome.Good() && step.Reason == "" {
				bad("job %d, step %s: %s without a reason", r.Job.Index, step.Name, step.Outcome)
			}
		}
	}
	for i, n := range times {
		if n != 1 {
			bad("job %d has %d results", i, n)
		}
	}
	return problems
}

func count(results []core.Result) map[core.Outcome]int {
	out := map[core.Outcome]int{}
	for _, r := range results {
		out[r.Outcome]++
	}
	return out
}

// sleep is a job type that takes d, and ends early when it is asked to.
func sleep(d time.Duration) func(context.Context, host.Call) (host.Outcome, error) {
	return func(ctx context.Context, _ host.Call) (host.Outcome, error) {
		select {
		case <-time.After(d):
			return host.Outcome{Changed: true}, nil
		case <-ctx.Done():
			return host.Outcome{Cancelled: true}, nil
		}
	}
}
