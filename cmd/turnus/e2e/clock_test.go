//go:build linux

package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport/fleet"
)

// The clock of Redis leaps under a worker at work: its session and its job live, it reports the
// leap once, and the doctor shows it.
func TestFaultR2ALeapOfRedisIsSeen(t *testing.T) {
	t.Parallel()
	server, leap := servers.StartRedisOnClock(t)
	l := newLab(t, fleet.Config{Hosts: 1})
	l.queue = server.URL()
	record := "sqlite:" + filepath.Join(l.dir, "ledger.db")
	made, err := ledger.Open(t.Context(), record, ledger.Options{})
	if err == nil {
		err = made.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	w := l.worker()
	doctor := func() string {
		p := l.start("admin", "doctor", "--ledger", record, "--redis", l.queue)
		p.wants(2) // no server has taken notice of the queue
		return p.out.String()
	}
	if text := doctor(); strings.Contains(text, "leaped") {
		t.Errorf("negative control: %s", text)
	}
	leap(5*time.Minute + 30*time.Second) // shown in tenths: a busy machine may see a little less
	until(t, "the worker to report the leap", func() bool { return w.err.has("clock_leaped: the queue's clock leaped by 5m") })
	until(t, "the doctor to show it", func() bool {
		text := doctor()
		return strings.Contains(text, "note") && strings.Contains(text, "the clock of Redis leaped by 5m")
	})
	run := l.run(l.playbook("one", "{name: once, uses: command, with: {run: 'true'}}"))
	run.wants(0)
	if text := w.err.String(); strings.Count(text, "clock_leaped") != 1 || strings.Contains(text, "session_lost") {
		t.Errorf("a leap is reported once, and takes no lease:\n%s", text)
	}
}
