//go:build linux || darwin

package host

import (
	"fmt"
	"net"
)

func control(conn *net.UnixConn, fn func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = fn(int(fd)) }); err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	if inner != nil {
		return fmt.Errorf("peer credentials: %w", inner)
	}
	return nil
}
