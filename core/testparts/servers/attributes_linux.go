package servers

import "syscall"

// dieWithParent ends the server by a signal when the test binary ends, whatever ends that.
func dieWithParent(by syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: by}
}
