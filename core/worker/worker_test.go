package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
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
		c.Concurrency = -1
		if _, err := New(c); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "concurrency -1") {
			t.Errorf("negative slots: %v", err)
		}
	})
}

func TestConcurrencyIsNeverExceeded(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = sleep(time.Second)
		la := l.submit("r", 41, oneStep)
		start := time.Now()
		n := l.start(l.config())
		res := l.results(la)
		n.drain()
		l.exactlyOnce(la, res)
		if l.plugins.most != 4 {
			t.Errorf("%d jobs at the same time, expected 4", l.plugins.most)
		}
		if took := time.Since(start); took > 14*time.Second {
			t.Errorf("41 jobs of 1s on a concurrency of 4 took %v, expected 11s", took)
		}
		if first := res[0]; first.Worker != "node-1" || first.Took != time.Second {
			t.Errorf("first result %+v", first)
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
		pass(15 * time.Second) // the first jobs have ended, and one more is taken at a time
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
			t.Errorf("reported %v", got)
		}
	})
}

func TestIdleNodeIsQuietAndStartsImmediately(t *testing.T) {
	inLab(t, func(l *lab) {
		f := &flaky{Worker: l.q}
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

// endless is a queue that always reports more work, and gives none.
type endless struct{ *flaky }

func (e endless) Turn(ctx context.Context, t queue.Turn) (queue.TurnResult, error) {
	res, err := e.flaky.Turn(ctx, t)
	res.More = true
	return res, err
}

func TestWorkThatBringsNoJobIsNotSpunOn(t *testing.T) {
	inLab(t, func(l *lab) {
		f := &flaky{Worker: l.q}
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

// The control: a worker whose concurrency is no bound holds as many jobs as wait.
func TestMemoryAndGoroutinesAreFlatInPendingJobs(t *testing.T) {
	for _, bounded := range []bool{true, false} {
		inLab(t, func(l *lab) {
			block := make(chan struct{})
			l.plugins.do = func(context.Context, host.Call) (host.Outcome, error) { <-block; return host.Outcome{}, nil }
			c := l.config()
			if !bounded {
				c.Concurrency = 50
			}
			n := l.start(c)
			small := l.submit("small", 4, oneStep)
			synctest.Wait()
			before := runtime.NumGoroutine()
			l.submit("big", 100_000, oneStep)
			pass(10 * time.Second)
			n.mu.Lock()
			held := len(n.running)
			n.mu.Unlock()
			if after := runtime.NumGoroutine(); (after <= before+2) != bounded || (held == 4) != bounded {
				t.Errorf("bounded: %t; %d goroutines and %d running jobs with 100,000 jobs pending, %d goroutines before", bounded, after, held, before)
			}
			if err := l.q.Cancel(l.t.Context(), "big", "seen enough"); err != nil {
				t.Fatal(err)
			}
			close(block)
			l.exactlyOnce(small, l.results(small))
			n.drain()
		})
	}
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
			return snapshot.Snapshot{Version: 1, Run: run, File: "f.yaml", Source: "playbook: p\ntargets: true\n" + oneStep}.Encode()
		}, &script{})
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

func TestEventsReportAJobsStory(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			c.Sink(host.Event{Stdout: []byte("out")})
			c.Sink(host.Event{Diff: "-a\n+b\n", DiffTitle: "/etc/motd"})
			c.Sink(host.Event{Phase: "copy", Done: 0.5})
			c.Sink(host.Event{Log: "hm"})
			for range 3 {
				c.Sink(host.Event{Log: "the disk is old", Level: slog.LevelWarn})
			}
			return host.Outcome{Failed: c.Attempt == 1, Changed: true}, nil
		}
		r := l.one("steps: [{name: a, uses: command, with: {run: x}, retry: {attempts: 2, interval: 1s}}]")
		var got []string
		for _, e := range l.events {
			if e.Job.Run != "" {
				got = append(got, string(e.Kind))
			}
		}
		want := "job_started step_started output diff progress message output step_retry step_started output diff progress message output step_done job_done"
		if strings.Join(got, " ") != want {
			t.Errorf("events\n%s\nexpected\n%s", strings.Join(got, " "), want)
		}
		if r.Steps[0].Diff != "-a\n+b\n" || r.Steps[0].Stdout != "out" || r.Steps[0].Stderr != "warning: the disk is old\n" {
			t.Errorf("%+v", r.Steps[0])
		}
	})
}

// The control: where the second run names its hosts otherwise to the queue, the lock of a host is
// taken out.
func TestTwoJobsNeverHoldOneHost(t *testing.T) {
	for _, locked := range []bool{true, false} {
		inLab(t, func(l *lab) {
			l.plugins.do = sleep(time.Second)
			a, b := l.submit("a", 10, safeStep), l.submit("b", 10, safeStep, func(_ *launch.Options, r *queue.Run) {
				for i := range r.Targets {
					if !locked {
						r.Targets[i].Host += "-other"
					}
				}
			})
			n := l.start(l.config())
			c := l.config()
			c.Name = "node-2"
			m := l.start(c)
			l.exactlyOnce(a, l.results(a))
			l.exactlyOnce(b, l.results(b))
			n.drain()
			m.drain()
			if (l.plugins.clash == "") != locked {
				t.Errorf("locks: %t; two jobs were on %q at the same time", locked, l.plugins.clash)
			}
		})
	}
}
