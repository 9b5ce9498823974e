//go:build linux

package e2e

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core/transport/fleet"
)

// supervisor is a systemd for what a lab starts from then on: it hears how the process does.
type supervisor struct {
	mu    sync.Mutex
	heard []string
}

func (l *lab) supervisor() *supervisor {
	l.t.Helper()
	path := filepath.Join(l.dir, "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		l.t.Fatal(err)
	}
	l.env = append(l.env, "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=600000")
	s := &supervisor{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for b := make([]byte, 4096); ; {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			s.mu.Lock()
			s.heard = append(s.heard, string(b[:n]))
			s.mu.Unlock()
		}
	}()
	l.t.Cleanup(func() { _ = c.Close(); <-ended })
	return s
}

// since returns what was heard from the first of these words on; nothing before.
func (s *supervisor) since(word string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.heard, word)
	if i < 0 {
		return nil
	}
	return slices.Clone(s.heard[i:])
}

// asked returns the health that a node's listener reports.
func asked(t *testing.T, url string) (code int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

var metricsAddress = regexp.MustCompile(`metrics on (127\.0\.0\.1:\d+)`)

// A worker reports whether it takes work, and that it runs: with its queue away, back again, and
// while it drains.
func TestWorkerSaysHowItIs(t *testing.T) {
	t.Parallel()
	held := newLatch()
	l := newLab(t, fleet.Config{Hosts: 1, Handle: held.handle}).withRedis()
	manager := l.supervisor()
	w := l.worker("--metrics", "127.0.0.1:0")
	url := "http://" + metricsAddress.FindStringSubmatch(w.err.String())[1]
	ready := func(reason string) func() bool {
		return func() bool {
			code, body := asked(t, url+"/readyz")
			var is struct {
				Ready  bool   `json:"ready"`
				Reason string `json:"reason"`
			}
			return json.Unmarshal([]byte(body), &is) == nil && is.Reason == reason && is.Ready == (reason == "") && is.Ready == (code == http.StatusOK)
		}
	}
	lives := func() {
		t.Helper()
		if code, body := asked(t, url+"/healthz"); code != http.StatusOK || body != "ok\n" {
			t.Errorf("health %d: %s", code, body)
		}
	}
	until(t, "the worker to be ready", ready(""))
	until(t, "a sign of life", func() bool { return slices.Contains(manager.since("READY=1"), "WATCHDOG=1") })
	lives()
	l.redis.signal(syscall.SIGSTOP)
	until(t, "the worker to miss its queue", ready("the queue does not answer"))
	lives()
	signs := len(manager.since("READY=1"))
	until(t, "signs of life without the queue", func() bool { return len(manager.since("READY=1")) > signs+2 })
	l.redis.signal(syscall.SIGCONT)
	until(t, "the worker to have its queue again", ready(""))

	run := l.run(l.playbook("long", "{uses: command, with: {run: held}}"))
	until(t, "the job to run", func() bool { return held.begun.Load() == 1 })
	w.signal(syscall.SIGTERM)
	until(t, "the worker to drain", ready("draining"))
	lives()
	until(t, "signs of life while it drains", func() bool { return slices.Contains(manager.since("STOPPING=1"), "WATCHDOG=1") })
	held.open()
	w.wants(0)
	run.wants(0)
}
