package host

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// checkPeer makes sure that the other end of a connection is of our user and of the plugin's
// process group.
func checkPeer(conn *net.UnixConn, group int) error {
	var cred *unix.Ucred
	if err := control(conn, func(fd int) (err error) {
		cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	}); err != nil {
		return err
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("user %d is not the plugin's", cred.Uid)
	}
	if pgid, err := syscall.Getpgid(int(cred.Pid)); err != nil || pgid != group {
		return fmt.Errorf("process %d is not of the plugin's group %d", cred.Pid, group)
	}
	return nil
}
