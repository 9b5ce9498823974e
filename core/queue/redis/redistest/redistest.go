// Package redistest owns the private Redis servers of tests: one standalone server
// for a test binary, a Cluster of three with and without replicas, a Sentinel with a replica. They
// listen on Unix sockets or on ports of 127.0.0.1 that the kernel picked, and die with the test.
// Each has the user with the least rights; with TURNUS_TEST_TLS=1, or where a test asks for it,
// they speak TLS only, and ask for a client's certificate.
//
// It must not know what is stored in them.
package redistest

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

	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/trustlab"
)

// Server is one redis-server process.
type Server struct {
	Addr   string // host:port, or the path of a Unix socket
	Socket bool
	Dir    string
	Guard  *Guard
	env    []string
	cmd    *exec.Cmd
	exited chan struct{}
	out    *bytes.Buffer
	once   sync.Once
}

// Start runs a server on a Unix socket, or over TLS, with append-only file and without eviction,
// until the test ends.
func Start(tb testing.TB, extra ...string) *Server {
	tb.Helper()
	if trustlab.TLSEverywhere() {
		return StartTLS(tb, extra...)
	}
	dir := tempDir(tb)
	s := &Server{Addr: filepath.Join(dir, "s"), Socket: true, Dir: dir, Guard: NewGuard(tb, dir, false)}
	s.start(tb, append([]string{"--port", "0", "--unixsocket", s.Addr}, extra...))
	return s
}

// StartTCP is Start on a port of 127.0.0.1.
func StartTCP(tb testing.TB, extra ...string) *Server {
	tb.Helper()
	return startTCP(tb, trustlab.TLSEverywhere(), extra)
}

// StartTLS is StartTCP over TLS.
func StartTLS(tb testing.TB, extra ...string) *Server {
	tb.Helper()
	return startTCP(tb, true, extra)
}

func startTCP(tb testing.TB, secure bool, extra []string) *Server {
	tb.Helper()
	dir := tempDir(tb)
	s := &Server{Addr: freePort(tb), Dir: dir, Guard: NewGuard(tb, dir, secure)}
	s.start(tb, append(append([]string{"--bind", "127.0.0.1"}, s.Guard.listen(portOf(s.Addr))...), extra...))
	return s
}

func (s *Server) start(tb testing.TB, args []string) {
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

func (s *Server) launch(tb testing.TB, args []string) {
	tb.Helper()
	s.cmd = exec.Command(testparts.Need(tb, "redis-server", "redis-server"), args...) //nolint:noctx,gosec // ended by Kill; the test's own program
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	s.cmd.SysProcAttr, s.cmd.Env = attributes(), append(os.Environ(), s.env...)
	if err := s.cmd.Start(); err != nil {
		tb.Fatalf("start redis-server: %v", err)
	}
	go func() { _ = s.cmd.Wait(); close(s.exited) }()
}

func (s *Server) ready(tb testing.TB) {
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
func (s *Server) Client() *goredis.Client {
	network := "tcp"
	if s.Socket {
		network = "unix"
	}
	return goredis.NewClient(&goredis.Options{Network: network, Addr: s.Addr, MaxRetries: -1, TLSConfig: s.Guard.config(s.Addr),
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience})
}

// Kill ends the process and waits for it.
func (s *Server) Kill() {
	s.once.Do(func() {
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
		_ = s.cmd.Process.Kill()
		<-s.exited
	})
}

// Pause stops the process until Resume, as a stalled machine would.
func (s *Server) Pause() error { return s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (s *Server) Resume() error { return s.cmd.Process.Signal(syscall.SIGCONT) }

// Cluster starts three masters that share the slots, and returns the URL of the user with the least
// rights.
func Cluster(tb testing.TB) string {
	tb.Helper()
	return clusterURL(masters(tb, trustlab.TLSEverywhere()))
}

// ClusterTLS is Cluster over TLS.
func ClusterTLS(tb testing.TB) string {
	tb.Helper()
	return clusterURL(masters(tb, true))
}

func clusterURL(nodes []*Server) string {
	var addrs []string
	for _, s := range nodes {
		addrs = append(addrs, s.Addr)
	}
	return nodes[0].Guard.URL("-cluster", strings.Join(addrs, ","), "")
}

// Replicated is a Cluster of three masters, each with a replica that takes over when it is gone.
type Replicated struct{ Masters, Replicas []*Server }

// URL is how the user with the least rights reaches the Cluster.
func (r *Replicated) URL() string { return clusterURL(r.Masters) }

// ReplicatedCluster starts one.
func ReplicatedCluster(tb testing.TB) *Replicated {
	tb.Helper()
	r := &Replicated{Masters: masters(tb, trustlab.TLSEverywhere())}
	for _, m := range r.Masters {
		s := clusterNode(tb, trustlab.TLSEverywhere())
		meet(tb, s, m)
		id := ask(tb, m, "cluster", "myid")
		c := s.Client()
		Until(tb, "a replica to know its master", func() bool { return c.Do(tb.Context(), "cluster", "replicate", id).Err() == nil })
		must(tb, c.Close())
		r.Replicas = append(r.Replicas, s)
	}
	all := append(append([]*Server{}, r.Masters...), r.Replicas...)
	for i, s := range r.Replicas {
		Until(tb, "a replica to be in step", func() bool { return strings.Contains(ask(tb, s, "info", "replication"), "master_link_status:up") })
		host, port, _ := net.SplitHostPort(s.Addr)
		Until(tb, "its master to count on it", func() bool {
			return strings.Contains(ask(tb, r.Masters[i], "info", "replication"), "ip="+host+",port="+port+",state=online")
		})
	}
	for _, s := range all {
		Until(tb, "everybody to know everybody", func() bool { return formed(ask(tb, s, "cluster", "info"), len(all)) })
	}
	return r
}

// Owner is the master that had the key's slot when all began.
func (r *Replicated) Owner(tb testing.TB, key string) *Server {
	tb.Helper()
	slot, err := strconv.Atoi(ask(tb, r.Masters[0], "cluster", "keyslot", key))
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
func clusterNode(tb testing.TB, secure bool) *Server {
	tb.Helper()
	return startTCP(tb, secure, []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port", portOf(freePort(tb)), "--repl-diskless-sync-delay", "0"})
}

// masters starts three, and returns when each says that all is well.
func masters(tb testing.TB, secure bool) []*Server {
	tb.Helper()
	const n = 3
	var nodes []*Server
	for i := range n {
		s := clusterNode(tb, secure)
		ask(tb, s, "cluster", "addslotsrange", i*concurrency/n, (i+1)*concurrency/n-1)
		if i > 0 {
			meet(tb, s, nodes[0])
		}
		nodes = append(nodes, s)
	}
	for _, s := range nodes {
		Until(tb, "the cluster to form", func() bool { return formed(ask(tb, s, "cluster", "info"), n) })
	}
	return nodes
}

func formed(info string, nodes int) bool {
	return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", nodes)) &&
		strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d\r", concurrency))
}

// meet makes a node known to those that another one knows.
func meet(tb testing.TB, s, other *Server) {
	tb.Helper()
	c := other.Client()
	defer func() { _ = c.Close() }()
	bus, err := c.ConfigGet(context.Background(), "cluster-port").Result()
	must(tb, err)
	host, port, _ := net.SplitHostPort(other.Addr)
	ask(tb, s, "cluster", "meet", host, port, bus["cluster-port"])
}

// ask sends one command and returns its answer as text.
func ask(tb testing.TB, s *Server, command ...any) string {
	tb.Helper()
	c := s.Client()
	defer func() { _ = c.Close() }()
	reply, err := c.Do(context.Background(), command...).Result()
	must(tb, err)
	return fmt.Sprint(reply)
}

// Failover is a master with a replica, watched by one Sentinel under the name "mymaster".
type Failover struct {
	Master, Replica *Server
	Sentinel        string // address
}

// URL is the URL of the present master for the user with the least rights.
func (f *Failover) URL() string {
	return f.Master.Guard.URL("-sentinel", f.Sentinel, "/mymaster", "sentinel_user", User, "sentinel_password", Password)
}

// Sentinel starts a Failover.
func Sentinel(tb testing.TB) *Failover {
	tb.Helper()
	return sentinel(tb, trustlab.TLSEverywhere())
}

// SentinelTLS is Sentinel over TLS.
func SentinelTLS(tb testing.TB) *Failover {
	tb.Helper()
	return sentinel(tb, true)
}

func sentinel(tb testing.TB, secure bool) *Failover {
	tb.Helper()
	f := &Failover{Master: startTCP(tb, secure, nil)}
	host, port, _ := net.SplitHostPort(f.Master.Addr)
	f.Replica = startTCP(tb, secure, []string{"--replicaof", host + " " + port, "--repl-diskless-sync-delay", "0"})
	r := f.Replica.Client()
	tb.Cleanup(func() { _ = r.Close() })
	Until(tb, "the replica to be in step", func() bool {
		info, err := r.Info(context.Background(), "replication").Result()
		return err == nil && bytes.Contains([]byte(info), []byte("master_link_status:up"))
	})
	f.Sentinel = freePort(tb)
	dir := tempDir(tb)
	conf := filepath.Join(dir, "sentinel.conf")
	s := &Server{Addr: f.Sentinel, Dir: dir, Guard: NewGuard(tb, dir, f.Master.Guard.Secure()), exited: make(chan struct{}), out: &bytes.Buffer{}}
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

func sentinelConfig(tb testing.TB, s *Server, host, port string) string {
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
	fmt.Fprintf(&b, "user %s %s\n", User, strings.Join(rules, " "))
	fmt.Fprintf(&b, "sentinel monitor mymaster %s %s 1\nsentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 5000\n", host, port)
	return b.String()
}

// patience bounds what only a hang reaches.
const patience = 3 * time.Minute

// Until polls a condition, for three minutes at most.
func Until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			tb.Fatalf("waited %v for %s", patience, what)
		case <-tick.C:
		}
	}
}

// Calls is how often the server has run a command, in lower case, for whomever.
func Calls(tb testing.TB, c *goredis.Client, command string) int {
	tb.Helper()
	return calls(tb, c, command)
}

func calls(tb testing.TB, c *goredis.Client, command string) int {
	tb.Helper()
	info, err := c.Info(context.Background(), "commandstats").Result() // also at the end of a test
	must(tb, err)
	_, rest, _ := strings.Cut(info, "cmdstat_"+command+":calls=")
	number, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(number) // a command that was never run is not listed
	return n
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
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
