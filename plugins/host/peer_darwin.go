package host

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// checkPeer makes sure that the other end of a connection is of our user.
func checkPeer(conn *net.UnixConn, _ int) error {
	var cred *unix.Xucred
	if err := control(conn, func(fd int) (err error) {
		cred, err = unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		return err
	}); err != nil {
		return err
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("user %d is not the plugin's", cred.Uid)
	}
	return nil
}
