package testparts

import (
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// The only account of an S3 server.
const (
	S3Access = "testaccess"
	S3Secret = "testsecret-7f3a"
)

// S3Server is one private S3 server of a test: versitygw over a temporary folder, on a port of
// loopback. make check-s3 builds the program; tests that need it have the build tag s3.
type S3Server struct {
	*Process
	Dir     string // with a folder for each bucket
	address string
}

// StartS3 runs a server with these empty buckets until the test ends, and gives AWS's settings its
// account.
func StartS3(tb testing.TB, buckets ...string) *S3Server {
	tb.Helper()
	program := Need(tb, "versitygw", "make check-s3")
	s := &S3Server{Dir: tb.TempDir(), address: net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort(tb)))}
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
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+S3Access, "ROOT_SECRET_KEY="+S3Secret)
	s.Process = Run(tb, cmd)
	s.Wait(tb, "it to listen", func() error {
		c, err := net.DialTimeout("tcp", s.address, time.Second) //nolint:noctx // bounded
		if err == nil {
			err = c.Close()
		}
		return err
	})
	//nolint:gosec // of a server that the test made
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": S3Access, "AWS_SECRET_ACCESS_KEY": S3Secret, "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"} {
		tb.Setenv(name, value)
	}
	return s
}

// URL names a bucket, or a bucket and a prefix, as ledger.OpenBucket reads it.
func (s *S3Server) URL(bucket string) string {
	return "s3://" + bucket + "?endpoint=" + url.QueryEscape("http://"+s.address)
}
