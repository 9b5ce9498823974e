package redis_test

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/queue/redis/redistest"
)

// A Redis that comes back with an older state gives no token twice, and none that is below one that it gave; that it was set back shows
// in the number of its turns. The counter alone would give the same tokens again.
func TestFaultR6TokensGrowOverARollback(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	defer func() { _ = client.Close() }()
	q := newQueue(t, client, redis.Options{})
	session := mustOpen(t, q)
	if _, err := queue.SubmitOne(t.Context(), q, queue.Run{ID: "r", Targets: targets("h", 60)}); err != nil {
		t.Fatal(err)
	}
	var last, turns uint64
	lease := func(q *redis.Queue) (grows bool, more uint64) {
		t.Helper()
		res, err := q.Turn(t.Context(), queue.Turn{Session: session, Want: 20})
		if err != nil || len(res.Leases) != 20 {
			t.Fatalf("%d leases, %v", len(res.Leases), err)
		}
		grows = true
		for _, l := range res.Leases {
			grows = grows && l.Token > last
			last = max(last, l.Token)
		}
		return grows, uint64(res.Turns)
	}
	if _, turns = lease(q); turns == 0 {
		t.Error("the first turn was counted as none")
	}
	if err := client.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	before := last
	if grows, n := lease(q); !grows || n <= turns {
		t.Errorf("after %d turns another has number %d, and its tokens grow: %t", turns, n, grows)
	} else {
		turns = n
	}
	server.Kill()
	older := redistest.Start(t, "--appendonly", "no", "--dir", server.Dir).Client()
	defer func() { _ = older.Close() }()
	if kept := seqOf(t, older); kept != before || kept >= last {
		t.Fatalf("the counter is %d, expected %d as it was saved, below %d", kept, before, last)
	}
	if grows, n := lease(newQueue(t, older, redis.Options{})); !grows || n > turns {
		t.Errorf("behind turn %d the older queue has turn %d, and its tokens grow: %t", turns, n, grows)
	}
}

func seqOf(t *testing.T, c *goredis.Client) uint64 {
	t.Helper()
	n, err := c.HGet(t.Context(), "{/0}:meta2", "seq").Uint64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
