package testparts

import (
	"net"
	"runtime"
	"testing"
)

// A port is one test's until that ends; then it may be another's.
func TestAPortIsItsTestsOwn(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // nothing holds it there
	}
	const most = 20
	seen := map[int]bool{}
	t.Run("two of them", func(t *testing.T) {
		for range most {
			port := FreePort(t)
			if seen[port] || port >= 32_768 {
				t.Errorf("port %d was given before, or is one that the kernel gives to others", port)
			}
			seen[port] = true
			if err := hold(t, "127.0.0.1", port); err == nil {
				t.Errorf("port %d can be had twice", port)
			}
		}
	})
	for port := range seen {
		if err := hold(t, "127.0.0.1", port); err != nil {
			t.Errorf("after its test: %v", err)
		}
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	if err := hold(t, "127.0.0.1", busy.Addr().(*net.TCPAddr).Port); err == nil {
		t.Error("a port on which somebody listens is given")
	}
}
