//go:build !linux

package cli

import "context"

func (a *app) inOwnNetwork(context.Context) error {
	return invalid("--openssh gives sshd a network namespace of its own; only Linux has them")
}
