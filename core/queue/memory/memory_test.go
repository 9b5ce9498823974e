package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/board/boardtest"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/queue/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t queuetest.TB, ttl time.Duration) queue.Queue {
	q := memory.New(memory.Options{SessionTTL: ttl})
	t.Cleanup(q.Shutdown)
	return q
}

func openBoard(t boardtest.TB) board.Store {
	q := memory.New(memory.Options{})
	t.Cleanup(q.Shutdown)
	return q
}

// TestConformance runs in fake time: hours pass in no time, and a hang is found as a deadlock.
func TestConformance(t *testing.T) {
	queuetest.Run(t, queuetest.Subject{Open: open, Around: synctest.Test})
	boardtest.Run(t, boardtest.Subject{Open: openBoard, Around: synctest.Test})
}

// TestSequences puts random operations to two queues in memory, which must agree, and keeps the
// invariants in sight: the model itself is sound.
func TestSequences(t *testing.T) {
	queuetest.Sequences(t, queuetest.Subject{Open: open}, queuetest.Subject{Open: open})
	boardtest.Sequences(t, boardtest.Subject{Open: openBoard}, boardtest.Subject{Open: openBoard})
}
