package fleet

import (
	"context"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// listenOnLoopbackDevice opens one socket for all of 127.0.0.0/8. Binding to a
// device needs no privilege since Linux 5.7.
func listenOnLoopbackDevice(ctx context.Context) (net.Listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var bindErr error
		if err := raw.Control(func(fd uintptr) {
			bindErr = unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "lo")
		}); err != nil {
			return err
		}
		if bindErr != nil {
			return fmt.Errorf("%w: %w", errNoDevice, bindErr)
		}
		return nil
	}}
	return lc.Listen(ctx, "tcp4", "0.0.0.0:0")
}
