package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/help"
	"github.com/turnus/turnus/cmd/turnus/settings"
)

// The guide lists each former flag, and a command has the present one.
func TestFormerFlagsAreListed(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/renamed.md")
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]bool{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(testRoot())
	for _, r := range settings.RenamedFlags {
		if flags[r.Old] || !flags[r.Now] {
			t.Errorf("--%s: a command has it: %v; a command has --%s: %v", r.Old, flags[r.Old], r.Now, flags[r.Now])
		}
		if !strings.Contains(string(guide), "| `--"+r.Old+"`") || !strings.Contains(string(guide), "| `--"+r.Now+"` |") {
			t.Errorf("docs/renamed.md does not list --%s as --%s", r.Old, r.Now)
		}
	}
}

func TestFormerFlagsWork(t *testing.T) {
	for line, want := range map[string]string{
		"up --definitions nowhere":        "warning: --definitions is now --project\nerror: --project nowhere: expected a folder",
		"server --definitions=a --repo b": "warning: --definitions is now --project\n",
		"up --project nowhere":            "error: --project nowhere: expected a folder",
		"run --definitions x":             "error: turnus run: unknown flag: --definitions", // it never had the flag
	} {
		if _, said := turnus(t, console.ExitInvalid, strings.Fields(line)...); !strings.HasPrefix(said, want) || strings.Count(said, "warning:") > 1 {
			t.Errorf("turnus %s prints %q, expected %q", line, said, want)
		}
	}
}

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
