package redis_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/testparts/servers"
)

func newQueue(t *testing.T, c goredis.UniversalClient, opt redis.Options) *redis.Queue {
	t.Helper()
	q, err := redis.New(c, opt)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func mustSubmit(t *testing.T, q queue.Queue, id string, hosts ...string) {
	t.Helper()
	r := queue.Run{ID: id}
	for _, h := range hosts {
		r.Targets = append(r.Targets, queue.Target{Host: h})
	}
	if _, err := queue.SubmitOne(t.Context(), q, r); err != nil {
		t.Fatal(err)
	}
}

func mustOpen(t *testing.T, q queue.Queue) string {
	t.Helper()
	s, err := q.Open(t.Context(), "node")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTrapScriptReplayedOnTimeout // go-redis#2339: the client would send a script again whose
// answer was late. Even a client that is set to retry must not.
func TestTrapScriptReplayedOnTimeout(t *testing.T) {
	t.Parallel()
	server := servers.StartRedisTCP(t)
	p := servers.NewRedisProxy(t, server)
	eager := goredis.NewClient(&goredis.Options{Addr: p.Addr, MaxRetries: 3, ReadTimeout: servers.ImpatientTimeout(), Protocol: 2, Username: servers.RedisUser, Password: servers.Password})
	t.Cleanup(func() { _ = eager.Close() })
	direct := server.Client()
	t.Cleanup(func() { _ = direct.Close() })
	q, straight := newQueue(t, eager, redis.Options{}), newQueue(t, server.User(t), redis.Options{SessionTTL: time.Hour})
	mustSubmit(t, straight, "r", "a", "b", "c", "d")
	s := mustOpen(t, straight)
	if _, err := q.Turn(t.Context(), queue.Turn{Session: s}); err != nil { // the server knows the script now
		t.Fatal(err)
	}
	p.Lose.Store("evalsha")
	_, err := q.Turn(t.Context(), queue.Turn{Session: s, Want: 1})
	if !errors.Is(err, core.ErrUnknown) {
		t.Fatalf("Turn whose answer was lost: %v, expected core.ErrUnknown", err)
	}
	held, err := straight.Adopt(t.Context(), s)
	if err != nil || len(held) != 1 {
		t.Fatalf("the session holds %v (%v), expected the one job of the one turn", held, err)
	}

	// Negative control: a plain command of the same client is sent again, so the proxy does what it
	// should.
	p.Lose.Store("persist")
	before := servers.RedisCalls(t, direct, "persist")
	_ = eager.Do(t.Context(), "persist", "{/0}:control").Err()
	if n := servers.RedisCalls(t, direct, "persist") - before; n < 2 {
		t.Fatalf("the client sent a plain command %d times, expected retries", n)
	}
}

// TestUnreachable: what was certainly not sent is ErrUnavailable, so that a caller may try again.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	c, err := redisconn.Dial("unix:///nonexistent/redis.sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	q := newQueue(t, c, redis.Options{})
	if _, err := q.Open(t.Context(), "node"); !errors.Is(err, core.ErrUnavailable) {
		t.Fatalf("Open without a server: %v, expected core.ErrUnavailable", err)
	}
	if _, _, err := q.Posted(t.Context(), "windows", 0); !errors.Is(err, core.ErrUnavailable) {
		t.Fatalf("Posted without a server: %v, expected core.ErrUnavailable", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Turn(ctx, queue.Turn{Session: "s"}); !errors.Is(err, context.Canceled) || errors.Is(err, core.ErrUnknown) {
		t.Fatalf("Turn with an ended context: %v, expected that and nothing unknown", err)
	}
}

// TestTrapBlockingPopHangsAfterReconnect // bullmq#1656, #2466: a connection that ended without a
// sign.
func TestTrapBlockingPopHangsAfterReconnect(t *testing.T) {
	t.Parallel()
	server := servers.StartRedisTCP(t)
	p := servers.NewRedisProxy(t, server)
	c := goredis.NewClient(&goredis.Options{Addr: p.Addr, MaxRetries: -1, ReadTimeout: time.Second, Protocol: 2, Username: servers.RedisUser, Password: servers.Password})
	t.Cleanup(func() { _ = c.Close() })
	direct := server.Client()
	t.Cleanup(func() { _ = direct.Close() })
	q, straight := newQueue(t, c, redis.Options{}), newQueue(t, server.User(t), redis.Options{SessionTTL: time.Hour})
	s := mustOpen(t, straight)
	got := make(chan error, 1)
	go func() {
		for {
			if err := q.Wait(t.Context(), s, time.Now().Add(time.Hour)); err != nil && !errors.Is(err, core.ErrUnknown) {
				got <- err
				return
			}
			res, err := q.Turn(t.Context(), queue.Turn{Session: s, Want: 1})
			if err == nil && len(res.Leases) == 1 {
				got <- nil
				return
			}
			if err != nil && !errors.Is(err, core.ErrUnknown) {
				got <- err
				return
			}
		}
	}()
	servers.Until(t, "the node to block", func() bool {
		info, err := direct.Info(t.Context(), "clients").Result()
		return err == nil && strings.Contains(info, "blocked_clients:1")
	})
	p.Silent.Store(p.N.Load()) // every connection of now is half-open
	mustSubmit(t, straight, "r", "a")
	select {
	case err := <-got:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the node hangs on a half-open connection")
	}
}

// cycle submits and finishes a run, with locks, data, payload, records and control in play.
func cycle(t *testing.T, q *redis.Queue, id string, n int) {
	t.Helper()
	ctx := t.Context()
	r := queue.Run{ID: id, Tenant: "t{" + id, Payload: []byte("payload"), Disruptive: true, PerGroup: 1}
	for i := range n {
		r.Targets = append(r.Targets, queue.Target{Host: fmt.Sprintf("h}{%s\n:%d", id, i), HAGroup: fmt.Sprintf("{g%d}", i/2), Group: "}{", Data: []byte(strings.Repeat("x", i*40))})
	}
	if _, err := queue.SubmitOne(ctx, q, r); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, q)
	var acks []queue.Ack
	servers.Until(t, "the run to be complete", func() bool {
		res, err := q.Turn(ctx, queue.Turn{Session: s, Acks: acks, Want: 8})
		if err != nil || len(res.Stale) > 0 {
			t.Fatalf("Turn: %v, stale %v", err, res.Stale)
		}
		acks = acks[:0]
		for _, l := range res.Leases {
			if l.Host != r.Targets[l.Job.Index].Host || string(l.Data) != string(r.Targets[l.Job.Index].Data) {
				t.Fatalf("lease %+v differs from its target", l)
			}
			acks = append(acks, queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckDone, Outcome: core.Changed})
		}
		st, err := q.Status(ctx, id)
		return err == nil && st.Complete
	})
	seen := q.Poll(ctx, 1000, queue.Ask{Run: id})[0]
	list, err := seen.Records, seen.Err
	if err != nil || len(list) != n {
		t.Fatalf("%d records (%v), expected %d", len(list), err, n)
	}
	version, err := q.Post(ctx, id, []byte("open"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if b, v, err := q.Posted(ctx, id, 0); err != nil || string(b) != "open" || v != version {
		t.Fatalf("posted: %q, version %d (%v), expected %d", b, v, err, version)
	}
	if b, err := q.Payload(ctx, id); err != nil || string(b) != "payload" {
		t.Fatalf("payload %q (%v)", b, err)
	}
	if f, err := q.Check(ctx, false); err != nil || len(f) > 0 {
		t.Fatalf("Check: %v %v", f, err)
	}
	if err := q.Wait(ctx, s, time.Now().Add(30*time.Millisecond)); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	if err := q.Close(ctx, s); err != nil {
		t.Fatal(err)
	}
}

// TestTrapCrossSlotBracesInNames // asynq#480: on a Cluster, keys of one call must be in one slot
// whatever names hold.
func TestTrapCrossSlotBracesInNames(t *testing.T) {
	t.Parallel()
	c := servers.DialRedis(t, servers.StartRedisCluster(t))
	for _, pool := range []string{"", "plain", "{", "}", "a}b{c", "x\n:/%"} {
		cycle(t, newQueue(t, c, redis.Options{Pool: pool}), "run{}"+pool+"}", 20)
	}
}

// TestTrapFailover: the queue continues with the replica when the master is gone.
func TestTrapFailover(t *testing.T) {
	t.Parallel()
	f := servers.StartRedisSentinel(t)
	c := servers.DialRedis(t, f.URL())
	q := newQueue(t, c, redis.Options{SessionTTL: time.Hour})
	mustSubmit(t, q, "r", "a", "b", "c")
	s := mustOpen(t, q)
	first, err := q.Turn(t.Context(), queue.Turn{Session: s, Want: 1})
	if err != nil || len(first.Leases) != 1 {
		t.Fatalf("Turn: %+v, %v", first, err)
	}
	version, err := q.Post(t.Context(), "windows", []byte("closed"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	master := f.Master.Client()
	t.Cleanup(func() { _ = master.Close() })
	if err := master.Incr(t.Context(), "last").Err(); err != nil { // WAIT is for what its own connection wrote
		t.Fatal(err)
	}
	if n, err := master.Do(t.Context(), "wait", 1, 10_000).Int(); err != nil || n != 1 {
		t.Fatalf("the replica is not in step: %d, %v", n, err)
	}
	f.Master.Kill()
	servers.Until(t, "the replica to take over", func() bool {
		held, err := q.Adopt(t.Context(), s)
		if err == nil && (len(held) != 1 || held[0].Token != first.Leases[0].Token) {
			t.Fatalf("after failover the session holds %v", held)
		}
		return err == nil
	})
	if b, v, err := q.Posted(t.Context(), "windows", 0); err != nil || string(b) != "closed" || v != version {
		t.Fatalf("after failover the board has %q, version %d (%v), expected %d", b, v, err, version)
	}
	if v, err := q.Post(t.Context(), "windows", []byte("open"), time.Hour); err != nil || v <= version {
		t.Fatalf("after failover a post has version %d (%v), it was %d before", v, err, version)
	}
	trust(t, q, s)
	l := first.Leases[0]
	res, err := q.Turn(t.Context(), queue.Turn{Session: s, Want: 3, Acks: []queue.Ack{{Job: l.Job, Token: l.Token, Kind: queue.AckDone, Outcome: core.Changed}}})
	if err != nil || len(res.Stale) != 0 || len(res.Leases) != 2 || res.Leases[0].Token <= l.Token {
		t.Fatalf("Turn after failover: %+v, %v", res, err)
	}
}

// TestTrapActiveWithoutLease // asynq#1051, #1144, #799: any key may be gone; Check mends until
// nothing is found, and every job that is still known ends exactly once.
func TestTrapActiveWithoutLease(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	c, user := server.Client(), server.User(t)
	t.Cleanup(func() { _ = c.Close() })
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 40 {
		q := newQueue(t, user, redis.Options{Pool: strconv.Itoa(round)})
		for i := range 3 {
			r := queue.Run{ID: "r" + strconv.Itoa(i), Tenant: strconv.Itoa(i % 2), PerGroup: i, Limit: 11}
			r.Segments = []queue.Segment{{Count: 8}, {Due: time.Now().Add(time.Hour), Count: 1}, {Due: time.Now().Add(2 * time.Hour), Count: 3}}
			for h := range 12 {
				r.Targets = append(r.Targets, queue.Target{Host: strconv.Itoa(h), Group: "g" + strconv.Itoa(h%3)})
			}
			if _, err := queue.SubmitOne(t.Context(), q, r); err != nil {
				t.Fatal(err)
			}
		}
		s := mustOpen(t, q)
		res, err := q.Turn(t.Context(), queue.Turn{Session: s, Want: 9})
		if err != nil {
			t.Fatal(err)
		}
		var acks []queue.Ack
		for i, l := range res.Leases[:6] {
			acks = append(acks, queue.Ack{Job: l.Job, Token: l.Token, Kind: []queue.AckKind{queue.AckDone, queue.AckRetry, queue.AckSuspend}[i%3], Outcome: core.Changed, After: time.Hour, Event: queue.EventWindow})
		}
		if _, err := q.Turn(t.Context(), queue.Turn{Session: s, Acks: acks, Want: 2}); err != nil {
			t.Fatal(err)
		}
		keys, err := c.Keys(t.Context(), "{"+strconv.Itoa(round)+"/0}:*").Result()
		if err != nil {
			t.Fatal(err)
		}
		gone := keys[rnd.IntN(len(keys))]
		if err := c.Del(t.Context(), gone).Err(); err != nil {
			t.Fatal(err)
		}
		converge(t, q, gone)
		finishAll(t, q, gone)
	}
}

func converge(t *testing.T, q *redis.Queue, gone string) {
	t.Helper()
	for range 6 {
		found, err := q.Check(t.Context(), true)
		if err != nil {
			t.Fatalf("Check after %s was deleted: %v", gone, err)
		}
		if len(found) == 0 {
			return
		}
	}
	found, _ := q.Check(t.Context(), false)
	t.Fatalf("Check after %s was deleted does not converge: %v", gone, found)
}

// finishAll works until every run that is left is complete, with each job ended once.
func finishAll(t *testing.T, q *redis.Queue, gone string) {
	t.Helper()
	ctx := t.Context()
	s := mustOpen(t, q)
	var acks []queue.Ack
	for i := range 3 {
		id := "r" + strconv.Itoa(i)
		if err := q.Cancel(ctx, id, "enough"); err != nil && !errors.Is(err, core.ErrNotFound) {
			t.Fatalf("after %s was deleted: %v", gone, err)
		}
		if _, err := q.Turn(ctx, queue.Turn{Session: s, Acks: acks, Want: 0}); err != nil {
			t.Fatal(err)
		}
		st, err := q.Status(ctx, id)
		if errors.Is(err, core.ErrNotFound) {
			continue
		}
		if err != nil || st.Pending+st.Blocked+st.Waiting+st.Suspended != 0 {
			t.Fatalf("after %s was deleted: %+v, %v", gone, st, err)
		}
		sight := q.Poll(ctx, 1000, queue.Ask{Run: id})[0]
		list, err := sight.Records, sight.Err
		if err != nil {
			t.Fatal(err)
		}
		seen := map[int]bool{}
		for _, r := range list {
			for j := r.Index; j < r.Index+r.Count; j++ {
				if seen[j] {
					t.Fatalf("after %s was deleted job %s/%d ended twice", gone, id, j)
				}
				seen[j] = true
			}
		}
	}
}

// mainThread is the CPU time of the thread that serves clients: unlike the time that a command
// takes, it does not grow with the load of the machine.
func mainThread(t *testing.T, c *goredis.Client) (used time.Duration) {
	t.Helper()
	info, err := c.Info(t.Context(), "cpu").Result()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_user_main_thread" && name != "used_cpu_sys_main_thread" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		used, found = used+time.Duration(seconds*float64(time.Second)), found+1
	}
	if found != 2 {
		t.Fatalf("Redis reports no CPU time of its main thread:\n%s", info)
	}
	return used
}

// TestTrapUnboundedCleanup // bull#2357: forgetting a run of a million jobs pauses nobody.
func TestTrapUnboundedCleanup(t *testing.T) { // not in parallel: it is heavy
	server := servers.StartRedis(t)
	c := server.Client()
	t.Cleanup(func() { _ = c.Close() })
	q := newQueue(t, server.User(t), redis.Options{Keep: time.Millisecond})
	r := queue.Run{ID: "big"}
	for i := range 1_000_000 {
		r.Targets = append(r.Targets, queue.Target{Host: strconv.Itoa(i)})
	}
	if _, err := queue.SubmitOne(t.Context(), q, r); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, q)
	if err := q.Cancel(t.Context(), "big", "enough"); err != nil {
		t.Fatal(err)
	}
	servers.Until(t, "the run to be forgotten", func() bool {
		before := mainThread(t, c)
		if _, err := q.Beat(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if d := mainThread(t, c) - before; d > 100*time.Millisecond {
			t.Errorf("a beat took Redis %v of CPU", d)
		}
		n, err := c.HLen(t.Context(), "{/0}:ids").Result()
		return err == nil && n == 0
	})
}
