package pgtest

import "syscall"

// dieWithParent lets the server die with the test binary, whatever ends that.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT} }
