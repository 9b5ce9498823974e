//go:build labs

package redis_test

import (
	"testing"
	"time"

	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/board/boardtest"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/queue/queuetest"
)

// inMemory is the model that Redis is compared with.
func inMemory(t queuetest.TB, ttl time.Duration) *memory.Queue {
	q := memory.New(memory.Options{SessionTTL: ttl})
	t.Cleanup(q.Shutdown)
	return q
}

// TestLabSequences puts random operations to the queue in memory and to Redis, which must agree.
func TestLabSequences(t *testing.T) {
	t.Parallel()
	queuetest.Sequences(t,
		queuetest.Subject{Open: func(t queuetest.TB, ttl time.Duration) queue.Queue { return inMemory(t, ttl) }},
		queuetest.Subject{Open: newPools(t).queue})
	boardtest.Sequences(t,
		boardtest.Subject{Open: func(t boardtest.TB) board.Store { return inMemory(t, 0) }},
		boardtest.Subject{Open: newPools(t).board})
}
