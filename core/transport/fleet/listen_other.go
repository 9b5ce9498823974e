//go:build !linux

package fleet

import (
	"context"
	"net"
)

// listenOnLoopbackDevice is Linux's: elsewhere only 127.0.0.1 of 127.0.0.0/8 is
// local by default.
func listenOnLoopbackDevice(context.Context) (net.Listener, error) { return nil, errNoDevice }
