package redistest

import "syscall"

// attributes let the server die with the test binary, whatever ends that.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
