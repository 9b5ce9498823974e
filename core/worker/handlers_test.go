package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

// ends makes the script's calls end as named: by STEP, or by STEP.ITEM of a foreach; a list is by
// call. The rest is unchanged. A call that is changed, or that fails, asks before it changes the
// host.
func (l *lab) ends(by map[string][]string) {
	var mu sync.Mutex
	made := map[string]int{}
	l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
		mu.Lock()
		list := by[c.Step]
		n := made[c.Step]
		made[c.Step]++
		mu.Unlock()
		how := "unchanged"
		if len(list) > 0 {
			how = list[min(n, len(list)-1)]
		}
		if c.BeforeChange != nil && !c.Check && how != "unchanged" && how != "refused" {
			if err := c.BeforeChange(ctx); err != nil {
				return host.Outcome{Failed: true, Reason: err.Error()}, nil //nolint:nilerr // the outcome says it
			}
		}
		switch how {
		case "changed":
			return host.Outcome{Changed: true}, nil
		case "failed", "refused":
			return host.Outcome{Failed: true, Reason: how}, nil
		case "touched": // it could have changed something, and reports that it did not
			return host.Outcome{}, nil
		case "lost":
			return host.Outcome{Failed: true, Lost: true, Reason: how}, nil
		case "unreachable":
			return host.Outcome{Failed: true, Unreachable: true, Reason: how}, nil
		case "rolled back":
			return host.Outcome{Failed: true, RolledBack: true, Reason: how}, nil
		}
		return host.Outcome{}, nil
	}
}

func file(name string, more ...string) string {
	return "{" + strings.Join(append([]string{"name: " + name, "uses: file", "with: {path: /x}"}, more...), ", ") + "}"
}

func under(key string, items ...string) string {
	return key + ": [" + strings.Join(items, ", ") + "]\n"
}

// The handlers that run, in their order, and those that remain, by how the steps end.
func TestFaultW1Handlers(t *testing.T) {
	changed, failed := []string{"changed"}, []string{"failed"}
	owing := core.Handlers{From: []string{"before"}, Pending: []string{"web"}}
	for name, tc := range map[string]struct {
		playbook string
		ends     map[string][]string
		owed     core.Handlers
		ran      string
		outcome  core.Outcome
		step     string
		left     []string
	}{
		"nothing changed": {
			playbook: under("steps", file("a", "notify: [web]")) + under("handlers", file("web")),
			ran:      "a.1", outcome: core.Unchanged,
		},
		"one runs after all steps": {
			playbook: under("steps", file("a", "notify: [web]"), file("b")) + under("handlers", file("web")),
			ends:     map[string][]string{"a": changed}, ran: "a.1 b.1 web.1", outcome: core.Changed,
		},
		"once, in the order of the file": {
			playbook: under("steps", file("a", "notify: [log, web]"), file("b", "notify: [web]")) + under("handlers", file("web"), file("log")),
			ends:     map[string][]string{"a": changed, "b": changed}, ran: "a.1 b.1 web.1 log.1", outcome: core.Changed,
		},
		"at a flush, and again at the end": {
			playbook: under("steps", file("a", "notify: [web]"), "{flush: handlers}", file("b", "notify: [web]")) + under("handlers", file("web")),
			ends:     map[string][]string{"a": changed, "b": changed}, ran: "a.1 web.1 b.1 web.1", outcome: core.Changed,
		},
		"at a flush only": {
			playbook: under("steps", file("a", "notify: [web]"), "{flush: handlers}", file("b", "notify: [web]")) + under("handlers", file("web")),
			ends:     map[string][]string{"a": changed}, ran: "a.1 web.1 b.1", outcome: core.Changed,
		},
		"a handler notifies a later one": {
			playbook: under("steps", file("a", "notify: [web]")) + under("handlers", file("web", "notify: [log]"), file("log")),
			ends:     map[string][]string{"a": changed, "web": changed}, ran: "a.1 web.1 log.1", outcome: core.Changed,
		},
		"a handler fails": {
			playbook: under("steps", file("a", "notify: [web, log]")) + under("handlers", file("web"), file("log")),
			ends:     map[string][]string{"a": changed, "web": failed}, ran: "a.1 web.1", outcome: core.Failed, step: "web", left: []string{"log", "web"},
		},
		"a handler fails at a flush": {
			playbook: under("steps", file("a", "notify: [web]"), "{flush: handlers}", file("b")) + under("handlers", file("web")),
			ends:     map[string][]string{"a": changed, "web": failed}, ran: "a.1 web.1", outcome: core.Failed, step: "web", left: []string{"web"},
		},
		"a handler is tried again": {
			playbook: under("steps", file("a", "notify: [web]")) + under("handlers", file("web", "retry: {attempts: 2, interval: 1s}")),
			ends:     map[string][]string{"a": changed, "web": {"failed", "changed"}}, ran: "a.1 web.1 web.2", outcome: core.Changed,
		},
		"a handler is lost": {
			playbook: under("steps", file("a", "notify: [web]")) + under("handlers", file("web")),
			ends:     map[string][]string{"a": changed, "web": {"lost"}}, ran: "a.1 web.1", outcome: core.Lost, step: "web", left: []string{"web"},
		},
		"when is false": {
			playbook: under("steps", file("a", "notify: [web]")) + under("handlers", file("web", `when: host.name == "x"`)),
			ends:     map[string][]string{"a": changed}, ran: "a.1", outcome: core.Changed,
		},
		"a later step fails": {
			playbook: under("steps", file("a", "notify: [web]"), file("b")) + under("handlers", file("web")),
			ends:     map[string][]string{"a": changed, "b": failed}, ran: "a.1 b.1", outcome: core.Failed, step: "b", left: []string{"web"},
		},
		"a later step fails, and the handler runs on failure": {
			playbook: under("steps", file("a", "notify: [web, log]"), file("b")) + under("handlers", file("web"), file("log", "on_failure: run")),
			ends:     map[string][]string{"a": changed, "b": failed}, ran: "a.1 b.1 log.1", outcome: core.Failed, step: "b", left: []string{"web"},
		},
		"the handler on failure fails, too": {
			playbook: under("steps", file("a", "notify: [web]"), file("b")) + under("handlers", file("web", "on_failure: run")),
			ends:     map[string][]string{"a": changed, "b": failed, "web": failed}, ran: "a.1 b.1 web.1", outcome: core.Failed, step: "b", left: []string{"web"},
		},
		"the step that notifies fails in its middle, and the handler runs on failure": {
			playbook: under("steps", file("a", "notify: [web]")) + under("handlers", file("web", "on_failure: run")),
			ends:     map[string][]string{"a": failed}, ran: "a.1 web.1", outcome: core.Failed, step: "a",
		},
		"the host is gone, and nothing runs on failure": {
			playbook: under("steps", file("a", "notify: [web]"), file("b")) + under("handlers", file("web", "on_failure: run")),
			ends:     map[string][]string{"a": changed, "b": {"unreachable"}}, ran: "a.1 b.1", outcome: core.Unreachable, step: "b", left: []string{"web"},
		},
		"the step that notifies fails in its middle": {
			playbook: under("steps", file("a", "notify: [web]")) + under("handlers", file("web")),
			ends:     map[string][]string{"a": failed}, ran: "a.1", outcome: core.Failed, step: "a", left: []string{"web"},
		},
		"the step that notifies fails before it could change anything": {
			playbook: under("steps", file("a", "notify: [web]")) + under("handlers", file("web")),
			ends:     map[string][]string{"a": {"refused"}}, ran: "a.1", outcome: core.Failed, step: "a",
		},
		"it fails in its middle, is tried again and finds nothing to change": {
			playbook: under("steps", file("a", "notify: [web]", "retry: {attempts: 2, interval: 1s}")) + under("handlers", file("web")),
			ends:     map[string][]string{"a": {"failed", "unchanged"}}, ran: "a.1 a.2 web.1", outcome: core.Unchanged,
		},
		"the same, parked between its attempts": {
			playbook: under("steps", file("a", "notify: [web]", "retry: {attempts: 2, interval: 5m}")) + under("handlers", file("web")),
			ends:     map[string][]string{"a": {"failed", "unchanged"}}, ran: "a.1 a.2 web.1", outcome: core.Unchanged,
		},
		"it fails in its middle, and always skips a step that notifies the same": {
			playbook: under("steps", group("g", under("steps", file("a", "notify: [web]")), under("always", file("z", "notify: [web]", `when: host.name == "x"`)))) + under("handlers", file("web")),
			ends:     map[string][]string{"a": failed}, ran: "a.1", outcome: core.Failed, step: "a", left: []string{"web"},
		},
		"the same, and the handler runs on failure": {
			playbook: under("steps", group("g", under("steps", file("a", "notify: [web]")), under("rescue", file("r", "notify: [web]", `when: host.name == "x"`)))) + under("handlers", file("web", "on_failure: run")),
			ends:     map[string][]string{"a": failed}, ran: "a.1 web.1", outcome: core.Failed, step: "a",
		},
		"it could have changed something, and says that it did not": {
			playbook: under("steps", file("a", "notify: [web]")) + under("handlers", file("web")),
			ends:     map[string][]string{"a": {"touched"}}, ran: "a.1", outcome: core.Unchanged,
		},
		"it fails in its middle, and the host continues": {
			playbook: under("steps", file("a", "notify: [web]", "continue_on_failure: true"), file("b")) + under("handlers", file("web")),
			ends:     map[string][]string{"a": failed}, ran: "a.1 b.1 web.1", outcome: core.Unchanged,
		},
		"one item of several": {
			playbook: under("steps", file("a", "notify: [web]", "foreach: [x, y, z]")) + under("handlers", file("web")),
			ends:     map[string][]string{"a": {"unchanged", "changed", "unchanged"}}, ran: "a.1 a.1 a.1 web.1", outcome: core.Changed,
		},
		"one item, and a later one fails": {
			playbook: under("steps", file("a", "notify: [web]", "foreach: [x, y]")) + under("handlers", file("web")),
			ends:     map[string][]string{"a": {"changed", "refused"}}, ran: "a.1 a.1", outcome: core.Failed, step: "a", left: []string{"web"},
		},
		"an earlier run left it": {
			playbook: under("steps", file("a", "notify: [web]")) + under("handlers", file("web")),
			owed:     owing, ran: "a.1 web.1", outcome: core.Unchanged,
		},
		"an earlier run left it, and it fails again": {
			playbook: under("steps", file("a", "notify: [web]")) + under("handlers", file("web")),
			owed:     owing, ends: map[string][]string{"web": failed}, ran: "a.1 web.1", outcome: core.Failed, step: "web", left: []string{"web"},
		},
		"an earlier run left one that the playbook has no more": {
			playbook: under("steps", file("a", "notify: [log]")) + under("handlers", file("log")),
			owed:     owing, ran: "a.1", outcome: core.Unchanged, left: []string{"web"},
		},
		"the playbook has no handlers any more": {
			playbook: under("steps", file("a")),
			owed:     owing, ran: "a.1", outcome: core.Unchanged, left: []string{"web"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.ends(tc.ends)
				if !tc.owed.None() {
					l.pending = map[string]core.Handlers{"h00000": tc.owed}
				}
				r := l.one(tc.playbook)
				if got := l.plugins.steps(); got != tc.ran {
					t.Errorf("ran %s, expected %s", got, tc.ran)
				}
				if r.Outcome != tc.outcome || r.Step != tc.step {
					t.Errorf("%s at step %q, expected %s at %q: %s", r.Outcome, r.Step, tc.outcome, tc.step, r.Reason)
				}
				if r.Handlers == nil || !slices.Equal(r.Handlers.Pending, tc.left) || !slices.Equal(r.Handlers.From, tc.owed.From) || len(r.Handlers.Armed) > 0 {
					t.Errorf("handlers %+v, expected %v from %v", r.Handlers, tc.left, tc.owed.From)
				}
			})
		})
	}
}

// The queue is filled again while a host waits, and meanwhile another run has left a handler on it:
// the job takes that over, once. Its state has the handlers that its own run left.
func TestFaultW1AWaitingHostTakesOverWhatIsLeftSince(t *testing.T) {
	for name, tc := range map[string]struct {
		from []string
		want string
	}{
		"another run":     {[]string{"other"}, "a.1 b.1 b.2 b.3 c.1 web.1 log.1"},
		"its own":         {[]string{"r"}, "a.1 b.1 b.2 b.3 c.1 web.1"},
		"its own as well": {[]string{"r", "other"}, "a.1 b.1 b.2 b.3 c.1 web.1 log.1"},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.ends(map[string][]string{"a": {"changed"}, "b": {"refused", "refused", "changed"}})
				book := under("steps", file("a", "notify: [web]"), file("b", "retry: {attempts: 3, interval: 10m}"), file("c", "notify: [log]")) + under("handlers", file("web"), file("log"))
				la := l.submit("r", 1, book)
				if err := la.SetPending(map[string]core.Handlers{"h00000": {From: tc.from, Pending: []string{"log"}}}); err != nil {
					t.Fatal(err)
				}
				for range 2 { // the second state knows the other run
					n := l.start(l.config())
					pass(time.Minute)
					n.drain()
					rest := l.q.Remains()
					l.q.Shutdown()
					l.q = memory.New(memory.Options{Remains: rest})
					if _, err := queue.SubmitOne(context.Background(), l.q, la.Run); err != nil {
						t.Fatal(err)
					}
					pass(10 * time.Minute)
				}
				n := l.start(l.config())
				r := l.results(la)[0]
				n.drain()
				l.q.Shutdown()
				if got := l.plugins.steps(); got != tc.want || r.Outcome != core.Changed || !slices.Equal(r.Handlers.From, tc.from) || len(r.Handlers.Left()) > 0 {
					t.Errorf("%s, %s: handlers %+v\nexpected %s from %v", got, r.Outcome, r.Handlers, tc.want, tc.from)
				}
			})
		})
	}
}

// The record has handlers where they ran, and what they are.
func TestHandlersInTheRecord(t *testing.T) {
	inLab(t, func(l *lab) {
		l.ends(map[string][]string{"a": {"changed"}, "b": {"changed"}})
		r := l.one(under("steps", file("a", "notify: [web]"), "{flush: handlers}", file("b", "notify: [log]"), file("c")) + under("handlers", file("web"), file("log")))
		var got []string
		for _, s := range r.Steps {
			got = append(got, fmt.Sprintf("%s:%v", s.Name, s.Handler))
		}
		if want := "a:false web:true b:false c:false log:true"; strings.Join(got, " ") != want {
			t.Errorf("steps %v, expected %s", got, want)
		}
	})
}

func TestHandlersInCheckMode(t *testing.T) {
	check := func(o *launch.Options, _ *queue.Run) { o.Check = true }
	inLab(t, func(l *lab) {
		l.ends(map[string][]string{"a": {"changed"}})
		l.pending = map[string]core.Handlers{"h00000": {From: []string{"before"}, Pending: []string{"log"}}}
		r := l.one(under("steps", file("a", "notify: [web, off]"), file("b", "notify: [log]"))+under("handlers", file("web"), file("off", "when: false"), file("log")), check)
		if got := l.plugins.steps(); got != "a.1 b.1" {
			t.Errorf("called %s: a handler runs in no check", got)
		}
		if len(r.Steps) != 5 || r.Steps[2].Name != "web" || r.Steps[2].ReasonCode != core.WouldRun || r.Steps[3].Outcome != core.Skipped || r.Steps[4].Name != "log" || r.Handlers != nil {
			t.Errorf("%+v", r)
		}
	})
}

// The write-ahead costs one write of the queue, and none where nothing could change or where the
// handler is owed anyway.
func TestFaultW1WritesAheadOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		ends map[string][]string
		want int
	}{
		"changed":   {map[string][]string{"a": {"changed"}, "b": {"changed"}}, 1},
		"unchanged": {nil, 0},
		"failed":    {map[string][]string{"a": {"failed"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.ends(tc.ends)
				f := &flaky{Worker: l.q}
				saves := 0
				f.set(func(call string) *fault {
					if call == "save" {
						saves++
					}
					return nil
				})
				c := l.config()
				c.Queue = f
				la := l.submit("r", 1, under("steps", file("a", "notify: [web]"), file("b", "notify: [web]"), file("c"))+under("handlers", file("web")))
				n := l.start(c)
				l.results(la)
				n.drain()
				if saves != tc.want {
					t.Errorf("%d writes of the state, expected %d", saves, tc.want)
				}
			})
		})
	}
}

// A change is refused while what it owes cannot be saved.
func TestFaultW1NoChangeBeforeItIsArmed(t *testing.T) {
	inLab(t, func(l *lab) {
		touched := false
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			if err := c.BeforeChange(ctx); err != nil {
				return host.Outcome{Failed: true, Reason: err.Error()}, nil //nolint:nilerr // the outcome says it
			}
			touched = true
			return host.Outcome{Changed: true}, nil
		}
		f := &flaky{Worker: l.q}
		f.set(func(call string) *fault {
			if call == "save" {
				return &fault{err: fmt.Errorf("save: %w", core.ErrConflict)}
			}
			return nil
		})
		c := l.config()
		c.Queue = f
		la := l.submit("r", 1, under("steps", file("a", "notify: [web]"))+under("handlers", file("web")))
		n := l.start(c)
		r := l.results(la)[0]
		n.drain()
		if touched || r.Outcome != core.Failed || len(r.Handlers.Pending) > 0 {
			t.Errorf("touched %v, %+v", touched, r)
		}
	})
}

// A handler waits for its window as a step does: the change is made immediately, and the job ends
// after the restart.
func TestFaultW1AHandlerWaitsForItsWindow(t *testing.T) {
	inDays(t, func(l *lab) {
		var when []string
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			l.mu.Lock()
			when = append(when, fmt.Sprintf("%s at %s", c.Step, time.Now().UTC().Format("15:04")))
			l.mu.Unlock()
			return host.Outcome{Changed: true}, nil
		}
		pass(8 * time.Hour) // outside of the window, which opens at 22:00
		la := l.windowed("r", 1, night, under("steps", file("a", "notify: [web]"), file("b"))+under("handlers", "{name: web, uses: reboot, with: {mode: x}, needs: 1m}"))
		n := l.start(l.windowedConfig())
		r := l.results(la)[0]
		n.drain()
		if want := "a at 08:00, b at 08:00, web at 22:00"; strings.Join(when, ", ") != want || r.Outcome != core.Changed || len(r.Handlers.Pending) > 0 {
			t.Errorf("%v, expected %s; %+v", when, want, r)
		}
	})
}

// A job that is cancelled while its handler waits for a window keeps it pending; so does one whose
// job type does not return.
func TestFaultW1EndsThatTheWorkerDoesNotDecide(t *testing.T) {
	playbook := under("steps", file("a", "notify: [web]")) + under("handlers", "{name: web, uses: reboot, with: {mode: x}, needs: 1m}")
	t.Run("cancelled while it waits", func(t *testing.T) {
		inDays(t, func(l *lab) {
			l.ends(map[string][]string{"a": {"changed"}})
			pass(8 * time.Hour)
			la := l.windowed("r", 1, night, playbook)
			n := l.start(l.windowedConfig())
			pass(time.Hour)
			l.cancel()
			r := l.results(la)[0]
			n.drain()
			if r.Outcome != core.Cancelled || r.Handlers == nil || !slices.Equal(r.Handlers.Pending, []string{"web"}) {
				t.Errorf("%+v, %+v", r, r.Handlers)
			}
		})
	})
	t.Run("given up", func(t *testing.T) {
		inLab(t, func(l *lab) {
			stuck := make(chan struct{})
			l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
				if err := c.BeforeChange(ctx); err != nil {
					t.Error(err)
				}
				<-stuck // whatever it is asked
				return host.Outcome{}, nil
			}
			la := l.submit("r", 1, under("steps", file("a", "notify: [web]", "timeout: 1s"))+under("handlers", file("web")))
			n := l.start(l.config())
			r := l.results(la)[0]
			close(stuck)
			synctest.Wait()
			n.drain()
			if r.Outcome != core.Lost || r.Handlers == nil || !slices.Equal(r.Handlers.Pending, []string{"web"}) {
				t.Errorf("%+v, %+v", r, r.Handlers)
			}
		})
	})
}

// States and snapshots of the version before handlers continue.
func TestStateOfTheVersionBeforeHandlers(t *testing.T) {
	s, err := decodeState([]byte(`{"v":1,"done":[{"name":"a","uses":"file","outcome":"changed"}],"current":{"attempts":1}}`))
	if err != nil || s.Handlers != nil || len(s.steps()) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	s.Handlers = &handlersState{}
	data, err := s.encode()
	if err != nil || !strings.Contains(string(data), `"v":1`) || strings.Contains(string(data), "handlers") {
		t.Errorf("%s, %v: a job without handlers is written as before", data, err)
	}
	s.Handlers.Handlers = s.Handlers.Notify([]string{"web"})
	s.Handlers.Ran = []handlerRun{{After: 1, StepResult: core.StepResult{Name: "log", Handler: true, Outcome: core.Changed}}}
	if data, err = s.encode(); err != nil || !strings.Contains(string(data), `"v":2`) {
		t.Fatalf("%s, %v", data, err)
	}
	back, err := decodeState(data)
	if err != nil || !slices.Equal(back.Handlers.Pending, []string{"web"}) || len(back.steps()) != 2 || !back.steps()[1].Handler {
		t.Errorf("%+v, %v", back, err)
	}
	if h := snapshot.HandlersOf(data); h == nil || !slices.Equal(h.Pending, []string{"web"}) {
		t.Errorf("%+v", h)
	}
	if _, err := decodeState([]byte(`{"v":2,"handlers":{"ran":[{"after":2,"name":"x"}]}}`)); err == nil {
		t.Error("a handler after a step that is not done was read")
	}
}

// Which handler runs next, by what is pending and whether the host has failed.
func TestFaultW1NextHandler(t *testing.T) {
	handlers := []playbooks.Step{{Name: "web"}, {Name: "log", OnFailure: true}, {Name: "mail", OnFailure: true}, {Name: "site/web", Within: []int{0}}}
	p := &playbooks.Playbook{Handlers: handlers, Blocks: []playbooks.Block{{Include: "steps/site.yaml", First: 4, End: 6}}}
	bad := []handlerRun{{StepResult: core.StepResult{Name: "log", Outcome: core.Failed}}}
	for _, row := range []struct {
		at      int
		pending []string
		ran     []handlerRun
		failed  bool
		want    string
	}{
		{9, nil, nil, false, ""},
		{9, []string{"mail", "web"}, nil, false, "web"},
		{9, []string{"mail", "web"}, nil, true, "mail"},
		{9, []string{"web"}, nil, true, ""},
		{9, []string{"log", "mail"}, bad, true, "mail"},
		{9, []string{"log"}, bad, true, ""},
		{9, []string{"gone"}, nil, false, ""},

		{3, []string{"mail", "site/web"}, nil, false, "mail"},
		{4, []string{"site/web"}, nil, false, ""},
		{5, []string{"site/web"}, nil, false, "site/web"},
	} {
		i, ok := nextHandler(p, row.at, &handlersState{Handlers: core.Handlers{Pending: row.pending}, Ran: row.ran}, row.failed)
		got := ""
		if ok {
			got = handlers[i].Name
		}
		if got != row.want {
			t.Errorf("%+v: %q", row, got)
		}
	}
}

// Handlers that a job takes over survive the queue's data, and a host without any is as it was.
func TestOwedHandlersTravelWithTheHost(t *testing.T) {
	inLab(t, func(l *lab) {
		l.pending = map[string]core.Handlers{"h00001": {From: []string{"r0"}, Pending: []string{"web"}}}
		la := l.submit("r", 2, under("steps", file("a", "notify: [web]"))+under("handlers", file("web")))
		plain, err := snapshot.EncodeHost(la.Hosts[0])
		if err != nil || string(plain) != string(la.Run.Targets[0].Data) {
			t.Errorf("%s, %v", la.Run.Targets[0].Data, err)
		}
		data := la.Run.Targets[1].Data
		pending, err := snapshot.DecodePending(data)
		if err != nil || !json.Valid(data) || !slices.Equal(pending.Pending, []string{"web"}) || !slices.Equal(pending.From, []string{"r0"}) {
			t.Errorf("%s: %+v, %v", data, pending, err)
		}
		h, err := snapshot.DecodeHost(data)
		if err != nil || h.Name != "h00001" || h.Vars["port"] != 8000001 {
			t.Errorf("%+v, %v", h, err)
		}
	})
}
