//go:build linux

package servers

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
)

//go:embed boot.sh
var machineBoot string

// Machine is a running machine in namespaces of its own, on a copy of this machine's files that is
// gone with the test. Safe for concurrent use.
type Machine struct {
	pid int // of its PID 1, seen from here
}

// StartMachine boots a machine and returns when systemd has reached its target. It needs root.
func StartMachine(tb testing.TB) *Machine {
	tb.Helper()
	testparts.Need(tb, "systemctl", "systemd")
	return startMachine(tb, "systemctl is-system-running", []string{"running", "degraded"}, "/lib/systemd/systemd", "--unit=basic.target")
}

// BareMachine starts a machine without systemd: its PID 1 only sleeps. It needs root.
func BareMachine(tb testing.TB) *Machine {
	tb.Helper()
	return startMachine(tb, "cat /proc/1/comm", []string{"sleep"}, "/bin/sleep", "infinity")
}

// startMachine returns when what a command of the machine prints is one of the texts.
func startMachine(tb testing.TB, ask string, ready []string, init ...string) *Machine {
	tb.Helper()
	if os.Geteuid() != 0 {
		testparts.Able(tb, "a machine in namespaces of its own", syscall.EPERM)
	}
	unshare, nsenter := testparts.Need(tb, "unshare", "util-linux"), testparts.Need(tb, "nsenter", "util-linux")
	var said bytes.Buffer
	cmd := exec.Command(unshare, append([]string{"-mpfCniu", "--kill-child", "/bin/sh", "-c", machineBoot, "sh", tb.TempDir()}, init...)...) //nolint:noctx,gosec // it ends with the test; our own script
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	tb.Cleanup(func() {
		_ = cmd.Process.Kill() // --kill-child ends the machine with it
		<-ended
	})
	m := &Machine{}
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		select {
		case <-ended:
			tick.Stop()
			testparts.Able(tb, "a machine in namespaces of its own", errors.New(said.String()))
		case <-tb.Context().Done():
			tick.Stop()
			tb.Fatal("the machine does not boot: ", said.String())
		default:
		}
		if m.pid = firstChild(cmd.Process.Pid); m.pid == 0 {
			continue
		}
		if state, _, _, _ := m.enter(tb.Context(), nsenter, ask, nil); slices.Contains(ready, strings.TrimSpace(state)) {
			tick.Stop()
			return m
		}
	}
}

// firstChild is the first child of a process; 0 for none.
func firstChild(pid int) int {
	p := strconv.Itoa(pid)
	text, err := os.ReadFile("/proc/" + p + "/task/" + p + "/children")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	n, _ := strconv.Atoi(first)
	return n
}

// Path is where a file of the machine is, seen from here. Only what the machine itself mounted
// later hides it.
func (m *Machine) Path(path string) string { return "/proc/" + strconv.Itoa(m.pid) + "/root" + path }

// Run runs a command line as root on the machine.
func (m *Machine) Run(ctx context.Context, line string, stdin io.Reader) (stdout, stderr string, code int, err error) {
	return m.enter(ctx, "nsenter", line, stdin)
}

// Server is the command line before that of a server: it runs on the machine, but in the network of
// the test. The folder of its last argument, a configuration file, is copied to the machine first.
func (m *Machine) Server() []string {
	return []string{"/bin/sh", "-c", machineServer, strconv.Itoa(m.pid)}
}

const machineServer = `for file; do :; done
folder=${file%/*} root=/proc/$0/root
mkdir -p "$root$folder" && cp -a "$folder/." "$root$folder/" && exec nsenter -t "$0" -m -p -C -i -u -r -w -- "$@"`

func (m *Machine) enter(ctx context.Context, nsenter, line string, stdin io.Reader) (stdout, stderr string, code int, err error) {
	cmd := exec.CommandContext(ctx, nsenter, "-t", strconv.Itoa(m.pid), "-a", "-r", "-w", "/bin/sh", "-c", line) //nolint:gosec // the command of a test
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	err = cmd.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), errs.String(), ended.ExitCode(), nil
	}
	return out.String(), errs.String(), 0, err
}
