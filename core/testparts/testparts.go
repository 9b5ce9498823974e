// Package testparts owns how tests get real components: redis-server, sshd and
// others must be installed; without them a test fails in CI and skips loudly
// elsewhere. It must not know what the components are used for.
package testparts

import (
	"flag"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// Need returns the path of an installed program. Without it the test fails when
// CI is set, and otherwise skips with a line that shows how to install it.
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

// Patient runs tests that wait most of the time, for sessions that end, restarts and ticks: of
// those with t.Parallel twice as many run at the same time as there are cores, unless -parallel
// sets how many.
type Patient struct{ M *testing.M }

// Run runs the tests and returns the exit code.
func (p Patient) Run() int {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
			panic(err) // there is no such flag any more
		}
	}
	return p.M.Run()
}

// Shipped is the environment of a go command that compiles as make build does, so that nothing is
// compiled for it once more.
func Shipped(flags ...string) []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+strings.Join(append([]string{"-trimpath"}, flags...), " "))
}

// Able ends a test whose machine does not allow what it needs, as root or a network namespace do;
// err is what was refused. As with Need, the test fails in CI and skips loudly elsewhere. A nil
// err continues.
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
