//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
)

// The binary under test and the folder of everything that the tests leave for a while.
// They are set once, by TestMain, before any test runs.
var binary, base string

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "turnus-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	base, binary = dir, filepath.Join(dir, "turnus")
	args := []string{"build", "-ldflags=-s -w", "-o", binary} // as it is shipped
	if raceEnabled {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "github.com/turnus/turnus/cmd/turnus")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build turnus: %v\n%s", err, out)
		return 1
	}
	code := testparts.Patient{M: m}.Run()
	var left []string
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 250 { // the processes of a killed worker take a moment to die with it
		if left = leftOver(dir); len(left) == 0 {
			return code
		}
		<-tick.C
	}
	fmt.Fprintf(os.Stderr, "processes outlived the tests:\n%s\n", strings.Join(left, "\n"))
	return 1
}

// leftOver lists the processes whose program lies under dir.
func leftOver(dir string) []string {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	var left []string
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && strings.HasPrefix(exe, dir+"/") {
			left = append(left, filepath.Base(filepath.Dir(link))+" "+exe)
		}
	}
	return left
}

// labPlugins builds the plugin lab in a module of its own and returns the plugin folder.
var labPlugins = sync.OnceValues(func() (string, error) {
	sdk, err := filepath.Abs("../../../plugins/sdk")
	if err != nil {
		return "", err
	}
	src, folder := filepath.Join(base, "lab-src"), filepath.Join(base, "plugins", "lab", "1.0.0")
	for _, dir := range []string{src, folder} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
	}
	mod := "module example.org/lab\n\ngo 1.26.0\n\nrequire github.com/turnus/turnus/plugins/sdk v0.0.0\n\nreplace github.com/turnus/turnus/plugins/sdk => " + sdk + "\n"
	if err := os.WriteFile(filepath.Join(src, "go.mod"), []byte(mod), 0o600); err != nil {
		return "", err
	}
	for to, from := range map[string]string{"main.go": "testdata/lab/main.go", "go.sum": filepath.Join(sdk, "go.sum")} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(src, to), text, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	build := exec.Command("go", "build", "-o", filepath.Join(folder, "plugin"), ".")
	build.Dir = src
	build.Env = append(testparts.Shipped("-mod=mod"), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the plugin: %w\n%s", err, out)
	}
	return filepath.Join(base, "plugins"), nil
})

// plugins is the plugin folder with the plugin lab.
func plugins(t *testing.T) string {
	t.Helper()
	dir, err := labPlugins()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
