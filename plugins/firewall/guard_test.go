//go:build linux

package firewall_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

// timer finds the host's timer while a push is under way.
func (d *device) timer() int {
	for _, pid := range d.lab.Processes() {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.Contains(string(line), "/guard") && !strings.Contains(string(line), "takeover") {
			return pid
		}
	}
	return 0
}

// A worker that ends a command kills its processes: by process group, and by a variable in the
// environment. The timer has its own of both, or the worker's own tidiness would take the way back
// away.
func TestTrapTimerIsOutOfTheWorkersReach(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	d.meet(func(c plugintest.Call) *plugintest.Reply {
		if is(c, "arm") {
			c.Command = "export TURNUS_EXEC=0123456789abcdef\n" + c.Command
			reply := d.exec(t.Context(), c)
			return &reply
		}
		if is(c, "apply") {
			pid := d.timer()
			if pid == 0 {
				t.Error("no timer runs")
				return nil
			}
			environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if err != nil || strings.Contains(string(environ), "TURNUS") {
				t.Errorf("the environment of the timer: %q %v", environ, err)
			}
			if session, err := unix.Getsid(pid); err != nil || session != pid {
				t.Errorf("the timer is in session %d, want its own: %v", session, err)
			}
			for _, fd := range []int{0, 1, 2} { // an open one would hold the worker's command
				if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); err != nil || to != "/dev/null" {
					t.Errorf("descriptor %d of the timer is %s (%v)", fd, to, err)
				}
			}
		}
		return nil
	})
	want(t, d.kit.Run(d.with("tcp dport 22 accept")), "changed", "")
}

// Where systemd runs, it keeps the timer: a login's end may kill all that the login started. Where
// it cannot, setsid does.
func TestTimerIsSystemdsWhereItRuns(t *testing.T) {
	t.Parallel()
	for name, works := range map[string]bool{"it starts it": true, "it refuses": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDevice(t)
			dir := t.TempDir()
			end := "exit 1"
			if works {
				end = `while [ "$1" != /bin/sh ]; do shift; done; setsid "$@" </dev/null >/dev/null 2>&1 &`
			}
			fake := "#!/bin/sh\necho \"$@\" >>" + dir + "/asked\n" + end + "\n"
			if err := os.WriteFile(filepath.Join(dir, "systemd-run"), []byte(fake), 0o700); err != nil {
				t.Fatal(err)
			}
			d.meet(func(c plugintest.Call) *plugintest.Reply {
				if !is(c, "arm") {
					return nil
				}
				c.Command = "mount -t tmpfs none /run && mkdir -p /run/systemd/system && PATH=" + dir + ":$PATH\n" + c.Command
				reply := d.exec(t.Context(), c)
				return &reply
			})
			want(t, d.kit.Run(d.with("tcp dport 22 accept")), "changed", "")
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if err != nil || !strings.Contains(string(asked), "--collect --unit=turnus-firewall-push-") {
				t.Errorf("systemd-run was asked %q: %v", asked, err)
			}
		})
	}
}

// The timer is gone before the apply: nothing is applied. The guard of the guard.
func TestNothingIsAppliedWithoutATimer(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	d.meet(func(c plugintest.Call) *plugintest.Reply {
		if is(c, "apply") {
			d.lab.Kill("/guard")
			until(t, "the timer's end", func() bool { return d.timer() == 0 })
		}
		return nil
	})
	want(t, d.kit.Run(d.with("drop")), "rolled_back", "the timer is not running")
	if live := d.live(); live != "" {
		t.Errorf("live:\n%s", live)
	}
}

// An attempt that ends while it stages leaves a lock without a timer: nothing is lost by it.
func TestEarlierAttemptWithoutATimerIsWaitedFor(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	with := d.with("tcp dport 22 accept")
	d.meet(func(c plugintest.Call) *plugintest.Reply {
		if !is(c, "arm") {
			return nil
		}
		c.Command = strings.Replace(c.Command, `cat >"$ID/new.nft"`, "exit 1; cat", 1)
		d.exec(t.Context(), c)
		return &plugintest.Reply{Err: plugintest.Unreachable("r1", false)}
	})
	want(t, d.kit.Run(with), "unreachable", "arming the timer")
	d.meet(nil)
	got := d.kit.Run(with, plugintest.Attempt(2))
	want(t, got, "failed", "before its timer was armed")
	if !got.Retryable || got.Effects != "none" {
		t.Errorf("retryable %v, effects %s", got.Retryable, got.Effects)
	}
	d.shell("for f in '" + d.state + "'/*/push-*/deadline; do echo 0 >\"$f\"; done") // the lock ends
	want(t, d.kit.Run(with, plugintest.Attempt(3)), "changed", "")
}

// The timer takes the push of an earlier attempt back at this moment: the next attempt waits for
// it.
func TestEarlierPushThatIsRevertingIsWaitedFor(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	with := d.with("tcp dport 22 accept")
	var running *plugintest.Running
	started := make(chan struct{})
	d.meet(func(c plugintest.Call) *plugintest.Reply {
		if !is(c, "apply") {
			return nil
		}
		<-started
		running.Cancel()
		return &plugintest.Reply{Err: plugintest.Unreachable("r1", false)}
	})
	running = d.kit.Start(with)
	close(started)
	dead := running.Wait()
	want(t, dead, "cancelled", "")
	polls := 0
	d.meet(func(c plugintest.Call) *plugintest.Reply {
		if is(c, "revert") { // the timer is first, and slow
			d.shell("cd '" + d.state + "'/*/push-* && mv armed reverting")
		} else if strings.Contains(c.Command, "state \"$D/$ID\"\nnow") {
			if polls++; polls == 2 {
				d.shell("cd '" + d.state + "'/*/push-* && mv reverting reverted && rm -f ../lock")
			}
		}
		return nil
	})
	saved := dead.Checkpoints[len(dead.Checkpoints)-1].State
	want(t, d.kit.Run(with, plugintest.Resume(&saved), plugintest.Attempt(2)), "changed", "")
	if polls < 2 || !strings.Contains(d.live(), "dport 22") {
		t.Errorf("%d polls; live:\n%s", polls, d.live())
	}
}
