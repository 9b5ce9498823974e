package service

import (
	"os"

	"github.com/turnus/turnus/cmd/turnus/service/systemd"
)

// Supervised is the systemd that started this process, nil where none did.
func Supervised() (*systemd.Manager, error) { return systemd.Open(os.Getenv, os.Getpid()) }
