package reboot_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/reboot"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// device answers boot ids from a script: each look takes the next word; the last one stays. "down"
// is a host that cannot be reached, "cut" one that drops the connection, "denied" a lease that has
// ended, any other word a boot id.
type device struct {
	mu       sync.Mutex
	inspects []string
	request  plugintest.Reply
	booted   bool  // a new boot began before the request reaches it
	tests    []int // exit codes of the test command
	asked    int
	fresh    []bool
}

func (d *device) handle(_ context.Context, c plugintest.Call) plugintest.Reply {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case strings.Contains(c.Command, "shutdown"):
		guarded := strings.HasPrefix(c.Command, `[ "$(cat /proc/sys/kernel/random/boot_id `) && strings.Contains(c.Command, "= old ] || exit 0\n")
		if guarded && d.booted {
			return plugintest.Reply{}
		}
		d.asked++
		return d.request
	case strings.Contains(c.Command, "boot_id"):
		d.fresh = append(d.fresh, c.Fresh)
		word := d.inspects[0]
		if len(d.inspects) > 1 {
			d.inspects = d.inspects[1:]
		}
		switch word {
		case "down":
			return plugintest.Reply{Err: plugintest.Unreachable("r1", true)}
		case "cut":
			return plugintest.Reply{Err: plugintest.Unreachable("r1", false)}
		}
		return plugintest.Reply{Stdout: word + "\n"}
	case c.Command == "health":
		code := d.tests[0]
		if len(d.tests) > 1 {
			d.tests = d.tests[1:]
		}
		return plugintest.Reply{Code: code}
	}
	return plugintest.Reply{Code: 127}
}

func TestReboot(t *testing.T) {
	t.Parallel()
	saved := &plugintest.State{Version: 1, JSON: []byte(`{"boot_id":"old"}`)}
	for name, tc := range map[string]struct {
		device  *device
		with    sdk.With
		state   *plugintest.State
		outcome string
		reason  string
		asked   int
	}{
		"comes back":              {device: &device{inspects: []string{"old", "new"}}, outcome: "changed", asked: 1},
		"is down for a while":     {device: &device{inspects: []string{"old", "cut", "down", "down", "new"}}, outcome: "changed", asked: 1},
		"answers before it falls": {device: &device{inspects: []string{"old", "old", "old", "down", "new"}}, outcome: "changed", asked: 1},
		"cuts the request off": {
			device:  &device{inspects: []string{"old", "new"}, request: plugintest.Reply{Err: plugintest.Unreachable("r1", false)}},
			outcome: "changed", asked: 1,
		},
		"is ended by a signal": {
			device:  &device{inspects: []string{"old", "new"}, request: plugintest.Reply{Code: 143, Signal: "TERM"}},
			outcome: "changed", asked: 1,
		},
		"the request is never sent": {
			device:  &device{inspects: []string{"old", "new"}, request: plugintest.Reply{Err: plugintest.Unreachable("r1", true)}},
			outcome: "unreachable", asked: 1, reason: "asking for the reboot",
		},
		"the request is refused": {
			device:  &device{inspects: []string{"old"}, request: plugintest.Reply{Code: 1, Stderr: "must be root"}},
			outcome: "failed", asked: 1, reason: "must be root",
		},
		"never goes down": {
			device: &device{inspects: []string{"old"}}, with: sdk.With{"timeout": "1s"},
			outcome: "failed", asked: 1, reason: "still in its old boot",
		},
		"never comes back": {
			device: &device{inspects: []string{"old", "down"}}, with: sdk.With{"timeout": "1s"},
			outcome: "failed", asked: 1, reason: "connection refused",
		},
		"is down before": {device: &device{inspects: []string{"down"}}, outcome: "unreachable", reason: "reading the boot id"},
		"has no boot id": {device: &device{inspects: []string{""}}, outcome: "failed", reason: "no boot id"},
		"passes its test in time": {
			device: &device{inspects: []string{"old", "new"}, tests: []int{1, 1, 0}}, with: sdk.With{"test_command": "health"},
			outcome: "changed", asked: 1,
		},
		"boots sick": {
			device: &device{inspects: []string{"old", "new"}, tests: []int{1}}, with: sdk.With{"test_command": "health", "timeout": "1s"},
			outcome: "failed", asked: 1, reason: "test_command: exit status 1",
		},
		"resumed: it has rebooted":  {device: &device{inspects: []string{"new"}}, state: saved, outcome: "changed", asked: 0},
		"resumed: it is on its way": {device: &device{inspects: []string{"down", "down", "new"}}, state: saved, outcome: "changed", asked: 0},
		"resumed: it was not asked": {device: &device{inspects: []string{"old", "new"}}, state: saved, outcome: "changed", asked: 1},
		"resumed: it reboots meanwhile": {
			device: &device{inspects: []string{"old", "new"}, booted: true}, with: sdk.With{"delay": "10ms"},
			state: saved, outcome: "changed", asked: 0,
		},
		"resumed: it goes down meanwhile": {
			device: &device{inspects: []string{"old", "down", "new"}, request: plugintest.Reply{Err: plugintest.Unreachable("r1", true)}},
			state:  saved, outcome: "changed", asked: 1,
		},
		"a timeout that is no time":    {device: &device{inspects: []string{"old"}}, with: sdk.With{"timeout": "soon"}, outcome: "failed", reason: `expected a duration such as "90s"`},
		"a negative one is none, also": {device: &device{inspects: []string{"old"}}, with: sdk.With{"timeout": "-1s"}, outcome: "failed", reason: "expected a duration"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with := sdk.With{"interval": "1ms"}
			maps.Copy(with, tc.with)
			kit := plugintest.New(t, reboot.Def())
			kit.Host("r1").Handle(tc.device.handle)
			got := kit.Run(with, plugintest.Resume(tc.state))
			if got.Outcome != tc.outcome || !strings.Contains(got.Reason, tc.reason) {
				t.Errorf("got %s (%s), want %s (%s)", got.Outcome, got.Reason, tc.outcome, tc.reason)
			}
			if tc.device.asked != tc.asked {
				t.Errorf("asked %d times for the reboot, want %d", tc.device.asked, tc.asked)
			}
			if tc.asked > 0 && (len(got.Checkpoints) != 1 || string(got.Checkpoints[0].State.JSON) != `{"boot_id":"old"}`) {
				t.Errorf("asked without a saved boot id: %+v", got.Checkpoints)
			}
			if tc.outcome == "changed" && got.Outputs["boot_id"] != "new" {
				t.Errorf("outputs %v", got.Outputs)
			}
		})
	}
}

// OpenSSH from 9.8 on bans sources that connect without authenticating: every look
// is a fresh, authenticated connection.
func TestTrapNoBareProbes(t *testing.T) { // ansible#86325
	d := &device{inspects: []string{"old", "down", "new"}}
	kit := plugintest.New(t, reboot.Def())
	kit.Host("r1").Handle(d.handle).OnProbe(func(int) error { return fmt.Errorf("probed") })
	if got := kit.Run(sdk.With{"interval": "1ms"}); got.Outcome != "changed" {
		t.Fatalf("got %s (%s)", got.Outcome, got.Reason)
	}
	for i, fresh := range d.fresh[1:] {
		if !fresh {
			t.Errorf("look %d went over a pooled connection", i+1)
		}
	}
}

func TestCheckModeInspectsOnly(t *testing.T) {
	d := &device{inspects: []string{"old"}}
	kit := plugintest.New(t, reboot.Def())
	kit.Host("r1").Handle(d.handle)
	if got := kit.Check(sdk.With{}); got.Outcome != "changed" || got.Reason != "would reboot" || d.asked != 0 {
		t.Errorf("got %s (%s), asked %d", got.Outcome, got.Reason, d.asked)
	}
}

func TestCancelWhileWaiting(t *testing.T) {
	looked := make(chan struct{}, 1000)
	d := &device{inspects: []string{"old", "down"}}
	kit := plugintest.New(t, reboot.Def())
	kit.Host("r1").Handle(func(ctx context.Context, c plugintest.Call) plugintest.Reply {
		looked <- struct{}{}
		return d.handle(ctx, c)
	})
	running := kit.Start(sdk.With{"interval": "1ms"})
	for range 4 {
		<-looked
	}
	running.Cancel()
	if got := running.Wait(); got.Outcome != "cancelled" {
		t.Errorf("got %s (%s)", got.Outcome, got.Reason)
	}
}

// A window that closes, or a freeze that is added, while the step gets ready holds the reboot
// itself.
func TestWindowHoldsTheReboot(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		window plugintest.Option
		held   bool
	}{
		"shut at the checkpoint":   {plugintest.Shut(), true},
		"shut right before":        {plugintest.ShutAfter(1), true},
		"too little is left of it": {plugintest.Open(9 * time.Minute), true},
		"open (control)":           {plugintest.Open(11 * time.Minute), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &device{inspects: []string{"old", "old", "new"}}
			kit := plugintest.New(t, reboot.Def())
			kit.Host("r1").Handle(d.handle)
			got := kit.Run(sdk.With{"interval": "1ms"}, tc.window)
			if !tc.held {
				if got.Outcome != "changed" || d.asked != 1 {
					t.Fatalf("got %s (%s), asked %d times", got.Outcome, got.Reason, d.asked)
				}
				return
			}
			if got.Outcome != "suspended" || !got.Held || got.Reason == "" || d.asked != 0 {
				t.Fatalf("got %+v, asked %d times", got, d.asked)
			}
			later := kit.Run(sdk.With{"interval": "1ms"}, plugintest.Resume(got.State), plugintest.Open(time.Hour))
			if later.Outcome != "changed" || d.asked != 1 {
				t.Errorf("in the next window: %s (%s), asked %d times", later.Outcome, later.Reason, d.asked)
			}
		})
	}
}
