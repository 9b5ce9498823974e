package plugintest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/turnus/turnus/plugins/sdk/wire/wirerpc"
)

// Scene is a job type on the stage: a fresh kit with its hosts, what it is called with, and what
// must hold in the end.
type Scene struct {
	Kit     *Kit
	Params  any
	Options []Option
	// MayFindItDone lets the job end as unchanged instead of changed: a job type that keeps no state
	// finds after a kill that its own change is done.
	MayFindItDone bool
	// Check checks the end of the job, and the hosts: for example, that an action which cannot be
	// undone happened once. Nil checks nothing more.
	Check func(t *testing.T, end *Result)
}

// KillAtEachCheckpoint takes the scene to its end once, undisturbed. Then for each checkpoint it
// kills the process of the plugin, and its worker, once right before the checkpoint is durable, and
// once right after. It then acts as a worker does: it calls the job type again with the state that
// was saved last, or none. Each time the outcome must be the same, and Check must be content. setup
// makes a new scene for each. Give synctest.Test as around to have it on a fake clock (see
// FakeTime).
func KillAtEachCheckpoint(t *testing.T, setup func(t *testing.T) Scene, around ...func(*testing.T, func(*testing.T))) {
	t.Helper()
	killAtEach(t, "checkpoint", setup, around)
}

// KillAtEachCall is KillAtEachCheckpoint at each call to a host: killed before it reaches the host,
// and after it took effect and before its answer came.
func KillAtEachCall(t *testing.T, setup func(t *testing.T) Scene, around ...func(*testing.T, func(*testing.T))) {
	t.Helper()
	killAtEach(t, "call", setup, around)
}

func killAtEach(t *testing.T, kind string, setup func(t *testing.T) Scene, around []func(*testing.T, func(*testing.T))) {
	t.Helper()
	var want string
	names := []string{}
	play := func(t *testing.T, at int, before bool) {
		t.Helper()
		run := func(t *testing.T) {
			t.Helper()
			s := setup(t)
			s.Kit.death.plan(kind, at, before)
			calls := s.Kit.ResumeUntilDone(s.Params, s.Options...)
			end := calls[len(calls)-1]
			seen, killed := s.Kit.death.story(kind)
			if at == 0 {
				want, names = end.Outcome, seen
			} else if !killed {
				t.Fatalf("the job came to its end without %s %d: it does not do the same each time", kind, at)
			}
			done := s.MayFindItDone && want == "changed" && end.Outcome == "unchanged"
			if end.Outcome != want && !done {
				t.Errorf("it ends as %s (%s), undisturbed as %s", end.Outcome, end.Reason, want)
			}
			if s.Check != nil {
				s.Check(t, end)
			}
		}
		if len(around) > 0 {
			around[0](t, run)
		} else {
			run(t)
		}
	}
	t.Run("undisturbed", func(t *testing.T) { play(t, 0, false) })
	if len(names) == 0 && !t.Failed() {
		t.Errorf("there is no %s to be killed at", kind)
	}
	for i, name := range names {
		if t.Failed() {
			return // one story that does not hold together is enough to read
		}
		for when, before := range map[string]bool{"before": true, "after": false} {
			t.Run(fmt.Sprintf("%s %s %d (%s)", when, kind, i+1, name), func(t *testing.T) { play(t, i+1, before) })
		}
	}
}

// death ends a call, and all that it asks for from then on, at a planned event. Safe for concurrent
// use.
type death struct {
	mu     sync.Mutex
	seen   map[string][]string
	kind   string
	at     int // 0: nobody dies
	before bool
	killed bool
	dead   bool // of the present call
	cancel context.CancelFunc
}

func errDead() error { return fault(wirerpc.CodeCanceled, "plugintest: the process was killed") }

func (d *death) plan(kind string, at int, before bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.kind, d.at, d.before = kind, at, before
}

// arm begins a call.
func (d *death) arm(cancel context.CancelFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cancel, d.dead = cancel, false
}

func (d *death) fired() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dead
}

func (d *death) story(kind string) (names []string, killed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[kind], d.killed
}

func (d *death) strike() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.killed, d.dead = true, true
	d.cancel()
}

// meet counts a call of the plugin, and reports whether it is the planned one.
func (d *death) meet(method, name string) (now bool, err error) {
	_, method, _ = strings.Cut(strings.TrimPrefix(method, "/"), "/")
	kind := "call"
	switch method {
	case "Checkpoint":
		kind = "checkpoint"
	case "MayStart", "Secret", "SaveFile", "Keep", "Kept":
		kind = ""
	}
	if name == "" {
		name = strings.ToLower(method)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return false, errDead()
	}
	if kind == "" || d.cancel == nil {
		return false, nil
	}
	d.seen[kind] = append(d.seen[kind], name)
	return kind == d.kind && len(d.seen[kind]) == d.at && !d.killed, nil
}

// intercept ends the planned call: before it reaches its host, or with its answer lost.
func (d *death) intercept(c *wirerpc.Call, req proto.Message, next func() error) error {
	name := ""
	if named, ok := req.(interface{ GetName() string }); ok {
		name = named.GetName()
	}
	now, err := d.meet(c.Procedure, name)
	switch {
	case err != nil:
		return err
	case !now:
		return next()
	case !d.before:
		c.Mute()
		_ = next() // its answer is lost
	}
	d.strike()
	return errDead()
}

// work counts the job type's calls that are under way in the plugin.
type work struct {
	mu   sync.Mutex
	n    int
	idle *sync.Cond
}

func newWork() *work {
	w := &work{}
	w.idle = sync.NewCond(&w.mu)
	return w
}

func (w *work) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.add(1)
		defer w.add(-1)
		next.ServeHTTP(rw, r)
	})
}

func (w *work) add(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n += n
	w.idle.Broadcast()
}

func (w *work) wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.n > 0 {
		w.idle.Wait()
	}
}
