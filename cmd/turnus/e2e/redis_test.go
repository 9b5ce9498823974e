//go:build linux

package e2e

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
)

// redisServer is a redis-server that may be stopped, killed, and started again where it was.
type redisServer struct {
	t     *testing.T
	addr  string
	guard *servers.RedisGuard
	dir   string // of its files
	args  []string
	cmd   *exec.Cmd
	done  chan struct{}
}

// startRedis starts a server on a port of 127.0.0.1, with append-only file and without eviction;
// extra wins.
func startRedis(t *testing.T, extra ...string) *redisServer {
	t.Helper()
	program := testparts.Need(t, "redis-server", "redis-server")
	dir, number := t.TempDir(), strconv.Itoa(testparts.FreePort(t))
	s := &redisServer{t: t, addr: net.JoinHostPort("127.0.0.1", number), dir: dir}
	s.guard = servers.NewRedisGuard(t, dir, servers.TLSEverywhere())
	s.args = append(append([]string{program, "--bind", "127.0.0.1"}, s.guard.Arguments(t, number)...), append([]string{
		"--dir", dir, "--save", "", "--appendonly", "yes",
		"--maxmemory-policy", "noeviction", "--loglevel", "warning",
	}, extra...)...)
	s.launch()
	t.Cleanup(s.kill)
	return s
}

func (s *redisServer) url() string { return s.guard.URL("", s.addr, "") }

// launch starts the server and waits until it answers.
func (s *redisServer) launch() {
	s.t.Helper()
	s.cmd, s.done = exec.Command(s.args[0], s.args[1:]...), make(chan struct{})
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	cmd, done := s.cmd, s.done
	go func() { _ = cmd.Wait(); close(done) }()
	c := goredis.NewClient(s.guard.Options(s.t, s.addr))
	defer func() { _ = c.Close() }()
	until(s.t, "redis-server to answer", func() bool { return c.Ping(context.Background()).Err() == nil })
}

// admin is a client that may do everything.
func (s *redisServer) admin() *goredis.Client {
	s.t.Helper()
	c := goredis.NewClient(s.guard.Options(s.t, s.addr))
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// kill ends the server as a power cut would.
func (s *redisServer) kill() {
	_ = s.cmd.Process.Kill()
	<-s.done
}

func (s *redisServer) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

func (s *redisServer) queue() *redis.Queue { s.t.Helper(); return dialQueue(s.t, s.url()) }

// dialQueue is the queue as a node sees it, to read the records.
func dialQueue(t *testing.T, url string) *redis.Queue {
	t.Helper()
	client, err := redisconn.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	q, err := redis.New(client, redis.Options{Pool: "default"})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// sound fails the test when the queue has broken invariants or does not hold exactly one
// record of each job of the runs.
func (s *redisServer) sound(runs map[string]int) {
	s.t.Helper()
	q, ctx := s.queue(), context.Background()
	findings, err := q.Check(ctx, false)
	if err != nil || len(findings) > 0 {
		s.t.Errorf("queue: findings %v, %v", findings, err)
	}
	for run, jobs := range runs {
		seen := make(map[int]int, jobs)
		cursor := ""
		for more := true; more; {
			sight := q.Poll(ctx, 1000, queue.Ask{Run: run, Cursor: cursor})[0]
			if sight.Err != nil {
				s.t.Fatal(sight.Err)
			}
			cursor, more = sight.Next, sight.More
			for _, r := range sight.Records {
				for i := range max(r.Count, 1) {
					seen[r.Index+i]++
				}
			}
		}
		if bad := notOnce(seen, jobs); bad != "" {
			s.t.Errorf("run %s: %s", run, bad)
		}
	}
}

// notOnce returns which of n jobs were not recorded exactly once.
func notOnce(seen map[int]int, n int) string {
	for i := range n {
		if seen[i] != 1 {
			return fmt.Sprintf("job %d has %d recorded outcomes, expected 1", i, seen[i])
		}
	}
	if len(seen) != n {
		return fmt.Sprintf("%d jobs are recorded, expected %d", len(seen), n)
	}
	return ""
}
