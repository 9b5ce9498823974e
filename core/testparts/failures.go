package testparts

import (
	"fmt"
	"time"
)

// SameFailures returns reasons by their names: of host number i, which differ in nothing that
// matters. Every view of failures shows 300 such hosts as one group.
func SameFailures() map[string]func(host string, i int) string {
	return map[string]func(host string, i int) string{
		"refused": func(h string, i int) string {
			return fmt.Sprintf("%s (10.0.%d.%d:22): dial: connection refused", h, i/256, i%256)
		},
		"source ports": func(_ string, i int) string {
			return fmt.Sprintf("read tcp 10.0.0.1:%d->10.0.%d.%d:22: connection reset by peer", 40000+i, i/256, i%256)
		},
		"source ports of IPv6": func(_ string, i int) string {
			return fmt.Sprintf("read tcp [fd00::1]:%d->[fd00::%x]:22: connection reset by peer", 40000+i, i)
		},
		"temporary names": func(_ string, i int) string {
			return fmt.Sprintf("sh: /tmp/turnus-%08x/script: Permission denied", i*7919)
		},
		"durations": func(_ string, i int) string {
			return fmt.Sprintf("no answer after %v", 10*time.Second+time.Duration(i)*37*time.Millisecond)
		},
		"times":          func(_ string, i int) string { return fmt.Sprintf("2026-11-26T03:%02d:%02dZ lock held", i/60, i%60) },
		"process":        func(_ string, i int) string { return fmt.Sprintf("lock held by pid %d", 1000+i) },
		"daemon":         func(_ string, i int) string { return fmt.Sprintf("nginx[%d]: bind failed", 1000+i) },
		"the host's own": func(h string, _ int) string { return "cannot resolve " + h + ".example.net:443" },
	}
}

// DifferentFailures returns pairs of reasons that no view of failures shows as one.
func DifferentFailures() [][2]string {
	return [][2]string{
		{"exit status 1", "exit status 2"},
		{"line 4: syntax error", "line 5: syntax error"},
		{"no space left on /var", "no space left on /home"},
		{"package nginx 1.2 is missing", "package nginx 1.4 is missing"},
		{"expected 3 workers, found 2", "expected 3 workers, found 1"},
	}
}
