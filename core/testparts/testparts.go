// Package testparts owns how tests get real components: redis-server, sshd and
// others must be installed; without them a test fails in CI and skips loudly
// elsewhere. It must not know what the components are used for.
package testparts

import (
	"os"
	"os/exec"
	"testing"
)

// Need returns the path of an installed program. Without it the test fails when
// CI is set, and otherwise skips with a line that says how to install it.
func Need(tb testing.TB, program, debianPackage string) string {
	tb.Helper()
	for _, name := range []string{program, "/usr/sbin/" + program, "/usr/local/sbin/" + program} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		tb.Fatalf("%s is not installed: apt-get install %s (in CI this is a failure)", program, debianPackage)
	}
	tb.Skipf("SKIPPED, NOT TESTED: %s is not installed: run `make deps`, or apt-get install %s", program, debianPackage)
	return ""
}

// Able ends a test whose machine does not allow what it needs, as root or a network namespace do; err says what was refused. As
// with Need, the test fails in CI and skips loudly elsewhere. A nil err goes on.
func Able(tb testing.TB, what string, err error) {
	tb.Helper()
	if err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		tb.Fatalf("%s: %v (in CI this is a failure)", what, err)
	}
	tb.Skipf("SKIPPED, NOT TESTED: %s: %v", what, err)
}
