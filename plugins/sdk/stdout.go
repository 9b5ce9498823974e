//go:build unix

package sdk

import (
	"os"
	"syscall"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// handshakeFile is the standard output that the process was born with, set once before main runs.
// Later output of the author's code, in init or main or a C library, goes to standard error: one
// stray line before the handshake would make the worker refuse the plugin.
var handshakeFile = claimStdout()

func claimStdout() *os.File {
	if os.Getenv(wire.CookieKey) != wire.CookieValue {
		return nil // not a plugin process
	}
	syscall.ForkLock.RLock()
	saved, err := syscall.Dup(1)
	if err == nil {
		syscall.CloseOnExec(saved)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil
	}
	if err := redirect(2, 1); err != nil {
		_ = syscall.Close(saved)
		return nil
	}
	return os.NewFile(uintptr(saved), "handshake")
}
