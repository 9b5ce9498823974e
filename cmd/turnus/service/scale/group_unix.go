//go:build unix

package scale

import (
	"os/exec"
	"syscall"
)

// apart gives a command a process group, and ends the whole of it at the time limit.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
