// Package pgtest owns the private PostgreSQL servers of tests. They listen on a Unix socket in
// a temporary folder that also holds their data, and die with the test.
//
// It must not know what is stored in them.
package pgtest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnus/turnus/core/testparts"
)

// Server is one PostgreSQL server.
type Server struct {
	Dir       string // with the socket
	cmd       *exec.Cmd
	exited    chan struct{}
	out       *bytes.Buffer
	once      sync.Once
	databases atomic.Int64
}

// Start makes an empty server with these settings ("fsync=off") and runs it until the test ends.
func Start(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	bin := programs(tb)
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // tb.TempDir may be too long for a socket
	must(tb, err)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	attributes := asUser(tb, dir)
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(tb.Context(), filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions") //nolint:gosec // the test's own program
	initdb.SysProcAttr, initdb.Dir = attributes, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		tb.Fatalf("initdb: %v: %s", err, out)
	}
	s := &Server{Dir: dir, exited: make(chan struct{}), out: &bytes.Buffer{}}
	args := []string{"-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "max_connections=100", "-c", "logging_collector=off"}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	s.cmd = exec.Command(filepath.Join(bin, "postgres"), args...) //nolint:noctx,gosec // ended by Stop; the test's own program
	s.cmd.SysProcAttr, s.cmd.Dir = attributes, dir
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := s.cmd.Start(); err != nil {
		tb.Fatalf("start postgres: %v", err)
	}
	go func() { _ = s.cmd.Wait(); close(s.exited) }()
	tb.Cleanup(s.Stop)
	s.ready(tb)
	return s
}

// programs finds the folder of PostgreSQL's programs. Debian keeps them out of PATH.
func programs(tb testing.TB) string {
	tb.Helper()
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres"); len(found) > 0 {
		slices.Sort(found)
		return filepath.Dir(found[len(found)-1])
	}
	path, err := filepath.EvalSymlinks(testparts.Need(tb, "postgres", "postgresql"))
	must(tb, err)
	return filepath.Dir(path)
}

// asUser makes the server run as somebody else where the test runs as root, which PostgreSQL refuses.
func asUser(tb testing.TB, dir string) *syscall.SysProcAttr {
	tb.Helper()
	attributes := dieWithParent()
	if os.Getuid() != 0 {
		return attributes
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	must(tb, err)
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	must(tb, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	must(tb, err)
	must(tb, os.Chown(dir, int(uid), int(gid)))
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attributes
}

func (s *Server) ready(tb testing.TB) {
	tb.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := pgx.Connect(context.Background(), s.url("postgres"))
		if err == nil {
			_ = c.Close(context.Background())
			return
		}
		select {
		case <-s.exited:
			tb.Fatalf("postgres ended: %s", s.out)
		case <-deadline:
			tb.Fatalf("postgres does not answer after a minute: %v", err)
		case <-tick.C:
		}
	}
}

func (s *Server) url(database string) string {
	return "postgres:///" + database + "?host=" + s.Dir + "&user=postgres"
}

// Database makes an empty database and returns its URL.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	name := "test" + strconv.FormatInt(s.databases.Add(1), 10)
	s.Exec(tb, s.url("postgres"), "CREATE DATABASE "+name)
	return s.url(name)
}

// Exec runs SQL as the owner of everything, behind the back of what is tested.
func (s *Server) Exec(tb testing.TB, url, sql string) {
	tb.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, url)
	must(tb, err)
	defer func() { _ = c.Close(ctx) }()
	_, err = c.Exec(ctx, sql)
	must(tb, err)
}

// Stop ends the server at once, as a crash would, and waits for it.
func (s *Server) Stop() {
	s.once.Do(func() {
		_ = s.cmd.Process.Signal(syscall.SIGQUIT)
		<-s.exited
	})
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
