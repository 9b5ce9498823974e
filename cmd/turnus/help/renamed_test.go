package help

import (
	"slices"
	"strings"
	"testing"
)

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
		got, old, _ := Present(strings.Fields(tc.args))
		if !slices.Equal(got, strings.Fields(tc.want)) || old != tc.old {
			t.Errorf("%q is %q with the former name %q, expected %q with %q", tc.args, got, old, tc.want, tc.old)
		}
	}
}
