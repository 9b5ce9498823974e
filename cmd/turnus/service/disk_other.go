//go:build !linux && !darwin

package service

// diskOf returns nothing here.
func diskOf(string) (free, size uint64, ok bool) { return 0, 0, false }
