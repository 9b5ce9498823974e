package redis_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/testparts/servers"
)

// leapLife is how long the sessions live whose queue sees its clock leap.
const leapLife = 3 * time.Second

// A real server whose clock leaps, each time both ways.
func TestFaultR2ALeapOfTheClockHoldsNothingUp(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]time.Duration{
		"forward and back": 5 * time.Minute, "back and forward": -5 * time.Minute, "a day": 25 * time.Hour, "as long as a session lives": leapLife,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, problem := range leapProblems(t, first) {
				t.Error(problem)
			}
		})
	}
}

// The negative control: without either correction in the scripts, a session ends by the leap
// forward, and a retry waits for as long as the leap back was.
func TestFaultR2NoticesALeapThatIsNotCorrected(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		without withoutGuard
		shows   string
	}{
		"of sessions":      {withoutGuard{"if d > 0 and d <= 3000000 then age = age + min(d, 500000) end", "age = now"}, core.ErrSessionGone.Error()},
		"of what is timed": {withoutGuard{"ahead = tonumber(meta[7] or 0) + max(-d, 0)", "ahead = 0"}, "nothing is due for 4m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problems := leapProblems(t, 5*time.Minute, tc.without)
			if !strings.Contains(strings.Join(problems, "\n"), tc.shows) {
				t.Errorf("problems %q, expected %q", problems, tc.shows)
			}
		})
	}
}

// leapProblems has the clock leap by first and back while a session has jobs to retry, and another
// session dies. It returns what the leaps end or delay.
func leapProblems(t *testing.T, first time.Duration, hooks ...withoutGuard) (problems []string) {
	t.Helper()
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	server, leap := servers.StartRedisOnClock(t)
	user := server.User(t)
	for _, h := range hooks {
		user.AddHook(h)
	}
	q := newQueue(t, user, redis.Options{SessionTTL: leapLife, Keep: 100 * time.Hour})
	turn := func(s string, want int, acks ...queue.Ack) (res queue.TurnResult) {
		t.Helper()
		if len(problems) > 0 {
			return res
		}
		res, err := q.Turn(t.Context(), queue.Turn{Session: s, Want: want, Acks: acks})
		if err != nil {
			bad("%v", err)
		}
		if ahead := res.Next.Sub(res.Now); len(res.Leases) == 0 && !res.Next.IsZero() && ahead > time.Minute {
			bad("nothing is due for %v", ahead)
		}
		return res
	}
	mustSubmit(t, q, "dies", "d")
	dead := mustOpen(t, q)
	if got := turn(dead, 1).Leases; len(got) != 1 {
		t.Fatalf("leased %v, %q", got, problems)
	}
	mustSubmit(t, q, "retries", "a", "b")
	s := mustOpen(t, q)
	held := turn(s, 2).Leases
	if len(held) != 2 {
		t.Fatalf("leased %v, %q", held, problems)
	}
	again := func(i int) queue.Ack {
		return queue.Ack{Job: held[i].Job, Token: held[i].Token, Kind: queue.AckRetry, Outcome: core.Failed, After: time.Second}
	}
	for i, d := range []time.Duration{first, -first} {
		leap(d)
		if res := turn(s, 0, again(i)); len(res.Stale) != 0 {
			bad("an ack is stale after a leap of %v", d)
		}
	}
	var back []string
	servers.Until(t, "both retries and the silent node's job", func() bool {
		for _, l := range turn(s, 3).Leases {
			back = append(back, l.Job.String())
		}
		return len(back) == 3 || len(problems) > 0
	})
	if len(problems) > 0 {
		return problems
	}
	for _, run := range []string{"dies", "retries"} {
		st, err := q.Status(t.Context(), run)
		if err != nil || st.Served > 2*time.Minute {
			bad("run %s is charged %v of worker time (%v)", run, st.Served, err)
		}
	}
	if found, err := q.Check(t.Context(), false); err != nil || len(found) != 0 {
		bad("%v, %v", found, err)
	}
	return problems
}

// withoutGuard is a client that takes a guard out of each script that has it, and puts something
// else in its place.
type withoutGuard struct{ guard, instead string }

func (withoutGuard) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (w withoutGuard) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		switch args := cmd.Args(); args[0] {
		case "evalsha": // a script that the server does not know: its text follows
			args[1] = strings.Repeat("0", 40)
		case "eval":
			args[1] = strings.Replace(fmt.Sprint(args[1]), w.guard, w.instead, 1)
		}
		return next(ctx, cmd)
	}
}

func (withoutGuard) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
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
