//go:build unix

package secrets

import (
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// nonBlocking keeps a pipe of the name of a file from holding the node up.
const nonBlocking = syscall.O_NONBLOCK

// ownedByUs tells whether a file belongs to this process's user or to root.
func ownedByUs(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && (sys.Uid == 0 || int(sys.Uid) == os.Geteuid())
}

// ownGroup lets a command be ended with all that it started.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
