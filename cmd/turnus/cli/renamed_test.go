package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
)

func TestFormerNamesRunThePresentCommands(t *testing.T) {
	root := testRoot()
	for _, r := range renamed {
		now := strings.Fields(r.now)
		if c, rest, err := root.Find(now); err != nil || len(rest) > 0 || c.Hidden {
			t.Errorf("%s: there is no command turnus %s", r.old, r.now)
			continue
		}
		if r.old == "hosts" { // its help is that of the present command
			continue
		}
		want, silent := turnus(t, console.ExitOK, append(now, "--help")...)
		got, said := turnus(t, console.ExitOK, append(strings.Fields(r.old), "--help")...)
		if got != want || silent != "" {
			t.Errorf("turnus %s --help is not that of turnus %s; stderr of the latter: %q", r.old, r.now, silent)
		}
		line := fmt.Sprintf("warning: \"turnus %s\" is now \"turnus %s\"\n", r.old, r.now)
		if said != line {
			t.Errorf("turnus %s prints %q on stderr, expected %q", r.old, said, line)
		}
		got, said = turnus(t, console.ExitOK, append([]string{"help"}, strings.Fields(r.old)...)...)
		if got != want || said != line {
			t.Errorf("turnus help %s is not that of turnus %s; stderr: %q", r.old, r.now, said)
		}
	}
}

func TestPresentNames(t *testing.T) {
	for _, tc := range []struct{ args, want, old string }{
		{"", "", ""},
		{"run x.yaml", "run x.yaml", ""},
		{"cancel r1 --reason x", "runs cancel r1 --reason x", "cancel"},
		{"-o json configs log fw-1", "-o json hosts config ls fw-1", "configs log"},
		{"--output=json --color never config show up", "--output=json --color never admin settings show up", "config"},
		{"configs show fw-1", "hosts config show fw-1", "configs"},
		{"hosts", "hosts ls", "hosts"},
		{"hosts -i hosts.ini", "hosts ls -i hosts.ini", "hosts"},
		{"hosts --help", "hosts --help", ""},
		{"hosts -h", "hosts -h", ""},
		{"hosts ls -i hosts.ini", "hosts ls -i hosts.ini", ""},
		{"hosts history fw-1", "hosts history fw-1", ""},
		{"runs cancel r1", "runs cancel r1", ""},
		{"help doctor", "help admin doctor", "doctor"},
		{"--color never help -o json configs log", "--color never help -o json hosts config ls", "configs log"},
		{"help hosts", "help hosts", ""},
		{"help admin doctor", "help admin doctor", ""},
		{"help", "help", ""},
		{"-o", "-o", ""},
	} {
		got, old, _ := present(strings.Fields(tc.args))
		if !slices.Equal(got, strings.Fields(tc.want)) || old != tc.old {
			t.Errorf("%q is %q with the former name %q, expected %q with %q", tc.args, got, old, tc.want, tc.old)
		}
	}
}
