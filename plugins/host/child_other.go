//go:build unix && !linux

package host

import (
	"os"
	"os/exec"
	"syscall"
)

// selfPath is empty: only Linux names the running binary by descriptor.
const selfPath = ""

// execFile runs the file by its path: without /proc there is no way to run a
// descriptor, so between hash and start the path could be exchanged by somebody
// who may write to its folder. Discovery refuses folders that others can write to.
func execFile(f *os.File, argv []string) *exec.Cmd {
	return &exec.Cmd{Path: f.Name(), Args: argv}
}

// isolate gives the process its own session. There is no parent-death signal: a
// plugin ends when its connection to the worker breaks.
func isolate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// noCore does nothing: limits of another process cannot be set.
func noCore(int) {}

// awaitExit reaps the child: its group is signalled right after, when the number
// could in theory be somebody else's already.
func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }
