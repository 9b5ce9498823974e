package redis

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/testparts/servers"
)

const crowd = 20_000 // more than a script could unpack in one call

// bounded is how many commands a script may run, whatever is in the queue. The wall time of a
// loaded machine is not the script's.
const bounded = 1000

// patient is a queue whose sessions last.
func patient(t *testing.T) bench {
	t.Helper()
	server := servers.StartRedis(t)
	c := server.Client()
	t.Cleanup(func() { _ = c.Close() })
	q, err := New(server.User(t), Options{SessionTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return bench{t, q, c}
}

// wantBounded lets f call one script, and counts the commands that it runs.
func (b bench) wantBounded(what string, f func()) {
	b.Helper()
	before := b.calls()
	f()
	if n := b.calls() - before; n > bounded {
		b.Errorf("%s: a script ran %d commands, expected at most %d", what, n, bounded)
	}
}

// calls returns how many commands the server has run, also those inside scripts.
func (b bench) calls() int {
	b.Helper()
	info, err := b.c.Info(b.Context(), "commandstats").Result()
	b.must(err)
	n := 0
	for line := range strings.Lines(info) {
		_, rest, _ := strings.Cut(line, "calls=")
		v, _ := strconv.Atoi(strings.SplitN(rest, ",", 2)[0])
		n += v
	}
	return n
}

// TestTrapUnpackOverflowDue // bullmq#422: 20,000 jobs, each timed separately, are due at one
// instant.
func TestTrapUnpackOverflowDue(t *testing.T) {
	t.Parallel()
	b := patient(t)
	s := b.open()
	b.submit("r", crowd, func(r *queue.Run) {
		for i := range crowd {
			r.Segments = append(r.Segments, queue.Segment{Due: time.UnixMicro(int64(1 + i%2)), Count: 1})
		}
	})
	for got := 0; got < crowd; {
		var res queue.TurnResult
		b.wantBounded("20,000 due at once", func() { res = b.turn(s, queue.MaxLeasesTurn) })
		if len(res.Leases) == 0 {
			t.Fatalf("%d of %d were leased", got, crowd)
		}
		got += len(res.Leases)
		b.ack(s, res.Leases, nil)
	}
	b.sound()
}

// TestTrapUnpackOverflowExpired // bullmq#422: a session that held 20,000 jobs expires.
func TestTrapUnpackOverflowExpired(t *testing.T) {
	t.Parallel()
	b := patient(t)
	dead, s := b.open(), b.open()
	b.submit("r", crowd)
	b.lease(dead, crowd)
	b.expire(dead)
	for turns := 0; b.status("r").InFlight > 0; turns++ {
		if turns > crowd {
			t.Fatalf("%d jobs are still leased to a session that is gone", b.status("r").InFlight)
		}
		b.wantBounded("20,000 expired at once", func() { b.turn(s, 0) })
		for range 50 {
			b.turn(s, 0)
		}
	}
	if st := b.status("r"); st.Pending != crowd {
		t.Errorf("after recovery: %+v", st)
	}
}

// TestTrapRetriesDelayTimedJobs // sidekiq#3889: 20,000 overdue retries of one run do not delay the
// timed jobs of another. The test counts turns, and decides when a job is due, not the clock.
func TestTrapRetriesDelayTimedJobs(t *testing.T) {
	t.Parallel()
	b := patient(t)
	s := b.open()
	no := b.submit("retries", crowd)
	for left := crowd; left > 0; {
		l := b.turn(s, queue.MaxLeasesTurn).Leases
		b.ack(s, l, func(a *queue.Ack) { a.Kind, a.After = queue.AckRetry, time.Hour })
		left -= len(l)
	}
	b.do("eval", "for i = 0, ARGV[1] - 1 do redis.call('ZADD', KEYS[1], 'XX', 1, i) end redis.call('ZADD', KEYS[2], 1, ARGV[2])",
		2, b.run(no, "xWaiting"), b.key("kDue"), crowd, no)

	const timed = 50
	at := b.submit("timed", timed, func(r *queue.Run) {
		for i := range timed {
			r.Segments = append(r.Segments, queue.Segment{Due: time.Now().Add(time.Hour + time.Duration(i)*time.Second), Count: 1})
		}
	})
	var late []int // turns that a due job was passed over
	for i := range timed {
		// The hour has ended for one more of them, and the run is due as if its time had come when
		// retries were last read.
		b.do("eval", "redis.call('ZADD', KEYS[1], 'XX', 1, ARGV[1]) redis.call('ZADD', KEYS[2], redis.call('ZSCORE', KEYS[2], ARGV[3]), ARGV[2])",
			2, b.run(at, "xSegments"), b.key("kDue"), fmt.Sprintf("%d:%d", i, i+1), at, no)
		for turns, started := 0, false; !started; turns++ {
			if turns > 100 {
				t.Fatalf("timed job %d has not started after %d turns", i, turns)
			}
			res := b.turn(s, 16)
			for _, l := range res.Leases {
				if l.Job.Run == "timed" {
					late, started = append(late, turns), true
				}
			}
			b.ack(s, res.Leases, nil)
		}
	}
	slices.Sort(late)
	if worst := late[len(late)-1]; worst > 8 {
		t.Errorf("a timed job waited %d turns behind retries, expected a few", worst)
	}
	if st := b.status("retries"); st.Waiting == 0 {
		t.Error("the backlog was over before the timed jobs: nothing was shown")
	}
	b.wantBounded("20,000 overdue retries", func() { b.turn(s, 16) })
}

// TestTrapOneStepSignalsAWholeFleet: 3000 hosts wait for their window, and it opens. No step of the
// signal does more than its share, so that turns of others go in between. Each job is signalled
// exactly once.
func TestTrapOneStepSignalsAWholeFleet(t *testing.T) {
	t.Parallel()
	b := patient(t)
	s := b.open()
	const fleet, step = 3000, 128
	no := b.submit("fleet", fleet)
	for left := fleet; left > 0; {
		l := b.turn(s, min(left, queue.MaxLeasesTurn)).Leases
		b.ack(s, l, func(a *queue.Ack) { a.Kind, a.Event, a.After = queue.AckSuspend, queue.EventWindow, 72*time.Hour })
		left -= len(l)
	}
	signalled, steps := 0, 0
	for from := int64(0); from >= 0; steps++ {
		before := b.calls()
		answer := b.call(b.q.scripts.event, "fleet", queue.EventWindow, from).([]any) //nolint:forcetypeassert // a script's own answer
		signalled += int(answer[0].(int64))                                           //nolint:forcetypeassert // as above
		from = answer[1].(int64)                                                      //nolint:forcetypeassert // as above
		if n := b.calls() - before; n > 2*step+32 {
			t.Errorf("a step of the signal called %d commands", n)
		}
		if st := b.status("fleet"); st.Deferred != fleet-signalled || st.Pending != signalled {
			t.Fatalf("after %d signalled: %+v", signalled, st)
		}
	}
	if signalled != fleet || steps > fleet/step+1 {
		t.Errorf("%d were signalled in %d steps", signalled, steps)
	}
	b.has("0", "exists", b.run(no, "xSuspended"), b.run(no, "xEvents"))
	b.sound()
}

// costOfTurns returns how many commands 20 turns run that lease 64 jobs each, and acknowledge those
// of the turn before.
func (b bench) costOfTurns(s, run string, beside func()) int {
	b.Helper()
	const turns, batch = 20, 64
	b.submit(run, turns*batch)
	var acks []queue.Ack
	before := b.calls()
	for range turns {
		leases := b.turn(s, batch, acks...).Leases
		if len(leases) != batch {
			b.Fatalf("%d jobs were leased, expected %d", len(leases), batch)
		}
		acks = acks[:0]
		for _, l := range leases {
			acks = append(acks, queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckDone, Outcome: core.Changed})
		}
		beside()
	}
	return b.calls() - before
}

// TestCostIsFlatInJobsInFlight counts commands, not their time: BenchmarkInFlight shows a command
// that reads more.
func TestCostIsFlatInJobsInFlight(t *testing.T) {
	t.Parallel()
	const held = 10_000
	beside := func(inFlight int) (b bench, s string) {
		b = patient(t)
		holder := b.open()
		b.submit("held", inFlight+1) // this run also has a pending job if none is in flight
		b.lease(holder, inFlight)
		return b, b.open()
	}
	b, s := beside(0)
	alone := b.costOfTurns(s, "work", func() {})
	b, s = beside(held)
	flat := func(cost int) bool { return cost <= alone+alone/10+20 }
	if cost := b.costOfTurns(s, "work", func() {}); !flat(cost) {
		t.Errorf("turns beside %d jobs in flight run %d commands, %d without them", held, cost, alone)
	}
	each := func() { // what a turn would do that reads each job in flight
		b.do("eval", "for i = 1, ARGV[1] do redis.call('HEXISTS', KEYS[1], i) end", 1, b.key("kIDs"), held)
	}
	if cost := b.costOfTurns(s, "more", each); flat(cost) {
		t.Errorf("negative control: turns that read each job in flight count as flat: %d commands, %d without them", cost, alone)
	}
}
