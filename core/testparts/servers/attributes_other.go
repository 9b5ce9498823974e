//go:build !linux

package servers

import "syscall"

func dieWithParent(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
