package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/plugins/host"
)

// at is a state that contains n.
func at(n int) host.State {
	return host.State{Version: 2, JSON: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))}
}

// forgetful is a queue that reports a save that it did not do.
type forgetful struct{ queue.Worker }

func (forgetful) Save(context.Context, queue.Save) error { return nil }

// dies runs steps on one host; the node that has the job is cut off from the queue for good as soon
// as die is closed, as if it had died, and another takes its place.
func (l *lab) dies(steps string, die <-chan struct{}, wrap func(queue.Worker) queue.Worker) core.Result {
	l.t.Helper()
	la := l.submit("r", 1, steps)
	f := &flaky{Worker: wrap(l.q)}
	c := l.config()
	c.Queue, c.Name = f, "first"
	first := l.start(c)
	<-die
	f.set(away)
	second := l.start(l.config())
	results := l.results(la)
	first.Kill()
	first.stop()
	<-first.done
	second.drain()
	l.exactlyOnce(la, results)
	return results[0]
}

func sound(q queue.Worker) queue.Worker { return q }

func hang(ctx context.Context, die chan struct{}) (host.Outcome, error) {
	close(die)
	<-ctx.Done()
	return host.Outcome{Cancelled: true}, nil
}

func TestACheckpointOutlivesItsWorker(t *testing.T) {
	for name, tc := range map[string]struct {
		queue func(queue.Worker) queue.Worker
		want  string
	}{
		"as it is":                      {sound, `{"n":2}`},
		"control: a queue that forgets": {func(q queue.Worker) queue.Worker { return forgetful{q} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				die := make(chan struct{})
				l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
					if len(l.plugins.seen()) > 1 {
						return host.Outcome{Changed: true}, nil
					}
					for n := range 2 {
						if err := c.Checkpoint(ctx, at(n+1)); err != nil {
							t.Errorf("Checkpoint: %v", err)
						}
					}
					return hang(ctx, die)
				}
				r := l.dies("steps: [{name: a, uses: file, with: {path: /x}}]", die, tc.queue)
				calls := l.plugins.seen()
				if len(calls) != 2 || r.Outcome != core.Changed || r.Worker != "node-1" {
					t.Fatalf("%d calls, %+v", len(calls), r)
				}
				state := ""
				if calls[1].State != nil {
					state = string(calls[1].State.JSON)
				}
				if state != tc.want {
					t.Errorf("the second worker began with state %q, expected %q", state, tc.want)
				}
				if calls[0].Key != calls[1].Key || calls[0].Fence >= calls[1].Fence || calls[1].Attempt != 1 {
					t.Errorf("calls %+v", calls)
				}
			})
		})
	}
}

// Finished work stays finished: the next worker does not fall back to a checkpoint of a step, an
// item or an attempt that has ended.
func TestTrapCheckpointOfWhatIsOver(t *testing.T) {
	file := func(name string) string { return "{name: " + name + ", uses: file, with: {path: /x}" }
	web, log := file("web")+"}", file("log")+", on_failure: run}"
	for name, tc := range map[string]struct {
		steps  string
		saves  int // the call with a checkpoint: the worker dies in the one after it; 0 is the first
		failed bool
		want   string
		ends   core.Outcome
	}{
		"a step":             {steps: "steps: [" + file("a") + "}, " + file("b") + "}, " + file("c") + "}]", want: "a.1 b.1 b.1 c.1", ends: core.Changed},
		"an item":            {steps: "steps: [" + file("a") + ", foreach: [x, y, z]}]", want: "a.1 a.1 a.1 a.1", ends: core.Changed},
		"an attempt":         {steps: "steps: [" + file("a") + ", retry: {attempts: 3, interval: 1s}}]", failed: true, want: "a.1 a.2 a.2", ends: core.Changed},
		"the last step":      {steps: under("steps", file("a")+", notify: [web]}") + under("handlers", web), want: "a.1 web.1 web.1", ends: core.Changed},
		"the step's failure": {steps: under("steps", file("b")+"}", file("a")+", notify: [log]}") + under("handlers", log), saves: 2, failed: true, want: "b.1 a.1 log.1 log.1", ends: core.Failed},
		"a handler":          {steps: under("steps", file("a")+", notify: [web, log]}") + under("handlers", web, log), saves: 2, want: "a.1 web.1 log.1 log.1", ends: core.Changed},
		"a failed handler":   {steps: under("steps", file("a")+", notify: [web, log]}") + under("handlers", web, log), saves: 2, failed: true, want: "a.1 web.1 log.1 log.1", ends: core.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				die := make(chan struct{})
				l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
					switch n := len(l.plugins.seen()); n {
					case max(tc.saves, 1):
						if c.BeforeChange != nil {
							if err := c.BeforeChange(ctx); err != nil {
								t.Errorf("BeforeChange: %v", err)
							}
						}
						if err := c.Checkpoint(ctx, at(n)); err != nil {
							t.Errorf("Checkpoint: %v", err)
						}
						return host.Outcome{Failed: tc.failed, Changed: !tc.failed, Reason: "no"}, nil
					case max(tc.saves, 1) + 1:
						return hang(ctx, die)
					}
					return host.Outcome{Changed: true}, nil
				}
				r := l.dies(tc.steps, die, sound)
				if got := l.plugins.steps(); got != tc.want || r.Outcome != tc.ends {
					t.Errorf("called %s, expected %s; %+v", got, tc.want, r)
				}
				for i, c := range l.plugins.seen() {
					if c.State != nil {
						t.Errorf("call %d continues with %s, which has ended", i+1, c.State.JSON)
					}
				}
			})
		})
	}
}

func TestACheckpointWaitsForTheQueue(t *testing.T) {
	inLab(t, func(l *lab) {
		f := &flaky{Worker: l.q}
		saves := 0
		f.set(func(call string) *fault {
			if call != "save" {
				return nil
			}
			switch saves++; saves {
			case 1:
				return away(call)
			case 2:
				return &fault{reached: true, err: fmt.Errorf("save: read: %w", core.ErrUnknown)}
			case 3:
				return &fault{hang: true}
			}
			return nil
		})
		var took time.Duration
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			begun := time.Now()
			err := c.Checkpoint(ctx, at(1))
			took = time.Since(begun)
			return host.Outcome{Changed: true}, err
		}
		c := l.config()
		c.Queue = f
		la := l.submit("r", 1, "steps: [{name: a, uses: file, with: {path: /x}}]")
		n := l.start(c)
		r := l.results(la)[0]
		n.drain()
		if r.Outcome != core.Changed || took < callTimeout {
			t.Errorf("%+v, the checkpoint took %v", r, took)
		}
	})
}

func TestACheckpointThatIsRefusedSaysSo(t *testing.T) {
	inLab(t, func(l *lab) {
		f := &flaky{Worker: l.q}
		f.set(func(call string) *fault {
			if call == "save" {
				return &fault{err: fmt.Errorf("save: %w", core.ErrConflict)}
			}
			return nil
		})
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			if err := c.Checkpoint(ctx, at(1)); !errors.Is(err, core.ErrConflict) {
				t.Errorf("Checkpoint: %v", err)
			}
			large := host.State{Version: 1, JSON: json.RawMessage(`"` + strings.Repeat("x", queue.MaxDetail) + `"`)}
			if err := c.Checkpoint(ctx, large); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("Checkpoint of %d bytes: %v", len(large.JSON), err)
			}
			return host.Outcome{Changed: true}, nil
		}
		c := l.config()
		c.Queue = f
		la := l.submit("r", 1, "steps: [{name: a, uses: file, with: {path: /x}}]")
		n := l.start(c)
		r := l.results(la)[0]
		n.drain()
		if r.Outcome != core.Changed || slices.Contains(l.said(JobSuspended), JobSuspended) {
			t.Errorf("%+v", r)
		}
	})
}
