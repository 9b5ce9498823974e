//go:build linux && labs

package plugins_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/plugins/authorizedkey"
	"github.com/turnus/turnus/plugins/group"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
	"github.com/turnus/turnus/plugins/user"
)

// played is a step on a real machine: how it ends, and what the machine is afterwards.
type played struct {
	with           sdk.With
	outcome, after string
}

// play takes each step through check mode, which must change nothing and report what the run does;
// through a run; and through a second one, which must change nothing in one round trip. state
// returns what the machine is.
func play(t *testing.T, kit *plugintest.Kit, state func() string, steps []played) {
	t.Helper()
	host := kit.Host("m1")
	for i, s := range steps {
		before := state()
		checked := kit.Run(s.with, plugintest.CheckMode())
		if got := state(); got != before {
			t.Fatalf("step %d, %v: check mode changed %q to %q", i, s.with, before, got)
		}
		calls := len(host.Calls())
		got := kit.Run(s.with)
		if got.Outcome != s.outcome || state() != s.after {
			t.Fatalf("step %d, %v: %s (%s), then %q; expected %s, then %q", i, s.with, got.Outcome, got.Reason, state(), s.outcome, s.after)
		}
		if n := len(host.Calls()) - calls; n > 3 {
			t.Errorf("step %d, %v: %d round trips", i, s.with, n)
		}
		if checked.Outcome != got.Outcome || got.Outcome == "changed" && len(checked.Diffs) == 0 {
			t.Errorf("step %d, %v: check mode reports %s (%s) with %d differences, the run %s", i, s.with, checked.Outcome, checked.Reason, len(checked.Diffs), got.Outcome)
		}
		if got.Outcome == "failed" {
			continue
		}
		calls = len(host.Calls())
		again := kit.Run(s.with)
		if n := len(host.Calls()) - calls; again.Outcome != "unchanged" || n != 1 || state() != s.after {
			t.Errorf("step %d, %v: the second run: %s (%s), %d round trips, %q", i, s.with, again.Outcome, again.Reason, n, state())
		}
	}
}

// killed plays a step with the worker killed at each call. reset brings the machine back to before;
// the state must always be the same in the end.
func killed(t *testing.T, m *servers.Machine, def sdk.Def, reset string, state func() string, with sdk.With, after string) {
	t.Helper()
	plugintest.KillAtEachCall(t, func(t *testing.T) plugintest.Scene {
		lab(t, m, reset)
		return plugintest.Scene{Kit: on(t, m, def), Params: with, MayFindItDone: true, Check: func(t *testing.T, _ *plugintest.Result) {
			if got := state(); got != after {
				t.Errorf("in the end it is %q, expected %q", got, after)
			}
		}}
	})
}

// Users as shadow's tools make them: each state in check mode, once and twice; the password by its
// hash; and killed in between.
func TestLabUser(t *testing.T) {
	t.Parallel()
	m := servers.StartMachine(t)
	lab(t, m, "groupadd web; groupadd ops; groupadd extra")
	state := func() string {
		return lab(t, m, `grep ^anna: /etc/passwd | cut -d: -f 3-; id -Gn anna 2>/dev/null; grep ^anna: /etc/shadow | cut -d: -f 2; ls -d /home/anna 2>/dev/null; true`)
	}
	const hash = "$6$salt$IxDD3jeSOb5eB1CX5LBsqZFVkJdido3OUILO5Ifz5iwMuTS4XMS130MTSuDDl3aCI6WouIL9AjRbLCelDCy.g."
	const there = "1500:1500:Anna:/home/anna:/bin/sh\n"
	kit := on(t, m, user.Def())
	play(t, kit, state, []played{
		{sdk.With{"name": "anna", "state": "absent"}, "unchanged", ""},
		{sdk.With{"name": "anna", "uid": 1500, "comment": "Anna", "shell": "/bin/sh", "groups": []string{"web"}, "password": hash}, "changed", there + "anna web\n" + hash + "\n/home/anna"},
		{sdk.With{"name": "anna", "groups": []string{"ops"}}, "changed", there + "anna web ops\n" + hash + "\n/home/anna"},
		{sdk.With{"name": "anna", "groups": []string{"ops", "extra"}, "exact": true}, "changed", there + "anna ops extra\n" + hash + "\n/home/anna"},
		{sdk.With{"name": "anna", "password": "!"}, "changed", there + "anna ops extra\n!\n/home/anna"},
		{sdk.With{"name": "anna", "shell": "/bin/bash", "group": "web", "exact": true}, "changed", "1500:" + lab(t, m, "getent group web | cut -d: -f3") + ":Anna:/home/anna:/bin/bash\nweb\n!\n/home/anna"},
		{sdk.With{"name": "anna", "uid": 0}, "failed", "1500:" + lab(t, m, "getent group web | cut -d: -f3") + ":Anna:/home/anna:/bin/bash\nweb\n!\n/home/anna"},
		{sdk.With{"name": "anna", "state": "absent", "remove_home": true}, "changed", ""},
		{sdk.With{"name": "anna", "system": true, "home": "/srv/anna", "uid": 150}, "changed", "150:1500::/srv/anna:/bin/sh\nanna\n!"},
		{sdk.With{"name": "anna", "state": "absent"}, "changed", ""},
	})
	if got := kit.Run(sdk.With{"name": "anna", "groups": []string{"nosuch"}}); got.Outcome != "failed" || got.Effects != "none" || !strings.Contains(got.Reason, "no group nosuch") {
		t.Errorf("a group that is not there: %s (%s), effects %s", got.Outcome, got.Reason, got.Effects)
	}
	for _, c := range kit.Host("m1").Calls() {
		if strings.Contains(c.Command, hash) {
			t.Errorf("the hash is in a process list: %s", c.Command)
		}
	}
	killed(t, m, user.Def(), "userdel -r anna 2>/dev/null; groupdel anna 2>/dev/null; true", state,
		sdk.With{"name": "anna", "uid": 1500, "comment": "Anna", "shell": "/bin/sh", "groups": []string{"web"}, "password": hash}, there+"anna web\n"+hash+"\n/home/anna")
}

// Groups as shadow's tools make them.
func TestLabGroup(t *testing.T) {
	t.Parallel()
	m := servers.StartMachine(t)
	state := func() string { return lab(t, m, `grep ^deploy: /etc/group; true`) }
	play(t, on(t, m, group.Def()), state, []played{
		{sdk.With{"name": "deploy", "state": "absent"}, "unchanged", ""},
		{sdk.With{"name": "deploy", "gid": 2000}, "changed", "deploy:x:2000:"},
		{sdk.With{"name": "deploy"}, "unchanged", "deploy:x:2000:"},
		{sdk.With{"name": "deploy", "gid": 2001}, "changed", "deploy:x:2001:"},
		{sdk.With{"name": "deploy", "gid": 0}, "failed", "deploy:x:2001:"},
		{sdk.With{"name": "deploy", "state": "absent"}, "changed", ""},
		{sdk.With{"name": "deploy", "system": true, "gid": 150}, "changed", "deploy:x:150:"},
	})
	killed(t, m, group.Def(), "groupdel deploy 2>/dev/null; true", state, sdk.With{"name": "deploy", "gid": 2000}, "deploy:x:2000:")
}

// publicKey is a public key of no private one.
func publicKey(letter string) string {
	return "ssh-ed25519 " + base64.StdEncoding.EncodeToString([]byte("\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20"+strings.Repeat(letter, 32)))
}

// Keys of another user: with the right owner and modes, in check mode, once, twice, and killed in
// between; a link of the user leads root nowhere.
func TestLabAuthorizedKey(t *testing.T) {
	t.Parallel()
	m := servers.StartMachine(t)
	one, two, three := publicKey("1"), publicKey("2"), publicKey("3")
	lab(t, m, "useradd -m -u 1500 anna")
	state := func() string {
		return lab(t, m, "cd /home/anna; stat -c '%a %U' .ssh .ssh/authorized_keys 2>/dev/null; cat .ssh/authorized_keys 2>/dev/null; ls -A .ssh 2>/dev/null | grep turnus; true")
	}
	const modes = "700 anna\n600 anna\n"
	kit := on(t, m, authorizedkey.Def())
	play(t, kit, state, []played{
		{sdk.With{"user": "anna", "keys": []string{one}, "state": "absent"}, "unchanged", ""},
		{sdk.With{"user": "anna", "keys": []string{one + " a", two}}, "changed", modes + one + " a\n" + two},
		{sdk.With{"user": "anna", "keys": []string{"restrict " + one}}, "changed", modes + "restrict " + one + " a\n" + two},
		{sdk.With{"user": "anna", "keys": []string{two, three}, "exclusive": true}, "changed", modes + two + "\n" + three},
		{sdk.With{"user": "anna", "keys": []string{two}, "state": "absent"}, "changed", modes + three},
		{sdk.With{"user": "nosuch", "keys": []string{two}, "state": "absent"}, "unchanged", modes + three},
	})
	lab(t, m, "chmod 755 /home/anna/.ssh; chmod 644 /home/anna/.ssh/authorized_keys")
	play(t, kit, state, []played{{sdk.With{"user": "anna", "keys": []string{three}}, "changed", modes + three}})
	lab(t, m, "chmod 2700 /home/anna/.ssh") // as in a home directory with setgid
	play(t, kit, state, []played{{sdk.With{"user": "anna", "keys": []string{three}}, "unchanged", "2" + modes + three}})
	if got := kit.Run(sdk.With{"user": "nosuch", "keys": []string{one}}); got.Outcome != "failed" || !strings.Contains(got.Reason, "there is no such user") {
		t.Errorf("a user who is not there: %s (%s)", got.Outcome, got.Reason)
	}
	killed(t, m, authorizedkey.Def(), "rm -rf /home/anna/.ssh", state, sdk.With{"user": "anna", "keys": []string{one}}, modes+one)

	// A FIFO of the user. Red where it is read: the step does not end.
	lab(t, m, "rm /home/anna/.ssh/authorized_keys; mkfifo /home/anna/.ssh/authorized_keys; chown anna: /home/anna/.ssh/authorized_keys")
	if got := kit.Run(sdk.With{"user": "anna", "keys": []string{one}}); got.Outcome != "failed" || !strings.Contains(got.Reason, "authorized_keys is not a file") {
		t.Errorf("a FIFO: %s (%s)", got.Outcome, got.Reason)
	}

	lab(t, m, "rm -rf /home/anna/.ssh; mkdir -m 700 /root/.ssh; ln -s /root/.ssh /home/anna/.ssh; echo "+two+" >/root/.ssh/authorized_keys")
	if got := kit.Run(sdk.With{"user": "anna", "keys": []string{one}}); got.Outcome != "failed" || lab(t, m, "cat /root/.ssh/authorized_keys") != two {
		t.Errorf("a link to what is root's: %s (%s), %s", got.Outcome, got.Reason, lab(t, m, "ls -la /root/.ssh; cat /root/.ssh/*"))
	}
}

// Keys of the own login: proven over a fresh connection, or rolled back; killed in between, the
// proof is made up for.
func TestLabAuthorizedKeyOfTheOwnLogin(t *testing.T) {
	t.Parallel()
	m := servers.StartMachine(t)
	one, two, three := publicKey("1"), publicKey("2"), publicKey("3")
	reset := "rm -rf /root/.ssh /var/lib/turnus; mkdir -m 700 /root/.ssh; printf '%s\\n' '" + one + "' '" + two + "' >/root/.ssh/authorized_keys; chmod 600 /root/.ssh/authorized_keys"
	state := func() string { return lab(t, m, "cat /root/.ssh/authorized_keys") }
	session := func(t *testing.T, used string) *plugintest.Kit { // a login with the key that is used
		kit := plugintest.New(t, authorizedkey.Def())
		kit.Host("m1").Handle(func(ctx context.Context, c plugintest.Call) plugintest.Reply {
			if c.Fresh && !strings.Contains(state(), used) {
				return plugintest.Reply{Err: plugintest.Unreachable("m1", true)}
			}
			stdout, stderr, code, err := m.Run(ctx, c.Command, strings.NewReader(c.Stdin))
			return plugintest.Reply{Stdout: stdout, Stderr: stderr, Code: code, Err: err}
		})
		return kit
	}
	lab(t, m, reset)
	play(t, session(t, one), state, []played{
		{sdk.With{"user": "root", "keys": []string{one, three}}, "changed", one + "\n" + two + "\n" + three},
		{sdk.With{"user": "root", "keys": []string{one, three}, "exclusive": true}, "changed", one + "\n" + three},
		{sdk.With{"user": "root", "keys": []string{two}, "exclusive": true}, "failed", one + "\n" + three},
	})
	got := session(t, one).Run(sdk.With{"user": "root", "keys": []string{three}, "exclusive": true})
	if got.Outcome != "rolled_back" || !strings.Contains(got.Reason, "so the old ones are back") || state() != one+"\n"+three {
		t.Errorf("a list without the key of the login: %s (%s), then %q", got.Outcome, got.Reason, state())
	}
	// The host lost power while another job changed the keys: its timer is gone, and holds nobody up.
	// Control: a lock of the present boot.
	for boot, outcome := range map[string]string{"echo another": "changed", "cat /proc/sys/kernel/random/boot_id": "failed"} {
		lab(t, m, reset+"; mkdir -p /var/lib/turnus/authorized_key/kold; cd /var/lib/turnus/authorized_key; touch kold/armed; echo other >kold/key; echo 99999999 >kold/deadline; "+boot+" >kold/boot; ln -s kold lock")
		got := session(t, one).Run(sdk.With{"user": "root", "keys": []string{one, three}})
		if got.Outcome != outcome || strings.Contains(state(), three) != (outcome == "changed") {
			t.Errorf("%s: %s (%s), then %q", boot, got.Outcome, got.Reason, state())
		}
	}
	plugintest.KillAtEachCall(t, func(t *testing.T) plugintest.Scene {
		lab(t, m, reset)
		return plugintest.Scene{Kit: session(t, one), Params: sdk.With{"user": "root", "keys": []string{one}, "exclusive": true}, MayFindItDone: true, Check: func(t *testing.T, _ *plugintest.Result) {
			if got := state(); got != one || lab(t, m, "ls /var/lib/turnus/authorized_key/*/armed 2>/dev/null; true") != "" {
				t.Errorf("in the end it is %q", got)
			}
		}}
	})
}
