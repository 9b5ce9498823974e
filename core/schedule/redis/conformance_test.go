package redis_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core/queue/redis/redistest"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/schedule/redis"
	"github.com/turnus/turnus/core/schedule/scheduletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	c := redistest.Start(t).Client()
	t.Cleanup(func() { _ = c.Close() })
	var n atomic.Int64
	scheduletest.Run(t, scheduletest.Subject{
		Open: func(t scheduletest.TB) schedule.Store {
			t.Helper()
			s, err := redis.New(c, redis.Options{Space: "s" + strconv.FormatInt(n.Add(1), 10)})
			if err != nil {
				t.Fatalf("open a store: %v", err)
			}
			return s
		},
		Around: func(t *testing.T, f func(*testing.T)) { t.Parallel(); f(t) },
	})
}
