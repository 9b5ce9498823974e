package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/queue/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t queuetest.TB, ttl time.Duration) queue.Backend {
	q := memory.New(memory.Options{SessionTTL: ttl})
	t.Cleanup(q.Shutdown)
	return q
}

// TestConformance runs in fake time: hours pass in no time, and a hang is found as a deadlock.
func TestConformance(t *testing.T) {
	queuetest.Run(t, queuetest.Subject{
		Open:   open,
		Around: func(t *testing.T, f func(*testing.T)) { synctest.Test(t, f) },
	})
}

// TestSequences puts random operations to two queues in memory, which must agree, and keeps the
// invariants in sight: the model itself is sound.
func TestSequences(t *testing.T) {
	queuetest.Sequences(t, queuetest.Subject{Open: open}, queuetest.Subject{Open: open})
}
