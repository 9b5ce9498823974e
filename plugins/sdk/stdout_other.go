//go:build unix && !linux

package sdk

import "syscall"

func redirect(from, to int) error { return syscall.Dup2(from, to) }
