package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/cmd/turnus/node"
)

// peakMB is the peak resident memory of this process plus that of its children that live now, in
// MB, from Linux's /proc; 0 elsewhere.
func peakMB() float64 {
	self := strconv.Itoa(os.Getpid())
	kb := statusField("/proc/self/status", "VmHWM:")
	all, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return float64(kb) / 1024
	}
	for _, file := range all {
		if strconv.Itoa(statusField(file, "PPid:")) == self {
			kb += statusField(file, "VmHWM:")
		}
	}
	return float64(kb) / 1024
}

// statusField reads a number from a /proc status file; 0 when it is not there.
func statusField(file, name string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// childrenCPU is the CPU time of the plugin processes that live now (their command line names
// them), from Linux's /proc; 0 elsewhere.
func childrenCPU() time.Duration {
	self := strconv.Itoa(os.Getpid())
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	ticks := 0
	for _, file := range all {
		line, err := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err != nil || !strings.Contains(string(line), node.ServeVerb) {
			continue
		}
		stat, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		// After the name in brackets: state, parent, …, user time (12th), system time (13th).
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) < 13 || fields[1] != self {
			continue
		}
		for _, f := range fields[11:13] {
			n, err := strconv.Atoi(f)
			if err != nil {
				return 0
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go runs on
}
