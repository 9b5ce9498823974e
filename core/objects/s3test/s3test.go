// Package s3test owns the private S3 servers of tests: versitygw over a temporary folder, on a port of loopback; they die with the test.
// The program is built by make check-s3, for it takes minutes; tests that need it have the build tag s3.
//
// It must not know what is stored in them.
package s3test

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
)

// The one account.
const (
	Access = "testaccess"
	Secret = "testsecret-7f3a"
)

// Server is one S3 server.
type Server struct {
	Dir     string // with a folder for each bucket
	address string
	cmd     *exec.Cmd
	exited  chan struct{}
	out     bytes.Buffer
	once    sync.Once
}

// Start runs a server with these empty buckets until the test ends, and gives AWS's settings its account.
func Start(tb testing.TB, buckets ...string) *Server {
	tb.Helper()
	program := testparts.Need(tb, "versitygw", "make check-s3")
	s := &Server{Dir: tb.TempDir(), exited: make(chan struct{})}
	for _, bucket := range buckets {
		if err := os.MkdirAll(filepath.Join(s.Dir, "data", bucket), 0o700); err != nil {
			tb.Fatal(err)
		}
	}
	meta := filepath.Join(s.Dir, "meta") // not every file system has extended attributes
	if err := os.Mkdir(meta, 0o700); err != nil {
		tb.Fatal(err)
	}
	s.address = free(tb)
	s.cmd = exec.Command(program, "--port", s.address, "posix", "--sidecar", meta, filepath.Join(s.Dir, "data")) //nolint:noctx,gosec // ended by Stop; the test's own program
	s.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+Access, "ROOT_SECRET_KEY="+Secret)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		tb.Fatalf("start versitygw: %v", err)
	}
	go func() { _ = s.cmd.Wait(); close(s.exited) }()
	tb.Cleanup(s.Stop)
	s.ready(tb)
	//nolint:gosec // of a server that the test made
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": Access, "AWS_SECRET_ACCESS_KEY": Secret, "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"} {
		tb.Setenv(name, value)
	}
	return s
}

// free is an address that nobody listens at.
func free(tb testing.TB) string {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func (s *Server) ready(tb testing.TB) {
	tb.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(context.Background(), "tcp", s.address)
		if err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-s.exited:
			tb.Fatalf("versitygw ended: %s", &s.out)
		case <-deadline:
			tb.Fatalf("versitygw does not answer after a minute: %v", err)
		case <-tick.C:
		}
	}
}

// URL names a bucket, or a bucket and a prefix, as objects.Open reads it.
func (s *Server) URL(bucket string) string {
	return "s3://" + bucket + "?endpoint=" + url.QueryEscape("http://"+s.address)
}

// Stop ends the server at once, as a crash would, and waits for it.
func (s *Server) Stop() {
	s.once.Do(func() {
		_ = s.cmd.Process.Kill()
		<-s.exited
	})
}
