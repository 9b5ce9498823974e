//go:build !unix

package secrets

import "os/exec"

func ownGroup(cmd *exec.Cmd) { cmd.Cancel = func() error { return cmd.Process.Kill() } }
