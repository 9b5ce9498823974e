package controller_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/encrypted"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/playbooks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// types knows two job types: one may be repeated, the other must not.
func types(name string) (playbooks.Type, bool) {
	switch name {
	case "look":
		return playbooks.Type{OnLost: "retry"}, true
	case "flash":
		return playbooks.Type{OnLost: "hold", Disruptive: true}, true
	}
	return playbooks.Type{}, false
}

// lab is a ledger, a queue that may be lost, servers and a node.
type lab struct {
	measure controller.Measure
	testing.TB
	ledger *ledger.Ledger
	took   time.Duration

	mu     sync.Mutex
	q      encrypted.Backend
	events []controller.Event
	ran    map[core.JobID]int // attempts that were acknowledged
	leased map[core.JobID]int
}

// fake runs a test in fake time over memory and SQLite.
func fake(t *testing.T, f func(l *lab)) {
	t.Helper()
	warm(t)
	synctest.Test(t, func(t *testing.T) {
		store, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		q := memory.New(memory.Options{})
		l := &lab{TB: t, ledger: store, q: q, took: time.Second, ran: map[core.JobID]int{}, leased: map[core.JobID]int{}}
		defer func() {
			l.queue().(interface{ Shutdown() }).Shutdown()
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}()
		f(l)
	})
}

// warm makes the compressor that ledgers of this process share, which must not be made in a test's
// bubble.
func warm(t *testing.T) {
	t.Helper()
	store, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "warm.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Accept(t.Context(), ledger.NewRun{ID: "w", Playbook: "w", LaunchedBy: "w", Jobs: []ledger.JobHost{{Host: "h"}}, Snapshot: make([]byte, 4<<10)}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Material(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) queue() encrypted.Backend {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.q
}

// newQueue is the embedded queue after a restart: it knows nothing.
func (l *lab) newQueue() {
	fresh := memory.New(memory.Options{})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.q.(interface{ Shutdown() }).Shutdown()
	l.q = fresh
}

// server starts one, after these changes; stop ends it, and returns when it has.
func (l *lab) server(name string, q encrypted.Backend, changes ...func(*controller.Controller)) (c *controller.Controller, stop func()) {
	l.Helper()
	c, err := controller.New(controller.Config{Name: name, Ledger: l.ledger, Queue: q, Board: q, Types: types, Measure: l.measure, Events: func(e controller.Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.events = append(l.events, e)
	}})
	if err != nil {
		l.Fatal(err)
	}
	for _, change := range changes {
		change(c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Run(ctx); err != nil {
			l.Error(err)
		}
	}()
	return c, sync.OnceFunc(func() { cancel(); <-done })
}

// node works on a queue until it is stopped: each job takes took, and ends as changed, but as
// failed on hosts with such a name.
func (l *lab) node(q encrypted.Backend, concurrency int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := l.session(ctx, q, concurrency); err != nil {
				core.Pause(ctx, 100*time.Millisecond, nil)
			}
		}
	}()
	return sync.OnceFunc(func() { cancel(); <-done })
}

func (l *lab) session(ctx context.Context, q encrypted.Backend, concurrency int) error {
	s, err := q.Open(ctx, "node")
	if err != nil {
		return err
	}
	var acks []queue.Ack
	for {
		res, err := q.Turn(ctx, queue.Turn{Session: s, Acks: acks, Want: concurrency})
		if err != nil {
			return err
		}
		acks = nil
		l.mu.Lock()
		for _, lease := range res.Leases {
			l.leased[lease.Job]++
		}
		l.mu.Unlock()
		if len(res.Leases) == 0 {
			err := q.Wait(ctx, s, time.Now().Add(time.Second))
			if ctx.Err() != nil {
				return q.Close(context.WithoutCancel(ctx), s)
			}
			if err != nil {
				return err
			}
			continue
		}
		began := time.Now()
		if err := core.Sleep(ctx, l.took); err != nil {
			return err // killed: what it holds is recovered from its session
		}
		for _, lease := range res.Leases {
			outcome := core.Changed
			if lease.Host[0] == 'x' {
				outcome = core.Failed
			}
			l.mu.Lock()
			l.ran[lease.Job]++
			l.mu.Unlock()
			detail, err := launch.EncodeResult(core.Result{Job: lease.Job, Host: lease.Host, Outcome: outcome, Attempt: lease.Attempt, Worker: "node", Started: began, Took: l.took})
			if err != nil {
				return err
			}
			acks = append(acks, queue.Ack{Job: lease.Job, Token: lease.Token, Kind: queue.AckDone, Outcome: outcome, Detail: detail})
		}
	}
}

// spec describes a launch.
type spec struct {
	id      string
	hosts   int
	uses    string // look when empty
	more    string // lines of the playbook
	bad     int    // of the hosts, the last ones fail
	options launch.Options
}

func (l *lab) launch(s spec) *launch.Launch {
	l.Helper()
	if s.uses == "" {
		s.uses = "look"
	}
	source := fmt.Sprintf("playbook: patch\ntargets: true\n%ssteps:\n  - {name: one, uses: %s, needs: 5m}\n", s.more, s.uses)
	playbook, err := playbooks.Parse("patch.yaml", []byte(source), playbooks.Options{Types: types})
	if err != nil {
		l.Fatal(err)
	}
	hosts := make([]core.Host, s.hosts)
	for i := range hosts {
		hosts[i] = core.Host{Name: fmt.Sprintf("%s-h%04d", s.id, i), WindowSet: "night"}
		if i >= s.hosts-s.bad {
			hosts[i].Name = "x" + hosts[i].Name
		}
	}
	o := s.options
	o.RunID, o.Types, o.LaunchedBy = s.id, types, "alice"
	got, err := launch.Prepare(playbook, hosts, o)
	if err != nil {
		l.Fatal(err)
	}
	return got
}

func (l *lab) accept(c *controller.Controller, s spec) ledger.Run {
	l.Helper()
	return l.put(c, l.launch(s))
}

// put accepts what was launched.
func (l *lab) put(c *controller.Controller, one *launch.Launch) ledger.Run {
	l.Helper()
	run, _, err := c.Accept(context.Background(), controller.Acceptance{Launch: one, By: "alice"})
	if err != nil {
		l.Fatal(err)
	}
	return run
}

func (l *lab) run(id string) ledger.Run {
	l.Helper()
	r, err := l.ledger.Run(context.Background(), ledger.AllTenants(), id)
	if err != nil {
		l.Fatal(err)
	}
	return r
}

// until waits for a condition, for ten minutes of the test's time at most.
func (l *lab) until(what string, ok func() bool) {
	l.Helper()
	for end := time.Now().Add(10 * time.Minute); !ok(); {
		if time.Now().After(end) {
			l.Fatalf("never: %s", what)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (l *lab) complete(ids ...string) {
	l.Helper()
	for _, id := range ids {
		l.until("run "+id+" is complete", func() bool { r := l.run(id); return r.Complete() })
	}
}

// sound checks what the ledger promises.
func (l *lab) sound() {
	l.Helper()
	found, err := l.ledger.Check(context.Background(), false)
	if err != nil || len(found) > 0 {
		l.Errorf("the ledger: %v, %v", found, err)
	}
}

func (l *lab) said(kind controller.EventKind) (found []controller.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// times is how often jobs of a run were acknowledged, the most and the sum.
func (l *lab) times(run string) (most, sum int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, n := range l.ran {
		if id.Run == run {
			most, sum = max(most, n), sum+n
		}
	}
	return most, sum
}

// flaky is a queue that can be away, or hold a submit up.
type flaky struct {
	encrypted.Backend
	mu   sync.Mutex
	away bool
	hold chan struct{} // when set, Submit waits for it
}

var errAway = fmt.Errorf("the test took it away: %w", core.ErrUnavailable)

func (f *flaky) set(away bool) { f.mu.Lock(); f.away = away; f.mu.Unlock() }

func (f *flaky) gone() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return errAway
	}
	return nil
}

func (f *flaky) Submit(ctx context.Context, runs ...queue.Run) []queue.Submission {
	if f.hold != nil {
		<-f.hold
	}
	return queue.SubmitEach(runs, func(r queue.Run) (bool, error) {
		return first(f.gone(), func() (bool, error) { return queue.SubmitOne(ctx, f.Backend, r) })
	})
}

func (f *flaky) Posted(ctx context.Context, name string, known uint64) ([]byte, uint64, error) {
	if err := f.gone(); err != nil {
		return nil, 0, err
	}
	return f.Backend.Posted(ctx, name, known)
}

func (f *flaky) Status(ctx context.Context, run string) (queue.Status, error) {
	return first(f.gone(), func() (queue.Status, error) { return f.Backend.Status(ctx, run) })
}

func (f *flaky) Cancel(ctx context.Context, run string, reason core.Reason) error {
	if err := f.gone(); err != nil {
		return err
	}
	return f.Backend.Cancel(ctx, run, reason)
}

func first[T any](err error, f func() (T, error)) (T, error) {
	if err != nil {
		var zero T
		return zero, err
	}
	return f()
}

func ids(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return out
}
