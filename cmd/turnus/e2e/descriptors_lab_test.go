//go:build linux && labs

package e2e

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport/fleet"
)

// A run on five times as many hosts as its process may open files ends well on each of them, and
// warns once. TURNUS_BENCH=20000 has that many hosts, and 4096 files.
func TestLabFaultW17MoreHostsThanDescriptors(t *testing.T) {
	hosts, descriptors := 5000, 1024
	if text := os.Getenv("TURNUS_BENCH"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("TURNUS_BENCH=%q: expected how many hosts", text)
		}
		hosts, descriptors = n, n*descriptors/hosts
	}
	l := newLab(t, fleet.Config{Hosts: hosts})
	l.under = []string{"/bin/sh", "-c", `ulimit -n "$0" && exec "$@"`, strconv.Itoa(descriptors)}
	run := l.run(l.playbook("w17", `{uses: command, with: {run: "true"}}`), "--connect-timeout", "1m", "-o", "json")
	<-run.exited // a hang ends with the time limit of all tests
	run.wants(0)
	if got := run.report(); got.Total != hosts || got.Outcomes[core.Changed] != hosts {
		t.Errorf("%d hosts, outcomes %v", got.Total, got.Outcomes)
	}
	if n := strings.Count(run.err.String(), "the file descriptor limit bounds SSH connections"); n != 1 {
		t.Errorf("%d warnings of the limit, expected 1:\n%s", n, tail(run.err.String()))
	}
}
