package redis_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue/redis/redistest"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/schedule"
)

func name(n int) schedule.ID { return schedule.ID{Tenant: "acme", Name: strconv.Itoa(n)} }

// put creates a record and returns its version.
func put(t *testing.T, s schedule.Store, n int, due time.Time) uint64 {
	t.Helper()
	v, err := s.Write(t.Context(), []schedule.Change{{ID: name(n), Due: due, Data: []byte("data")}})
	if err != nil || v[0] == 0 {
		t.Fatal(v, err)
	}
	return v[0]
}

func take(t *testing.T, s schedule.Store, hold time.Duration) schedule.Taken {
	t.Helper()
	got, err := s.Take(t.Context(), 10, hold)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func now(t *testing.T, s schedule.Store) time.Time {
	t.Helper()
	r, err := s.Get(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Now
}

// TestTrapScriptReplayedOnTimeout // go-redis#2339: a Take whose answer was lost is not sent again,
// even by a client that is told to retry; what it took comes back after its hold, as a new version.
func TestTrapScriptReplayedOnTimeout(t *testing.T) {
	t.Parallel()
	server := redistest.StartTCP(t)
	p := redistest.NewProxy(t, server)
	eager := goredis.NewClient(&goredis.Options{Addr: p.Addr, MaxRetries: 3, ReadTimeout: redistest.Impatient(), Protocol: 2, Username: redistest.User, Password: redistest.Password})
	t.Cleanup(func() { _ = eager.Close() })
	direct := server.Client()
	t.Cleanup(func() { _ = direct.Close() })
	s, straight := newStore(t, eager, ""), newStore(t, server.User(t), "")
	created := put(t, straight, 1, now(t, straight).Add(-time.Second))
	put(t, straight, 2, time.Time{})
	take(t, s, time.Millisecond) // the server knows the script now
	if err := straight.Wait(t.Context(), now(t, straight).Add(2*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	before := redistest.Calls(t, direct, "evalsha")
	p.Lose.Store("evalsha")
	if _, err := s.Take(t.Context(), 10, 700*time.Millisecond); !errors.Is(err, core.ErrUnknown) {
		t.Fatalf("Take whose answer was lost: %v, expected core.ErrUnknown", err)
	}
	if n := redistest.Calls(t, direct, "evalsha") - before; n != 1 {
		t.Fatalf("sent %d times", n)
	}
	var again schedule.Taken
	redistest.Until(t, "the hold to end", func() bool {
		again = take(t, straight, time.Minute)
		return len(again.Records) > 0
	})
	if again.Records[0].Version <= created || string(again.Records[0].Data) != "data" {
		t.Errorf("came back as %+v", again.Records)
	}

	// A write whose answer was lost was applied once: its version tells.
	p.Lose.Store("")
	put(t, s, 3, time.Time{})
	p.Lose.Store("evalsha")
	if _, err := s.Write(t.Context(), []schedule.Change{{ID: name(4), Data: []byte("x")}}); !errors.Is(err, core.ErrUnknown) {
		t.Fatalf("Write whose answer was lost: %v", err)
	}
	r, err := straight.Get(t.Context(), []schedule.ID{name(4)})
	if err != nil || len(r.Records) != 1 {
		t.Fatal(r, err)
	}

	// Negative control: a plain command of the same client is sent again.
	p.Lose.Store("persist")
	_ = eager.Do(t.Context(), "persist", "{schedules/0}:control").Err()
	if n := redistest.Calls(t, direct, "persist"); n < 2 {
		t.Fatalf("the client sent a plain command %d times, expected retries", n)
	}
}

// TestUnreachable: what was certainly not sent is ErrUnavailable; a wait says so, too.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	c, err := redisconn.Dial("unix:///nonexistent/redis.sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s := newStore(t, c, "")
	if _, err := s.Take(t.Context(), 1, time.Second); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("Take without a server: %v", err)
	}
	if err := s.Wait(t.Context(), time.Now().Add(time.Hour)); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("Wait without a server: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Take(ctx, 1, time.Second); !errors.Is(err, context.Canceled) || errors.Is(err, core.ErrUnknown) {
		t.Errorf("Take after the end of its context: %v", err)
	}
}

// TestRestart: a server that is started again has every record, goes on with its versions, and knows no script.
func TestRestart(t *testing.T) {
	t.Parallel()
	user, c := startClients(t, "--enable-debug-command", "yes", "--appendfsync", "always")
	s := newStore(t, user, "")
	v := put(t, s, 1, now(t, s).Add(-time.Second))
	id := c.Info(t.Context(), "server").Val()
	_ = c.Do(t.Context(), "debug", "restart").Err() // the connection breaks
	var got schedule.Taken
	redistest.Until(t, "the server to be there again, with what it had", func() (there bool) {
		info, err := user.Info(t.Context(), "server").Result() // its connections broke, too
		if err != nil || strings.Contains(info, field(id, "run_id")) {
			return false
		}
		got, err = s.Take(t.Context(), 10, time.Minute) // refused as long as the server loads
		if err != nil && !errors.Is(err, core.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	if len(got.Records) != 1 || got.Records[0].Version <= v {
		t.Errorf("after the restart: %+v", got)
	}
}

func field(info, key string) string {
	for line := range strings.Lines(info) {
		if strings.HasPrefix(line, key+":") {
			return strings.TrimSpace(line)
		}
	}
	return key + " is missing"
}

// TestFlushed: an emptied server has nothing and says so; a version from before is never right
// again, and who waits is woken by what is written then.
func TestFlushed(t *testing.T) {
	t.Parallel()
	user, c := startClients(t)
	s := newStore(t, user, "")
	due := now(t, s).Add(time.Hour)
	var old uint64
	for i := range 5 {
		old = put(t, s, i, due)
	}
	until := now(t, s).Add(time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	var waiters sync.WaitGroup
	for range 3 {
		waiters.Go(func() {
			if err := s.Wait(ctx, until); err != nil {
				t.Errorf("not woken: %v", err)
			}
		})
	}
	redistest.Until(t, "three to wait", func() bool { return strings.Contains(c.Info(t.Context(), "clients").Val(), "blocked_clients:3") })
	if err := c.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if got := take(t, s, time.Minute); len(got.Records) != 0 || !got.Next.IsZero() {
		t.Errorf("emptied: %+v", got)
	}
	v, err := s.Write(t.Context(), []schedule.Change{{ID: name(4), Version: old, Data: []byte("x")}})
	if err != nil || v[0] != 0 {
		t.Errorf("what is gone could be written: %v, %v", v, err)
	}
	if again := put(t, s, 4, now(t, s).Add(-time.Second)); again <= old {
		t.Errorf("version %d after %d", again, old)
	}
	waiters.Wait()
}

// TestFaultR2TheClockIsTheServersOfNow // db-scheduler#433: only the server's clock is read. When it was ahead for a while, what is
// due after that is due at its time: not early, as with a clock held where it once was. Red with that.
func TestFaultR2TheClockIsTheServersOfNow(t *testing.T) {
	t.Parallel()
	server, leap := redistest.StartOnClock(t)
	s := newStore(t, server.User(t), "")
	v := put(t, s, 1, now(t, s).Add(30*time.Minute))
	if got := take(t, s, time.Hour); len(got.Records) != 0 {
		t.Fatalf("negative control: %+v is due already", got.Records)
	}
	leap(time.Hour)
	got := take(t, s, time.Hour)
	if len(got.Records) != 1 || got.Records[0].Version <= v {
		t.Errorf("an hour later: took %+v", got)
	}
	leap(-time.Hour)
	was := got.Now
	put(t, s, 2, was.Add(-10*time.Minute))
	if got := take(t, s, time.Minute); len(got.Records) != 0 || !got.Now.Before(was) {
		t.Errorf("after the clock was set back from %v: took %+v", was, got)
	}
	leap(time.Hour)
	if got := take(t, s, time.Minute); len(got.Records) != 1 {
		t.Errorf("when it is due: took %+v", got)
	}
}

// TestCluster: all keys are in one slot, whose server is found by scripts and blocking commands alike.
func TestCluster(t *testing.T) {
	t.Parallel()
	everything(t, newStore(t, redistest.Dial(t, redistest.Cluster(t)), "cluster"))
}

// TestSentinel: after a failover the new master goes on with the records and greater versions.
func TestSentinel(t *testing.T) {
	t.Parallel()
	f := redistest.Sentinel(t)
	s := newStore(t, redistest.Dial(t, f.URL()), "")
	everything(t, s)
	v := put(t, s, 900, now(t, s).Add(-time.Second))
	r := f.Replica.Client()
	t.Cleanup(func() { _ = r.Close() })
	redistest.Until(t, "the replica to have it", func() bool {
		got, err := newStore(t, r, "").Get(t.Context(), []schedule.ID{name(900)})
		return err == nil && len(got.Records) == 1
	})
	f.Master.Kill()
	var got schedule.Taken
	var err error
	redistest.Until(t, "the new master to hand out what is due", func() bool {
		got, err = s.Take(t.Context(), 1, time.Minute)
		if err != nil && !errors.Is(err, core.ErrUnavailable) && !errors.Is(err, core.ErrUnknown) {
			t.Fatal(err)
		}
		return len(got.Records) > 0
	})
	if got.Records[0].Version <= v {
		t.Errorf("version %d after %d", got.Records[0].Version, v)
	}
}

// everything calls each operation.
func everything(t *testing.T, s schedule.Store) {
	t.Helper()
	for i := range 100 {
		put(t, s, i, now(t, s).Add(time.Hour))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	until := now(t, s).Add(time.Minute)
	woken := make(chan error, 1)
	go func() { woken <- s.Wait(ctx, until) }()
	put(t, s, 100, now(t, s).Add(-time.Second))
	if err := <-woken; err != nil {
		t.Fatal(err)
	}
	if got := take(t, s, time.Hour); len(got.Records) != 1 || got.Records[0].ID != name(100) {
		t.Fatalf("took %+v", got)
	}
	if all := listed(t, s, 30); len(all) != 101 {
		t.Fatalf("%d records, expected 101", len(all))
	}
}

// TestIdleServerIsQuiet: a server with nothing due sends a few commands a second.
func TestIdleServerIsQuiet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	watch := server.Client()
	t.Cleanup(func() { _ = watch.Close() })
	s := newStore(t, server.User(t), "")
	put(t, s, 1, now(t, s).Add(time.Hour))
	count := func() (n int) {
		for _, cmd := range []string{"evalsha", "eval", "xread", "client|id", "client|unblock"} {
			n += redistest.Calls(t, watch, cmd)
		}
		return n
	}
	before, start := count(), time.Now()
	if err := s.Wait(t.Context(), now(t, s).Add(3*time.Second)); err != nil {
		t.Fatal(err)
	}
	if took, n := time.Since(start).Seconds(), count()-before; float64(n) > 4*took+6 {
		t.Errorf("%d commands in %.1f s", n, took)
	}
}

// TestCursors: only what a list gave is taken.
func TestCursors(t *testing.T) {
	t.Parallel()
	s := newStore(t, redistest.Start(t).User(t), "")
	for i := range 3 {
		put(t, s, i, time.Time{})
	}
	all, err := s.List(t.Context(), schedule.Page{All: true, Limit: 1})
	if err != nil || all.Next == "" {
		t.Fatal(all, err)
	}
	one, err := s.List(t.Context(), schedule.Page{Tenant: "acme", Limit: 1})
	if err != nil || one.Next == "" {
		t.Fatal(one, err)
	}
	for _, p := range []schedule.Page{
		{All: true, Limit: 1, Cursor: "x"}, {All: true, Limit: 1, Cursor: "eA"}, {All: true, Limit: 1, Cursor: one.Next}, {All: true, Limit: 1, Cursor: all.Next + "*"},
		{Tenant: "acme", Limit: 1, Cursor: all.Next}, {Tenant: "other", Limit: 1, Cursor: one.Next}, {Tenant: "a:b", Limit: 1},
	} {
		if _, err := s.List(t.Context(), p); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if l, err := s.List(t.Context(), schedule.Page{Tenant: "other", Limit: 9}); err != nil || len(l.Records) != 0 || l.Next != "" {
		t.Error(l, err)
	}
}
