//go:build linux

package e2e

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// startBytes is how much a package of Turnus may allocate before main runs. Each start of the
// program pays for it: each command, each plugin process.
const startBytes = 16_000

// TestAStartMakesLittle keeps tables and patterns from being made at each start. The messages of
// the wire, which protobuf registers, show that a package with more is found.
func TestAStartMakesLittle(t *testing.T) {
	t.Parallel()
	c := exec.CommandContext(t.Context(), binary, "version")
	c.Env = append(os.Environ(), "GODEBUG=inittrace=1", "HOME="+t.TempDir())
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found := false
	for _, l := range largeStarts(string(out), startBytes) {
		if strings.HasPrefix(l, "github.com/turnus/turnus/plugins/sdk/wire ") {
			found = true
			continue
		}
		t.Errorf("%s before main, more than %d: make it when it is used (sync.OnceValue)", l, startBytes)
	}
	if !found {
		t.Errorf("the trace does not show what plugins/sdk/wire allocates:\n%s", out)
	}
}

// largeStarts reads a trace of initialization, and returns the packages of Turnus that allocate
// more than limit bytes.
func largeStarts(trace string, limit int) (large []string) {
	for line := range strings.Lines(trace) { // init PACKAGE @1.2 ms, 0.3 ms clock, 4096 bytes, 5 allocs
		f := strings.Fields(line)
		if len(f) < 9 || f[0] != "init" || !strings.HasPrefix(f[1], "github.com/turnus/turnus/") {
			continue
		}
		if n, err := strconv.Atoi(f[7]); err != nil || n > limit {
			large = append(large, f[1]+" allocates "+f[7]+" bytes")
		}
	}
	return large
}
