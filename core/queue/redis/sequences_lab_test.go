//go:build labs

package redis_test

import (
	"testing"
	"time"

	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/queue/queuetest"
)

// TestLabSequences puts random operations to the queue in memory and to Redis, which must agree.
func TestLabSequences(t *testing.T) {
	t.Parallel()
	queuetest.Sequences(t,
		queuetest.Subject{Open: func(t queuetest.TB, ttl time.Duration) queue.Backend {
			q := memory.New(memory.Options{SessionTTL: ttl})
			t.Cleanup(q.Shutdown)
			return q
		}},
		queuetest.Subject{Open: newPools(t).open})
}
