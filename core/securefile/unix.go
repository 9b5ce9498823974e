//go:build unix

package securefile

import (
	"io/fs"
	"os"
	"syscall"
)

// nonBlocking keeps a pipe of the name of a file from holding the process up.
const nonBlocking = syscall.O_NONBLOCK

// keepOwner gives a file that root writes the owner and group of the one that it replaces: a
// service that reads it may be another user.
func keepOwner(f *os.File, old fs.FileInfo) error {
	sys, ok := old.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return f.Chown(int(sys.Uid), int(sys.Gid))
}

// sameOwner reports whether two files have the same owner and group.
func sameOwner(a, b fs.FileInfo) bool {
	one, ok := a.Sys().(*syscall.Stat_t)
	other, ok2 := b.Sys().(*syscall.Stat_t)
	return !ok || !ok2 || one.Uid == other.Uid && one.Gid == other.Gid
}

// ours reports whether a file belongs to this process's user or to root.
func ours(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && (sys.Uid == 0 || int(sys.Uid) == os.Geteuid())
}
