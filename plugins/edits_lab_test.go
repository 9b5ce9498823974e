//go:build linux && labs

package plugins_test

import (
	"context"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/plugins/block"
	"github.com/turnus/turnus/plugins/cron"
	"github.com/turnus/turnus/plugins/line"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

// edited makes /srv/f the file that the step finds: of another user, with a mode of its own.
const edited = `rm -rf /srv/f; printf 'a\nport 1\nz\n' >/srv/f; chown 33:34 /srv/f; chmod 0640 /srv/f`

// content returns the content of /srv/f, and its mode and owner.
func content(t *testing.T, m *servers.Machine) func() string {
	return func() string {
		return lab(t, m, "cat /srv/f 2>/dev/null | tr '\\n' ' '; stat -c '%a %u:%g' /srv/f 2>/dev/null; ls -A /srv | grep turnus; true")
	}
}

// fullDisk runs a step on a file of a disk that has no byte left: it must fail, report why and
// leave the file as it is.
func fullDisk(t *testing.T, m *servers.Machine, def sdk.Def, with sdk.With) {
	t.Helper()
	full := "mkdir -p /small && mount -t tmpfs -o size=16k tmpfs /small && printf 'a\\nport 1\\nz\\n' >/small/f && cat /dev/zero >/small/rest 2>/dev/null; true"
	lab(t, m, full)
	with["path"] = "/small/f"
	got := on(t, m, def).Run(with)
	after := lab(t, m, "tr '\\n' ' ' </small/f; ls -A /small; umount /small")
	if got.Outcome != "failed" || !strings.Contains(got.Reason, "See df -h on the host") || after != "a port 1 z f\nrest" {
		t.Errorf("a full disk: %s (%s); then %q", got.Outcome, got.Reason, after)
	}
}

// refused runs a step whose validate command refuses the new file. Check mode runs no command, so
// only the run fails.
func refused(t *testing.T, kit *plugintest.Kit, state func() string, with sdk.With, want string) {
	t.Helper()
	with["path"], with["validate"] = "/srv/f", "echo line 7 is wrong; grep -q nothing %s"
	got := kit.Run(with)
	if now := state(); got.Outcome != "failed" || !strings.Contains(got.Reason, "line 7 is wrong") || now != want {
		t.Errorf("refused by validate: %s (%s), then %q", got.Outcome, got.Reason, now)
	}
}

// onBusybox is on, with the shell and the programs of busybox and no others.
func onBusybox(t *testing.T, m *servers.Machine, def sdk.Def) *plugintest.Kit {
	t.Helper()
	testparts.Need(t, "busybox", "busybox")
	lab(t, m, "mkdir -p /bb && busybox --install -s /bb")
	kit := plugintest.New(t, def)
	kit.Host("m1").Handle(func(ctx context.Context, c plugintest.Call) plugintest.Reply {
		stdout, stderr, code, err := m.Run(ctx, "PATH=/bb exec /bb/sh -c "+sdk.Quote(c.Command), strings.NewReader(c.Stdin))
		return plugintest.Reply{Stdout: stdout, Stderr: stderr, Code: code, Err: err}
	})
	return kit
}

// A line of a file of a real machine: added, replaced, removed, in check mode, once and twice; on a
// full disk; and killed in between.
func TestLabLine(t *testing.T) {
	t.Parallel()
	m := servers.StartMachine(t)
	lab(t, m, edited)
	state := content(t, m)
	play(t, on(t, m, line.Def()), state, []played{
		{sdk.With{"path": "/srv/f", "line": "port 1"}, "unchanged", "a port 1 z 640 33:34"},
		{sdk.With{"path": "/srv/f", "line": "port 2", "match": "^port "}, "changed", "a port 2 z 640 33:34"},
		{sdk.With{"path": "/srv/f", "line": "b", "after": "^a$"}, "changed", "a b port 2 z 640 33:34"},
		{sdk.With{"path": "/srv/f", "line": "c", "before": "^nosuch"}, "failed", "a b port 2 z 640 33:34"},
		{sdk.With{"path": "/srv/f", "match": "^(b|port)", "state": "absent"}, "changed", "a z 640 33:34"},
		{sdk.With{"path": "/srv", "line": "c"}, "failed", "a z 640 33:34"},
	})
	refused(t, on(t, m, line.Def()), state, sdk.With{"line": "c"}, "a z 640 33:34")
	lab(t, m, "rm /srv/f")
	play(t, on(t, m, line.Def()), state, []played{
		{sdk.With{"path": "/srv/f", "line": "c", "state": "absent"}, "unchanged", ""},
		{sdk.With{"path": "/srv/f", "line": "it's", "create": true}, "changed", "it's 644 0:0"},
	})
	lab(t, m, edited)
	play(t, onBusybox(t, m, line.Def()), state, []played{
		{sdk.With{"path": "/srv/f", "line": "port 2", "match": "^port "}, "changed", "a port 2 z 640 33:34"},
		{sdk.With{"path": "/srv/g", "line": "x", "create": true, "validate": "grep -q x %s"}, "changed", "a port 2 z 640 33:34"},
	})
	refused(t, onBusybox(t, m, line.Def()), state, sdk.With{"line": "c"}, "a port 2 z 640 33:34")
	killed(t, m, line.Def(), edited, state, sdk.With{"path": "/srv/f", "line": "port 2", "match": "^port "}, "a port 2 z 640 33:34")
	fullDisk(t, m, line.Def(), sdk.With{"line": "port 2", "match": "^port "})
}

// A block of a file of a real machine, in the same ways.
func TestLabBlock(t *testing.T) {
	t.Parallel()
	m := servers.StartMachine(t)
	lab(t, m, edited)
	state := content(t, m)
	const added = "a # BEGIN turnus x 1 2 # END turnus x port 1 z 640 33:34"
	play(t, on(t, m, block.Def()), state, []played{
		{sdk.With{"path": "/srv/f", "name": "x", "state": "absent"}, "unchanged", "a port 1 z 640 33:34"},
		{sdk.With{"path": "/srv/f", "name": "x", "content": "1\n", "after": "^nosuch"}, "failed", "a port 1 z 640 33:34"},
		{sdk.With{"path": "/srv/f", "name": "x", "content": "1\n2\n", "after": "^a", "validate": "grep -q BEGIN %s"}, "changed", added},
		{sdk.With{"path": "/srv/f", "name": "x", "content": "3\n"}, "changed", "a # BEGIN turnus x 3 # END turnus x port 1 z 640 33:34"},
		{sdk.With{"path": "/srv/f", "name": "x", "state": "absent"}, "changed", "a port 1 z 640 33:34"},
	})
	refused(t, on(t, m, block.Def()), state, sdk.With{"name": "x", "content": "1\n"}, "a port 1 z 640 33:34")
	killed(t, m, block.Def(), edited, state, sdk.With{"path": "/srv/f", "name": "x", "content": "1\n2\n", "after": "^a"}, added)
	fullDisk(t, m, block.Def(), sdk.With{"name": "x", "content": "1\n"})
}

// A job of cron: a whole file, with the last line end and mode that cron asks for.
func TestLabCron(t *testing.T) {
	t.Parallel()
	m := servers.StartMachine(t)
	lab(t, m, "mkdir -p /etc/cron.d")
	state := func() string {
		return lab(t, m, "cd /etc/cron.d; tail -n +2 backup 2>/dev/null; tail -c 1 backup 2>/dev/null | od -An -c; stat -c '%a %u:%g' backup 2>/dev/null; ls -A | grep turnus; true")
	}
	const last = "\n  \\n\n644 0:0"
	kit := on(t, m, cron.Def())
	play(t, kit, state, []played{
		{sdk.With{"name": "backup", "state": "absent"}, "unchanged", ""},
		{sdk.With{"name": "backup", "schedule": "30 2 * * *", "command": "it's 100\\%"}, "changed", "30 2 * * * root it's 100\\%" + last},
		{sdk.With{"name": "backup", "special": "@daily", "user": "nobody", "command": "true", "env": sdk.With{"MAILTO": "a@example.org"}}, "changed", "MAILTO=\"a@example.org\"\n@daily nobody true" + last},
		{sdk.With{"name": "backup", "state": "absent"}, "changed", ""},
	})
	killed(t, m, cron.Def(), "rm -f /etc/cron.d/backup", state, sdk.With{"name": "backup", "schedule": "30 2 * * *", "command": "true"}, "30 2 * * * root true"+last)
	killed(t, m, cron.Def(), "echo x >/etc/cron.d/backup", state, sdk.With{"name": "backup", "state": "absent"}, "")
	lab(t, m, "mount -t tmpfs -o size=4k tmpfs /etc/cron.d && cat /dev/zero >/etc/cron.d/rest 2>/dev/null; true")
	if got := kit.Run(sdk.With{"name": "backup", "special": "@daily", "command": "true"}); got.Outcome != "failed" || state() != "" {
		t.Errorf("a full disk: %s (%s), then %q", got.Outcome, got.Reason, state())
	}
	lab(t, m, "umount /etc/cron.d; rm -r /etc/cron.d")
	if got := kit.Run(sdk.With{"name": "backup", "special": "@daily", "command": "true"}); got.Outcome != "failed" || !strings.Contains(got.Reason, "install cron") {
		t.Errorf("a host without cron: %s (%s)", got.Outcome, got.Reason)
	}
}

// A timer of a real systemd: each state in check mode, once and twice; half done in each way; with
// a calendar that is none; and killed in between.
func TestLabCronTimer(t *testing.T) {
	t.Parallel()
	m := servers.StartMachine(t)
	lab(t, m, "mkdir -p /etc/cron.d; useradd -m night")
	state := func() string {
		return lab(t, m, `cd /etc/systemd/system; grep -h -e ^OnCalendar -e ^ExecStart night.timer night.service; stat -c '%a %u:%g' night.* 2>/dev/null | sort -u
systemctl is-enabled night.timer 2>/dev/null; systemctl is-active night.timer; systemctl show -p NeedDaemonReload night.timer night.service | grep yes; ls -A . timers.target.wants | grep -e '^[.]night' -e night.timer | tr '\n' ' '; ls /etc/cron.d | grep night; true`)
	}
	there := func(calendar, command string) string {
		return "OnCalendar=" + calendar + "\nExecStart=/bin/sh -c \"" + command + "\"\n644 0:0\nenabled\nactive\nnight.timer night.timer"
	}
	const gone, before = "inactive", "systemctl stop night.timer 2>/dev/null; systemctl -q disable night.timer 2>/dev/null; rm -f /etc/cron.d/* /etc/systemd/system/night.*; systemctl daemon-reload; systemctl reset-failed"
	night := func(calendar, command string) sdk.With {
		return sdk.With{"name": "night", "calendar": calendar, "command": command}
	}
	absent, weekly := sdk.With{"name": "night", "state": "absent"}, night("Mon *-*-* 03:00", "true")
	kit := on(t, m, cron.Def())
	play(t, kit, state, []played{
		{absent, "unchanged", gone},
		{night("2020-01-01", "true"), "changed", there("2020-01-01", "true")}, // it elapsed for good, and runs as such
		{weekly, "changed", there("Mon *-*-* 03:00", "true")},
		{night("Mon *-*-* 03:00", "false"), "changed", there("Mon *-*-* 03:00", "false")},
		{night("Mon 33", "true"), "failed", there("Mon *-*-* 03:00", "false")},
		{sdk.With{"name": "night", "special": "@daily", "command": "true"}, "changed", gone + "\nnight"},
		{weekly, "changed", there("Mon *-*-* 03:00", "true")},
		{sdk.With{"name": "logrotate2", "state": "absent"}, "unchanged", there("Mon *-*-* 03:00", "true")},
		{absent, "changed", gone},
		{sdk.With{"name": "ssh", "calendar": "daily", "command": "true"}, "failed", gone},
	})

	// systemd runs what was written, in the home folder of the user.
	text := "it's \"50%\" $HOME \\$A %n \\\\ \t;"
	if got := kit.Run(sdk.With{"name": "night", "calendar": "daily", "user": "night", "command": "{ pwd\nid -un; printf '%s\\n' \"$A\" '" + strings.ReplaceAll(text, "'", `'\''`) + "'; } >/tmp/out\n", "env": sdk.With{"A": `a 5% \n $HOME`}}); got.Outcome != "changed" {
		t.Errorf("a command with quotes: %s (%s)", got.Outcome, got.Reason)
	}
	if got := lab(t, m, "systemctl start night.service; cat /tmp/out"); got != "/home/night\nnight\na 5% \\n $HOME\n"+text {
		t.Errorf("its command printed %q", got)
	}

	lab(t, m, before+"; mount -t tmpfs -o size=4k tmpfs /etc/systemd/system && cat /dev/zero >/etc/systemd/system/rest 2>/dev/null; true")
	if got := kit.Run(weekly); got.Outcome != "failed" || !strings.Contains(got.Reason, "See df -h on the host") || lab(t, m, "ls -A /etc/systemd/system") != "rest" {
		t.Errorf("a full disk: %s (%s)", got.Outcome, got.Reason)
	}
	lab(t, m, "umount /etc/systemd/system; systemctl daemon-reload")

	for name, half := range map[string]string{
		"written and no more":         "systemctl stop night.timer; systemctl -q disable night.timer",
		"disabled":                    "systemctl -q disable night.timer",
		"stopped":                     "systemctl stop night.timer",
		"not loaded":                  "touch -d tomorrow /etc/systemd/system/night.service",
		"the service is missing":      "rm /etc/systemd/system/night.service",
		"the timer is missing":        "rm /etc/systemd/system/night.timer",
		"and systemd has read it all": "rm /etc/systemd/system/night.timer; systemctl daemon-reload",
		"an older one elapsed":        "cd /etc/systemd/system; cp night.timer k; sed -i s/=Mon.*/=2020-01-01/ night.timer; systemctl daemon-reload; systemctl restart night.timer; mv k night.timer; systemctl daemon-reload",
	} {
		if got := kit.Run(weekly); got.Outcome == "failed" {
			t.Fatal(got.Reason)
		}
		lab(t, m, half)
		play(t, kit, state, []played{{weekly, "changed", there("Mon *-*-* 03:00", "true")}})
		if sub := lab(t, m, "systemctl show -p SubState --value night.timer"); sub != "waiting" {
			t.Errorf("%s: then the timer is %s", name, sub)
		}
		if strings.Contains(half, "rm ") { // a part is there to be removed
			lab(t, m, half)
			play(t, kit, state, []played{{absent, "changed", gone}})
		}
	}
	killed(t, m, cron.Def(), before+"; echo '# Written by Turnus: changes made here are lost.' >/etc/cron.d/night", state, weekly, there("Mon *-*-* 03:00", "true"))
	written := before + "; cd /etc/systemd/system; echo '# Written by Turnus: changes made here are lost.' | tee night.service >night.timer; printf '[Timer]\\nOnCalendar=daily\\n[Install]\\nWantedBy=timers.target\\n' >>night.timer; printf '[Service]\\nExecStart=/bin/true\\n' >>night.service; systemctl daemon-reload; systemctl -q enable --now night.timer"
	killed(t, m, cron.Def(), written, state, absent, gone)

	for _, without := range []struct{ analyze, want string }{ // the second takes the program away
		{"", "Failed to parse calendar specification"},
		{"mv /usr/bin/systemd-analyze /opt", "night.timer has a bad unit file setting"},
	} {
		lab(t, m, before+"\n"+without.analyze)
		if got := kit.Run(night("Mon 33", "true")); got.Outcome != "failed" || !strings.Contains(got.Reason, "night: ") || !strings.Contains(got.Reason, without.want) {
			t.Errorf("a calendar that is none: %s (%s)", got.Outcome, got.Reason)
		}
	}
	play(t, kit, state, []played{{weekly, "changed", there("Mon *-*-* 03:00", "true")}})
	bare := on(t, servers.BareMachine(t), cron.Def())
	for _, got := range []*plugintest.Result{bare.Check(weekly), bare.Run(weekly)} {
		if got.Outcome != "failed" || got.Effects != "none" || !strings.Contains(got.Reason, "timer night: systemd does not run on the host") {
			t.Errorf("a host without systemd: %s (%s), effects %s", got.Outcome, got.Reason, got.Effects)
		}
	}
}
