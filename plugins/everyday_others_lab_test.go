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
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/plugins/packages"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
	"github.com/turnus/turnus/plugins/service"
)

// unpacked is a machine without systemd, onto which the Debian packages of .tools/debs/NAME were
// unpacked. They are not installed on this machine: OpenRC would replace its scripts.
func unpacked(t *testing.T, name string) *servers.Machine {
	t.Helper()
	files, err := filepath.Glob("../.tools/debs/" + name + "/*.deb")
	if err == nil && len(files) == 0 {
		err = os.ErrNotExist
	}
	testparts.Able(t, "the packages of "+name+" (run `make deps`)", err)
	m := servers.BareMachine(t)
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

// A service under scripts in /etc/init.d, with Debian's update-rc.d.
func TestLabServiceOfInitScripts(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "update-rc.d", "init-system-helpers")
	m := servers.BareMachine(t)
	lab(t, m, `cat >/etc/init.d/demo <<'END'
#!/bin/sh
### BEGIN INIT INFO
# Provides: demo
# Required-Start:
# Required-Stop:
# Default-Start: 2 3 4 5
# Default-Stop: 0 1 6
### END INIT INFO
run() { start-stop-daemon "$@" --pidfile /run/demo.pid --exec /bin/sleep; }
case $1 in
start) start-stop-daemon --start --background --make-pidfile --pidfile /run/demo.pid --exec /bin/sleep -- 1000 ;;
stop) run --stop --retry 5 ;;
restart) run --stop --retry 5; $0 start ;;
status) run --status ;;
esac
END
sed 's/demo/brief/g; s/sleep -- 1000/false/; s/sleep/false/g' /etc/init.d/demo >/etc/init.d/brief
chmod 755 /etc/init.d/demo /etc/init.d/brief`)
	kit := on(t, m, service.Def())
	state := func() string {
		return lab(t, m, "/etc/init.d/demo status && echo runs; ls -d /etc/rc2.d/S*demo 2>/dev/null | tr -d 0-9; true")
	}
	const enabled = "/etc/rc.d/Sdemo"
	serve(t, kit, state, []played{
		{sdk.With{"name": "demo", "state": "stopped"}, "unchanged", ""},
		{sdk.With{"name": "demo", "state": "started", "enabled": true}, "changed", "runs\n" + enabled},
		{sdk.With{"name": "demo", "enabled": false}, "changed", "runs"},
		{sdk.With{"name": "demo", "state": "stopped", "enabled": true}, "changed", enabled},
		{sdk.With{"name": "demo", "state": "restarted", "enabled": false}, "changed", "runs"},
		{sdk.With{"name": "nosuch", "state": "started"}, "failed", "runs"},
		{sdk.With{"name": "brief", "state": "started"}, "failed", "runs"},
	})
}

// openwrt makes scripts as those of OpenWrt, by a small /etc/rc.common: demo and brief use procd,
// plain does not, and answers a command that it does not know with its help and exit code 0.
const openwrt = `set -e
mkdir -p /etc/rc.d
cat >/etc/rc.common <<'END'
#!/bin/sh
script=$1 name=${1##*/} action=${2:-help}
enable() { ln -sf "../init.d/$name" "/etc/rc.d/S$START$name"; }
disable() { rm -f /etc/rc.d/S??"$name" /etc/rc.d/K??"$name"; }
enabled() { [ -x "/etc/rc.d/S$START$name" ]; }
restart() { stop; start; }
reload() { restart; }
help() { printf 'Syntax: %s [command]\n\nAvailable commands:\n\tstart\tStart the service\n' "$script"; }
. "$script"
case "$USE_PROCD$action" in
1running) kill -0 "$(cat "/run/$name.pid")" 2>/dev/null && [ "$(cat "/proc/$(cat "/run/$name.pid")/comm")" != false ] ;;
*start | *stop | *restart | *reload | *enable | *disable | *enabled) $action ;;
*) help ;;
esac
END
for name in demo brief plain; do
  cat >/etc/init.d/$name <<'END'
#!/bin/sh /etc/rc.common
START=90
USE_PROCD=1
start() { [ -s /run/NAME.pid ] && kill -0 "$(cat /run/NAME.pid)" 2>/dev/null || { setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >/run/NAME.pid; }; }
stop() { kill "$(cat /run/NAME.pid)" 2>/dev/null; rm -f /run/NAME.pid; }
END
  sed -i "s/NAME/$name/g" /etc/init.d/$name
done
sed -i 's/sleep 1000/false/' /etc/init.d/brief
sed -i /USE_PROCD/d /etc/init.d/plain
chmod 755 /etc/rc.common /etc/init.d/*`

// A service under scripts of OpenWrt. A script that cannot report whether its service runs is
// not taken for a running one: its state is refused, and it can be enabled and restarted.
func TestLabServiceOfProcd(t *testing.T) {
	t.Parallel()
	m := servers.BareMachine(t)
	lab(t, m, openwrt)
	kit := on(t, m, service.Def())
	state := func() string {
		return lab(t, m, "/etc/init.d/demo running && echo runs; ls /etc/rc.d")
	}
	serve(t, kit, state, []played{
		{sdk.With{"name": "demo", "state": "stopped"}, "unchanged", ""},
		{sdk.With{"name": "demo", "state": "started", "enabled": true}, "changed", "runs\nS90demo"},
		{sdk.With{"name": "demo", "enabled": false}, "changed", "runs"},
		{sdk.With{"name": "demo", "state": "stopped", "enabled": true}, "changed", "S90demo"},
		{sdk.With{"name": "demo", "state": "restarted", "enabled": false}, "changed", "runs"},
		{sdk.With{"name": "nosuch", "state": "started"}, "failed", "runs"},
		{sdk.With{"name": "brief", "state": "started"}, "failed", "runs"},
		{sdk.With{"name": "plain", "state": "started"}, "failed", "runs"},
		{sdk.With{"name": "plain", "state": "stopped"}, "failed", "runs"},
		{sdk.With{"name": "plain", "enabled": true}, "changed", "runs\nS90plain"},
		{sdk.With{"name": "plain", "state": "restarted"}, "changed", "runs\nS90plain"},
	})
}

// rpms makes a repository with versions of the package demo and its dependency; dnf knows no other,
// and apt is gone.
const rpms = `set -e
rm -f /usr/bin/apt-get
mkdir -p /srv/repo /etc/yum.repos.d
build() {
  printf 'Name: %s\nVersion: %s\nRelease: 1\nSummary: t\nLicense: MIT\nBuildArch: noarch\n%s\n%%description\nt\n%%install\nmkdir -p %%{buildroot}/usr/share/%s\necho %s >%%{buildroot}/usr/share/%s/version\n%%files\n/usr/share/%s\n' "$1" "$2" "$3" "$1" "$2" "$1" "$1" >/tmp/s.spec
  rpmbuild -bb --quiet -D '_topdir /tmp/rpm' -D '_rpmdir /srv/repo' -D '_build_id_links none' /tmp/s.spec >/dev/null 2>&1
}
[ -e /srv/repo/repodata ] || { build demo-lib 1.0 ''; build demo 1.0 'Requires: demo-lib'; build other 1.0 'Provides: demo-virtual'; }
printf '[lab]\nname=lab\nbaseurl=file:///srv/repo\ngpgcheck=0\nmetadata_expire=never\n' >/etc/yum.repos.d/lab.repo
createrepo_c -q /srv/repo
`

// Packages by a real dnf: each state twice, in check mode before it.
func TestLabPackagesOfDnf(t *testing.T) {
	t.Parallel()
	m := unpacked(t, "dnf")
	lab(t, m, rpms)
	kit := on(t, m, packages.Def())
	state := func() string {
		return lab(t, m, "cat /usr/share/demo/version 2>/dev/null; rpm -qa --qf '%{NAME} ' | tr ' ' '\\n' | sort | tr '\\n' ' '; true")
	}
	play(t, kit, state, []played{
		{sdk.With{"names": []string{"demo"}, "state": "absent"}, "unchanged", ""},
	})
	// There are no lists yet: they are refreshed, because the package is not in them.
	if got := kit.Run(sdk.With{"names": []string{"demo"}}); got.Outcome != "changed" || state() != "1.0\ndemo demo-lib" {
		t.Fatalf("without lists: %s (%s), then %q", got.Outcome, got.Reason, state())
	}
	lab(t, m, strings.Replace(rpms, "[ -e", "build demo 1.1 'Requires: demo-lib'; [ -e", 1))
	play(t, kit, state, []played{
		{sdk.With{"names": []string{"demo"}, "state": "latest"}, "unchanged", "1.0\ndemo demo-lib"}, // by the lists
		{sdk.With{"names": []string{"demo", "other"}}, "changed", "1.0\ndemo demo-lib other"},
		{sdk.With{"names": []string{"demo-virtual"}}, "unchanged", "1.0\ndemo demo-lib other"},
		{sdk.With{"names": []string{"other"}, "state": "absent"}, "changed", "1.0\ndemo demo-lib"},
	})
	lab(t, m, "touch -d yesterday /var/cache/dnf/.turnus-refreshed")
	// The lists have 1.1: what is installed keeps its version while another package is installed.
	if got := kit.Run(sdk.With{"names": []string{"demo", "other"}, "refresh": "1h"}); got.Outcome != "changed" || state() != "1.0\ndemo demo-lib other" {
		t.Errorf("present, with fresh lists: %s (%s), then %q", got.Outcome, got.Reason, state())
	}
	lab(t, m, "rpm -e other; touch -d yesterday /var/cache/dnf/.turnus-refreshed")
	latest := sdk.With{"names": []string{"demo"}, "state": "latest", "refresh": "1h"}
	for _, want := range []string{"changed", "unchanged"} {
		if got := kit.Run(latest); got.Outcome != want || state() != "1.1\ndemo demo-lib" {
			t.Errorf("with fresh lists: %s (%s), then %q", got.Outcome, got.Reason, state())
		}
	}
	for _, got := range []*plugintest.Result{kit.Check(sdk.With{"names": []string{"nosuch"}}), kit.Run(sdk.With{"names": []string{"nosuch"}})} {
		if got.Outcome != "failed" || !strings.Contains(got.Reason, "nosuch") {
			t.Errorf("a package that is not there: %s (%s)", got.Outcome, got.Reason)
		}
	}
}
