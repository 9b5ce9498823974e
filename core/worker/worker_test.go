package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/plugins/host"
)

const oneStep = "steps: [{name: a, uses: command, with: {run: x}}]"
const safeStep = "steps: [{name: a, uses: file, with: {path: /x}}]" // may be repeated

func TestNewChecksItsConfig(t *testing.T) {
	if _, err := New(Config{}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("without a queue: %v", err)
	}
	inLab(t, func(l *lab) {
		c := l.config()
		c.Slots = -1
		if _, err := New(c); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "-1 slots") {
			t.Errorf("negative slots: %v", err)
		}
	})
}

func TestSlotsAreNeverExceeded(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = sleep(time.Second)
		la := l.submit("r", 41, oneStep)
		start := time.Now()
		n := l.start(l.config())
		res := l.results(la)
		n.drain()
		l.exactlyOnce(la, res)
		if l.plugins.most != 4 {
			t.Errorf("%d jobs at once, expected 4", l.plugins.most)
		}
		if took := time.Since(start); took > 14*time.Second {
			t.Errorf("41 jobs of 1s on 4 slots took %v, expected 11s", took)
		}
		if first := res[0]; first.Worker != "node-1" || first.Took != time.Second {
			t.Errorf("first result %+v", first)
		}
	})
}

func TestDrainHasATimeLimit(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = sleep(time.Hour)
		l.submit("r", 1, oneStep)
		c := l.config()
		c.DrainTimeout = time.Minute
		n := l.start(c)
		pass(time.Second)
		stopped := time.Now()
		n.drain()
		if took := time.Since(stopped); took < time.Minute || took > time.Minute+5*time.Second {
			t.Errorf("drain took %v", took)
		}
	})
}

func TestKillStopsAtOnceAndSaysWhatBecameOfEachJob(t *testing.T) {
	cases := []struct {
		name  string
		steps string
		do    func(context.Context, host.Call) (host.Outcome, error)
		want  core.Outcome // "" is given back to others
	}{
		{"clean end", oneStep, sleep(time.Hour), core.Cancelled},
		{"may be repeated", safeStep, sleep(time.Hour), ""},
		{"plugin had to be killed", oneStep, func(ctx context.Context, _ host.Call) (host.Outcome, error) {
			<-ctx.Done()
			return host.Outcome{}, core.ErrPluginFailed
		}, core.Lost},
		{"process had to be replaced", oneStep, func(ctx context.Context, _ host.Call) (host.Outcome, error) {
			<-ctx.Done()
			return host.Outcome{Cancelled: true, Effects: host.EffectsUnknown}, nil
		}, core.Lost},
		{"rolled back", oneStep, func(ctx context.Context, _ host.Call) (host.Outcome, error) {
			<-ctx.Done()
			return host.Outcome{Failed: true, RolledBack: true, Reason: "reverted"}, nil
		}, core.RolledBack},
		{"done in the last moment", oneStep, func(ctx context.Context, _ host.Call) (host.Outcome, error) {
			<-ctx.Done()
			return host.Outcome{Changed: true}, nil
		}, core.Changed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.plugins.do = c.do
				la := l.submit("r", 1, c.steps)
				n := l.start(l.config())
				pass(time.Second)
				start := time.Now()
				n.Kill()
				n.Kill() // twice is once
				if err := <-n.done; err != nil {
					t.Errorf("Run: %v", err)
				}
				n.stop()
				if took := time.Since(start); took > time.Second {
					t.Errorf("took %v", took)
				}
				s, _ := l.q.Status(l.t.Context(), "r")
				if c.want == "" {
					if s.Waiting+s.Pending != 1 || s.Complete {
						t.Errorf("status %+v, expected the job to wait for another worker", s)
					}
					return
				}
				if res := l.results(la); res[0].Outcome != c.want {
					t.Errorf("%+v, expected %s", res[0], c.want)
				}
			})
		})
	}
}

func TestCancelledRunStopsItsJobs(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = sleep(time.Hour)
		la := l.submit("r", 100, oneStep)
		n := l.start(l.config())
		pass(time.Second)
		start := time.Now()
		if err := l.q.Cancel(l.t.Context(), "r", "wrong playbook"); err != nil {
			t.Fatal(err)
		}
		res := l.results(la)
		n.drain()
		l.exactlyOnce(la, res)
		if took := time.Since(start); took > 2*queue.BeatEvery+time.Second {
			t.Errorf("took %v", took)
		}
		if got := len(l.plugins.seen()); got != 4 || count(res)[core.Cancelled] != 100 {
			t.Errorf("%d calls, outcomes %v", got, count(res))
		}
		said := 0
		for _, r := range res {
			if strings.Contains(r.Reason, "during step a") {
				said++
			}
		}
		if said != 4 {
			t.Errorf("%d results say in which step they were stopped, expected 4", said)
		}
	})
}

func TestQueueAwayForAWhileHarmsNobody(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = sleep(10 * time.Second)
		f := &flaky{Node: l.q}
		c := l.config()
		c.Queue = f
		la := l.submit("r", 8, oneStep)
		n := l.start(c)
		pass(9 * time.Second)
		f.set(away) // the jobs end meanwhile
		pass(3 * time.Second)
		if got := l.said(QueueAway, QueueBack, SessionLost); !slices.Equal(got, []EventKind{QueueAway}) {
			t.Errorf("said %v, expected that the queue is away, once", got)
		}
		f.set(nil)
		res := l.results(la)
		n.drain()
		l.exactlyOnce(la, res)
		if count(res)[core.Changed] != 8 || len(l.plugins.seen()) != 8 {
			t.Errorf("outcomes %v after %d calls", count(res), len(l.plugins.seen()))
		}
		if got := l.said(QueueAway, QueueBack, SessionLost); !slices.Equal(got, []EventKind{QueueAway, QueueBack}) {
			t.Errorf("said %v", got)
		}
	})
}

func TestJobsAreStoppedBeforeTheLeaseRunsOut(t *testing.T) {
	inLab(t, func(l *lab) {
		var stopped atomic.Pointer[time.Time]
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			if len(l.plugins.seen()) > 1 {
				return host.Outcome{Changed: true}, nil
			}
			<-ctx.Done()
			now := time.Now()
			stopped.Store(&now)
			return host.Outcome{Cancelled: true}, nil
		}
		f := &flaky{Node: l.q}
		c := l.config()
		c.Queue = f
		la := l.submit("r", 1, safeStep)
		n := l.start(c)
		pass(10*time.Second + time.Millisecond) // just after a beat
		cut := time.Now()
		f.set(func(call string) *fault { return &fault{hang: true} })
		pass(queue.SessionTTL)
		at := stopped.Load()
		if at == nil {
			t.Fatal("the job went on although its lease was over")
		}
		if d := at.Sub(cut); d < queue.SessionTTL/2 || d >= queue.SessionTTL-time.Second/2 {
			t.Errorf("the job was stopped %v after the queue went away, the lease is good for %v", d, queue.SessionTTL)
		}
		pass(time.Minute)
		f.set(nil)
		res := l.results(la)
		n.drain()
		l.exactlyOnce(la, res)
		if res[0].Outcome != core.Changed || len(l.plugins.seen()) != 2 {
			t.Errorf("%+v after %d calls", res[0], len(l.plugins.seen()))
		}
		if got := l.said(SessionLost); len(got) == 0 {
			t.Error("nothing was said of the lost session")
		}
	})
}

func TestANodeDoesNotMeetItselfOnAHost(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			if len(l.plugins.seen()) == 1 {
				pass(15 * time.Second) // ends long after it was told to
			}
			return host.Outcome{Changed: true}, nil
		}
		f := &flaky{Node: l.q}
		c := l.config()
		c.Queue, c.Grace = f, 10*time.Second
		la := l.submit("r", 1, safeStep)
		n := l.start(c)
		pass(100 * time.Millisecond)
		f.set(away)
		pass(7 * time.Second) // the session is over, its job is not
		f.set(nil)
		res := l.results(la)
		n.drain()
		l.exactlyOnce(la, res)
		if got := len(l.plugins.seen()); got != 2 || l.plugins.clash != "" {
			t.Errorf("%d calls, two at once on host %q", got, l.plugins.clash)
		}
	})
}

func TestRepliesThatAreLost(t *testing.T) {
	for _, reached := range []bool{true, false} {
		t.Run(fmt.Sprintf("took effect %v", reached), func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.plugins.do = sleep(time.Second)
				turns := 0
				f := &flaky{Node: l.q}
				f.set(func(call string) *fault {
					if call != "turn" {
						return nil
					}
					if turns++; turns%2 == 0 {
						return nil
					}
					return &fault{reached: reached, err: core.ErrUnknown}
				})
				c := l.config()
				c.Queue = f
				la := l.submit("r", 12, oneStep)
				n := l.start(c)
				res := l.results(la)
				f.set(nil)
				n.drain()
				l.exactlyOnce(la, res)
				if got := len(l.plugins.seen()); got != 12 || l.plugins.most > 4 {
					t.Errorf("%d calls, %d at once", got, l.plugins.most)
				}
				if s, _ := l.q.Stats(l.t.Context()); s.StaleAcks != 0 {
					t.Errorf("%d stale acks: what had been applied was sent again", s.StaleAcks)
				}
			})
		})
	}
}

func TestEveryJobHasExactlyOneRecordUnderFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		p := rapid.Float64Range(0, 0.5).Draw(rt, "fault rate")
		jobs := rapid.IntRange(1, 30).Draw(rt, "jobs")
		nodes := rapid.IntRange(1, 3).Draw(rt, "nodes")
		crashes := rapid.Bool().Draw(rt, "plugins crash")
		inLab(t, func(l *lab) {
			r := rand.New(rand.NewPCG(seed, 1))
			var calls atomic.Uint64
			l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
				x := rand.New(rand.NewPCG(seed, calls.Add(1)))
				select {
				case <-ctx.Done():
					return host.Outcome{Cancelled: true}, nil
				case <-time.After(time.Duration(x.Int64N(int64(3 * time.Second)))):
				}
				switch k := x.IntN(8); {
				case k == 0:
					return host.Outcome{Failed: true, Reason: "bad luck"}, nil
				case k == 1:
					return host.Outcome{Suspended: true, ResumeAfter: time.Minute, State: &host.State{}}, nil
				case k == 2 && crashes:
					return host.Outcome{}, core.ErrPluginFailed
				}
				return host.Outcome{Changed: true}, nil
			}
			la := l.submit("r", jobs, `
steps:
  - {name: a, uses: file, with: {path: /x}, retry: {attempts: 3, interval: 2s, jitter: 20%}}
  - {name: b, uses: file, with: {path: /x}}
`)
			var all []*node
			var wrapped []*flaky
			for i := range nodes {
				f := &flaky{Node: l.q}
				f.set(sometimes(rand.New(rand.NewPCG(seed, r.Uint64())), p))
				c := l.config()
				c.Queue, c.Name = f, fmt.Sprintf("node-%d", i)
				wrapped = append(wrapped, f)
				all = append(all, l.start(c))
			}
			pass(2 * time.Minute)
			for _, f := range wrapped {
				f.set(nil)
			}
			res := l.results(la)
			for _, n := range all {
				n.drain()
			}
			l.exactlyOnce(la, res)
			if findings, _ := l.q.Check(l.t.Context(), false); len(findings) != 0 {
				rt.Fatalf("queue: %+v", findings)
			}
			if t.Failed() {
				rt.Fatalf("seed %d", seed)
			}
		})
	})
}

func TestOverloadedNodeTakesNoNewJobs(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = sleep(3 * time.Second)
		var load atomic.Uint64
		c := l.config()
		c.Load = func() (float64, float64) { return float64(load.Load()) / 100, 0.2 }
		la := l.submit("r", 30, oneStep)
		n := l.start(c)
		pass(time.Second)
		load.Store(95)
		pass(15 * time.Second) // the first jobs are over, and one more is taken at a time
		for range 5 {
			pass(time.Second)
			if got := len(n.Running()); got > 1 {
				t.Errorf("%d jobs run on an overloaded node", got)
			}
		}
		before := len(l.plugins.seen())
		if before < 6 {
			t.Errorf("%d jobs were begun: a busy neighbour must not stop all work", before)
		}
		load.Store(85) // below the limit, but not by enough
		pass(6 * time.Second)
		if got := len(n.Running()); got > 1 {
			t.Errorf("%d jobs run just below the limit", got)
		}
		load.Store(10)
		res := l.results(la)
		n.drain()
		l.exactlyOnce(la, res)
		if got := l.said(Overloaded, Eased); !slices.Equal(got, []EventKind{Overloaded, Eased}) {
			t.Errorf("said %v", got)
		}
	})
}

func TestIdleNodeIsQuietAndWakesAtOnce(t *testing.T) {
	inLab(t, func(l *lab) {
		f := &flaky{Node: l.q}
		c := l.config()
		c.Queue = f
		n := l.start(c)
		pass(time.Minute)
		f.mu.Lock()
		turns := len(f.turns)
		f.mu.Unlock()
		if turns > 2*60 {
			t.Errorf("%d turns in an idle minute", turns)
		}
		start := time.Now()
		la := l.submit("r", 1, oneStep)
		res := l.results(la)
		if took := res[0].Started.Sub(start); took > 5*time.Millisecond {
			t.Errorf("started %v after it was submitted", took)
		}
		n.drain()
	})
}

// endless is a queue that always says that work is left, and gives none.
type endless struct{ *flaky }

func (e endless) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	res, err := e.flaky.Turn(ctx, t)
	res.More = true
	return res, err
}

func TestWorkThatBringsNoJobIsNotSpunOn(t *testing.T) {
	inLab(t, func(l *lab) {
		f := &flaky{Node: l.q}
		c := l.config()
		c.Queue = endless{f}
		n := l.start(c)
		pass(10 * time.Second)
		n.drain()
		if got := len(f.turns); got > 10*250 {
			t.Errorf("%d turns in 10s", got)
		}
	})
}

func TestTimedJobStartsWhenItIsDue(t *testing.T) {
	inLab(t, func(l *lab) {
		due := time.Now().Add(90*time.Second + 123*time.Millisecond)
		n := l.start(l.config())
		la := l.submit("r", 1, oneStep, func(_ *launch.Options, r *queue.Run) { r.Segments = []queue.Segment{{Due: due, Count: 1}} })
		res := l.results(la)
		n.drain()
		if late := res[0].Started.Sub(due); late < 0 || late > 5*time.Millisecond {
			t.Errorf("started %v after it was due", late)
		}
	})
}

func TestMemoryAndGoroutinesAreFlatInPendingJobs(t *testing.T) {
	inLab(t, func(l *lab) {
		block := make(chan struct{})
		l.plugins.do = func(context.Context, host.Call) (host.Outcome, error) { <-block; return host.Outcome{}, nil }
		n := l.start(l.config())
		small := l.submit("small", 4, oneStep)
		synctest.Wait()
		before := runtime.NumGoroutine()
		l.submit("big", 100_000, oneStep)
		pass(10 * time.Second)
		if after := runtime.NumGoroutine(); after > before+2 {
			t.Errorf("%d goroutines with 100,000 jobs pending, %d before", after, before)
		}
		n.mu.Lock()
		held := len(n.running)
		n.mu.Unlock()
		if held != 4 {
			t.Errorf("the worker holds %d jobs on 4 slots", held)
		}
		if err := l.q.Cancel(l.t.Context(), "big", "seen enough"); err != nil {
			t.Fatal(err)
		}
		close(block)
		l.exactlyOnce(small, l.results(small))
		n.drain()
	})
}

func TestSnapshotOfARun(t *testing.T) {
	t.Run("is read once", func(t *testing.T) {
		inLab(t, func(l *lab) {
			var reads atomic.Int32
			c := l.config()
			c.Payload = func(ctx context.Context, run string) ([]byte, error) {
				reads.Add(1)
				return l.q.Payload(ctx, run)
			}
			la := l.submit("r", 50, oneStep)
			n := l.start(c)
			l.results(la)
			n.drain()
			if got := reads.Load(); got != 1 {
				t.Errorf("read %d times", got)
			}
		})
	})
	t.Run("the queue is away", func(t *testing.T) {
		inLab(t, func(l *lab) {
			var reads atomic.Int32
			c := l.config()
			c.Payload = func(ctx context.Context, run string) ([]byte, error) {
				if reads.Add(1) < 4 {
					return nil, core.ErrUnavailable
				}
				return l.q.Payload(ctx, run)
			}
			la := l.submit("r", 1, oneStep)
			n := l.start(c)
			if res := l.results(la); res[0].Outcome != core.Unchanged || res[0].Attempt != 1 {
				t.Errorf("%+v", res[0])
			}
			n.drain()
		})
	})
	t.Run("cannot be read", func(t *testing.T) {
		inLab(t, func(l *lab) {
			c := l.config()
			c.Payload = func(context.Context, string) ([]byte, error) { return []byte(`{"version": 99}`), nil }
			la := l.submit("r", 3, oneStep)
			n := l.start(c)
			for _, r := range l.results(la) {
				if r.Outcome != core.Failed || !strings.Contains(r.Reason, "version 99") {
					t.Errorf("%+v", r)
				}
			}
			n.drain()
		})
	})
	t.Run("only the last are kept", func(t *testing.T) {
		ps := newPrograms(func(_ context.Context, run string) ([]byte, error) {
			return launch.Snapshot{Version: 1, Run: run, File: "f.yaml", Source: "playbook: p\ntargets: true\n" + oneStep}.Encode()
		})
		for i := range 3 * programsKept {
			if _, err := ps.get(t.Context(), fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if len(ps.loaded) != programsKept || ps.recent.Len() != programsKept {
			t.Errorf("%d and %d kept", len(ps.loaded), ps.recent.Len())
		}
	})
}

func TestEventsTellAJobsStory(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			c.Sink(host.Event{Stdout: []byte("out")})
			c.Sink(host.Event{Diff: "-a\n+b\n", DiffTitle: "/etc/motd"})
			c.Sink(host.Event{Phase: "copy", Done: 0.5})
			c.Sink(host.Event{Log: "hm"})
			return host.Outcome{Failed: c.Attempt == 1, Changed: true}, nil
		}
		r := l.one("steps: [{name: a, uses: command, with: {run: x}, retry: {attempts: 2, interval: 1s}}]")
		var got []string
		for _, e := range l.events {
			if e.Job.Run != "" {
				got = append(got, string(e.Kind))
			}
		}
		want := "job_started step_started output diff progress message step_retry step_started output diff progress message step_done job_done"
		if strings.Join(got, " ") != want {
			t.Errorf("events\n%s\nexpected\n%s", strings.Join(got, " "), want)
		}
		if r.Steps[0].Diff != "-a\n+b\n" || r.Steps[0].Stdout != "out" {
			t.Errorf("%+v", r.Steps[0])
		}
	})
}

func TestTwoJobsNeverHoldOneHost(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = sleep(time.Second)
		a, b := l.submit("a", 10, safeStep), l.submit("b", 10, safeStep)
		n := l.start(l.config())
		c := l.config()
		c.Name = "node-2"
		m := l.start(c)
		l.exactlyOnce(a, l.results(a))
		l.exactlyOnce(b, l.results(b))
		n.drain()
		m.drain()
		if l.plugins.clash != "" {
			t.Errorf("two jobs were on %s at once", l.plugins.clash)
		}
	})
}
