package worker

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/mem"
)

// NodeLoad returns a function that measures this machine, for Config.Load. It returns the share of
// CPU used since the last call, and the share of memory in use, of the cgroup's limit if there is
// one. A share that cannot be measured is 0. The function is safe for concurrent use. Calls within
// half a second get the same result, so several callers may measure.
func NodeLoad() func() (cpu, memory float64) {
	var mu sync.Mutex
	var at time.Time
	var c, m float64
	return func() (float64, float64) {
		mu.Lock()
		defer mu.Unlock()
		if at.IsZero() || time.Since(at) >= loadEvery/2 {
			at, c, m = time.Now(), cpuShare(), memoryShare("/sys/fs/cgroup")
		}
		return c, m
	}
}

func cpuShare() float64 {
	percent, err := cpu.Percent(0, false) // since the last call
	if err != nil || len(percent) == 0 {
		return 0
	}
	return percent[0] / 100
}

// memoryShare is the greater of the machine's and, under a cgroup v2 limit, the cgroup's. The
// cgroup's page cache is not counted: the kernel frees it when memory is needed.
func memoryShare(cgroup string) float64 {
	share := 0.0
	if vm, err := mem.VirtualMemory(); err == nil && vm.Total > 0 {
		share = 1 - float64(vm.Available)/float64(vm.Total)
	}
	limit, ok := readCount(cgroup + "/memory.max")
	used, ok2 := readCount(cgroup + "/memory.current")
	if !ok || !ok2 || limit == 0 {
		return share
	}
	return max(share, float64(used-min(used, inactiveFile(cgroup+"/memory.stat")))/float64(limit))
}

// readCount reads a file that holds one number; "max" is none.
func readCount(path string) (uint64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}

func inactiveFile(path string) uint64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if number, ok := strings.CutPrefix(line, "inactive_file "); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(number), 10, 64)
			return n
		}
	}
	return 0
}

const (
	loadEvery      = time.Second // between measurements
	loadWindow     = 5           // measurements that CPU is averaged over: a burst of handshakes is no overload
	loadHysteresis = 0.1         // below the limit by so much before jobs are taken again
)

// loadGuard determines whether the node is over its limit, with hysteresis. It belongs to the
// poller.
type loadGuard struct {
	limits  Limits
	measure func() (cpu, memory float64)
	at      time.Time
	cpu     [loadWindow]float64 // ring of the last measurements
	next    int
	over    bool
}

// check measures when it is time to, and reports when that changed the answer.
func (g *loadGuard) check(now time.Time) (over, changed bool, text string) {
	if g.measure == nil || !g.at.IsZero() && now.Sub(g.at) < loadEvery {
		return g.over, false, ""
	}
	g.at = now
	cpu, m := g.measure()
	g.cpu[g.next%loadWindow] = cpu
	g.next++
	c, was := 0.0, g.over
	for _, share := range g.cpu {
		c += share / loadWindow
	}
	if was {
		g.over = c > g.limits.CPU-loadHysteresis || m > g.limits.Memory-loadHysteresis
	} else {
		g.over = c >= g.limits.CPU || m >= g.limits.Memory
	}
	effect := "no further host begins until that is less (--cpu-limit, --memory-limit)"
	if !g.over {
		effect = "further hosts begin"
	}
	text = fmt.Sprintf("%s: CPU %.0f %% of at most %.0f %%, memory %.0f %% of at most %.0f %%", effect, 100*c, 100*g.limits.CPU, 100*m, 100*g.limits.Memory)
	return g.over, was != g.over, text
}
