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
	if got.Outcome != "failed" || !strings.Contains(got.Reason, "the disk may be full") || after != "a port 1 z f\nrest" {
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
