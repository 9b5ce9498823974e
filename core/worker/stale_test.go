package worker

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/plugins/host"
)

// A host that saw a newer lease refuses the job's: the job is not this worker's, whatever the job
// type makes of it. It gets no outcome here. Where the queue was set back, and the lease is the
// newest after all, the job is given back and runs with a newer one.
func TestFaultR3RefusedFenceIsNoOutcome(t *testing.T) {
	inLab(t, func(l *lab) {
		refused := 0
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			if c.Queue != "life" || c.Fence == 0 {
				t.Errorf("a call has the fence %q %d", c.Queue, c.Fence)
			}
			if refused++; refused <= 3 {
				return host.Outcome{Cancelled: true, Effects: host.EffectsUnknown}, fmt.Errorf("%w: web1", core.ErrSessionGone)
			}
			return host.Outcome{Changed: true}, nil
		}
		if _, err := l.q.Post(t.Context(), board.Incarnation, []byte("life"), board.MaxKeep); err != nil {
			t.Fatal(err)
		}
		la := l.submit("r", 1, oneStep)
		c := l.config()
		c.Board = l.q
		n := l.start(c)
		pass(time.Minute)
		res := l.results(la)
		n.drain()
		calls := l.plugins.seen()
		if count(res)[core.Changed] != 1 || len(calls) != 4 {
			t.Fatalf("%d calls, outcomes %v", len(calls), count(res))
		}
		for i, call := range calls[1:] {
			if call.Fence <= calls[i].Fence || call.Attempt != 1 {
				t.Errorf("call %d: fence %d after %d, attempt %d", i+1, call.Fence, calls[i].Fence, call.Attempt)
			}
		}
	})
}

// unnamed is a board that answers what the queue is called only once it is known.
type unnamed struct {
	board.Board
	known atomic.Bool
}

func (b *unnamed) Posted(ctx context.Context, name string, version uint64) ([]byte, uint64, error) {
	if name == board.Incarnation && !b.known.Load() {
		return nil, 0, fmt.Errorf("read: %w", core.ErrUnavailable)
	}
	return b.Board.Posted(ctx, name, version)
}

// A worker that cannot read what the queue is called begins nothing: the host could not compare its
// fence. Red when such a call goes without one.
func TestFaultR3NothingBeginsWithoutAFence(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			if c.Queue != "life" {
				t.Errorf("a call has the fence %q %d", c.Queue, c.Fence)
			}
			return host.Outcome{Changed: true}, nil
		}
		if _, err := l.q.Post(t.Context(), board.Incarnation, []byte("life"), board.MaxKeep); err != nil {
			t.Fatal(err)
		}
		board := &unnamed{Board: l.q}
		la := l.submit("r", 3, oneStep)
		c := l.config()
		c.Board = board
		n := l.start(c)
		pass(time.Minute)
		if calls := l.plugins.seen(); len(calls) != 0 {
			t.Errorf("%d calls while the queue had no name", len(calls))
		}
		board.known.Store(true)
		res := l.results(la)
		n.drain()
		if l.exactlyOnce(la, res); count(res)[core.Changed] != 3 {
			t.Errorf("outcomes %v", count(res))
		}
	})
}

// A step that must not be repeated and was cut because its lease could not be trusted any more may
// have ended on its host while the worker slept. So its outcome is not known, also where the queue
// still takes this worker's word. A cancel by a person is a cancel.
func TestFaultR5AStepCutByALostLeaseIsLost(t *testing.T) {
	for _, c := range []struct {
		why  string
		cut  func(l *lab, f *flaky)
		want core.Outcome
		code core.ReasonCode
	}{
		{"the queue was silent", func(_ *lab, f *flaky) {
			f.set(func(string) *fault { return &fault{reached: true, hang: true} }) // its replies are lost, so the session lives
			pass(queue.SessionTTL)
			f.set(nil)
		}, core.Lost, core.EffectsUnknown},
		{"a person cancelled it", func(l *lab, _ *flaky) {
			if err := l.q.Cancel(l.t.Context(), "r", "wrong playbook"); err != nil {
				l.t.Error(err)
			}
		}, core.Cancelled, core.RunCancelled},
	} {
		inLab(t, func(l *lab) {
			l.plugins.do = sleep(time.Hour)
			f := &flaky{Worker: l.q}
			config := l.config()
			config.Queue = f
			la := l.submit("r", 1, oneStep)
			n := l.start(config)
			pass(10 * time.Second)
			c.cut(l, f)
			res := l.results(la)
			n.drain()
			if res[0].Outcome != c.want || res[0].ReasonCode != c.code || res[0].Steps[0].ReasonCode != c.code || !strings.Contains(res[0].Reason, "during step a") {
				t.Errorf("%s: %+v", c.why, res[0])
			}
		})
	}
}

// A node that the queue hears and that hears nothing: its beats arrive, and others must have its
// jobs all the same. Red where it continues beating.
func TestANodeThatHearsNothingIsRecovered(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(ctx context.Context, _ host.Call) (host.Outcome, error) {
			if len(l.plugins.seen()) > 1 {
				return host.Outcome{Changed: true}, nil
			}
			return sleep(time.Hour)(ctx, host.Call{})
		}
		f := &flaky{Worker: l.q}
		c := l.config()
		c.Queue = f
		la := l.submit("r", 1, safeStep)
		deaf := l.start(c)
		pass(10*time.Second + time.Millisecond) // just after a beat
		cut := time.Now()
		f.set(func(string) *fault { return &fault{reached: true, hang: true} })
		c = l.config()
		c.Name = "other"
		other := l.start(c)
		res := l.results(la)
		if took := time.Since(cut); took > 10*time.Second || res[0].Outcome != core.Changed || res[0].Worker != "other" {
			t.Errorf("%+v after %v", res[0], took)
		}
		f.set(nil)
		other.drain()
		deaf.drain()
	})
}
