package cli

import (
	"os"

	"github.com/turnus/turnus/core/systemd"
)

// supervised is the systemd that started this process, nil where none did.
func supervised() (*systemd.Manager, error) { return systemd.Open(os.Getenv, os.Getpid()) }

// mind says what systemd could not be told: it will do something about it, and people should know why.
func (a *app) mind(err error) {
	if err != nil {
		a.message(a.paint(yellow, "warning: ") + err.Error())
	}
}
