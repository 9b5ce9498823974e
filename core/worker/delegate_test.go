package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/plugins/host"
)

// beside adds hosts to the inventory that are not of the run.
func beside(more ...core.Host) change {
	return func(o *launch.Options, _ *queue.Run) { o.Inventory = append(hosts(10), more...) }
}

func balancer() core.Host {
	return core.Host{Name: "lb", Address: "192.0.2.1", Become: core.HostBecome{Become: core.Become{Method: core.BecomeDoas}}}
}

const drained = `steps:
  - {name: drain, uses: file, on: '"lb"', become: true}
  - {name: swap, uses: file}
`

// overlaps reports whether two calls were on one host at the same time.
func (s *script) overlaps() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clash
}

// welcoming is a queue that lets each guest in.
type welcoming struct {
	queue.Worker
	fences *atomic.Uint64
}

func (q welcoming) Enter(context.Context, queue.Guest) (uint64, error) {
	return q.fences.Add(1), nil
}

// A step with on is called with the address, become and guest's fence of that host, one such call
// at a time over all workers, while other steps run on the job's own. The host compares the fence
// only in a queue with a name. Control: a queue that lets each guest in.
func TestDelegateHasOneGuest(t *testing.T) {
	for _, c := range []struct {
		life, fenced string
		careless     bool
	}{{"life", "life/guests", false}, {"", "", false}, {"", "", true}} {
		careless := c.careless
		t.Run(fmt.Sprintf("queue %q, careless %v", c.life, careless), func(t *testing.T) {
			inLab(t, func(l *lab) {
				if c.life != "" {
					if _, err := l.q.Post(t.Context(), board.Incarnation, []byte(c.life), board.MaxKeep); err != nil {
						t.Fatal(err)
					}
				}
				fenced := c.fenced
				l.plugins.do = sleep(300 * time.Millisecond)
				la := l.submit("r", 6, drained, beside(balancer()))
				var nodes []*node
				var fences atomic.Uint64
				for i := range 2 {
					c := l.config()
					c.Name, c.Board = fmt.Sprintf("node-%d", i), l.q
					if careless {
						c.Queue = welcoming{l.q, &fences}
					}
					nodes = append(nodes, l.start(c))
				}
				results := l.results(la)
				for _, n := range nodes {
					n.drain()
				}
				if clash := l.plugins.overlaps(); (clash == "lb") != careless {
					t.Errorf("overlaps on %q", clash)
				}
				if !careless {
					l.guestsWere(results, "lb", fenced)
				}
			})
		})
	}
}

// guestsWere checks the calls of a run of drained, and its records. Fences of guests are of the
// queue fenced.
func (l *lab) guestsWere(results []core.Result, on, fenced string) {
	l.t.Helper()
	last := uint64(0)
	for _, c := range l.plugins.seen() {
		guest := c.Host.Name == on
		switch {
		case guest != (c.Step == "drain"):
			l.t.Errorf("step %s was called on %s", c.Step, c.Host.Name)
		case guest && c.Queue != fenced, !guest && c.Queue != strings.TrimSuffix(fenced, "/guests"):
			l.t.Errorf("the fence of step %s is of queue %q", c.Step, c.Queue)
		case guest && (c.Fence <= last || c.Host.Address != balancer().Address || c.Become.Method != core.BecomeDoas):
			l.t.Errorf("fence %d after %d, address %s, become %+v", c.Fence, last, c.Host.Address, c.Become)
		}
		if guest {
			last = c.Fence
		}
	}
	for _, r := range results {
		if r.Outcome != core.Changed || len(r.Steps) != 2 || r.Steps[0].On != on || r.Steps[1].On != "" {
			l.t.Errorf("%+v", r)
		}
	}
}

// A job that waits for another guest for long is suspended: others use its place meanwhile. It
// keeps its host.
func TestDelegateWaitsSuspended(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			if c.Host.Name == "lb" {
				return sleep(20*time.Second)(ctx, c)
			}
			return host.Outcome{}, nil
		}
		la := l.submit("r", 2, drained, beside(balancer()))
		c := l.config()
		c.Concurrency = 2
		n := l.start(c)
		pass(5 * time.Second)
		other := l.submit("s", 3, "steps: [{name: other, uses: file}]\n", func(_ *launch.Options, r *queue.Run) { r.Targets = r.Targets[min(2, len(r.Targets)):] })
		if got := l.results(other); len(got) != 1 || got[0].Outcome != core.Unchanged {
			t.Errorf("a run beside it: %+v", got)
		}
		held := l.submit("t", 2, "steps: [{name: other, uses: file}]\n")
		pass(5 * time.Second)
		if status, err := l.q.Status(t.Context(), "t"); err != nil || status.Ended() > 0 {
			t.Errorf("the hosts of jobs that wait for a guest were given to another run: %+v, %v", status, err)
		}
		l.results(la)
		l.results(held)
		n.drain()
		if clash := l.plugins.overlaps(); clash != "" {
			t.Errorf("overlaps on %s", clash)
		}
		if !slices.ContainsFunc(l.events, func(e Event) bool {
			return e.Kind == JobSuspended && e.ReasonCode == core.GuestHeld && strings.Contains(e.Text, "host lb has another guest")
		}) {
			t.Error("no job was suspended for the guest")
		}
	})
}

// A run that is cancelled also runs its always on the other host, when that is free. So a step of
// always is not suspended for a guest, also before the cancel.
func TestDelegateOfACancelledRun(t *testing.T) {
	for name, wait := range map[string]time.Duration{"in a step before": 5 * time.Second, "at the step": 20 * time.Second} {
		t.Run(name, func(t *testing.T) { delegateOfACancelledRun(t, wait) })
	}
}

func delegateOfACancelledRun(t *testing.T, wait time.Duration) {
	t.Helper()
	inLab(t, func(l *lab) {
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			if c.Step == "hold" {
				<-time.After(30 * time.Second)
				return host.Outcome{Changed: true}, nil
			}
			return sleep(10*time.Second)(ctx, c)
		}
		holds := l.submit("h", 1, "steps: [{name: hold, uses: file, on: '\"lb\"'}]\n", beside(balancer()))
		n := l.start(l.config())
		pass(time.Second)
		la := l.submit("r", 2, "steps: [{name: site, steps: [{name: swap, uses: file}], always: [{name: restore, uses: file, on: '\"lb\"'}]}, {name: later, uses: file}]\n",
			beside(balancer()), func(_ *launch.Options, r *queue.Run) { r.Targets = r.Targets[min(1, len(r.Targets)):] })
		pass(wait)
		l.cancel()
		results := l.results(la)
		l.results(holds)
		n.drain()
		if clash := l.plugins.overlaps(); clash != "" {
			t.Errorf("overlaps on %s", clash)
		}
		if got := l.plugins.steps(); got != "hold.1 swap.1 restore.1" {
			t.Errorf("called %s", got)
		}
		if len(results) != 1 || results[0].Outcome != core.Cancelled {
			t.Errorf("%+v", results)
		}
	})
}

// A worker dies at each call in turn, as a guest and on hosts of its own. It is in nobody's way
// once it is recovered: a guest after it has a higher fence, and each host has its steps.
func TestDelegateWithAWorkerKilledAtEachCall(t *testing.T) {
	const calls = 3 * 2 // of hosts and steps
	for at := 1; at <= calls; at++ {
		inLab(t, func(l *lab) {
			var victim *Worker
			l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
				if len(l.plugins.seen()) == at {
					victim.Kill()
					<-ctx.Done()
					return host.Outcome{}, fmt.Errorf("killed: %w", core.ErrPluginFailed)
				}
				return sleep(300*time.Millisecond)(ctx, c)
			}
			la := l.submit("r", 3, drained, beside(balancer()))
			first := l.startWith(l.config(), func(w *Worker) { victim = w })
			<-first.done
			c := l.config()
			c.Name = "node-2"
			second := l.start(c)
			results := l.results(la)
			second.drain()
			if n := len(l.plugins.seen()); n != calls+1 && n != calls+2 { // on another host a second call was also under way
				t.Errorf("call %d: %d calls", at, n)
			}
			l.exactlyOnce(la, results)
			l.guestsWere(results, "lb", "")
			if clash := l.plugins.overlaps(); clash != "" {
				t.Errorf("call %d: overlaps on %s", at, clash)
			}
		})
	}
}

// oblivious is a queue that forgets its guest on lb once, and reports that. Then it admits another
// one, if there is one.
type oblivious struct {
	queue.Worker
	forget atomic.Bool
	guest  atomic.Pointer[queue.Guest]
	other  atomic.Pointer[queue.Guest]
}

func (q *oblivious) Enter(ctx context.Context, g queue.Guest) (uint64, error) {
	q.guest.CompareAndSwap(nil, &g)
	return q.Worker.Enter(ctx, g)
}

func (q *oblivious) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	res, err := q.Worker.Turn(ctx, t)
	if err != nil || !q.forget.Swap(false) {
		return res, err
	}
	res.Doubt = true
	if err := q.Leave(ctx, *q.guest.Load()); err != nil {
		return res, err
	}
	if other := q.other.Load(); other != nil {
		_, err = q.Worker.Enter(ctx, *other)
	}
	return res, err
}

// A queue that was set back has forgotten a guest: it enters again, also in a drain, and is stopped
// if another job was admitted meanwhile. Red without guestsEnterAgain in adopt.
func TestFaultR4AGuestThatIsForgottenEntersAgain(t *testing.T) {
	for _, c := range []struct {
		name         string
		drains, late bool
	}{{"at work", false, false}, {"in a drain", true, false}, {"too late", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				var cut atomic.Bool
				l.plugins.do = func(ctx context.Context, call host.Call) (host.Outcome, error) {
					out, err := sleep(time.Minute)(ctx, call)
					cut.Store(ctx.Err() != nil)
					return out, err
				}
				q := &oblivious{Worker: l.q}
				cfg := l.config()
				cfg.Queue, cfg.Concurrency = q, 1
				n := l.start(cfg)
				l.submit("r", 1, drained, beside(balancer()))
				l.submit("r2", 2, oneStep)
				pass(2 * time.Second)
				ctx := t.Context()
				s, err := l.q.Open(ctx, "other")
				if err != nil {
					t.Fatal(err)
				}
				res, err := l.q.Turn(ctx, queue.Turn{Session: s, Want: 1})
				if err != nil || len(res.Leases) != 1 {
					t.Fatalf("%+v, %v", res, err)
				}
				other := queue.Guest{Session: s, Job: res.Leases[0].Job, Token: res.Leases[0].Token, Host: "lb"}
				if c.late {
					q.other.Store(&other)
				}
				if c.drains {
					n.stop()
					pass(time.Second)
				}
				q.forget.Store(true)
				pass(3 * time.Second)
				fence, err := l.q.Enter(ctx, other)
				if err != nil || (fence > 0) != c.late {
					t.Errorf("another guest: fence %d, %v", fence, err)
				}
				if cut.Load() != c.late {
					t.Errorf("the first guest was stopped: %t", cut.Load())
				}
				n.Kill()
				<-n.done
				n.stop()
			})
		})
	}
}

// A job that is lost while it is a guest names the other host, also if the worker never came back.
// Before and after that step it does not.
func TestDelegateIsNamedByAJobThatIsLost(t *testing.T) {
	steps := strings.ReplaceAll("steps:\n  - {name: first, uses: file}\n"+strings.TrimPrefix(drained, "steps:\n"), "swap, uses: file", "swap, uses: command")
	for _, c := range []struct {
		at, want string
	}{
		{"first", ""},
		{"drain", "first changed , drain lost lb, "},
		{"swap", "first changed , drain changed lb, "},
	} {
		inLab(t, func(l *lab) {
			f, called := &flaky{Worker: l.q}, make(chan struct{})
			l.plugins.do = func(ctx context.Context, call host.Call) (host.Outcome, error) {
				if call.Step == c.at {
					close(called)
					<-ctx.Done()
				}
				return host.Outcome{Changed: true}, nil
			}
			la := l.submit("r", 1, steps, beside(balancer()))
			cfg := l.config()
			cfg.Queue = f
			first := l.start(cfg)
			<-called
			f.set(away) // the node dies with the job: from the queue's side it falls silent
			first.Kill()
			<-first.done
			first.stop()
			cfg = l.config()
			cfg.Name = "node-2"
			second := l.start(cfg)
			r := l.results(la)[0]
			second.drain()
			got := ""
			for _, s := range r.Steps {
				got += fmt.Sprintf("%s %s %s, ", s.Name, s.Outcome, s.On)
			}
			guest := c.at == "drain"
			if r.Outcome != core.Lost || got != c.want || strings.HasPrefix(r.Reason, "on lb: worker ") != guest || strings.HasSuffix(r.Reason, "lb may have been touched also") != guest || (r.Step == "drain") != guest {
				t.Errorf("killed in %s: %s, %s; steps %q, expected %q", c.at, r.Outcome, r.Reason, got, c.want)
			}
			if guest && r.Steps[1].ReasonCode != core.WorkerLost {
				t.Errorf("%+v", r.Steps[1])
			}
		})
	}
}

// An error on the other host is the failure of the step, and names the host. Facts are those of the
// job's own host.
func TestDelegateThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		out  host.Outcome
		err  error
		want string
	}{
		"unreachable": {host.Outcome{Unreachable: true, Reason: "no route"}, nil, "failed on lb: no route"},
		"failed":      {host.Outcome{Failed: true, Reason: "exit code 3"}, nil, "failed on lb: exit code 3"},
		"lost":        {host.Outcome{Effects: host.EffectsUnknown}, fmt.Errorf("it died: %w", core.ErrPluginFailed), "lost on lb: "},
		"good":        {host.Outcome{Changed: true, Outputs: map[string]any{"boot_id": "b1", "x": 1}}, nil, "changed "},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.plugins.do = func(_ context.Context, call host.Call) (host.Outcome, error) {
					if call.Host.Name == "lb" {
						return c.out, c.err
					}
					return host.Outcome{}, nil
				}
				r := l.one(strings.Replace(drained, "drain, uses: file", "drain, uses: command", 1), beside(balancer()))
				if got := fmt.Sprintf("%s %s", r.Outcome, r.Reason); !strings.HasPrefix(got, c.want) || r.Steps[0].On != "lb" {
					t.Errorf("%s, expected %s; %+v", got, c.want, r.Steps)
				}
				if r.Facts != nil {
					t.Errorf("facts of the job's host: %+v", r.Facts)
				}
			})
		})
	}
}

// The record of a foreach names the other host, also if the run is cancelled in an item.
func TestDelegateOfItems(t *testing.T) {
	for _, cancelled := range []int{0, 1, 2} {
		inLab(t, func(l *lab) {
			l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
				if len(l.plugins.seen()) != cancelled {
					return host.Outcome{Changed: true}, nil
				}
				l.cancel()
				return sleep(time.Minute)(ctx, c)
			}
			r := l.one("steps: [{name: drain, uses: file, on: '\"lb\"', foreach: [1, 2], when: item < 3}]\n", beside(balancer()))
			if len(r.Steps) != 1 || r.Steps[0].On != "lb" || r.Outcome.Good() != (cancelled == 0) {
				t.Errorf("cancelled in item %d: %+v", cancelled, r)
			}
		})
	}
}

// A step also waits for the window of the host that it is called on. So does each item of a step
// whose own host has no window. If the other window is closed when that of the own host opens, no
// window was missed; the set lets it carry over none.
func TestDelegateWaitsForTheWindowOfItsHost(t *testing.T) {
	for name, c := range map[string]struct {
		own, step string
		calls     int
		from, at  float64 // hours: the launch, and the first call
	}{
		"both":                     {"night", "window: service", 1, 0, 0.5},
		"its own first":            {"night", "window: service", 1, 5, 24.5},
		"the other, for each item": {"", "window: own, foreach: [1, 2]", 2, 0, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			inDays(t, func(l *lab) {
				pass(time.Until(hour(c.from)))
				l.waitsForTheOther(c.own, c.step, c.calls, c.at)
			})
		})
	}
}

func (l *lab) waitsForTheOther(set, step string, calls int, at float64) {
	l.t.Helper()
	const sets = `
window_sets:
  night: {timezone: UTC, allow: [{id: nightly, rrule: "FREQ=DAILY", from: "22:00", to: "+1d 02:00"}]}
  late: {timezone: UTC, carry_over: {max: 1}, allow: [{id: late, rrule: "FREQ=DAILY", from: "00:30", to: "02:30"}]}
`
	list := l.starts(time.Minute)
	lb := balancer()
	lb.WindowSet = "late"
	la := l.submitOn("r", []core.Host{{Name: "web", WindowSet: set}}, "steps: [{name: drain, uses: file, on: '\"lb\"', needs: 30m, "+step+"}]\n", l.calendar("r", sets),
		func(o *launch.Options, _ *queue.Run) { o.Inventory = []core.Host{lb} })
	n := l.start(l.windowedConfig())
	results := l.results(la)
	n.drain()
	if len(*list) != calls || (*list)[0].at.Before(hour(at)) || (*list)[0].at.After(hour(at+0.1)) {
		l.t.Errorf("called at %v, expected %d times when both windows are open, from %v", *list, calls, hour(at))
		return
	}
	if s := results[0].Steps[0]; results[0].Outcome != core.Changed || set != "" && s.Window.Set != set {
		l.t.Errorf("%+v", results[0])
	}
}

// A window that a host cannot use, because the host of its on has another guest until the end,
// counts as missed.
func TestAWindowBehindAnotherGuestIsMissed(t *testing.T) {
	const once = night + "    carry_over: {max: 1}\n"
	inDays(t, func(l *lab) {
		pass(5 * time.Hour)
		calls, lb := l.starts(6*time.Hour), balancer()
		lb.WindowSet = "night"
		la := l.submitOn("r", []core.Host{{Name: "web", WindowSet: "night"}}, "steps: [{name: drain, uses: file, on: '\"lb\"', window: service, needs: 30m}]\n", beside(lb), l.calendar("r", once))
		n := l.start(l.windowedConfig())
		pass(time.Until(hour(21)))
		l.submitOn("h", []core.Host{{Name: "other"}}, "steps: [{name: hold, uses: file, on: '\"lb\"'}]\n", beside(lb))
		r := l.results(la)[0]
		n.drain()
		if len(*calls) != 1 || r.ReasonCode != core.NeedsReapproval || !strings.Contains(r.Reason, "missed 1 of the 1 windows") {
			t.Errorf("called %v: %s, %s", *calls, r.Outcome, r.Reason)
		}
	})
}

// asking is a queue that notes when jobs ask to be a guest, by run.
type asking struct {
	queue.Worker
	mu sync.Mutex
	at map[string][]time.Time
}

func (q *asking) Enter(ctx context.Context, g queue.Guest) (uint64, error) {
	q.mu.Lock()
	q.at[g.Job.Run] = append(q.at[g.Job.Run], time.Now())
	q.mu.Unlock()
	return q.Worker.Enter(ctx, g)
}

// A job that waits in place for another guest hears of a drain immediately, not at its next poll.
// Control: the always of a cancelled run does not hear of it, and polls until the guest has left.
func TestADrainEndsTheWaitForAGuest(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		t.Run(fmt.Sprintf("cancelled %v", cancelled), func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
					if c.Step == "hold" {
						<-time.After(30 * time.Second)
					}
					return host.Outcome{Changed: true}, nil
				}
				l.submit("h", 1, "steps: [{name: hold, uses: file, on: '\"lb\"'}]\n", beside(balancer()))
				q := &asking{Worker: l.q, at: map[string][]time.Time{}}
				c := l.config()
				c.Queue = q
				n := l.start(c)
				pass(time.Second)
				l.submit("r", 2, "steps: [{name: site, steps: [{name: swap, uses: file}], always: [{name: restore, uses: file, on: '\"lb\"'}]}]\n",
					beside(balancer()), func(_ *launch.Options, r *queue.Run) { r.Targets = r.Targets[min(1, len(r.Targets)):] })
				pass(1100 * time.Millisecond)
				if cancelled {
					l.cancel()
					pass(4 * time.Second) // its worker hears of it
				}
				n.drain()
				l.drainedWhileAsking(q.at["r"], cancelled)
			})
		})
	}
}

// drainedWhileAsking checks at which times a job asked, of which some are before the drain.
func (l *lab) drainedWhileAsking(asked []time.Time, goesOn bool) {
	l.t.Helper()
	at := slices.IndexFunc(l.events, func(e Event) bool { return e.Kind == Draining })
	if at < 0 {
		l.t.Fatal("the worker did not drain")
	}
	began := l.events[at].Time
	before := slices.IndexFunc(asked, func(t time.Time) bool { return !t.Before(began) })
	if before < 2 {
		l.t.Fatalf("asked at %v, the drain began at %v: expected two polls before it, and one after", asked, began)
	}
	if since := began.Sub(asked[before-1]); since <= 0 || since >= guestAgain {
		l.t.Fatalf("the drain began %v after a poll: expected it between two", since)
	}
	last := asked[len(asked)-1].Sub(began)
	if goesOn && last < 20*time.Second || !goesOn && last > 0 {
		l.t.Errorf("the last poll was %v after the drain began", last)
	}
}
