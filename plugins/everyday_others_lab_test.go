//go:build linux && labs

package plugins_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/systemdlab"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/service"
)

// unpacked is a machine without systemd, onto which the Debian packages of .tools/debs/NAME were
// unpacked. They are not installed on this machine: OpenRC would replace its scripts.
func unpacked(t *testing.T, name string) *systemdlab.Machine {
	t.Helper()
	files, err := filepath.Glob("../.tools/debs/" + name + "/*.deb")
	if err == nil && len(files) == 0 {
		err = os.ErrNotExist
	}
	testparts.Able(t, "the packages of "+name+" (run `make deps`)", err)
	m := systemdlab.Bare(t)
	for _, file := range files {
		tree, err := exec.CommandContext(t.Context(), "dpkg-deb", "--fsys-tarfile", file).Output()
		if err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code, err := m.Run(t.Context(), "tar -C / --keep-directory-symlink -x", bytes.NewReader(tree))
		if err != nil || code != 0 {
			t.Fatalf("%s: exit %d, %v: %s%s", file, code, err, stdout, stderr)
		}
	}
	lab(t, m, "ldconfig")
	return m
}

// A service under a real OpenRC: each state twice, in check mode before it, and what dies or is not
// there.
func TestLabServiceOfOpenRC(t *testing.T) {
	t.Parallel()
	m := unpacked(t, "openrc")
	lab(t, m, `openrc sysinit >/dev/null 2>&1; openrc default >/dev/null 2>&1
printf '#!/sbin/openrc-run\ncommand=/bin/sleep\ncommand_args=1000\ncommand_background=yes\npidfile=/run/demo.pid\nextra_started_commands=reload\nreload() { touch /run/reloaded; }\n' >/etc/init.d/demo
printf '#!/sbin/openrc-run\nsupervisor=supervise-daemon\nrespawn_max=1\ncommand=/bin/false\n' >/etc/init.d/brief
chmod 755 /etc/init.d/demo /etc/init.d/brief`)
	kit := on(t, m, service.Def())
	state := func() string {
		return lab(t, m, "rc-service demo status 2>&1 | tr -d ' *'; ls -d /etc/runlevels/*/demo /run/reloaded 2>/dev/null; true")
	}
	const enabled = "\n/etc/runlevels/default/demo"
	serve(t, kit, state, []played{
		{sdk.With{"name": "demo", "state": "stopped"}, "unchanged", "status:stopped"},
		{sdk.With{"name": "demo", "state": "started", "enabled": true}, "changed", "status:started" + enabled},
		{sdk.With{"name": "demo", "enabled": false}, "changed", "status:started"},
		{sdk.With{"name": "demo", "state": "stopped", "enabled": true}, "changed", "status:stopped" + enabled},
		{sdk.With{"name": "demo", "state": "restarted", "enabled": false}, "changed", "status:started"},
		{sdk.With{"name": "nosuch", "state": "started"}, "failed", "status:started"},
		{sdk.With{"name": "nosuch", "state": "stopped"}, "unchanged", "status:started"},
		{sdk.With{"name": "brief", "state": "started"}, "failed", "status:started"},
		{sdk.With{"name": "demo", "state": "reloaded"}, "changed", "status:started\n/run/reloaded"},
	})
	pid := lab(t, m, "cat /run/demo.pid; rc-update add demo boot >/dev/null; rc-update add demo default >/dev/null")
	if got := kit.Run(sdk.With{"name": "demo", "state": "restarted", "enabled": false}); got.Outcome != "changed" || lab(t, m, "cat /run/demo.pid") == pid || strings.Contains(state(), "runlevels") {
		t.Errorf("a restart, and out of two runlevels: %s (%s), then %q", got.Outcome, got.Reason, state())
	}
}
