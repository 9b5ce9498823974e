package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/plugins/host"
)

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
			t.Errorf("%d results name the step in which they were stopped, expected 4", said)
		}
	})
}

func TestQueueAwayForAWhileHarmsNobody(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = sleep(10 * time.Second)
		f := &flaky{Worker: l.q}
		c := l.config()
		c.Queue = f
		la := l.submit("r", 8, oneStep)
		n := l.start(c)
		pass(9 * time.Second)
		f.set(away) // the jobs end meanwhile
		pass(3 * time.Second)
		if got := l.said(QueueAway, QueueBack, SessionLost); !slices.Equal(got, []EventKind{QueueAway}) {
			t.Errorf("reported %v, expected that the queue is away, once", got)
		}
		f.set(nil)
		res := l.results(la)
		n.drain()
		l.exactlyOnce(la, res)
		if count(res)[core.Changed] != 8 || len(l.plugins.seen()) != 8 {
			t.Errorf("outcomes %v after %d calls", count(res), len(l.plugins.seen()))
		}
		if got := l.said(QueueAway, QueueBack, SessionLost); !slices.Equal(got, []EventKind{QueueAway, QueueBack}) {
			t.Errorf("reported %v", got)
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
		f := &flaky{Worker: l.q}
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
			t.Fatal("the job continued although its lease had ended")
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
			t.Error("the lost session was not reported")
		}
	})
}

func TestANodeDoesNotMeetItselfOnAHost(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			if len(l.plugins.seen()) == 1 {
				pass(15 * time.Second) // ends long after it was asked to
			}
			return host.Outcome{Changed: true}, nil
		}
		f := &flaky{Worker: l.q}
		c := l.config()
		c.Queue, c.Grace = f, 10*time.Second
		la := l.submit("r", 1, safeStep)
		n := l.start(c)
		pass(100 * time.Millisecond)
		f.set(away)
		pass(7 * time.Second) // the session has ended, its job has not
		f.set(nil)
		res := l.results(la)
		n.drain()
		l.exactlyOnce(la, res)
		if got := len(l.plugins.seen()); got != 2 || l.plugins.clash != "" {
			t.Errorf("%d calls, two at the same time on host %q", got, l.plugins.clash)
		}
	})
}

func TestRepliesThatAreLost(t *testing.T) {
	for _, reached := range []bool{true, false} {
		t.Run(fmt.Sprintf("took effect %v", reached), func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.plugins.do = sleep(time.Second)
				turns := 0
				f := &flaky{Worker: l.q}
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
					t.Errorf("%d calls, %d at the same time", got, l.plugins.most)
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
		f := faults{
			seed: rapid.Uint64().Draw(rt, "seed"), rate: rapid.Float64Range(0, 0.5).Draw(rt, "fault rate"),
			jobs: rapid.IntRange(1, 30).Draw(rt, "jobs"), nodes: rapid.IntRange(1, 3).Draw(rt, "nodes"), crashes: rapid.Bool().Draw(rt, "plugins crash"),
		}
		inLab(t, func(l *lab) {
			la, res := f.play(l, 7*24*time.Hour, sound)
			l.exactlyOnce(la, res)
			if findings, _ := l.q.Check(l.t.Context(), false); len(findings) != 0 {
				rt.Fatalf("queue: %+v", findings)
			}
			if t.Failed() {
				rt.Fatalf("seed %d", f.seed)
			}
		})
	})
}

// The negative control: jobs have no outcome if a node never asks which leases came with an answer
// that was lost, and no reason if it does not report one.
func TestAJobWithoutItsOutcomeIsNoticed(t *testing.T) {
	for name, tc := range map[string]struct {
		without func(queue.Worker) queue.Worker
		shows   string
	}{
		"leases whose answer was lost": {func(q queue.Worker) queue.Worker { return &unasked{Worker: q, known: map[uint64]bool{}} }, "has 0 results"},
		"the reasons of outcomes":      {func(q queue.Worker) queue.Worker { return wordless{q} }, "without a reason"},
	} {
		t.Run(name, func(t *testing.T) {
			var problems string
			for seed := uint64(1); seed <= 20 && !strings.Contains(problems, tc.shows); seed++ {
				inLab(t, func(l *lab) {
					f := faults{seed: seed, rate: 0.3, jobs: 30, nodes: 2, crashes: true}
					problems = strings.Join(onceProblems(f.play(l, time.Hour, tc.without)), "\n")
				})
			}
			if !strings.Contains(problems, tc.shows) {
				t.Errorf("problems %q, expected %q", problems, tc.shows)
			}
		})
	}
}

// unasked is a queue as a node sees it that reconciles nothing: Adopt lists only leases that came
// with an answer.
type unasked struct {
	queue.Worker
	mu    sync.Mutex
	known map[uint64]bool
}

func (u *unasked) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	res, err := u.Worker.Turn(ctx, t)
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, l := range res.Leases {
		u.known[l.Token] = true
	}
	return res, err
}

func (u *unasked) Adopt(ctx context.Context, s string) ([]queue.Lease, error) {
	leases, err := u.Worker.Adopt(ctx, s)
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.DeleteFunc(leases, func(l queue.Lease) bool { return !u.known[l.Token] }), err
}

// wordless is a queue as a node fills it that reports outcomes alone.
type wordless struct{ queue.Worker }

func (w wordless) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	t.Acks = slices.Clone(t.Acks)
	for i := range t.Acks {
		t.Acks[i].Detail = nil
	}
	return w.Worker.Turn(ctx, t)
}

// faults is a run on nodes whose calls of the queue fail at a rate, for two minutes.
type faults struct {
	seed        uint64
	rate        float64
	jobs, nodes int
	crashes     bool // of plugins
}

// play returns what was recorded when the run was complete, or until patience ended. Its nodes see
// the queue through without.
func (f faults) play(l *lab, patience time.Duration, without func(queue.Worker) queue.Worker) (*launch.Launch, []core.Result) {
	l.t.Helper()
	r := rand.New(rand.NewPCG(f.seed, 1))
	var calls atomic.Uint64
	l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
		x := rand.New(rand.NewPCG(f.seed, calls.Add(1)))
		select {
		case <-ctx.Done():
			return host.Outcome{Cancelled: true}, nil
		case <-time.After(time.Duration(x.Int64N(int64(3 * time.Second)))):
		}
		switch k := x.IntN(8); {
		case k == 0:
			return host.Outcome{Failed: true, Reason: []string{"", "bad luck"}[x.IntN(2)]}, nil
		case k == 1:
			return host.Outcome{Suspended: true, ResumeAfter: time.Minute, State: &host.State{}}, nil
		case k == 2 && f.crashes:
			return host.Outcome{}, core.ErrPluginFailed
		}
		return host.Outcome{Changed: true}, nil
	}
	la := l.submit("r", f.jobs, `
steps:
  - {name: a, uses: file, with: {path: /x}, retry: {attempts: 3, interval: 2s, jitter: 20%}}
  - {name: b, uses: file, with: {path: /x}}
`)
	var all []*node
	var wrapped []*flaky
	for i := range f.nodes {
		q := &flaky{Worker: l.q}
		q.set(sometimes(rand.New(rand.NewPCG(f.seed, r.Uint64())), f.rate))
		c := l.config()
		c.Queue, c.Name = without(q), fmt.Sprintf("node-%d", i)
		wrapped = append(wrapped, q)
		all = append(all, l.start(c))
	}
	pass(2 * time.Minute)
	for _, q := range wrapped {
		q.set(nil)
	}
	res, _ := l.resultsWithin(la, patience)
	for _, n := range all {
		n.drain()
	}
	return la, res
}
