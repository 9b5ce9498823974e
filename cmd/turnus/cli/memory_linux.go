package cli

import (
	"os"
	"syscall"
)

// memoryFolder is where a file lies in memory only; false: there is no such place.
func memoryFolder() (string, bool) {
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
