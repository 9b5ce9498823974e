//go:build !linux

package bench

import (
	"context"

	"github.com/turnus/turnus/cmd/turnus/console"
)

func inOwnNetwork(context.Context, *console.Console) error {
	return console.Invalid("--openssh gives sshd a network namespace of its own; only Linux has them")
}
