package settings

import (
	"os"
	"syscall"
)

// MemoryFolder returns a folder whose files are in memory only; false: there is none, and the
// folder is on a disk.
func MemoryFolder() (string, bool) {
	const tmpfs, ramfs = 0x01021994, 0x858458f6
	for _, dir := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/dev/shm"} {
		var st syscall.Statfs_t
		if dir == "" || syscall.Statfs(dir, &st) != nil || uint32(st.Type) != tmpfs && uint32(st.Type) != ramfs {
			continue
		}
		return dir, true
	}
	return os.TempDir(), false
}
