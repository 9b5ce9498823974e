package cli

import (
	"errors"
	"testing"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/windows/civil"
)

func TestHostsWithoutAWindowAreInvalidInput(t *testing.T) {
	err := error(&launch.NoWindowError{Playbook: "p", Total: 1, Hosts: []launch.NoWindow{{Host: "a", Need: 3600, Reason: "never"}}})
	if exitCode(err) != console.ExitInvalid || !errors.Is(err, core.ErrInvalid) {
		t.Errorf("exit code %d", exitCode(err))
	}
}

// On 6 September 2026 the clock of Santiago skips midnight. A last day ends at the midnight after
// it, whatever the one before it is.
func TestALastDayEndsAtItsMidnight(t *testing.T) {
	zone, err := civil.LoadZone("America/Santiago")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"2026-09-05": "2026-09-06T01:00:00-03:00", "2026-09-06": "2026-09-07T00:00:00-03:00", "2026-09-07": "2026-09-08T00:00:00-03:00",
		"2026-09-06T12:00": "2026-09-06T12:00:00-03:00",
	} {
		at, err := instantFlag("--until", text, zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := wholeDay(text, at, zone).In(zone).Format(time.RFC3339); got != want {
			t.Errorf("--until %s ends %s, expected %s", text, got, want)
		}
	}
}
