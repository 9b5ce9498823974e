package cli

import (
	"errors"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
)

func TestHostsWithoutAWindowAreInvalidInput(t *testing.T) {
	err := error(&launch.NoWindowError{Playbook: "p", Total: 1, Hosts: []launch.NoWindow{{Host: "a", Need: 3600, Reason: "never"}}})
	if exitCode(err) != console.ExitInvalid || !errors.Is(err, core.ErrInvalid) {
		t.Errorf("exit code %d", exitCode(err))
	}
}
