package redis_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/testparts/servers"
)

func TestPreflight(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{nil, nil},
		{[]string{"--maxmemory-policy", "allkeys-lru"}, []string{"maxmemory-policy noeviction"}},
		{[]string{"--appendonly", "no"}, []string{"appendonly yes"}},
		{[]string{"--appendonly", "no", "--save", "60 1"}, []string{"appendonly yes"}},
	} {
		c := servers.StartRedis(t, tc.args...).User(t)
		got, err := newQueue(t, c, redis.Options{}).Preflight(t.Context())
		if err != nil || len(got) != len(tc.want) {
			t.Fatalf("%v: %q, %v", tc.args, got, err)
		}
		for i := range got {
			if !strings.Contains(got[i], tc.want[i]) {
				t.Errorf("%v: %q does not contain %q", tc.args, got[i], tc.want[i])
			}
		}
	}
}

// TestScriptsHaveAContract: each has what it needs, does, takes and returns.
func TestScriptsHaveAContract(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("lua/*.lua")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		head := regexp.MustCompile(`(?m)^(--.*\n)+`).FindString(string(b))
		library := slices.Contains([]string{"head.lua", "base.lua", "small.lua", "locks.lua", "jobs.lua", "forget.lua", "progress.lua", "trust.lua"}, filepath.Base(f))
		for _, word := range []string{filepath.Base(f) + ":", "Needs:", "ARGV:", "Returns:"} {
			if !library && !strings.Contains(head, word) {
				t.Errorf("%s: its header has no %q", f, word)
			}
		}
		if !strings.HasPrefix(head, "-- "+filepath.Base(f)) {
			t.Errorf("%s does not start with its name", f)
		}
	}
}

// TestIdleNodeIsQuiet: an idle node sends a few commands a second.
func TestIdleNodeIsQuiet(t *testing.T) {
	server := servers.StartRedis(t)
	c, watch := server.User(t), server.Client()
	t.Cleanup(func() { _ = watch.Close() })
	q := newQueue(t, c, redis.Options{})
	s := mustOpen(t, q)
	count := func() int {
		n := 0
		for _, cmd := range []string{"evalsha", "blpop", "client|id", "client|unblock", "eval"} {
			n += servers.RedisCalls(t, watch, cmd)
		}
		return n
	}
	before, start := count(), time.Now()
	if err := q.Wait(t.Context(), s, start.Add(3*time.Second)); err != nil {
		t.Fatal(err)
	}
	if took, n := time.Since(start).Seconds(), count()-before; float64(n) > 6*took+6 {
		t.Errorf("%d commands in %.1f s", n, took)
	}
}

// TestOneMarker: however many runs are submitted, at most one marker is made, and a lost marker is
// made again.
func TestOneMarker(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	c := server.Client()
	t.Cleanup(func() { _ = c.Close() })
	q := newQueue(t, server.User(t), redis.Options{})
	for _, id := range []string{"a", "b", "c"} {
		mustSubmit(t, q, id, id+"1", id+"2")
		if n, err := c.LLen(t.Context(), "{/0}:mark").Result(); err != nil || n != 1 {
			t.Fatalf("%d markers after %s, %v", n, id, err)
		}
	}
	if err := c.Del(t.Context(), "{/0}:mark").Err(); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, q)
	if _, err := q.Turn(t.Context(), queue.Turn{Session: s, Want: 1}); err != nil {
		t.Fatal(err)
	}
	if n, err := c.LLen(t.Context(), "{/0}:mark").Result(); err != nil || n != 1 {
		t.Fatalf("%d markers after a turn that left work, %v", n, err)
	}
}

// TestTrapClockSkew // db-scheduler#433: only Redis' clock is read. Where that was ahead, as before
// a failover, nothing stands still.
func TestTrapClockSkew(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	c := server.Client()
	t.Cleanup(func() { _ = c.Close() })
	q := newQueue(t, server.User(t), redis.Options{SessionTTL: time.Hour})
	s := mustOpen(t, q)
	if err := c.HSet(t.Context(), "{/0}:meta2", "clock", time.Now().Add(10*time.Minute).UnixMicro()).Err(); err != nil {
		t.Fatal(err)
	}
	res, err := q.Turn(t.Context(), queue.Turn{Session: s})
	if now := time.Now(); err != nil || res.Now.After(now) || now.Sub(res.Now) > 5*time.Minute {
		t.Fatalf("the clock shows %v (%v), it is %v", res.Now, err, now)
	}
}
