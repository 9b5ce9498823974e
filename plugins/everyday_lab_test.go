//go:build linux && labs

package plugins_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/plugins/packages"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
	"github.com/turnus/turnus/plugins/service"
)

// on makes a machine the kit's host: its commands run there as root.
func on(t *testing.T, m *servers.Machine, def sdk.Def) *plugintest.Kit {
	kit := plugintest.New(t, def)
	kit.Host("m1").Handle(func(ctx context.Context, c plugintest.Call) plugintest.Reply {
		var env strings.Builder
		for _, name := range slices.Sorted(maps.Keys(c.Env)) {
			env.WriteString("export " + name + "=" + sdk.Quote(c.Env[name]) + "\n")
		}
		stdout, stderr, code, err := m.Run(ctx, env.String()+c.Command, strings.NewReader(c.Stdin))
		return plugintest.Reply{Stdout: stdout, Stderr: stderr, Code: code, Err: err}
	})
	return kit
}

// lab runs a command on the machine that must end well, and returns what it printed.
func lab(t *testing.T, m *servers.Machine, line string) string {
	t.Helper()
	stdout, stderr, code, err := m.Run(t.Context(), line, nil)
	if err != nil || code != 0 {
		t.Fatalf("%s: exit %d, %v: %s%s", line, code, err, stdout, stderr)
	}
	return strings.TrimSpace(stdout)
}

// A service under a real systemd: each state twice, in check mode before it, and what dies, is not
// there, or has a new unit file.
func TestLabServiceOfSystemd(t *testing.T) {
	t.Parallel()
	m := servers.StartMachine(t)
	unit := func(name, run string) {
		lab(t, m, "printf '[Service]\\nExecStart="+run+"\\nExecReload=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n' >/etc/systemd/system/"+name+".service")
	}
	unit("demo", "/bin/sleep 1000")
	unit("brief", "/bin/sh -c \"echo cannot open the port; exit 1\"")
	lab(t, m, "systemctl daemon-reload")
	kit := on(t, m, service.Def())
	state := func() string {
		return lab(t, m, "systemctl is-active demo; systemctl is-enabled demo; true")
	}
	serve(t, kit, state, []played{
		{sdk.With{"name": "demo", "state": "stopped"}, "unchanged", "inactive\ndisabled"},
		{sdk.With{"name": "demo", "state": "started", "enabled": true}, "changed", "active\nenabled"},
		{sdk.With{"name": "demo", "state": "reloaded"}, "changed", "active\nenabled"},
		{sdk.With{"name": "demo", "state": "restarted"}, "changed", "active\nenabled"},
		{sdk.With{"name": "demo", "enabled": false}, "changed", "active\ndisabled"},
		{sdk.With{"name": "demo", "state": "stopped"}, "changed", "inactive\ndisabled"},
		{sdk.With{"name": "nosuch", "state": "started"}, "failed", "inactive\ndisabled"},
		{sdk.With{"name": "nosuch", "state": "stopped"}, "unchanged", "inactive\ndisabled"},
		{sdk.With{"name": "brief", "state": "started"}, "failed", "inactive\ndisabled"},
	})
	// A static unit stays as it is. A unit that is enabled until the next start is not enabled.
	lab(t, m, "printf '[Service]\\nExecStart=/bin/true\\n' >/etc/systemd/system/plain.service; printf '[Service]\\nExecStart=/bin/true\\n[Install]\\nAlso=demo.service\\n' >/etc/systemd/system/also.service; systemctl daemon-reload")
	serve(t, kit, state, []played{
		{sdk.With{"name": "plain", "enabled": false}, "unchanged", "inactive\ndisabled"},
		{sdk.With{"name": "plain", "enabled": true}, "unchanged", "inactive\ndisabled"},
		{sdk.With{"name": "also", "enabled": false}, "unchanged", "inactive\ndisabled"},
		{sdk.With{"name": "also", "enabled": true}, "changed", "inactive\nenabled"},
		{sdk.With{"name": "also", "enabled": false}, "changed", "inactive\ndisabled"},
	})
	for enabled, after := range map[bool]string{true: "enabled", false: "disabled"} {
		lab(t, m, "systemctl -q disable demo; systemctl -q enable --runtime demo")
		serve(t, kit, state, []played{{sdk.With{"name": "demo", "enabled": enabled}, "changed", "inactive\n" + after}})
	}
	lab(t, m, "systemctl -q disable demo; systemctl -q disable --runtime demo")
	died := kit.Run(sdk.With{"name": "brief", "state": "restarted"})
	if !strings.Contains(died.Reason, "service brief does not run 1s after it was started\nhint: `journalctl -u brief -n 50` on the host shows why") || !strings.Contains(died.Stdout, "cannot open the port") {
		t.Errorf("what died: %s; %s", died.Reason, died.Stdout)
	}
	// The log of an earlier start is not that of this failure.
	unit("brief", "/bin/sh -c \"echo bad option; exit 1\"")
	if died := kit.Run(sdk.With{"name": "brief", "state": "restarted"}); !strings.Contains(died.Stdout, "bad option") || strings.Contains(died.Stdout, "cannot open the port") {
		t.Errorf("what died again: %s; %s", died.Reason, died.Stdout)
	}
	// A service that dies, and is started again later, fails each time, and can be stopped.
	lab(t, m, "printf '[Service]\\nExecStart=/bin/false\\nRestart=always\\nRestartSec=1000\\n' >/etc/systemd/system/loop.service; systemctl daemon-reload")
	for range 2 {
		if got := kit.Run(sdk.With{"name": "loop", "state": "started"}); got.Outcome != "failed" || !strings.Contains(got.Reason, "does not run") {
			t.Errorf("a crash loop: %s (%s)", got.Outcome, got.Reason)
		}
	}
	serve(t, kit, func() string { return lab(t, m, "systemctl show -p SubState loop") }, []played{
		{sdk.With{"name": "loop", "state": "stopped"}, "changed", "SubState=dead"},
	})
	unit("demo", "/bin/sleep 2000") // systemd has not read it
	if got := kit.Run(sdk.With{"name": "demo", "state": "restarted"}); got.Outcome != "changed" || !strings.Contains(lab(t, m, "systemctl show -p ExecStart demo"), "sleep 2000") {
		t.Errorf("a new unit file: %s (%s)", got.Outcome, got.Reason)
	}
}

// serve takes each step of a service through check mode, which must change nothing; through a run;
// and through a second one, which finds nothing to do, except where the state acts each time.
func serve(t *testing.T, kit *plugintest.Kit, state func() string, steps []played) {
	t.Helper()
	for i, s := range steps {
		before := state()
		checked := kit.Run(s.with, plugintest.CheckMode())
		if got := state(); got != before {
			t.Errorf("step %d, %v: check mode changed %q to %q", i, s.with, before, got)
		}
		got := kit.Run(s.with)
		if got.Outcome != s.outcome || state() != s.after {
			t.Errorf("step %d, %v: %s (%s), then %q; expected %s, then %q", i, s.with, got.Outcome, got.Reason, state(), s.outcome, s.after)
		}
		if checked.Outcome == "changed" && len(checked.Diffs) != 1 {
			t.Errorf("step %d, %v: check mode shows %d differences", i, s.with, len(checked.Diffs))
		}
		if dies := s.with["name"] == "brief"; checked.Outcome != s.outcome && !dies { // which only the run can know
			t.Errorf("step %d, %v: check mode reports %s, the run %s", i, s.with, checked.Outcome, s.outcome)
		}
		if s.outcome == "failed" {
			continue
		}
		if acts := s.with["state"] == "restarted" || s.with["state"] == "reloaded"; acts {
			continue
		}
		if again := kit.Run(s.with); again.Outcome != "unchanged" || state() != s.after {
			t.Errorf("step %d, %v: the second run: %s (%s), then %q", i, s.with, again.Outcome, again.Reason, state())
		}
	}
}

// repository makes a file: repository with versions of the package demo, its dependency, and a
// virtual package; apt knows no other.
const repository = `set -e
cd /srv 2>/dev/null || { mkdir -p /srv && cd /srv; }
build() {
  rm -rf b && mkdir -p b/DEBIAN b/usr/share/"$1" b/etc
  printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: t <t@example.net>\nDescription: t\n%s' "$1" "$2" "$3" >b/DEBIAN/control
  echo "$2" >b/usr/share/"$1"/version
  dpkg-deb --build --root-owner-group b repo/"$1"_"$2".deb >/dev/null
}
mkdir -p repo
build demo-lib 1.0 ''
build demo 1.0 'Depends: demo-lib
'
build provider 1.0 'Provides: demo-virtual
'
printf 'deb [trusted=yes] file:/srv/repo ./\n' >/etc/apt/sources.list
rm -rf /etc/apt/sources.list.d/* /var/lib/apt/lists/* /etc/apt/apt.conf.d/*
index() { (cd repo && dpkg-scanpackages -m . 2>/dev/null >Packages); }
index
`

// Packages by a real apt: each state twice, in check mode before it, and the traps of peers.
func TestLabPackagesOfApt(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "dpkg-scanpackages", "dpkg-dev")
	m := servers.StartMachine(t)
	lab(t, m, repository)
	kit := on(t, m, packages.Def())
	version := func() string { return lab(t, m, "cat /usr/share/demo/version 2>/dev/null; true") }
	newer := strings.Replace(repository, "build demo 1.0", "build demo 1.1", 1)
	for i, s := range []struct {
		before  string // on the machine
		with    sdk.With
		outcome string
		changes []string
		after   string // version of demo
	}{
		// The lists are empty: they are refreshed, because the package is not in them.
		{"", sdk.With{"names": []string{"demo"}}, "changed", []string{"install demo-lib 1.0", "install demo 1.0"}, "1.0"},
		{"", sdk.With{"names": []string{"demo"}}, "unchanged", nil, "1.0"},
		// A newer version is there: present leaves the installed one alone, also beside a package that is
		// missing.
		{newer + "apt-get -qq update", sdk.With{"names": []string{"demo", "provider"}}, "changed", []string{"install provider 1.0"}, "1.0"},
		{"", sdk.With{"names": []string{"demo-virtual"}}, "unchanged", nil, "1.0"},
		{"", sdk.With{"names": []string{"demo"}, "state": "latest"}, "changed", []string{"upgrade demo 1.0 to 1.1"}, "1.1"},
		{"", sdk.With{"names": []string{"demo"}, "state": "latest"}, "unchanged", nil, "1.1"},
		{"", sdk.With{"names": []string{"demo=1.0"}}, "changed", []string{"upgrade demo 1.1 to 1.0"}, "1.0"},
		{"", sdk.With{"names": []string{"demo=1.0"}}, "unchanged", nil, "1.0"},
		{"", sdk.With{"names": []string{"nosuch"}}, "failed", nil, "1.0"},
		// apt takes a name that is not there for a regular expression. Red without Pattern-Only.
		{"", sdk.With{"names": []string{"de.o"}}, "failed", nil, "1.0"},
		{"", sdk.With{"names": []string{"nosuch"}, "state": "absent"}, "unchanged", nil, "1.0"},
		{"", sdk.With{"names": []string{"demo"}, "state": "absent"}, "changed", []string{"remove demo 1.0"}, ""},
		{"", sdk.With{"names": []string{"demo"}, "state": "absent"}, "unchanged", nil, ""},
		// A host that lost power before the packages were configured.
		{"dpkg --unpack /srv/repo/demo-lib_1.0.deb /srv/repo/demo_1.1.deb >/dev/null", sdk.With{"names": []string{"demo"}}, "changed", []string{"configure demo-lib", "configure demo"}, "1.1"},
		{"", sdk.With{"names": []string{"demo"}}, "unchanged", nil, "1.1"},
		{"", sdk.With{"names": []string{"demo"}, "state": "absent"}, "changed", []string{"remove demo 1.1"}, ""},
	} {
		if s.before != "" {
			lab(t, m, s.before)
		}
		was := version()
		checked := kit.Run(s.with, plugintest.CheckMode())
		if version() != was {
			t.Fatalf("step %d, %v: check mode changed the host", i, s.with)
		}
		calls := len(kit.Host("m1").Calls())
		got := kit.Run(s.with)
		// One round trip if there is nothing to do, and two for a change, also with stale lists.
		if n, most := len(kit.Host("m1").Calls())-calls, map[string]int{"unchanged": 1, "changed": 2, "failed": 2}[s.outcome]; n != most {
			t.Errorf("step %d, %v: %d round trips, expected %d", i, s.with, n, most)
		}
		var changes []string
		if all, ok := got.Outputs["changes"].([]any); ok {
			for _, c := range all {
				changes = append(changes, c.(string))
			}
		}
		if got.Outcome != s.outcome || version() != s.after || !slices.Equal(changes, s.changes) {
			t.Errorf("step %d, %v: %s (%s), %q, then %q; expected %s, %q, then %q", i, s.with, got.Outcome, got.Reason, changes, version(), s.outcome, s.changes, s.after)
		}
		if s.outcome == "failed" && !strings.Contains(got.Reason, ": correct the name, or add the repository") {
			t.Errorf("step %d, %v: the reason has no next step: %s", i, s.with, got.Reason)
		}
		if checked.Outcome != s.outcome {
			t.Errorf("step %d, %v: check mode reports %s (%s), the run %s", i, s.with, checked.Outcome, checked.Reason, s.outcome)
		}
	}

	// Another process holds the lock for a while, as unattended upgrades do: the step waits. Control:
	// it fails where it may not wait.
	const hold = `python3 -c 'import fcntl,os,sys
import time
f=open("/var/lib/dpkg/lock-frontend","w"); fcntl.lockf(f,fcntl.LOCK_EX); open("/tmp/held","w")
while os.path.exists("/tmp/held"): time.sleep(0.05)' >/dev/null 2>&1 &
until [ -e /tmp/held ]; do sleep 0.05; done`
	lab(t, m, hold)
	if got := kit.Run(sdk.With{"names": []string{"demo"}, "wait": "1s"}); got.Outcome != "failed" || version() != "" || !got.Retryable || got.Effects != "none" ||
		!strings.Contains(got.Reason, "(python3) has the lock of the package manager, and kept it for 1s\nhint: `ps -fp ") {
		t.Errorf("with the lock held: %s (%s), effects %s", got.Outcome, got.Reason, got.Effects)
	}
	lab(t, m, "(sleep 1; rm /tmp/held) >/dev/null 2>&1 &")
	if got := kit.Run(sdk.With{"names": []string{"demo"}}); got.Outcome != "changed" || version() != "1.1" {
		t.Errorf("once the lock is free: %s (%s), %q", got.Outcome, got.Reason, version())
	}
	// So it is with the lock of the lists, which apt-get update does not wait for.
	lab(t, m, strings.Replace(hold, "dpkg/lock-frontend", "apt/lists/lock", 1))
	stale := sdk.With{"names": []string{"demo"}, "state": "latest", "refresh": "1s", "wait": "1s"}
	lab(t, m, "find /var/lib/apt/lists -exec touch -d yesterday {} +")
	if got := kit.Run(stale); got.Outcome != "failed" || !strings.Contains(got.Reason, "(python3) has the lock") {
		t.Errorf("with the lock of the lists held: %s (%s)", got.Outcome, got.Reason)
	}
	lab(t, m, "(sleep 1; rm /tmp/held) >/dev/null 2>&1 &")
	stale["wait"] = "5m"
	if got := kit.Run(stale); got.Outcome != "unchanged" {
		t.Errorf("once the lists are free: %s (%s)", got.Outcome, got.Reason)
	}
}
