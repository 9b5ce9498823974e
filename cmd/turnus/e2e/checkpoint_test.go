//go:build linux

package e2e

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport/fleet"
)

// The worker, and the plugin with it, is killed when a host was just told to reboot. The next worker finds the checkpoint that was saved
// before, sees that the host has another boot id by now, and is done: the host is rebooted once.
func TestKilledWorkerRebootsOnlyOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	var hosts atomic.Pointer[fleet.Fleet]
	l := newLab(t, fleet.Config{
		Hosts:   1,
		Profile: func(int) fleet.Profile { return fleet.Profile{BootTime: 2 * time.Second} },
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
	}).withRedis()
	hosts.Store(l.fleet)
	victim := l.worker()
	run := l.run("-o", "json", l.book("boot", `{name: boot, uses: reboot, window: none, with: {interval: 100ms}}`))
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
