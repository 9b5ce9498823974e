//go:build unix && !linux

package host

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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

// openSocket checks a socket below dir by its name. Without /proc it is connected to by its name,
// so the plugin could still exchange it for a link in between.
func openSocket(dir, rel string) (*os.File, string, error) {
	at, err := os.Open(dir)
	if err != nil {
		return nil, "", err
	}
	if err := isSocket(os.Lstat(filepath.Join(dir, rel))); err != nil {
		return nil, "", errors.Join(err, at.Close())
	}
	return at, filepath.Join(dir, rel), nil
}

// noCore does nothing: limits of another process cannot be set.
func noCore(int) {}

// awaitExit reaps the child: its group is signalled right after, when the number
// could in theory be somebody else's already.
func awaitExit(cmd *exec.Cmd) { _ = cmd.Wait() }
