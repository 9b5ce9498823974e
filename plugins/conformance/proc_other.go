//go:build !linux

package conformance

import (
	"errors"
	"syscall"
)

// canMeasure is false: only Linux has the measurements.
const canMeasure = false

func apart(*syscall.SysProcAttr) {}

func attempts(int) (int, error) {
	return 0, errors.New("network namespaces are Linux's")
}

func peak(int) int64 { return 0 }

func resident(int) int64 { return 0 }

func descendants(string) []string { return nil }

func endDescendants(string) {}
