package servers

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/testparts"
)

// Redis is one redis-server process.
type Redis struct {
	Addr   string // host:port, or the path of a Unix socket
	Socket bool
	Dir    string
	Guard  *RedisGuard
	env    []string
	cmd    *exec.Cmd
	exited chan struct{}
	out    *bytes.Buffer
	once   sync.Once
}

// StartRedis runs a server on a Unix socket, or over TLS, with append-only file and without
// eviction, until the test ends.
func StartRedis(tb testing.TB, extra ...string) *Redis {
	tb.Helper()
	if TLSEverywhere() {
		return StartRedisTLS(tb, extra...)
	}
	dir := tempDir(tb)
	s := &Redis{Addr: filepath.Join(dir, "s"), Socket: true, Dir: dir, Guard: NewRedisGuard(tb, dir, false)}
	s.start(tb, append([]string{"--port", "0", "--unixsocket", s.Addr}, extra...))
	return s
}

// StartRedisTCP is StartRedis on a port of 127.0.0.1.
func StartRedisTCP(tb testing.TB, extra ...string) *Redis {
	tb.Helper()
	return startRedisTCP(tb, TLSEverywhere(), extra)
}

// StartRedisTLS is StartTCP over TLS.
func StartRedisTLS(tb testing.TB, extra ...string) *Redis {
	tb.Helper()
	return startRedisTCP(tb, true, extra)
}

func startRedisTCP(tb testing.TB, secure bool, extra []string) *Redis {
	tb.Helper()
	dir := tempDir(tb)
	s := &Redis{Addr: freePort(tb), Dir: dir, Guard: NewRedisGuard(tb, dir, secure)}
	s.start(tb, append(append([]string{"--bind", "127.0.0.1"}, s.Guard.listen(portOf(s.Addr))...), extra...))
	return s
}

func (s *Redis) start(tb testing.TB, args []string) {
	tb.Helper()
	s.exited, s.out = make(chan struct{}), &bytes.Buffer{}
	base := append([]string{
		"--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction",
		"--dir", s.Dir, "--daemonize", "no", "--protected-mode", "no",
	}, aclArguments(tb, redisconn.DoctorRole)...)
	s.launch(tb, append(base, args...))
	tb.Cleanup(s.Kill)
	s.ready(tb)
}

func (s *Redis) launch(tb testing.TB, args []string) {
	tb.Helper()
	s.cmd = exec.Command(testparts.Need(tb, "redis-server", "redis-server"), args...) //nolint:noctx,gosec // ended by Kill; the test's own program
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	s.cmd.SysProcAttr, s.cmd.Env = dieWithParent(syscall.SIGKILL), append(os.Environ(), s.env...)
	if err := s.cmd.Start(); err != nil {
		tb.Fatalf("start redis-server: %v", err)
	}
	go func() { _ = s.cmd.Wait(); close(s.exited) }()
}

func (s *Redis) ready(tb testing.TB) {
	tb.Helper()
	c := s.Client()
	defer func() { _ = c.Close() }()
	Until(tb, "redis-server to answer", func() bool {
		select {
		case <-s.exited:
			tb.Fatalf("redis-server ended: %s", s.out)
		default:
		}
		return c.Ping(context.Background()).Err() == nil
	})
}

// Client is a new client of the server, without retries, which may do everything: tests read the
// state behind the tested code. The caller closes it.
func (s *Redis) Client() *goredis.Client {
	network := "tcp"
	if s.Socket {
		network = "unix"
	}
	return goredis.NewClient(&goredis.Options{Network: network, Addr: s.Addr, MaxRetries: -1, TLSConfig: s.Guard.config(s.Addr),
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience})
}

// Kill ends the process and waits for it.
func (s *Redis) Kill() {
	s.once.Do(func() {
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
		_ = s.cmd.Process.Kill()
		<-s.exited
	})
}

// Pause stops the process until Resume, as a stalled machine would.
func (s *Redis) Pause() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (s *Redis) Resume() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

// StartRedisCluster starts three masters that share the slots, and returns the URL of the user with
// the least rights.
func StartRedisCluster(tb testing.TB) string {
	tb.Helper()
	return clusterURL(clusterMasters(tb, TLSEverywhere()))
}

// StartRedisClusterTLS is StartRedisCluster over TLS.
func StartRedisClusterTLS(tb testing.TB) string {
	tb.Helper()
	return clusterURL(clusterMasters(tb, true))
}

func clusterURL(nodes []*Redis) string {
	return nodes[0].Guard.URL("-cluster", strings.Join(core.Map(nodes, func(s *Redis) string { return s.Addr }), ","), "")
}

// ReplicatedRedis is a Cluster of three masters, each with a replica that takes over when it is
// gone.
type ReplicatedRedis struct{ Masters, Replicas []*Redis }

// URL is how the user with the least rights reaches the Cluster.
func (r *ReplicatedRedis) URL() string { return clusterURL(r.Masters) }

// StartReplicatedRedis starts one.
func StartReplicatedRedis(tb testing.TB) *ReplicatedRedis {
	tb.Helper()
	r := &ReplicatedRedis{Masters: clusterMasters(tb, TLSEverywhere())}
	for _, m := range r.Masters {
		s := clusterNode(tb, TLSEverywhere())
		meetNodes(tb, s, m)
		id := askRedis(tb, m, "cluster", "myid")
		c := s.Client()
		Until(tb, "a replica to know its master", func() bool { return c.Do(tb.Context(), "cluster", "replicate", id).Err() == nil })
		must(tb, c.Close())
		r.Replicas = append(r.Replicas, s)
	}
	all := append(append([]*Redis{}, r.Masters...), r.Replicas...)
	for i, s := range r.Replicas {
		Until(tb, "a replica to be in step", func() bool { return strings.Contains(askRedis(tb, s, "info", "replication"), "master_link_status:up") })
		host, port, _ := net.SplitHostPort(s.Addr)
		Until(tb, "its master to count on it", func() bool {
			return strings.Contains(askRedis(tb, r.Masters[i], "info", "replication"), "ip="+host+",port="+port+",state=online")
		})
	}
	for _, s := range all {
		Until(tb, "everybody to know everybody", func() bool { return clusterFormed(askRedis(tb, s, "cluster", "info"), len(all)) })
	}
	return r
}

// Owner is the master that had the key's slot when all began.
func (r *ReplicatedRedis) Owner(tb testing.TB, key string) *Redis {
	tb.Helper()
	slot, err := strconv.Atoi(askRedis(tb, r.Masters[0], "cluster", "keyslot", key))
	must(tb, err)
	for i := range r.Masters {
		if slot < (i+1)*concurrency/len(r.Masters) {
			return r.Masters[i]
		}
	}
	tb.Fatalf("slot %d of key %s is nobody's", slot, key)
	return nil
}

const concurrency = 16384

// clusterNode is a server that knows nobody yet.
func clusterNode(tb testing.TB, secure bool) *Redis {
	tb.Helper()
	return startRedisTCP(tb, secure, []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port", portOf(freePort(tb)), "--repl-diskless-sync-delay", "0"})
}

// clusterMasters starts three, and returns when each reports cluster_state:ok.
func clusterMasters(tb testing.TB, secure bool) []*Redis {
	tb.Helper()
	const n = 3
	var nodes []*Redis
	for i := range n {
		s := clusterNode(tb, secure)
		askRedis(tb, s, "cluster", "addslotsrange", i*concurrency/n, (i+1)*concurrency/n-1)
		if i > 0 {
			meetNodes(tb, s, nodes[0])
		}
		nodes = append(nodes, s)
	}
	for _, s := range nodes {
		Until(tb, "the cluster to form", func() bool { return clusterFormed(askRedis(tb, s, "cluster", "info"), n) })
	}
	return nodes
}

func clusterFormed(info string, nodes int) bool {
	return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", nodes)) &&
		strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d\r", concurrency))
}

// meetNodes makes a node known to those that another one knows.
func meetNodes(tb testing.TB, s, other *Redis) {
	tb.Helper()
	c := other.Client()
	defer func() { _ = c.Close() }()
	bus, err := c.ConfigGet(context.Background(), "cluster-port").Result()
	must(tb, err)
	host, port, _ := net.SplitHostPort(other.Addr)
	askRedis(tb, s, "cluster", "meet", host, port, bus["cluster-port"])
}

// askRedis sends one command and returns its answer as text.
func askRedis(tb testing.TB, s *Redis, command ...any) string {
	tb.Helper()
	c := s.Client()
	defer func() { _ = c.Close() }()
	reply, err := c.Do(context.Background(), command...).Result()
	must(tb, err)
	return fmt.Sprint(reply)
}

// RedisFailover is a master with a replica, watched by one Sentinel under the name "mymaster".
type RedisFailover struct {
	Master, Replica *Redis
	Sentinel        string // address
}

// URL is the URL of the present master for the user with the least rights.
func (f *RedisFailover) URL() string {
	return f.Master.Guard.URL("-sentinel", f.Sentinel, "/mymaster", "sentinel_user", RedisUser, "sentinel_password", Password)
}

// StartRedisSentinel starts a Failover.
func StartRedisSentinel(tb testing.TB) *RedisFailover {
	tb.Helper()
	return startSentinel(tb, TLSEverywhere())
}

// StartRedisSentinelTLS is Sentinel over TLS.
func StartRedisSentinelTLS(tb testing.TB) *RedisFailover {
	tb.Helper()
	return startSentinel(tb, true)
}

func startSentinel(tb testing.TB, secure bool) *RedisFailover {
	tb.Helper()
	f := &RedisFailover{Master: startRedisTCP(tb, secure, nil)}
	host, port, _ := net.SplitHostPort(f.Master.Addr)
	f.Replica = startRedisTCP(tb, secure, []string{"--replicaof", host + " " + port, "--repl-diskless-sync-delay", "0"})
	r := f.Replica.Client()
	tb.Cleanup(func() { _ = r.Close() })
	Until(tb, "the replica to be in step", func() bool {
		info, err := r.Info(context.Background(), "replication").Result()
		return err == nil && bytes.Contains([]byte(info), []byte("master_link_status:up"))
	})
	f.Sentinel = freePort(tb)
	dir := tempDir(tb)
	conf := filepath.Join(dir, "sentinel.conf")
	s := &Redis{Addr: f.Sentinel, Dir: dir, Guard: NewRedisGuard(tb, dir, f.Master.Guard.Secure()), exited: make(chan struct{}), out: &bytes.Buffer{}}
	must(tb, os.WriteFile(conf, []byte(sentinelConfig(tb, s, host, port)), 0o600))
	s.launch(tb, []string{conf, "--sentinel"})
	tb.Cleanup(s.Kill)
	s.ready(tb)
	sc := goredis.NewSentinelClient(s.Guard.Options(tb, f.Sentinel))
	tb.Cleanup(func() { _ = sc.Close() })
	Until(tb, "the sentinel to know the replica", func() bool {
		list, err := sc.Replicas(context.Background(), "mymaster").Result()
		return err == nil && len(list) == 1
	})
	return f
}

func sentinelConfig(tb testing.TB, s *Redis, host, port string) string {
	tb.Helper()
	var b strings.Builder
	words := append([]string{"--bind", "127.0.0.1", "--dir", s.Dir}, s.Guard.listen(portOf(s.Addr))...)
	for i := 0; i+1 < len(words); i += 2 {
		name := strings.TrimPrefix(words[i], "--")
		if name != "tls-cluster" { // which a Sentinel does not know
			fmt.Fprintf(&b, "%s %s\n", name, words[i+1])
		}
	}
	rules, err := redisconn.ACLRules(redisconn.SentinelRole, Password)
	must(tb, err)
	fmt.Fprintf(&b, "user %s %s\n", RedisUser, strings.Join(rules, " "))
	fmt.Fprintf(&b, "sentinel monitor mymaster %s %s 1\nsentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 5000\n", host, port)
	return b.String()
}

// patience bounds what only a hang reaches.
const patience = 3 * time.Minute

// Until polls a condition, for three minutes at most.
func Until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	if !Poll(context.Background(), 10*time.Millisecond, ok) {
		tb.Fatalf("waited %v for %s", patience, what)
	}
}

// Poll checks a condition at each tick. It returns false if the condition is not true within three
// minutes.
func Poll(ctx context.Context, every time.Duration, ok func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// RedisCalls is how often the server has run a command, in lower case, for whomever.
func RedisCalls(tb testing.TB, c *goredis.Client, command string) int {
	tb.Helper()
	return countCalls(tb, c, command)
}

func countCalls(tb testing.TB, c *goredis.Client, command string) int {
	tb.Helper()
	info, err := c.Info(context.Background(), "commandstats").Result() // also at the end of a test
	must(tb, err)
	_, rest, _ := strings.Cut(info, "cmdstat_"+command+":calls=")
	number, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(number) // a command that was never run is not listed
	return n
}

// freePort is a port of 127.0.0.1 that is the test's own.
func freePort(tb testing.TB) string {
	tb.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(testparts.FreePort(tb)))
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	if _, err := strconv.Atoi(port); err != nil {
		return "0"
	}
	return port
}

// tempDir is short: the path of a Unix socket has at most 107 bytes.
func tempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "rt") //nolint:usetesting // tb.TempDir may be too long for a socket
	must(tb, err)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
