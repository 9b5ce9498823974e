package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/encrypted"
)

// hooked is a queue of which a test changes some calls; those that are nil are the queue's own.
type hooked struct {
	encrypted.Backend
	poll   func(sights []queue.Sight) []queue.Sight
	submit func() error
	refuse func(run string) error // of one run
	forget func() bool            // the answer to a submit is lost
	doubt  func() queue.Doubt
	trust  func() // is called behind the queue's own, as is hold
	hold   func()
	drop   func(ctx context.Context) // is called before the queue's own
}

func (h *hooked) Drop(ctx context.Context, run string, recorded int) (bool, error) {
	if h.drop != nil {
		h.drop(ctx)
	}
	return h.Backend.Drop(ctx, run, recorded)
}

func (h *hooked) Doubt(ctx context.Context) (queue.Doubt, error) {
	if h.doubt != nil {
		return h.doubt(), nil
	}
	return h.Backend.Doubt(ctx)
}

func (h *hooked) Trust(ctx context.Context, d queue.Doubt) error {
	if h.trust != nil {
		defer h.trust()
	}
	return h.Backend.Trust(ctx, d)
}

func (h *hooked) Hold(ctx context.Context) error {
	if h.hold != nil {
		defer h.hold()
	}
	return h.Backend.Hold(ctx)
}

func (h *hooked) Poll(ctx context.Context, most int, asks ...queue.Ask) []queue.Sight {
	sights := h.Backend.Poll(ctx, most, asks...)
	if h.poll != nil {
		return h.poll(sights)
	}
	return sights
}

func (h *hooked) Submit(ctx context.Context, runs ...queue.Run) []queue.Submission {
	if h.submit != nil {
		if err := h.submit(); err != nil {
			return slices.Repeat([]queue.Submission{{Err: err}}, len(runs))
		}
	}
	if h.forget != nil && h.forget() {
		h.Backend.Submit(ctx, runs...)
		return slices.Repeat([]queue.Submission{{Err: core.ErrUnknown}}, len(runs))
	}
	if h.refuse == nil {
		return h.Backend.Submit(ctx, runs...)
	}
	out := make([]queue.Submission, len(runs))
	for i, r := range runs {
		if out[i].Err = h.refuse(r.ID); out[i].Err == nil {
			out[i] = h.Backend.Submit(ctx, r)[0]
		}
	}
	return out
}

// A run that breaks the calls which it shares with others keeps none of them from its end.
func TestABrokenRunDoesNotHoldUpOthers(t *testing.T) {
	fake(t, func(l *lab) {
		broken := func(s queue.Sight) bool { return s.Status.Run == "broken" }
		q := &hooked{Backend: l.queue(), poll: func(sights []queue.Sight) []queue.Sight {
			if slices.ContainsFunc(sights, broken) {
				return queue.SeeNone(make([]queue.Ask, len(sights)), errors.New("the script broke off"))
			}
			return sights
		}}
		c, stop := l.server("s1", l.queue())
		all := ids("r", 20)
		for _, id := range append([]string{"broken"}, all...) {
			l.accept(c, spec{id: id, hosts: 1})
		}
		l.until("all are queued", func() bool { return c.Load().Watched == 21 })
		stop()
		defer l.node(l.queue(), 100)()
		<-time.After(10 * time.Second)
		_, stop = l.server("s2", q) // reads all of them at the same time
		defer stop()
		l.complete(all...)
		if r := l.run("broken"); r.Complete() {
			t.Error("it was not broken")
		}
	})
}

// Jobs that wait for people also where the time to ask comes during a look.
func TestStallsAreReportedThoughAPollIsSlow(t *testing.T) {
	fake(t, func(l *lab) {
		const slow = 200 * time.Millisecond
		q := &hooked{Backend: l.queue(), poll: func(sights []queue.Sight) []queue.Sight {
			<-time.After(slow)
			return sights
		}}
		c, stop := l.server("s1", q)
		defer stop()
		l.accept(c, spec{id: "r1", hosts: 3})
		h := l.hands()
		leases := h.take(3)
		h.wait(5 * time.Second)
		suspend := func(i int, event string) queue.Ack {
			return queue.Ack{Job: leases[i].Job, Token: leases[i].Token, Kind: queue.AckSuspend, Event: event, After: 24 * time.Hour}
		}
		h.ack(suspend(0, queue.EventWindow)) // two looks, of which the second asks
		h.wait(time.Second)
		h.ack(suspend(1, "go")) // it is asked again 5 s after the last time
		h.wait(4 * time.Second)
		<-time.After(3 * slow / 2)
		h.ack(queue.Ack{Job: leases[2].Job, Token: leases[2].Token, Kind: queue.AckDone, Outcome: core.Changed})
		h.wait(10 * time.Second)
		if reported := l.said(controller.StepStalled); len(reported) != 1 || reported[0].Reason != "go" {
			t.Errorf("%+v", reported)
		}
	})
}

// Outcomes that another server recorded do not wait to be recorded.
func TestNothingWaitsThatAnotherServerRecorded(t *testing.T) {
	fake(t, func(l *lab) {
		var once sync.Once
		q := &hooked{Backend: l.queue(), poll: func(sights []queue.Sight) []queue.Sight {
			for _, s := range sights {
				if len(s.Records) == 0 {
					continue
				}
				once.Do(func() {
					run := l.run("r1")
					got, err := l.ledger.Record(l.Context(), ledger.Batch{
						Run: "r1", Cursor: &ledger.Cursor{Incarnation: run.Incarnation, From: run.Position, To: s.Next},
						Outcomes: []ledger.Outcome{{Index: s.Records[0].Index, Outcome: core.Changed}},
					})
					if err != nil || got[0].Err != nil || got[0].New != 1 {
						t.Errorf("%+v, %v", got, err)
					}
				})
			}
			return sights
		}}
		c, stop := l.server("s1", q)
		defer stop()
		l.accept(c, spec{id: "r1", hosts: 2})
		h := l.hands()
		lease := h.take(2)[0]
		h.ack(queue.Ack{Job: lease.Job, Token: lease.Token, Kind: queue.AckDone, Outcome: core.Changed})
		h.wait(5 * time.Second)
		if r := l.run("r1"); r.Recorded != 1 || c.Lag() != 0 {
			t.Errorf("%d recorded, lag %v", r.Recorded, c.Lag())
		}
	})
}

// A run that was stopped stays so in the queue that takes the place of the one that stopped it.
func TestAStoppedRunStaysStoppedInANewQueue(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		l.accept(c, spec{id: "r1", hosts: 4})
		l.until("it is queued", func() bool { return l.run("r1").Phase == ledger.PhaseActive })
		stop()
		if _, err := l.ledger.SetPhase(l.Context(), ledger.AllTenants(), "", "r1", ledger.PhaseStopped, "enough"); err != nil {
			t.Fatal(err)
		}
		l.newQueue()
		defer l.node(l.queue(), 10)()
		_, stop = l.server("s1", l.queue())
		defer stop()
		l.complete("r1")
		if _, ran := l.times("r1"); ran != 0 || l.run("r1").Phase != ledger.PhaseStopped {
			t.Errorf("%d jobs ran: %+v", ran, l.run("r1"))
		}
	})
}

// A person who waits for the run of a controller that is alone hears why the queue does not take
// it.
func TestAloneReportsThatTheQueueRefuses(t *testing.T) {
	for _, lasts := range []bool{false, true} {
		t.Run(fmt.Sprintf("lasts %v", lasts), func(t *testing.T) {
			fake(t, func(l *lab) {
				refusal := fmt.Errorf("out of memory: %w", core.ErrUnavailable)
				if lasts {
					refusal = errors.New("no such command")
				}
				var tries atomic.Int32
				c, err := controller.New(controller.Config{
					Name: "alone", Ledger: l.ledger, Board: l.queue(), Alone: true, Types: types,
					Queue: &hooked{Backend: l.queue(), submit: func() error {
						if tries.Add(1) <= 3 {
							return refusal
						}
						return nil
					}},
					Events: func(e controller.Event) {
						l.mu.Lock()
						defer l.mu.Unlock()
						l.events = append(l.events, e)
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { _ = c.Run(ctx) })
				defer wg.Wait()
				defer cancel()
				defer l.node(l.queue(), 10)()
				l.accept(c, spec{id: "r1", hosts: 1})
				l.complete("r1")
				synctest.Wait()
				refused, away, back := l.said(controller.RunRefused), l.said(controller.QueueAway), l.said(controller.QueueBack)
				if lasts && (len(refused) != 1 || !errors.Is(refused[0].Err, refusal) || len(away) != 0) || !lasts && (len(refused) != 0 || len(away) != 1 || len(back) != 1) {
					t.Errorf("refused %+v, away %+v, back %+v", refused, away, back)
				}
			})
		})
	}
}

// stops counts the events of runs that were stopped.
func (l *lab) stops() (n int) {
	for _, e := range l.said(controller.RunEvent) {
		if e.Engine.Kind == engine.EventStopped {
			n++
		}
	}
	return n
}
