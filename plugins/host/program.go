package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/turnus/turnus/core"
)

// openProgram opens a program and, when want is not empty, makes sure that
// the opened file, not just its path, has that content.
func openProgram(path, want string) (*os.File, error) {
	if self, err := os.Executable(); err == nil && self == path && selfPath != "" {
		return os.Open(selfPath) // it is what runs already
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("plugin program: %w", err)
	}
	if want == "" {
		return f, nil
	}
	got, err := sumFile(f)
	if err == nil && got != want {
		err = fmt.Errorf("%w: %s changed since it was loaded: sha256 was %s, is %s; if that is intended, install it again: turnus plugins install --force", core.ErrInvalid, path, want, got)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func sumFile(f *os.File) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hash %s: %w", f.Name(), err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("hash %s: %w", f.Name(), err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// killGroup signals a process group; one that is gone is no error.
func killGroup(pid int, sig syscall.Signal) { _ = syscall.Kill(-pid, sig) }
