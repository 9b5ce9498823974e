package cli

import (
	"os"

	"github.com/turnus/turnus/core/systemd"
)

// supervised is the systemd that started this process, nil where none did.
func supervised() (*systemd.Manager, error) { return systemd.Open(os.Getenv, os.Getpid()) }
