package controller_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// warnings counts records of a log.
type warnings struct{ n atomic.Int64 }

func (w *warnings) Enabled(context.Context, slog.Level) bool      { return true }
func (w *warnings) Handle(_ context.Context, _ slog.Record) error { w.n.Add(1); return nil }
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler            { return w }
func (w *warnings) WithGroup(string) slog.Handler                 { return w }

// refusing is a server whose queue answers that of the runs whose names begin with odd.
func (l *lab) refusing(refusal error) (*controller.Controller, *warnings, *atomic.Int64) {
	l.Helper()
	logged, tries := &warnings{}, &atomic.Int64{}
	c, err := controller.New(controller.Config{
		Name: "s1", Ledger: l.ledger, Board: l.queue(), Types: types, Log: slog.New(logged),
		Queue: &hooked{Backend: l.queue(), refuse: func(run string) error {
			if !strings.HasPrefix(run, "odd") {
				return nil
			}
			tries.Add(1)
			return refusal
		}},
		Events: func(e controller.Event) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.events = append(l.events, e)
		},
	})
	if err != nil {
		l.Fatal(err)
	}
	return c, logged, tries
}

// More runs than one claim takes are refused by the queue, or cannot be read here, and are first in
// the order. The runs behind them start immediately. Each is warned of once, and ends as refused if
// that is its own fault.
func TestRunsThatTheQueueRefusesDoNotHoldUpOthers(t *testing.T) {
	const odd = 300
	for _, tc := range []struct {
		why     string
		refusal error
		ends    bool
	}{
		{"invalid", fmt.Errorf("a name is too long: %w", core.ErrInvalid), true},
		{"its key is not here", fmt.Errorf("no key: %w", core.ErrUnavailable), false},
	} {
		t.Run(tc.why, func(t *testing.T) {
			fake(t, func(l *lab) {
				c, logged, tries := l.refusing(tc.refusal)
				refused := ids("odd", odd)
				for _, id := range refused {
					l.accept(c, spec{id: id, hosts: 1})
				}
				l.accept(c, spec{id: "good", hosts: 1})
				began := time.Now()
				ctx, cancel := context.WithCancel(context.Background())
				done := make(chan error, 1)
				go func() { done <- c.Run(ctx) }()
				defer func() { cancel(); <-done }()
				defer l.node(l.queue(), 10)()
				l.complete("good")
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("the run behind %d others took %v", odd, took)
				}
				<-time.After(5 * time.Minute)
				if n := logged.n.Load(); n > odd+10 {
					t.Errorf("%d warnings of %d runs", n, odd)
				}
				r := l.run(refused[0])
				switch {
				case !tc.ends && (r.Complete() || r.Phase != ledger.PhaseQueued):
					t.Errorf("a run that may be put in later was ended: %+v", r)
				case !tc.ends:
					if _, _, err := c.Cancel(l.Context(), ledger.AllTenants(), "bob", r.ID, "enough"); err != nil || !l.isComplete(r.ID) {
						t.Errorf("it cannot be cancelled immediately: %v", err)
					}
				case !r.Complete() || r.Phase != ledger.PhaseCancelled || !strings.Contains(r.Reason.Text(), tc.refusal.Error()):
					t.Errorf("%+v", r)
				case len(l.said(controller.RunRefused)) != odd:
					t.Errorf("refused runs were reported %d times, expected %d", len(l.said(controller.RunRefused)), odd)
				}
				if tc.ends && tries.Load() > odd {
					t.Errorf("%d attempts at %d runs", tries.Load(), odd)
				}
				l.sound()
			})
		})
	}
}

// A server whose claim was taken over while its queue refused the run does not end it: the other
// server has queued it. The database's clock, which no test sets, ends the claim.
func TestARunThatAnotherServerHasQueuedIsNotRefused(t *testing.T) {
	fake(t, func(l *lab) {
		var taken atomic.Bool
		takeOver := func(run string) error {
			if taken.Swap(true) {
				return nil
			}
			incarnation, _, err := l.queue().Posted(l.Context(), board.Incarnation, 0)
			if err != nil {
				return err
			}
			claim, err := l.ledger.Claim(l.Context(), "s2", run, string(incarnation), time.Minute)
			for errors.Is(err, core.ErrConflict) {
				claim, err = l.ledger.Claim(l.Context(), "s2", run, string(incarnation), time.Minute)
			}
			if err != nil {
				return err
			}
			if _, err := l.ledger.Enqueued(l.Context(), string(incarnation), claim); err != nil {
				return err
			}
			return fmt.Errorf("a name is too long: %w", core.ErrInvalid)
		}
		c, stop := l.server("s1", &hooked{Backend: l.queue(), refuse: takeOver})
		defer stop()
		l.accept(c, spec{id: "r", hosts: 1})
		l.until("the other server to queue the run", func() bool { return l.run("r").Incarnation != "" })
		<-time.After(time.Second)
		if r := l.run("r"); r.Complete() || len(l.said(controller.RunRefused)) > 0 {
			t.Errorf("%s, %s: %v", r.Phase, r.Reason.Text(), l.said(controller.RunRefused))
		}
	})
}

func TestWhatFollowsARunThatWasNotQueued(t *testing.T) {
	away, invalid, defect := fmt.Errorf("x: %w", core.ErrUnavailable), fmt.Errorf("x: %w", core.ErrInvalid), errors.New("the script broke off")
	for _, tc := range []struct {
		why    string
		err    error
		since  time.Duration
		times  int
		alone  bool
		refuse bool
		after  time.Duration
	}{
		{"invalid", invalid, 0, 1, false, true, 0},
		{"away", away, 0, 1, false, false, time.Second},
		{"away for a day: nothing that was accepted is lost", away, 24 * time.Hour, 9999, false, false, 5 * time.Second},
		{"away, and its user waits", away, time.Minute, 3, true, false, 4 * time.Second},
		{"whether it was done is not known", fmt.Errorf("x: %w", core.ErrUnknown), time.Hour, 2, false, false, 2 * time.Second},
		{"a defect", defect, 0, 1, false, false, time.Second},
		{"a defect that lasts", defect, 29 * time.Minute, 30, false, false, time.Minute},
		{"a defect that has lasted", defect, 30 * time.Minute, 31, false, true, 0},
		{"a defect, and its user waits", defect, 0, 1, true, true, 0},
	} {
		refuse, after := controller.AfterFailure(tc.err, tc.since, tc.times, tc.alone)
		if refuse != tc.refuse || after != tc.after {
			t.Errorf("%s: refused %v, again after %v; expected %v, %v", tc.why, refuse, after, tc.refuse, tc.after)
		}
	}
}

func (l *lab) isComplete(id string) bool { r := l.run(id); return r.Complete() }

// A run that is in the queue, and that no server can read any more, ends, and reports that its jobs
// may have run.
func TestARunThatCannotBeReadEnds(t *testing.T) {
	fake(t, func(l *lab) {
		q := l.queue()
		_, stop := l.server("s1", q)
		defer stop()
		l.until("the queue has a name", func() bool {
			_, _, err := q.Posted(l.Context(), board.Incarnation, 0)
			return err == nil
		})
		one := l.launch(spec{id: "later", hosts: 2})
		if sub := q.Submit(l.Context(), one.Run); sub[0].Err != nil {
			t.Fatal(sub[0].Err)
		}
		incarnation, _, err := q.Posted(l.Context(), board.Incarnation, 0)
		if err != nil {
			t.Fatal(err)
		}
		stop()
		_, _, err = l.ledger.Accept(l.Context(), ledger.NewRun{ID: "later", Playbook: "patch", LaunchedBy: "alice", Jobs: []ledger.JobHost{{Host: "h"}, {Host: "i"}}, Snapshot: []byte("no snapshot")})
		if err != nil {
			t.Fatal(err)
		}
		claim, err := l.ledger.Claim(l.Context(), "old", "later", string(incarnation), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.ledger.Enqueued(l.Context(), string(incarnation), claim); err != nil {
			t.Fatal(err)
		}
		_, stop = l.server("s2", q)
		defer stop()
		l.complete("later")
		if r := l.run("later"); r.Phase != ledger.PhaseCancelled || r.Outcomes[core.Lost] != 2 || r.Reason == "" {
			t.Errorf("%+v", r)
		}
		l.until("the queue has ended it too", func() bool {
			s, err := q.Status(l.Context(), "later")
			return err == nil && s.Phase == queue.Cancelled
		})
		l.sound()
	})
}
