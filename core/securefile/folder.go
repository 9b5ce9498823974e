package securefile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// OwnFolder makes a folder that only this process's user may access, with its parents. A folder
// that exists is refused if it is a link, belongs to another user, gives others a right to it, or
// if others may put another in its place. A refusal is a *ModeError, or an error that wraps
// ErrForeign; other errors are the system's.
func OwnFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	above, err := os.Stat(filepath.Dir(path))
	switch {
	case err != nil:
		return err
	case !ours(above):
		return fmt.Errorf("%w: %s belongs to another user", ErrForeign, filepath.Dir(path))
	case above.Mode().Perm()&0o022 != 0 && above.Mode()&fs.ModeSticky == 0:
		return fmt.Errorf("%w: others may write into %s (mode %04o): chmod go-w %s", ErrForeign, filepath.Dir(path), above.Mode().Perm(), filepath.Dir(path))
	}
	st, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !st.IsDir():
		return fmt.Errorf("%w: %s is no folder, or a link to one", ErrForeign, path)
	case !ours(st):
		return fmt.Errorf("%w: %s belongs to another user", ErrForeign, path)
	case st.Mode().Perm()&0o077 != 0:
		return &ModeError{path, st.Mode().Perm(), "chmod 700 " + path}
	}
	return nil
}

// OwnFile returns the error of a file that a library is going to open, as OwnFolder does. A missing
// one is no error.
func OwnFile(path string) error {
	st, err := os.Lstat(path)
	switch {
	case os.IsNotExist(err):
		return nil
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return fmt.Errorf("%w: %s is no regular file, or a link", ErrForeign, path)
	case !ours(st):
		return fmt.Errorf("%w: %s belongs to another user", ErrForeign, path)
	case st.Mode().Perm()&0o077 != 0:
		return &ModeError{path, st.Mode().Perm(), "chmod 600 " + path}
	}
	return nil
}
