package redis_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/turnus/turnus/core/queue/redis/redistest"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/schedule/redis"
	"github.com/turnus/turnus/core/schedule/schedulebench"
	"github.com/turnus/turnus/core/schedule/scheduletest"
)

// serverEnv tells the test binary that it is a server, and on which Redis.
const serverEnv = "TURNUS_TEST_SCHEDULES"

func TestMain(m *testing.M) {
	if url := os.Getenv(serverEnv); url != "" {
		if err := serve(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Most tests wait for a server or a due time: more of them at once than there are cores.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		if err := f.Value.Set("8"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

func serve(url string) error {
	c, err := redisconn.Dial(url)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	s, err := redis.New(c, redis.Options{})
	if err != nil {
		return err
	}
	return schedulebench.Serve(context.Background(), s, os.Stdin, os.Stdout)
}

func newStore(tb scheduletest.TB, c goredis.UniversalClient, space string) *redis.Store {
	tb.Helper()
	s, err := redis.New(c, redis.Options{Space: space})
	if err != nil {
		tb.Fatalf("open a store: %v", err)
	}
	return s
}

// startClients are those of a server of the test's own: a store's, with the least rights, and an administrator's.
func startClients(t *testing.T, args ...string) (user, admin *goredis.Client) {
	t.Helper()
	server := redistest.Start(t, args...)
	admin = server.Client()
	t.Cleanup(func() { _ = admin.Close() })
	return server.User(t), admin
}

// Over TLS, as a user with the least rights, which are held to what is called.
func TestConformance(t *testing.T) {
	t.Parallel()
	server := redistest.StartTLS(t)
	user := server.User(t)
	calls := redistest.Record(user)
	t.Cleanup(func() { redistest.WantLeast(t, calls, server, "lua", redisconn.ScheduleCommands()) })
	var n atomic.Int64
	scheduletest.Run(t, scheduletest.Subject{
		Open: func(t scheduletest.TB) schedule.Store {
			t.Helper()
			return newStore(t, user, "s"+strconv.FormatInt(n.Add(1), 10))
		},
		Around: func(t *testing.T, f func(*testing.T)) { t.Parallel(); f(t) },
	})
}

// TestServersKilledAtTheInstant: three processes, two of which are killed (SIGKILL) in the middle
// of firing what is due at one instant. Every run is launched, and every schedule fired exactly
// once.
func TestServersKilledAtTheInstant(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := server.User(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const due = 2000
	v, err := schedulebench.Fire(t.Context(), newStore(t, c, ""), schedulebench.Params{
		Due: due, Servers: 3, Kill: 2, Soon: true, Timeout: time.Minute, Tell: func(text string) { t.Log(text) },
		Server: func(int) *exec.Cmd {
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = append(os.Environ(), serverEnv+"="+server.URL())
			cmd.Stderr = t.Output()
			return cmd
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", v)
	if v.Launched != due || v.Confirmed != due || v.Wrong != 0 {
		t.Errorf("%d of %d launched, %d confirmed once, %d of unknown runs", v.Launched, due, v.Confirmed, v.Wrong)
	}
}
