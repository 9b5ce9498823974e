package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/encrypted"
)

// hands is a node whose acks a test makes itself.
type hands struct {
	*lab
	q       encrypted.Backend
	session string
}

func (l *lab) hands() *hands {
	l.Helper()
	q := l.queue()
	s, err := q.Open(l.Context(), "hands")
	if err != nil {
		l.Fatal(err)
	}
	return &hands{l, q, s}
}

// take leases n jobs.
func (h *hands) take(n int) (all []queue.Lease) {
	h.Helper()
	h.until("jobs to be leased", func() bool {
		turn, err := h.q.Turn(h.Context(), queue.Turn{Session: h.session, Want: n - len(all)})
		if err != nil {
			h.Fatal(err)
		}
		all = append(all, turn.Leases...)
		return len(all) == n
	})
	return all
}

func (h *hands) ack(acks ...queue.Ack) {
	h.Helper()
	if _, err := h.q.Turn(h.Context(), queue.Turn{Session: h.session, Acks: acks}); err != nil {
		h.Fatal(err)
	}
}

// wait lets time pass, and keeps the session.
func (h *hands) wait(d time.Duration) {
	h.Helper()
	for range d / time.Second {
		<-time.After(time.Second)
		if _, err := h.q.Beat(h.Context(), h.session); err != nil {
			h.Fatal(err)
		}
	}
}

// Jobs that wait for people are reported while they do, with or without news; those that wait for a
// window are not.
func TestStallsAreReported(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		defer stop()
		l.accept(c, spec{id: "r1", hosts: 4})
		h := l.hands()
		leases := h.take(4)
		suspend := func(i int, event string) queue.Ack {
			return queue.Ack{Job: leases[i].Job, Token: leases[i].Token, Kind: queue.AckSuspend, Event: event, After: 24 * time.Hour}
		}
		h.ack(suspend(0, "go"), suspend(1, "go"), suspend(2, queue.EventWindow))
		reported := func() []controller.Event { return l.said(controller.StepStalled) }
		l.until("it is told", func() bool { return len(reported()) > 0 })
		if e := reported()[0]; e.Run != "r1" || e.Reason != "go" || e.Count != 2 || len(reported()) != 1 {
			t.Errorf("%+v", reported())
		}
		h.wait(5 * time.Minute) // the fourth still runs: the run is followed
		if n := len(reported()); n < 2 || n > 4 {
			t.Errorf("reported %d times in five minutes", n)
		}
		h.ack(queue.Ack{Job: leases[3].Job, Token: leases[3].Token, Kind: queue.AckDone, Outcome: core.Changed})
		h.wait(time.Minute)
		before := len(reported())
		h.wait(5 * time.Minute) // now it rests
		if n := len(reported()) - before; n < 1 || n > 4 {
			t.Errorf("reported %d times in five minutes", n)
		}
		if _, err := l.queue().Signal(l.Context(), "r1", "go"); err != nil {
			t.Fatal(err)
		}
		h.wait(time.Minute)
		before = len(reported())
		h.wait(5 * time.Minute)
		if n := len(reported()) - before; n != 0 {
			t.Errorf("reported %d times after it had ended", n)
		}
	})
}

// The news that jobs have no window left is written down before their outcomes are, and again if
// that failed.
func TestMissedWindowsAreReported(t *testing.T) {
	fake(t, func(l *lab) {
		var before []int
		fails := 1
		report := func(ctx context.Context, e controller.Event) error {
			if e.Kind != controller.WindowMissed {
				return nil
			}
			if fails--; fails >= 0 {
				return fmt.Errorf("the ledger is away: %w", core.ErrUnavailable)
			}
			before = append(before, l.run("r1").Recorded)
			return l.ledger.Report(ctx, ledger.Happening{What: "window_missed", Subject: "run:" + e.Run, Count: e.Count, Data: []byte(e.Reason.Text())}, 0)
		}
		c, stop := l.telling("s1", report)
		defer stop()
		l.accept(c, spec{id: "r1", hosts: 3})
		h := l.hands()
		leases := h.take(3)
		var acks []queue.Ack
		for i, lease := range leases {
			a := queue.Ack{Job: lease.Job, Token: lease.Token, Kind: queue.AckDone, Outcome: core.Changed}
			if i < 2 {
				detail, err := launch.EncodeResult(core.Result{Outcome: core.Cancelled, Reason: "needs_reapproval: the approval is over", ReasonCode: core.NeedsReapproval})
				if err != nil {
					t.Fatal(err)
				}
				a.Outcome, a.Detail = core.Cancelled, detail
			}
			acks = append(acks, a)
		}
		h.ack(acks...)
		l.complete("r1")
		if len(before) != 1 || before[0] != 0 {
			t.Errorf("reported when so many were recorded: %v", before)
		}
		got, err := l.ledger.Happenings(l.Context(), 10)
		if err != nil || len(got) != 2 || got[0].Count != 2 || string(got[0].Data) != "the approval is over" || got[1].What != ledger.HappenedEnded {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A run that cannot be read back is ended, and that is reported before it ends.
func TestARefusedRunIsReported(t *testing.T) {
	fake(t, func(l *lab) {
		var reported []controller.Event
		c, stop := l.telling("s1", func(_ context.Context, e controller.Event) error {
			reported = append(reported, e)
			return nil
		})
		defer stop()
		_, _, err := l.ledger.Accept(l.Context(), ledger.NewRun{ID: "odd", Playbook: "patch", LaunchedBy: "alice", Jobs: []ledger.JobHost{{Host: "h"}}, Snapshot: []byte("no snapshot")})
		if err != nil {
			t.Fatal(err)
		}
		c.Notify()
		l.complete("odd")
		if len(reported) != 1 || reported[0].Kind != controller.RunRefused || reported[0].Run != "odd" || reported[0].Reason == "" {
			t.Errorf("%+v", reported)
		}
		if r := l.run("odd"); r.Phase != ledger.PhaseCancelled {
			t.Errorf("%+v", r)
		}
	})
}

// A wave that waits for a person is reported before the ledger has that it asked. If that fails, it
// is reported again.
func TestAWaveThatAsksIsReported(t *testing.T) {
	fake(t, func(l *lab) {
		var before []int // the wave of which the ledger has that it asked
		c, stop := l.telling("s1", func(_ context.Context, e controller.Event) error {
			if e.Kind != controller.WaveAsks || e.Run != "r1" || e.Wave != 1 {
				t.Errorf("%+v", e)
			}
			run := l.run("r1")
			if before = append(before, controller.AskedFor(&run)); len(before) == 1 {
				return core.ErrUnavailable
			}
			return nil
		})
		stop = sync.OnceFunc(stop)
		defer stop()
		defer l.node(l.queue(), 10)()
		l.accept(c, spec{id: "r1", hosts: 4, more: "strategy: {waves: [1, 100%], pause_between: approve}\n"})
		l.until("the ledger has that it asked", func() bool { run := l.run("r1"); return controller.AskedFor(&run) == 1 })
		<-time.After(time.Minute)
		stop()
		if !slices.Equal(before, []int{0, 0}) {
			t.Errorf("reported when the ledger had %v, expected twice before it had that wave 1 asked", before)
		}
	})
}

// telling is a server that makes events durable.
func (l *lab) telling(name string, report func(context.Context, controller.Event) error) (*controller.Controller, func()) {
	l.Helper()
	c, err := controller.New(controller.Config{Name: name, Ledger: l.ledger, Queue: l.queue(), Board: l.queue(), Types: types, Report: report})
	if err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	return c, func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			l.Error(err)
		}
	}
}
