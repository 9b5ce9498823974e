package controller_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// finding is the only one of a run.
func (l *lab) finding(run string, repair bool) controller.Finding {
	l.Helper()
	found, err := l.doctor().Check(l.Context(), repair)
	if err != nil || len(found) != 1 || found[0].Run != run {
		l.Fatalf("%+v, %v; expected one finding, of run %s", found, err, run)
	}
	return found[0]
}

// A run that the ledger does not know is found, and held: what runs ends, nothing more starts.
// Whose launcher is there is let be.
func TestCheckHoldsRunsThatTheLedgerDoesNotKnow(t *testing.T) {
	fake(t, func(l *lab) {
		_, stop := l.server("s1", l.queue())
		defer stop()
		q := l.queue()
		l.until("the server works", func() bool {
			_, _, err := q.Posted(l.Context(), board.Incarnation, 0)
			return err == nil
		})
		run := l.launch(spec{id: "r1", hosts: 3}).Run
		if _, err := queue.SubmitOne(l.Context(), q, run); err != nil {
			t.Fatal(err)
		}
		driving, away := context.WithCancel(l.Context())
		driven := make(chan struct{})
		go func() { defer close(driven); controller.Announce(driving, q, "r1") }()
		<-time.After(10 * time.Minute)
		if f := l.finding("r1", true); !f.Note || f.Repaired {
			t.Errorf("its launcher is there: %+v", f)
		}
		away()
		<-driven
		<-time.After(2 * time.Minute)
		if f := l.finding("r1", false); f.Note || f.Repaired || !strings.Contains(f.What, "nobody drives it") {
			t.Errorf("%+v", f)
		}
		s, err := q.Open(l.Context(), "node")
		if err != nil {
			t.Fatal(err)
		}
		got, err := q.Turn(l.Context(), queue.Turn{Session: s, Want: 1})
		if err != nil || len(got.Leases) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		ctx, done := context.WithCancel(l.Context())
		beating := make(chan struct{})
		go func() {
			defer close(beating)
			for core.Sleep(ctx, time.Second) == nil {
				if beat, err := q.Beat(ctx, s); err != nil && ctx.Err() == nil || len(beat.Stop) > 0 {
					t.Errorf("the queue asks the job that runs to end: %+v, %v", beat, err)
				}
			}
		}()
		if f := l.finding("r1", true); !f.Repaired {
			t.Errorf("%+v", f)
		}
		done()
		<-beating
		lease := got.Leases[0]
		got, err = q.Turn(l.Context(), queue.Turn{Session: s, Want: 3, Acks: []queue.Ack{{Job: lease.Job, Token: lease.Token, Kind: queue.AckDone, Outcome: core.Changed}}})
		if err != nil || len(got.Leases) > 0 || len(got.Stale) > 0 {
			t.Errorf("a held run: %+v, %v", got, err)
		}
		if f := l.finding("r1", true); !f.Note || f.Repaired {
			t.Errorf("once it is paused it is no fault: %+v", f)
		}
	})
}

// older has the queue be as it was before the last job of a run ended, in the same incarnation.
func (l *lab) older(one *launch.Launch) {
	l.Helper()
	name, _, err := l.queue().Posted(l.Context(), board.Incarnation, 0)
	if err != nil {
		l.Fatal(err)
	}
	l.newQueue()
	if _, err := l.queue().Post(l.Context(), board.Incarnation, name, board.MaxKeep); err != nil {
		l.Fatal(err)
	}
	if _, err := queue.SubmitOne(l.Context(), l.queue(), one.Run); err != nil {
		l.Fatal(err)
	}
}

// A queue that came back older continues with a run that has ended: the doctor finds that, and
// holds it.
func TestCheckHoldsRunsThatAreOver(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		node := l.node(l.queue(), 5)
		one := l.launch(spec{id: "r1", hosts: 3})
		l.put(c, one)
		l.complete("r1")
		stop()
		node()
		l.older(one)
		if f := l.finding("r1", false); f.Note || !strings.Contains(f.What, "it is over in the ledger") {
			t.Errorf("%+v", f)
		}
		if f := l.finding("r1", true); !f.Repaired {
			t.Errorf("%+v", f)
		}
		defer l.node(l.queue(), 5)()
		<-time.After(time.Minute)
		if most, sum := l.times("r1"); most != 1 || sum != 3 {
			t.Errorf("jobs of a run that is over ran %d times, %d in all", most, sum)
		}
	})
}

// A server that finds such a queue ends the run in it before a job of it runs again, and lets what
// runs already end. The negative control: without a server they all run again.
func TestTrapRunThatIsOverRunsAgainInAnOlderQueue(t *testing.T) {
	for _, served := range []bool{true, false} {
		fake(t, func(l *lab) {
			c, stop := l.server("s1", l.queue())
			node := l.node(l.queue(), 5)
			one := l.launch(spec{id: "r1", hosts: 3})
			l.put(c, one)
			l.complete("r1")
			stop()
			node()
			l.older(one)
			q := l.queue()
			running := 0
			if served {
				node = l.node(q, 1)
				synctest.Wait() // it has one job
				running = 1
				_, stop = l.server("s2", q)
				defer stop()
			} else {
				node = l.node(q, 1)
			}
			defer node()
			<-time.After(5 * time.Minute)
			most, sum := l.times("r1")
			if served && sum != 3+running {
				t.Errorf("jobs of a run that is over ran %d times, %d in all, expected %d", most, sum, 3+running)
			}
			if !served && sum != 6 {
				t.Errorf("negative control: without a server jobs ran %d times, %d in all", most, sum)
			}
			if s, err := q.Status(l.Context(), "r1"); served && (err != nil || !s.Complete || len(l.said(controller.RunPaused)) != 1) {
				t.Errorf("%+v, %v, reported %v", s, err, l.said(controller.RunPaused))
			}
			if r := l.run("r1"); r.Phase != ledger.PhaseFinished || r.Outcomes[core.Changed] != 3 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A job that ran again before a server compared the older queue is reported, although the queue's
// records are then read from the beginning. The negative control: records that are read again and
// are not of another execution are not reported.
func TestJobsThatRanAgainUnwatchedAreReported(t *testing.T) {
	for _, older := range []bool{true, false} {
		fake(t, func(l *lab) {
			c, stop := l.server("s1", l.queue())
			one := l.launch(spec{id: "r1", hosts: 3})
			l.put(c, one)
			node := l.node(l.queue(), 1)
			l.until("two jobs are recorded", func() bool { return l.run("r1").Recorded == 2 })
			stop()
			node()
			if older {
				l.older(one)
				node = l.node(l.queue(), 1)
				l.until("a recorded job has run again", func() bool { most, _ := l.times("r1"); return most == 2 })
				node()
			} else if err := l.ledger.Unqueue(l.Context(), "r1", l.run("r1").Incarnation); err != nil {
				l.Fatal(err)
			}
			_, stop = l.server("s2", l.queue())
			defer stop()
			defer l.node(l.queue(), 1)()
			l.complete("r1")
			if n := len(l.said(controller.RunRepeated)); (n > 0) != older {
				t.Errorf("queue older: %t; %d events of repeated jobs", older, n)
			}
		})
	}
}

// A server dies when the ledger has taken a run out of a queue that came back older, and before
// that queue has dropped it. The next server does so again: no recorded job runs a second time.
func TestServerDiesBeforeAnOlderQueueDropsTheRun(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		one := l.launch(spec{id: "r1", hosts: 4})
		l.put(c, one)
		node := l.node(l.queue(), 1)
		l.until("two jobs are recorded", func() bool { return l.run("r1").Recorded == 2 })
		stop()
		node()
		recorded := l.outcomes("r1")
		l.older(one)
		dies := make(chan struct{})
		_, stop = l.server("s2", &hooked{Backend: l.queue(), drop: func(ctx context.Context) { close(dies); <-ctx.Done() }})
		l.until("the run is to be dropped", func() bool {
			select {
			case <-dies:
				return true
			default:
				return false
			}
		})
		stop()
		if s, err := l.queue().Status(l.Context(), "r1"); err != nil || s.Phase != queue.Paused || s.Ended() != 0 {
			t.Fatalf("the queue was to have it still, paused and older: %+v, %v", s, err)
		}
		defer l.node(l.queue(), 1)() // it waits for jobs
		_, stop = l.server("s3", l.queue())
		defer stop()
		l.complete("r1")
		for i := range recorded {
			if n := l.ran[core.JobID{Run: "r1", Index: i}]; n != 1 {
				t.Errorf("job %d is recorded, and ran %d times", i, n)
			}
		}
		l.sound()
	})
}
