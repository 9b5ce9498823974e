package host

import (
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

// A step that failed for want of root names become, once. Controls: a login that is root, a step
// that has become, and failures that root of the host would not mend.
func TestBecomeHint(t *testing.T) {
	t.Parallel()
	const denied = "sh: cannot create /etc/x: Permission denied"
	for name, c := range map[string]struct {
		login, become, reason string
		want                  bool
	}{
		"a file":               {"deploy", "", denied, true},
		"apt":                  {"deploy", "", "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)", true},
		"dnf":                  {"deploy", "", "Error: This command has to be run with superuser privileges (under the root user on most systems).", true},
		"systemctl":            {"deploy", "", "Failed to start x.service: Interactive authentication required.", true},
		"nft":                  {"deploy", "", "Error: Could not process rule: Operation not permitted", true},
		"reboot":               {"deploy", "", "exit code 1: Must be root.", true},
		"a hidden folder":      {"deploy", "", "/srv/x cannot be entered by this login: permission denied", true},
		"a timer":              {"deploy", "", "job x: cannot write to /etc/systemd/system: permission denied", true},
		"SFTP":                 {"deploy", "", "host m1: get: /etc/shadow: permission denied\nhint: may the user read it? See ls -l on the host", true},
		"root":                 {"root", "", denied, false},
		"an unknown login":     {"", "", denied, false},
		"another user":         {"deploy", "app", denied, false},
		"become is named":      {"deploy", "", denied + "\nhint: write become: true in the playbook", false},
		"another failure":      {"deploy", "", "no space left on device", false},
		"git":                  {"deploy", "", "git@example.net: Permission denied (publickey).", false},
		"a file of the worker": {"deploy", "", `template: artifact "t.tmpl": open t.tmpl: permission denied`, false},
		"a database":           {"deploy", "", "ERROR 1045 (28000): Access denied for user 'x'@'db' (using password: YES)", false},
		"a table":              {"deploy", "", "ERROR:  permission denied for table orders", false},
		"the worker's network": {"deploy", "", "GET http://192.0.2.1/: dial tcp 192.0.2.1:80: connect: operation not permitted", false},
		"a fetched file":       {"deploy", "", "save m1/x: mkdirat m1: permission denied", false},
	} {
		call := &Call{Become: core.Become{User: c.become}}
		login := func(core.Host) string { return c.login }
		got := becomeHint(call, Outcome{Failed: true, Reason: c.reason}, login)
		if (got != "") != c.want || got != "" && (!strings.HasPrefix(got, "\nhint: ") || !strings.Contains(got, "user deploy") || !strings.Contains(got, "become: true")) {
			t.Errorf("%s: %q, expected a hint: %t", name, got, c.want)
		}
		for _, out := range []Outcome{{Reason: c.reason}, {Failed: true, Unreachable: true, Reason: c.reason}} {
			if got := becomeHint(call, out, login); got != "" {
				t.Errorf("%s, %+v: %q", name, out, got)
			}
		}
	}
}
