//go:build linux || darwin

package service

import "syscall"

// diskOf is the free space for us, and the size, of the disk that a path is on, in bytes.
func diskOf(path string) (free, size uint64, ok bool) {
	var st syscall.Statfs_t
	if syscall.Statfs(path, &st) != nil {
		return 0, 0, false
	}
	return uint64(st.Bavail) * uint64(st.Bsize), uint64(st.Blocks) * uint64(st.Bsize), true //nolint:gosec,unconvert,nolintlint // none is negative; the types differ by system
}
