//go:build !unix

package securefile

import (
	"errors"
	"io/fs"
	"os"
)

const nonBlocking = 0

// keepOwner has nothing to keep: owners are not those of Unix.
func keepOwner(*os.File, fs.FileInfo) error { return nil }

func sameOwner(fs.FileInfo, fs.FileInfo) bool { return true }

// ours cannot be known here: owners are not those of Unix.
func ours(fs.FileInfo) bool { return true }

// LockFolder refuses: there is no lock of folders here.
func LockFolder(path string) (unlock func(), err error) {
	return nil, &fs.PathError{Op: "lock", Path: path, Err: errors.ErrUnsupported}
}
