// Package securefile reads and replaces files that only this user may access, watches files for
// changes so that a new content needs no restart, and keeps TLS connections on such files.
//
// It must not know what the files hold, except that certificates and keys are PEM, nor who connects
// to whom.
package securefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Rule defines what a file must be to be read.
type Rule struct {
	Most  int         // bytes that it may have
	Shut  fs.FileMode // permissions that it must give nobody
	Owned bool        // it must belong to this process's user, or to root
	Pipes bool        // also accept a pipe or a device, and wait for it; else it must be a regular file
}

// ErrTooLong is a file that has more bytes than it may have.
var ErrTooLong = errors.New("file too long")

// ErrForeign is a file or folder that another user may have put there, or may change.
var ErrForeign = errors.New("not this user's own")

// ModeError is a file or folder whose permissions give others a right to it that they must not
// have.
type ModeError struct {
	Path string
	Mode fs.FileMode // its permissions
	Mend string      // the command that corrects it
}

func (e *ModeError) Error() string {
	return fmt.Sprintf("%s: mode %04o gives others a right to it: %s", e.Path, e.Mode, e.Mend)
}

// Read reads a file that obeys the rule. Otherwise the error is a *ModeError, ErrTooLong, or names
// the file and what to do. For a file that does not exist it is fs.ErrNotExist. Read checks the
// open file, so it returns the file that it checked, even if another takes its place meanwhile. It
// follows links, because service managers hand files over through them. The group may have read
// access to a credential of systemd.
func Read(path string, r Rule) ([]byte, error) {
	flags := os.O_RDONLY
	if !r.Pipes {
		flags |= nonBlocking
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	if credential(path) {
		r.Shut &^= 0o040
	}
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case st.IsDir() || !r.Pipes && !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	case st.Mode().Perm()&r.Shut != 0:
		return nil, &ModeError{path, st.Mode().Perm(), "chmod 600 " + path}
	case r.Owned && !ours(st):
		return nil, fmt.Errorf("%s belongs to another user: chown it to the user that this process runs as, or to root", path)
	}
	data := bytes.NewBuffer(make([]byte, 0, min(st.Size(), int64(r.Most))+bytes.MinRead)) // in full size: growing leaves copies of a secret behind
	_, err = data.ReadFrom(io.LimitReader(f, int64(r.Most)+1))
	if err == nil && data.Len() > r.Most {
		err = fmt.Errorf("%s: %w: expected at most %d bytes", path, ErrTooLong, r.Most)
	}
	if err != nil {
		clear(data.Bytes())
		return nil, err
	}
	return data.Bytes(), nil
}

// credential reports whether systemd hands the file over, which may let this user alone read it by
// an access list: that shows as a right of the group, which has none.
func credential(path string) bool {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	return dir != "" && filepath.Dir(path) == filepath.Clean(dir)
}

// Replace puts a file with these permissions in the place of the one at path, or makes one: whole
// or not at all, also after a power cut. If it is a link, its target is replaced. A file that root
// replaces keeps its owner and group. Of two calls at the same time the last one stays.
func Replace(path string, data []byte, mode fs.FileMode) error {
	to, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		to, err = path, nil
	}
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".*.part") // mode 0600
	if err != nil {
		return err
	}
	if old, gone := os.Stat(to); gone == nil {
		err = keepOwner(f, old)
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(filepath.Dir(to))
}

// Remove removes a file, permanently: a power cut does not bring it back. A missing one is no
// error.
func Remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
