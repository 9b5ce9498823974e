//go:build !linux

package exec

import (
	"syscall"

	"github.com/turnus/turnus/plugins/sdk"
)

// killJob finds the processes of a job on Linux only; elsewhere the script alone is signalled, and
// the worker ends the others with the plugin's process group.
func killJob(*sdk.Raw, syscall.Signal) {}
