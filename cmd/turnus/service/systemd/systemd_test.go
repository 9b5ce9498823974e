package systemd

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
)

// listener is a systemd: what it hears.
func listener(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// hear returns the next message.
func hear(t *testing.T, l *net.UnixConn) string {
	t.Helper()
	b := make([]byte, 1024)
	if err := l.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	n, err := l.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// A process that works reports that again and again; one that is stuck no longer does. The first
// one is the negative control.
func TestWatchdogOfAStuckProcess(t *testing.T) {
	for name, stuck := range map[string]error{"works": nil, "stuck": errors.New("no look\nfor a minute")} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "notify")
			l := listener(t, path)
			m, err := Open(environment("NOTIFY_SOCKET", path, "WATCHDOG_USEC", "6000"), os.Getpid())
			if err != nil {
				t.Fatal(err)
			}
			var asked atomic.Int32
			thrice := make(chan struct{})
			check := func() error {
				if asked.Add(1) == 3 {
					close(thrice)
				}
				return stuck
			}
			if err := errors.Join(m.Ready(check), m.Ready(check)); err != nil {
				t.Fatal(err)
			}
			<-thrice
			heard := []string{hear(t, l), hear(t, l), hear(t, l)} // systemd reads on, else the sender waits
			if err := errors.Join(m.Stopping(), m.Close()); err != nil {
				t.Fatal(err)
			}
			for heard[len(heard)-1] != "STOPPING=1" {
				heard = append(heard, hear(t, l))
			}
			if heard[0] != "READY=1" || slices.Contains(heard[1:], "READY=1") {
				t.Errorf("heard %q; expected READY=1 first, and once", heard)
			}
			alive := slices.Contains(heard, "WATCHDOG=1")
			reported := slices.Contains(heard, "STATUS=no look for a minute")
			if alive != (stuck == nil) || reported != (stuck != nil) {
				t.Errorf("stuck: %v; heard %q", stuck, heard)
			}
		})
	}
}

func TestWhoIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l := listener(t, path)
	listener(t, "@turnus-test-notify")
	for name, c := range map[string]struct {
		env   []string
		every time.Duration
		is    error
		none  bool
	}{
		"nobody":              {none: true},
		"a path":              {env: []string{"NOTIFY_SOCKET", path}},
		"an abstract name":    {env: []string{"NOTIFY_SOCKET", "@turnus-test-notify"}},
		"a watchdog":          {env: []string{"NOTIFY_SOCKET", path, "WATCHDOG_USEC", "60000000", "WATCHDOG_PID", "7"}, every: 20 * time.Second},
		"another's":           {env: []string{"NOTIFY_SOCKET", path, "WATCHDOG_USEC", "60000000", "WATCHDOG_PID", "8"}},
		"neither":             {env: []string{"NOTIFY_SOCKET", "vsock:2:1"}, is: core.ErrInvalid},
		"no number":           {env: []string{"NOTIFY_SOCKET", path, "WATCHDOG_USEC", "1min"}, is: core.ErrInvalid},
		"nothing":             {env: []string{"NOTIFY_SOCKET", path, "WATCHDOG_USEC", "0"}, is: core.ErrInvalid},
		"more than a day":     {env: []string{"NOTIFY_SOCKET", path, "WATCHDOG_USEC", "9000000000000000000"}, is: core.ErrInvalid},
		"nobody is there":     {env: []string{"NOTIFY_SOCKET", path + "x"}, is: core.ErrUnavailable},
		"a name far too long": {env: []string{"NOTIFY_SOCKET", "/" + strings.Repeat("x", 300)}, is: core.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Open(environment(c.env...), 7)
			if !errors.Is(err, c.is) || (c.is == nil) != (err == nil) {
				t.Fatalf("error %v, expected %v", err, c.is)
			}
			if err != nil {
				return
			}
			if (m == nil) != c.none || m != nil && m.every != c.every {
				t.Errorf("manager %+v", m)
			}
			if err := errors.Join(m.Ready(func() error { return nil }), m.Stopping(), m.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	_ = l
}
