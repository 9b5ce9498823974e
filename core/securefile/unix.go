//go:build unix

package securefile

import (
	"io/fs"
	"os"
	"syscall"
)

// nonBlocking keeps a pipe of the name of a file from holding the process up.
const nonBlocking = syscall.O_NONBLOCK

// ours reports whether a file belongs to this process's user or to root.
func ours(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && (sys.Uid == 0 || int(sys.Uid) == os.Geteuid())
}
