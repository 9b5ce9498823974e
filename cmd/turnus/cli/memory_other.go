//go:build !linux

package cli

import "os"

// memoryFolder is where a file lies in memory only; false: there is no such place.
func memoryFolder() (string, bool) { return os.TempDir(), false }
