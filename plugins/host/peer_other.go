//go:build unix && !linux && !darwin

package host

import "net"

// checkPeer trusts the socket's folder, which only our user can enter.
func checkPeer(*net.UnixConn, int) error { return nil }
