package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"syscall"

	"github.com/turnus/turnus/cmd/turnus/console"
)

// inOwnNetwork runs this very command again in a network namespace of its own.
func inOwnNetwork(ctx context.Context, con *console.Console) error {
	if os.Getuid() != 0 {
		return console.Invalid("--openssh gives sshd a network namespace of its own and needs root for it")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...) //nolint:gosec // ourselves
	cmd.Env = append(os.Environ(), namespaceEnv+"=1")
	cmd.Stdout, cmd.Stderr = con.Out, con.Err
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err = cmd.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return &console.Exit{Code: failed.ExitCode()}
	}
	return err
}
