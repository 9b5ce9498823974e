// Package redistest owns the private Redis servers of tests: one standalone server
// for a test binary, a Cluster of three with and without replicas, a Sentinel with a replica. They listen on
// Unix sockets or on ports of 127.0.0.1 that the kernel picked, and die with the test.
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

	"github.com/turnus/turnus/core/testparts"
)

// Server is one redis-server process.
type Server struct {
	Addr   string // host:port, or the path of a Unix socket
	Socket bool
	Dir    string
	cmd    *exec.Cmd
	exited chan struct{}
	out    *bytes.Buffer
	once   sync.Once
}

// Start runs a server on a Unix socket, with append-only file and without eviction, until the test ends.
func Start(tb testing.TB, extra ...string) *Server {
	tb.Helper()
	dir := tempDir(tb)
	return start(tb, dir, filepath.Join(dir, "s"), append([]string{"--port", "0", "--unixsocket", filepath.Join(dir, "s")}, extra...))
}

// StartTCP is Start on a port of 127.0.0.1.
func StartTCP(tb testing.TB, extra ...string) *Server {
	tb.Helper()
	addr := freePort(tb)
	_, port, _ := net.SplitHostPort(addr)
	return start(tb, tempDir(tb), addr, append([]string{"--bind", "127.0.0.1", "--port", port}, extra...))
}

func start(tb testing.TB, dir, addr string, args []string) *Server {
	tb.Helper()
	s := &Server{Addr: addr, Socket: addr[0] == '/', Dir: dir, exited: make(chan struct{}), out: &bytes.Buffer{}}
	base := []string{
		"--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction",
		"--dir", dir, "--daemonize", "no", "--protected-mode", "no",
	}
	s.launch(tb, append(base, args...))
	tb.Cleanup(s.Kill)
	s.ready(tb)
	return s
}

func (s *Server) launch(tb testing.TB, args []string) {
	tb.Helper()
	s.cmd = exec.Command(testparts.Need(tb, "redis-server", "redis-server"), args...) //nolint:noctx,gosec // ended by Kill; the test's own program
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	s.cmd.SysProcAttr = attributes()
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

// Client is a new client of the server, without retries. The caller closes it.
func (s *Server) Client() *goredis.Client {
	network := "tcp"
	if s.Socket {
		network = "unix"
	}
	return goredis.NewClient(&goredis.Options{Network: network, Addr: s.Addr, MaxRetries: -1})
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

// Cluster starts three masters that share the slots, and returns their addresses.
func Cluster(tb testing.TB) []string {
	tb.Helper()
	var addrs []string
	for _, s := range masters(tb) {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// Replicated is a Cluster of three masters, each with a replica that takes over when it is gone.
type Replicated struct{ Masters, Replicas []*Server }

// ReplicatedCluster starts one.
func ReplicatedCluster(tb testing.TB) *Replicated {
	tb.Helper()
	r := &Replicated{Masters: masters(tb)}
	for _, m := range r.Masters {
		s := clusterNode(tb)
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
		if slot < (i+1)*slots/len(r.Masters) {
			return r.Masters[i]
		}
	}
	tb.Fatalf("slot %d of key %s is nobody's", slot, key)
	return nil
}

const slots = 16384

// clusterNode is a server that knows nobody yet.
func clusterNode(tb testing.TB) *Server {
	tb.Helper()
	return StartTCP(tb, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port", portOf(freePort(tb)), "--repl-diskless-sync-delay", "0")
}

// masters starts three, and returns when each says that all is well.
func masters(tb testing.TB) []*Server {
	tb.Helper()
	const n = 3
	var nodes []*Server
	for i := range n {
		s := clusterNode(tb)
		ask(tb, s, "cluster", "addslotsrange", i*slots/n, (i+1)*slots/n-1)
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
		strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d\r", slots))
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

// Sentinel starts a Failover.
func Sentinel(tb testing.TB) *Failover {
	tb.Helper()
	f := &Failover{Master: StartTCP(tb)}
	host, port, _ := net.SplitHostPort(f.Master.Addr)
	f.Replica = StartTCP(tb, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	r := f.Replica.Client()
	tb.Cleanup(func() { _ = r.Close() })
	Until(tb, "the replica to be in step", func() bool {
		info, err := r.Info(context.Background(), "replication").Result()
		return err == nil && bytes.Contains([]byte(info), []byte("master_link_status:up"))
	})
	f.Sentinel = freePort(tb)
	dir := tempDir(tb)
	conf := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor mymaster %s %s 1\n"+
		"sentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 5000\n", portOf(f.Sentinel), dir, host, port)
	must(tb, os.WriteFile(conf, []byte(text), 0o600))
	s := &Server{Addr: f.Sentinel, Dir: dir, exited: make(chan struct{}), out: &bytes.Buffer{}}
	s.launch(tb, []string{conf, "--sentinel"})
	tb.Cleanup(s.Kill)
	s.ready(tb)
	sc := goredis.NewSentinelClient(&goredis.Options{Addr: f.Sentinel})
	tb.Cleanup(func() { _ = sc.Close() })
	Until(tb, "the sentinel to know the replica", func() bool {
		list, err := sc.Replicas(context.Background(), "mymaster").Result()
		return err == nil && len(list) == 1
	})
	return f
}

// Until polls a condition, for a minute at most: machines are loaded.
func Until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			tb.Fatalf("waited a minute for %s", what)
		case <-tick.C:
		}
	}
}

// Calls is how often the server has run a command, in lower case, for whomever.
func Calls(tb testing.TB, c *goredis.Client, command string) int {
	tb.Helper()
	info, err := c.Info(tb.Context(), "commandstats").Result()
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

// freePort asks the kernel for a port. Somebody else may take it before the server does; then Start fails and says so.
func freePort(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a moment
	must(tb, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
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
