package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core/queue/memory"
)

// A queue that follows another one, as after a restart of its process, gives larger tokens than
// that has given.
func TestFaultR6TokensGrowOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := uint64(0)
		for range 3 {
			q := memory.New(memory.Options{SessionTTL: time.Minute})
			submit(t, q, bulk("r", 20))
			for _, l := range turn(t, q, openSession(t, q), 20, nil).Leases {
				if l.Token <= last {
					t.Fatalf("token %d follows %d", l.Token, last)
				}
				last = l.Token
			}
			q.Shutdown()
			<-time.After(time.Millisecond) // no process starts faster
		}
	})
}
