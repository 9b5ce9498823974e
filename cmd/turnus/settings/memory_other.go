//go:build !linux

package settings

import "os"

// MemoryFolder returns a folder whose files are in memory only; false: there is none, and the
// folder is on a disk.
func MemoryFolder() (string, bool) { return os.TempDir(), false }
