//go:build !unix

package securefile

import (
	"errors"
	"io/fs"
)

const nonBlocking = 0

// ours cannot be known here: owners are not those of Unix.
func ours(fs.FileInfo) bool { return true }

// LockFolder refuses: there is no lock of folders here.
func LockFolder(path string) (unlock func(), err error) {
	return nil, &fs.PathError{Op: "lock", Path: path, Err: errors.ErrUnsupported}
}
