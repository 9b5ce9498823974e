package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/help"
)

func TestFormerNamesRunThePresentCommands(t *testing.T) {
	root := testRoot()
	for _, r := range help.Renamed {
		now := strings.Fields(r.Now)
		if c, rest, err := root.Find(now); err != nil || len(rest) > 0 || c.Hidden {
			t.Errorf("%s: there is no command turnus %s", r.Old, r.Now)
			continue
		}
		if r.Old == "hosts" { // its help is that of the present command
			continue
		}
		want, silent := turnus(t, console.ExitOK, append(now, "--help")...)
		got, said := turnus(t, console.ExitOK, append(strings.Fields(r.Old), "--help")...)
		if got != want || silent != "" {
			t.Errorf("turnus %s --help is not that of turnus %s; stderr of the latter: %q", r.Old, r.Now, silent)
		}
		line := fmt.Sprintf("warning: \"turnus %s\" is now \"turnus %s\"\n", r.Old, r.Now)
		if said != line {
			t.Errorf("turnus %s prints %q on stderr, expected %q", r.Old, said, line)
		}
		got, said = turnus(t, console.ExitOK, append([]string{"help"}, strings.Fields(r.Old)...)...)
		if got != want || said != line {
			t.Errorf("turnus help %s is not that of turnus %s; stderr: %q", r.Old, r.Now, said)
		}
	}
}
