//go:build linux && labs

package firewall_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

// A timer that was killed leaves its push armed for ever: long past its end the next push rolls it
// back, then continues.
func TestLabOverduePushIsRolledBack(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	want(t, d.kit.Run(d.with("tcp dport 22 accept")), "changed", "")
	left := func(c plugintest.Call) *plugintest.Reply {
		if is(c, "apply") {
			d.exec(t.Context(), c)
			d.lab.Kill("/guard")
			return &plugintest.Reply{Err: plugintest.Unreachable("r1", false)}
		}
		if is(c, "look") || is(c, "arm") {
			return nil
		}
		return &plugintest.Reply{Err: plugintest.Unreachable("r1", true)}
	}
	d.meet(left)
	var running *plugintest.Running
	started := make(chan struct{})
	d.host.OnProbe(func(int) error {
		<-started
		running.Cancel()
		return plugintest.Unreachable("r1", true)
	})
	running = d.kit.Start(d.with("tcp dport 23 accept"), plugintest.Key("dead"))
	close(started)
	if got := running.Wait(); got.Outcome != "cancelled" {
		t.Fatalf("got %s (%s)", got.Outcome, got.Reason)
	}
	d.meet(nil)
	d.host.OnProbe(func(int) error { return nil })
	want(t, d.kit.Run(d.with("tcp dport 24 accept")), "failed", "another push is under way")
	files, err := filepath.Glob(filepath.Join(d.state, "*", "push-*", "deadline"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	deadline, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], fmt.Appendf(nil, "%d\n", deadline-1000), 0o600); err != nil { // a quarter of an hour later
		t.Fatal(err)
	}
	want(t, d.kit.Run(d.with("tcp dport 24 accept")), "changed", "")
	if live := d.live(); !strings.Contains(live, "dport 24") {
		t.Errorf("live:\n%s", live)
	}
}
