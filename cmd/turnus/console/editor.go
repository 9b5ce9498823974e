package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Edit lets a person edit a file: it waits for the editor, and ends it when ctx ends or on a
// signal.
func (c *Console) Edit(ctx context.Context, file string, got <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "exec "+editor+` "$1"`, "sh", file) //nolint:gosec // the person's own editor
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.In, os.Stdout, os.Stderr                       // the terminal itself
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("editor: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // ends with the editor, which is waited for below
	interrupted := false
	for {
		select {
		case s := <-got:
			if interrupted = true; s != os.Interrupt {
				cancel()
			}
		case err := <-ended:
			switch {
			case err != nil && (interrupted || endedBySignal(cmd.ProcessState)):
				return &Exit{Code: ExitCancelled, Err: errors.New("the editor was ended by a signal: nothing was changed")}
			case err != nil:
				return fmt.Errorf("the editor %s: %w: nothing was changed", editor, err)
			}
			return nil
		}
	}
}

// endedBySignal reports whether a program ended by a signal that asks it to, also by the exit code
// of a shell whose program did. If the signal also came to this process, the program's end may be
// seen first. A crash does not count.
func endedBySignal(s *os.ProcessState) bool {
	status, ok := s.Sys().(syscall.WaitStatus)
	if !ok {
		return false
	}
	by := syscall.Signal(status.ExitStatus() - 128)
	if status.Signaled() {
		by = status.Signal()
	}
	return by == syscall.SIGINT || by == syscall.SIGTERM || by == syscall.SIGHUP
}
