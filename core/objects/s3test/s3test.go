// Package s3test owns the private S3 servers of tests: versitygw over a temporary folder, on a port of loopback; they die with the test.
// The program is built by make check-s3, for it takes minutes; tests that need it have the build tag s3.
//
// It must not know what is stored in them.
package s3test

import (
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	*testparts.Process
	Dir     string // with a folder for each bucket
	address string
}

// Start runs a server with these empty buckets until the test ends, and gives AWS's settings its account.
func Start(tb testing.TB, buckets ...string) *Server {
	tb.Helper()
	program := testparts.Need(tb, "versitygw", "make check-s3")
	s := &Server{Dir: tb.TempDir(), address: net.JoinHostPort("127.0.0.1", strconv.Itoa(testparts.FreePort(tb)))}
	for _, bucket := range buckets {
		if err := os.MkdirAll(filepath.Join(s.Dir, "data", bucket), 0o700); err != nil {
			tb.Fatal(err)
		}
	}
	meta := filepath.Join(s.Dir, "meta") // not every file system has extended attributes
	if err := os.Mkdir(meta, 0o700); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(program, "--port", s.address, "posix", "--sidecar", meta, filepath.Join(s.Dir, "data")) //nolint:noctx,gosec // ended by Stop; the test's own program
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+Access, "ROOT_SECRET_KEY="+Secret)
	s.Process = testparts.Run(tb, cmd)
	s.Wait(tb, "it to listen", func() error {
		c, err := net.DialTimeout("tcp", s.address, time.Second) //nolint:noctx // bounded
		if err == nil {
			err = c.Close()
		}
		return err
	})
	//nolint:gosec // of a server that the test made
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": Access, "AWS_SECRET_ACCESS_KEY": Secret, "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"} {
		tb.Setenv(name, value)
	}
	return s
}

// URL names a bucket, or a bucket and a prefix, as objects.Open reads it.
func (s *Server) URL(bucket string) string {
	return "s3://" + bucket + "?endpoint=" + url.QueryEscape("http://"+s.address)
}
