package testparts

import (
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"testing"
)

// FreePort is one of 127.0.0.1, see FreePortOf.
func FreePort(tb testing.TB) int {
	tb.Helper()
	return FreePortOf(tb, "127.0.0.1")
}

// FreePortOf returns a port of an address of this machine that is the test's own until it ends: its
// server may start on it, stop, and start again. The port is below those that kernels give to
// programs that ask for any. No other running test gets it from this function.
func FreePortOf(tb testing.TB, ip string) int {
	tb.Helper()
	var err error
	for range 100 {
		port := 10_000 + rand.IntN(22_000) //nolint:gosec // no secret
		if err = hold(tb, ip, port); err == nil {
			return port
		}
	}
	tb.Fatalf("no free port of %s in 100 tries: %v", ip, err)
	return 0
}

// hold reserves a port, unless another test has it or somebody listens there.
func hold(tb testing.TB, ip string, port int) error {
	tb.Helper()
	if err := Reserve(tb, "port-"+strconv.Itoa(port)); err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port))) //nolint:noctx // returns immediately
	if err != nil {
		return err
	}
	return l.Close()
}

// Reserve makes a name the test's own until it ends, among all tests that run on this machine. An
// error means that another has it.
func Reserve(tb testing.TB, name string) error {
	tb.Helper()
	if runtime.GOOS != "linux" { // such a name would be a file
		return nil
	}
	l, err := net.Listen("unix", "@turnus-test-"+name) //nolint:noctx // returns immediately
	if err == nil {
		tb.Cleanup(func() { _ = l.Close() })
	}
	return err
}
