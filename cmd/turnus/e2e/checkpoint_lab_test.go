//go:build linux && labs

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport/fleet"
)

// rebooting is a fleet of one host that counts how often it was asked to reboot.
func rebooting(t *testing.T) (l *lab, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	var hosts atomic.Pointer[fleet.Fleet]
	l = newLab(t, fleet.Config{
		Hosts:   1,
		Profile: func(int) fleet.Profile { return fleet.Profile{BootTime: 6 * time.Second} }, // the kill is to come within it
		Handle: func(_ context.Context, c fleet.Command) (int, bool) {
			if !strings.Contains(c.Line, "shutdown -r") {
				return 0, false
			}
			asked.Add(1)
			if err := hosts.Load().Reboot(c.Host); err != nil {
				t.Error(err)
			}
			return 0, true
		},
	})
	hosts.Store(l.fleet)
	return l, asked
}

const rebootStep = "{name: boot, uses: reboot, window: none, with: {interval: 100ms}}"

// The worker, and the plugin with it, is killed when a host was just asked to reboot. The next
// worker finds the checkpoint that was saved before, sees that the host has another boot id, and is
// done: the host is rebooted once.
func TestLabKilledWorkerRebootsOnlyOnce(t *testing.T) {
	t.Parallel()
	l, asked := rebooting(t)
	l.withRedis()
	victim := l.worker()
	run := l.run("-o", "json", l.playbook("boot", rebootStep))
	until(t, "the reboot", func() bool { return asked.Load() > 0 })
	victim.kill()
	l.worker()
	run.wants(0)
	r := run.report()
	if n := asked.Load(); n != 1 || len(r.Results) != 1 || r.Results[0].Outcome != core.Changed || r.Results[0].Attempt != 2 {
		t.Errorf("rebooted %d times, expected once; %+v", n, r.Results)
	}
	l.redis.sound(map[string]int{r.Run: 1})
}

// The same where all of it is one process, whose queue ends with it: the checkpoint is in the data
// folder.
func TestLabKilledServiceRebootsOnlyOnce(t *testing.T) {
	t.Parallel()
	l, asked := rebooting(t)
	u := &upSite{lab: l, data: filepath.Join(l.dir, "data")}
	if err := os.MkdirAll(filepath.Join(l.dir, "ops", "playbooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	inventory, err := os.ReadFile(l.hosts)
	if err != nil {
		t.Fatal(err)
	}
	l.file("ops/inventory.yaml", string(inventory))
	l.file("ops/playbooks/all.yaml", "playbook: all\ntargets: true\nsteps:\n  - "+rebootStep+"\n")
	p, c := u.up()
	run := submitted(t, c)
	until(t, "the reboot", func() bool { return asked.Load() > 0 })
	p.kill()
	p, c = u.up()
	finished(t, c, run.ID)
	p.signal(syscall.SIGTERM)
	p.wants(0)
	outcomes, _ := u.recorded(run.ID)
	if n := asked.Load(); n != 1 || outcomes[core.Changed] != 1 {
		t.Errorf("rebooted %d times, expected once; %v", n, outcomes)
	}
	if left, err := filepath.Glob(filepath.Join(u.data, "states", "*")); err != nil || len(left) > 0 {
		t.Errorf("states are left of jobs that ended: %v, %v", left, err)
	}
}
