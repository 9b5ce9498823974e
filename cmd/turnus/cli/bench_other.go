//go:build !linux

package cli

import (
	"context"

	"github.com/turnus/turnus/cmd/turnus/console"
)

func (a *app) inOwnNetwork(context.Context) error {
	return console.Invalid("--openssh gives sshd a network namespace of its own; only Linux has them")
}
