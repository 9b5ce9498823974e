package redis_test

import (
	"flag"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/board/boardtest"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/queuetest"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/testparts/servers"
)

func TestMain(m *testing.M) {
	// Most tests wait for a server or for a session to expire: more of them at the same time than
	// there are cores.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		if err := f.Value.Set(strconv.Itoa(8)); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// pools gives every queue of a test a pool of its own on one server.
type pools struct {
	client goredis.UniversalClient
	n      atomic.Int64
}

func newPools(t *testing.T) *pools {
	t.Helper()
	return &pools{client: servers.StartRedis(t).User(t)}
}

func (p *pools) open(t queuetest.TB, ttl time.Duration) *redis.Queue {
	t.Helper()
	q, err := redis.New(p.client, redis.Options{Pool: "pool {" + strconv.FormatInt(p.n.Add(1), 10) + "}:\n", SessionTTL: ttl})
	if err != nil {
		t.Fatalf("open a queue: %v", err)
	}
	return q
}

func (p *pools) queue(t queuetest.TB, ttl time.Duration) queue.Queue { return p.open(t, ttl) }

func (p *pools) board(t boardtest.TB) board.Store { return p.open(t, 0) }

// Over TLS, as a user with the least rights, which are compared with the calls.
func TestConformance(t *testing.T) {
	t.Parallel()
	server := servers.StartRedisTLS(t)
	client := server.User(t)
	calls := servers.RecordRedis(client)
	// After the tests of the suites, and before the server ends. INFO is Preflight's.
	t.Cleanup(func() { servers.WantLeastOfRedis(t, calls, server, "lua", redisconn.QueueCommands(), "info") })
	p := &pools{client: client}
	around := func(t *testing.T, f func(*testing.T)) { t.Parallel(); f(t) } // most tests only wait for a session to expire
	queuetest.Run(t, queuetest.Subject{Open: p.queue, Around: around})
	boardtest.Run(t, boardtest.Subject{Open: p.board, Around: around})
}
