package redis_test

import (
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/testparts/servers"
)

// A real server whose clock leaps, each time both ways. Red with one time held monotone for all, as
// it was: the session that speaks is gone after the leap forward; after the leap back nothing is
// retried and nobody is reaped for as long as it was.
func TestFaultR2ALeapOfTheClockHoldsNothingUp(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]time.Duration{
		"forward and back": 5 * time.Minute, "back and forward": -5 * time.Minute, "a day": 25 * time.Hour, "as long as a session lives": 3 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, leap := servers.StartRedisOnClock(t)
			q := newQueue(t, server.User(t), redis.Options{SessionTTL: 3 * time.Second, Keep: 100 * time.Hour})
			turn := func(s string, want int, acks ...queue.Ack) queue.TurnResult {
				t.Helper()
				res, err := q.Turn(t.Context(), queue.Turn{Session: s, Want: want, Acks: acks})
				if err != nil {
					t.Fatal(err)
				}
				return res
			}
			mustSubmit(t, q, "dies", "d")
			dead := mustOpen(t, q)
			if got := turn(dead, 1).Leases; len(got) != 1 {
				t.Fatalf("leased %v", got)
			}
			mustSubmit(t, q, "retries", "a", "b")
			s := mustOpen(t, q)
			held := turn(s, 2).Leases
			if len(held) != 2 {
				t.Fatalf("leased %v", held)
			}
			again := func(i int) queue.Ack {
				return queue.Ack{Job: held[i].Job, Token: held[i].Token, Kind: queue.AckRetry, Outcome: core.Failed, After: time.Second}
			}
			leap(first)
			if res := turn(s, 0, again(0)); len(res.Stale) != 0 {
				t.Errorf("an ack is stale after a leap of %v", first)
			}
			leap(-first)
			if res := turn(s, 0, again(1)); len(res.Stale) != 0 {
				t.Errorf("an ack is stale after a leap of %v", -first)
			}
			var back []string
			servers.Until(t, "both retries and the silent node's job", func() bool {
				for _, l := range turn(s, 3).Leases {
					back = append(back, l.Job.String())
				}
				return len(back) == 3
			})
			for _, run := range []string{"dies", "retries"} {
				st, err := q.Status(t.Context(), run)
				if err != nil || st.Served > 2*time.Minute {
					t.Errorf("run %s is charged %v of worker time (%v)", run, st.Served, err)
				}
			}
			if found, err := q.Check(t.Context(), false); err != nil || len(found) != 0 {
				t.Errorf("%v, %v", found, err)
			}
		})
	}
}

// A job that is due at a time of day follows the clock, whichever way that leaps.
func TestFaultR2TimesOfDayFollowTheClock(t *testing.T) {
	t.Parallel()
	server, leap := servers.StartRedisOnClock(t)
	q := newQueue(t, server.User(t), redis.Options{SessionTTL: time.Minute})
	s := mustOpen(t, q)
	due := func(id string, at time.Time) {
		t.Helper()
		r := queue.Run{ID: id, Targets: []queue.Target{{Host: id}}, Segments: []queue.Segment{{Count: 1, Due: at}}}
		if _, err := queue.SubmitOne(t.Context(), q, r); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	leap(-time.Hour) // the queue's time continues, and is ahead of the clock from now on
	due("early", start.Add(-30*time.Minute))
	due("late", start.Add(30*time.Minute))
	if got := turnOf(t, q, s); len(got) != 0 {
		t.Errorf("leased %v before they were due", got)
	}
	leap(time.Hour)
	if got := turnOf(t, q, s); len(got) != 1 || got[0].Job.Run != "early" {
		t.Errorf("leased %v, expected what was due half an hour ago", got)
	}
	leap(time.Hour)
	if got := turnOf(t, q, s); len(got) != 1 || got[0].Job.Run != "late" {
		t.Errorf("leased %v, expected what is due now", got)
	}
	if found, err := q.Check(t.Context(), false); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

func turnOf(t *testing.T, q queue.Queue, s string) []queue.Lease {
	t.Helper()
	res, err := q.Turn(t.Context(), queue.Turn{Session: s, Want: 9})
	if err != nil {
		t.Fatal(err)
	}
	return res.Leases
}
