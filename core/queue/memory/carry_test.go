package memory_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
)

// over is the queue that continues where another ended, by way of JSON as a file has it.
func over(t *testing.T, q *memory.Queue) *memory.Queue {
	t.Helper()
	data, err := json.Marshal(q.Remains())
	if err != nil {
		t.Fatal(err)
	}
	q.Shutdown()
	var rest memory.Remains
	if err := json.Unmarshal(data, &rest); err != nil {
		t.Fatal(err)
	}
	next := memory.New(memory.Options{SessionTTL: 24 * time.Hour, Remains: rest})
	t.Cleanup(next.Shutdown)
	return next
}

func sound(t *testing.T, q *memory.Queue) {
	t.Helper()
	findings, err := q.Check(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		t.Errorf("%+v", f)
	}
}

func TestJobsThatHaveBegunGoOnInTheNextQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{SessionTTL: 24 * time.Hour})
		s := openSession(t, q)
		r := bulk("a", 8)
		submit(t, q, r)
		got := turn(t, q, s, 8, nil).Leases // by index
		ack := func(i int, a queue.Ack) queue.Ack {
			a.Job, a.Token = got[i].Job, got[i].Token
			return a
		}
		if err := q.Save(t.Context(), queue.Save{Session: s, Job: got[1].Job, Token: got[1].Token, Seq: 1, State: []byte("saved")}); err != nil {
			t.Fatal(err)
		}
		turn(t, q, s, 0, []queue.Ack{
			ack(0, queue.Ack{Kind: queue.AckDone, Outcome: core.Changed}),
			ack(1, queue.Ack{Kind: queue.AckReturn, After: time.Hour}),
			ack(2, queue.Ack{Kind: queue.AckSuspend, State: []byte("until"), After: 2 * time.Hour}),
			ack(3, queue.Ack{Kind: queue.AckSuspend, State: []byte("event"), Event: "e"}),
			ack(4, queue.Ack{Kind: queue.AckSuspend, State: []byte("either"), Event: "e", After: time.Hour}),
			ack(5, queue.Ack{Kind: queue.AckRetry, Outcome: core.Failed, State: []byte("again"), After: 3 * time.Hour}),
			ack(6, queue.Ack{Kind: queue.AckSuspend, State: []byte("locked"), After: 2 * time.Hour, KeepLocks: true}),
			ack(7, queue.Ack{Kind: queue.AckReturn, After: 9 * time.Hour}),
		})

		<-time.After(90 * time.Minute) // nobody serves meanwhile; fake time
		next := over(t, q)
		next = over(t, next) // one that was never used passes it on
		r.FinishedJobs = []queue.FinishedJobs{{Index: 0, Count: 1, Outcome: core.Changed}}
		submit(t, next, r)
		sound(t, next)
		other := bulk("b", 1)
		other.Targets[0].Host = r.Targets[6].Host
		submit(t, next, other)
		s = openSession(t, next)

		now := map[int]string{}
		attempts := map[int]int{}
		for _, l := range turn(t, next, s, 100, nil).Leases {
			if l.Job.Run != "a" {
				t.Errorf("job %s got a host whose job keeps its locks", l.Job)
			}
			now[l.Job.Index], attempts[l.Job.Index] = string(l.State), l.Attempt
		}
		if len(now) != 2 || now[1] != "saved" || now[4] != "either" || attempts[1] != 1 {
			t.Errorf("%v continue immediately, attempts %v; expected 1 and 4, whose time has come", now, attempts)
		}
		sound(t, next)
		st, err := next.Status(t.Context(), "a")
		if err != nil || st.Outcomes[core.Changed] != 1 {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

// A job whose last lease crashed is lost if its run is cancelled, also in the next queue: nobody
// knows what its host saw. Control: one that was given back.
func TestACrashIsKnownToTheNextQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memory.New(memory.Options{SessionTTL: time.Hour})
		submit(t, q, bulk("a", 2))
		s := openSession(t, q)
		got := turn(t, q, s, 2, nil).Leases
		turn(t, q, s, 0, []queue.Ack{{Job: got[1].Job, Token: got[1].Token, Kind: queue.AckReturn, After: 9 * time.Hour}})
		<-time.After(2 * time.Hour) // fake time: the session is lost
		turn(t, q, openSession(t, q), 0, nil)
		next := over(t, q)
		submit(t, next, bulk("a", 2))
		if err := next.Cancel(t.Context(), "a", "enough"); err != nil {
			t.Fatal(err)
		}
		st, err := next.Status(t.Context(), "a")
		if err != nil || st.Outcomes[core.Lost] != 1 || st.Outcomes[core.Cancelled] != 1 {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

// Negative: a run with a job that is being worked on may not be reported as able to continue.
func TestARunWithAJobAtWorkDoesNotRemain(t *testing.T) {
	q := memory.New(memory.Options{SessionTTL: 24 * time.Hour})
	defer q.Shutdown()
	submit(t, q, bulk("a", 2))
	submit(t, q, bulk("b", 2))
	s := openSession(t, q)
	at := turn(t, q, s, 1, nil).Leases[0].Job.Run
	if rest := q.Remains(); len(rest.Runs) != 1 || rest.Runs[0] == at || len(rest.Jobs) != 0 {
		t.Errorf("%+v remains, run %s is at work", rest, at)
	}
}

// Wrong values in the remains, or recorded meanwhile, are passed over.
func TestRemainsThatDoNotFitArePassedOver(t *testing.T) {
	id := func(run string, i int) core.JobID { return core.JobID{Run: run, Index: i} }
	q := memory.New(memory.Options{SessionTTL: 24 * time.Hour, Remains: memory.Remains{
		Runs: []string{"a"},
		Jobs: []memory.Begun{{Job: id("a", 9)}, {Job: id("a", -1)}, {Job: id("a", 2)}, {Job: id("a", 2)}, {Job: id("a", 1), State: []byte("x")}, {Job: id("b", 0)}},
	}})
	defer q.Shutdown()
	r := bulk("a", 4)
	r.FinishedJobs = []queue.FinishedJobs{{Index: 0, Count: 2, Outcome: core.Changed}}
	submit(t, q, r)
	submit(t, q, bulk("b", 1))
	sound(t, q)
	if got := turn(t, q, openSession(t, q), 9, nil).Leases; len(got) != 3 {
		t.Errorf("leased %v", got)
	}
}
