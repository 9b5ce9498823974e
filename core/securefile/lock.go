//go:build unix

package securefile

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// LockFolder locks a folder until unlock, so that of several processes one changes its files at a
// time, and no lock file stays there.
func LockFolder(path string) (unlock func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}
