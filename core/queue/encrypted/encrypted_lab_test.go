//go:build linux && labs

package encrypted_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/board/boardtest"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/encrypted"
	"github.com/turnus/turnus/core/queue/queuetest"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/testparts/servers"
)

func TestLabConformanceOnRedis(t *testing.T) {
	t.Parallel()
	ring, _ := newRing(t, keyring.Options{})
	client := servers.StartRedis(t).Client()
	t.Cleanup(func() { _ = client.Close() })
	var n atomic.Int64
	open := func(t queuetest.TB, ttl time.Duration) *encrypted.Queue {
		t.Helper()
		q, err := redis.New(client, redis.Options{Pool: "pool" + strconv.FormatInt(n.Add(1), 10), SessionTTL: ttl})
		if err != nil {
			t.Fatalf("open a queue: %v", err)
		}
		return encrypted.New(q, ring, nil)
	}
	around := func(t *testing.T, f func(*testing.T)) { t.Parallel(); f(t) }
	queuetest.Run(t, queuetest.Subject{Open: func(t queuetest.TB, ttl time.Duration) queue.Queue { return open(t, ttl) }, Around: around})
	boardtest.Run(t, boardtest.Subject{Open: func(t boardtest.TB) board.Store { return open(t, 0) }, Around: around})
}
