package plugins_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport/fleet"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/sdk"
)

// simulated is a step on a simulated host that changes it once.
type simulated struct {
	uses   string
	before string // run as root: brings the host to where the step has work
	with   sdk.With
	shows  string // run as root after the step
	want   string // what it prints
}

func simulatedSteps() []simulated {
	key, other := keyOf("1"), keyOf("2")
	return []simulated{
		{"copy", "", sdk.With{"source": "site", "path": "/srv/www", "owner": "www-data:www-data", "mode": "0640"}, "cd /srv/www; find . ; stat -c '%A %U:%G %s' . sub sub/b run; cat a", ". ./a ./run ./sub ./sub/b drwxr-xr-x www-data:www-data 0 drwxr-xr-x www-data:www-data 0 -rw-r----- www-data:www-data 1 -rw-r----- www-data:www-data 10 one"},
		{"copy", "echo old >/srv/www/a; chmod 4750 /srv/www/run; chown 0:0 /srv/www/run; touch /srv/www/more; mkdir /srv/www/none; ln -s /etc/motd /srv/www/sub/l", sdk.With{"source": "site", "path": "/srv/www", "owner": "www-data:www-data", "mode": "4755", "delete": true}, "cd /srv/www; find .; stat -c '%a %U' a run sub/b; cat a; ls -A", ". ./a ./run ./sub ./sub/b 4755 www-data 4755 www-data 4755 www-data one a run sub"},
		{"copy", "chmod 777 /srv/www; rm /srv/www/a; ln -s /etc/motd /srv/www/a", sdk.With{"source": "site", "path": "/srv/www", "templates": true}, "cd /srv/www; cat a; stat -c '%F' a; stat -c %a run; ls -A; wc -l </etc/motd", "one regular file 4755 a run sub 1"},
		{"unarchive", "", sdk.With{"source": "app.tar.gz", "path": "/opt/app", "strip": true, "owner": "www-data"}, "cd /opt/app; find . | sort; stat -c '%U %a %h' a; readlink link; cat link; ls /opt", ". ./.turnus-unarchive ./a ./dir ./dir/hard ./link www-data 755 2 dir/hard body app"},
		{"unarchive", "", sdk.With{"source": "next.tar", "path": "/opt/app"}, "cd /opt/app; find . | sort; cat new; ls -A /opt", ". ./.turnus-unarchive ./new 2 app"},
		{"group", "", sdk.With{"name": "deploy", "gid": 2000}, "getent group deploy", "deploy:x:2000:"},
		{"group", "", sdk.With{"name": "deploy", "gid": 2001}, "getent group 2001", "deploy:x:2001:"},
		{"group", "", sdk.With{"name": "app", "system": true}, "getent group app", "app:x:999:"},
		{"user", "", sdk.With{"name": "anna", "comment": "Anna Example", "shell": "/bin/bash", "groups": []string{"deploy", "adm"}, "password": "$6$salt$hash"}, "getent passwd anna; grep ^anna: /etc/shadow | cut -d : -f 2; id anna; stat -c '%a %U:%G' /home/anna; sudo -u anna id -un", "anna:x:1001:1001:Anna Example:/home/anna:/bin/bash $6$salt$hash uid=1001(anna) gid=1001(anna) groups=1001(anna),4(adm),2001(deploy) 700 anna:anna anna"},
		{"user", "", sdk.With{"name": "anna", "uid": 1500, "groups": []string{"adm"}, "exact": true, "home": "/srv/anna", "password": "!"}, "id -Gn anna; getent passwd anna; grep -c '^anna:!:' /etc/shadow", "anna adm anna:x:1500:1001:Anna Example:/srv/anna:/bin/bash 1"},
		{"user", "mkdir -p /srv/anna; chown anna:anna /srv/anna", sdk.With{"name": "anna", "state": "absent", "remove_home": true}, "id anna 2>&1; getent group anna; ls /srv; grep anna /etc/passwd /etc/group /etc/shadow", "id: 'anna': no such user www"},
		{"group", "", sdk.With{"name": "deploy", "state": "absent"}, "getent group deploy; echo $?", "2"},
		{"user", "", sdk.With{"name": "bert"}, "getent passwd bert", "bert:x:1001:1001::/home/bert:/bin/sh"},
		{"authorized_key", "", sdk.With{"user": "bert", "keys": []string{key}}, "cd /home/bert; stat -c '%a %U' .ssh .ssh/authorized_keys; cat .ssh/authorized_keys; ls -A .ssh", "700 bert 600 bert " + key + " authorized_keys"},
		{"authorized_key", "", sdk.With{"user": "bert", "keys": []string{other}, "exclusive": true}, "cat /home/bert/.ssh/authorized_keys", other},
		{"authorized_key", "", sdk.With{"user": "turnus", "keys": []string{other}}, "cat ~turnus/.ssh/authorized_keys", other},
		{"hostname", "", sdk.With{"name": "web9.example.net"}, "hostname; uname -n; cat /etc/hostname /proc/sys/kernel/hostname; stat -c '%a %U' /etc/hostname; ls -A /etc | grep new", "web9.example.net web9.example.net web9.example.net web9.example.net 644 root"},
		{"sysctl", "", sdk.With{"key": "net.ipv4.ip_forward", "value": 1}, "cat /proc/sys/net/ipv4/ip_forward; cd /etc/sysctl.d; ls -A; cat *", "1 90-turnus-net.ipv4.ip_forward.conf net.ipv4.ip_forward = 1"},
		{"sysctl", "", sdk.With{"key": "net.ipv4.ip_local_port_range", "value": "15000 65000"}, "cat /proc/sys/net/ipv4/ip_local_port_range", "15000 65000"},
		{"sysctl", "", sdk.With{"key": "net.ipv4.ip_forward", "state": "absent"}, "cat /proc/sys/net/ipv4/ip_forward; ls /etc/sysctl.d | grep -c forward", "1 0"},
		{"mount", "", sdk.With{"path": "/srv/m", "source": "tmpfs", "type": "tmpfs", "options": "size=1m,nosuid"}, "cat /etc/fstab; tail -n 1 /proc/self/mountinfo; ls -d /srv/m", "/dev/root / ext4 defaults 0 1 tmpfs /srv/m tmpfs size=1m,nosuid 0 0 23 22 254:1 / /srv/m rw,nosuid - tmpfs tmpfs rw /srv/m"},
		{"mount", "", sdk.With{"path": "/srv/m", "source": "tmpfs", "type": "tmpfs", "options": "ro"}, "grep -c ' /srv/m ro ' /proc/self/mountinfo", "1"},
		{"mount", "", sdk.With{"path": "/srv/m", "state": "absent"}, "wc -l </proc/self/mountinfo; cat /etc/fstab", "1 /dev/root / ext4 defaults 0 1"},
		{"mount", "", sdk.With{"path": "/srv/disk", "source": "/dev/vdb", "type": "ext4"}, "cat /etc/fstab /proc/self/mountinfo | grep -c /dev/vdb", "2"},
		{"mount", "umount /srv/disk", sdk.With{"source": "/dev/vdb", "type": "swap"}, "tail -n 1 /proc/swaps | cut -d ' ' -f 1", "/dev/vdb"},
		{"cron", "", sdk.With{"name": "backup", "schedule": "30 2 * * *", "command": "true"}, "grep -c 'root true' /etc/cron.d/backup", "1"},
		{"cron", "", sdk.With{"name": "night", "calendar": "Mon *-*-* 03:00", "command": "true"}, "cd /etc/systemd/system; ls; readlink timers.target.wants/night.timer; systemctl is-active night.timer", "night.service night.timer timers.target.wants /etc/systemd/system/night.timer active"},
		{"cron", "", sdk.With{"name": "night", "state": "absent"}, "cd /etc/systemd/system; find . | sort", ". ./timers.target.wants"},
		{"service", "printf '[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/own.service", sdk.With{"name": "own", "state": "started", "enabled": true}, "systemctl is-active own; systemctl is-enabled own", "active enabled"},
		{"service", "", sdk.With{"name": "ntp", "state": "stopped", "enabled": false}, "systemctl is-active ntp; systemctl is-enabled ntp", "inactive disabled"},
		{"package", "", sdk.With{"names": []string{"curl"}}, "apk info -e curl && echo there", "there"},
		{"file", "", sdk.With{"path": "/srv/link", "state": "link", "target": "/etc/motd"}, "readlink /srv/link", "/etc/motd"},
		{"file", "", sdk.With{"path": "/srv/d", "state": "directory", "owner": "www-data:www-data", "mode": "2775"}, "stat -c '%A %U:%G' /srv/d", "drwxrwsr-x www-data:www-data"},
		{"file", "", sdk.With{"path": "/srv/d/f", "content": "x\n", "owner": "bert", "mode": "0600"}, "stat -c '%A %U:%G' /srv/d/f; ls -A /srv/d", "-rw------- bert:www-data f"},
		{"line", "", sdk.With{"path": "/srv/d/f", "line": "y"}, "cat /srv/d/f; stat -c '%a %U' /srv/d/f", "x y 600 bert"},
		{"block", "", sdk.With{"path": "/srv/d/f", "name": "b", "content": "1\n2\n"}, "wc -l </srv/d/f", "6"},
	}
}

// simulatedElsewhere are job types that bring no state of their own, that need more than simulated
// hosts have, or that have tests of their own over them.
const simulatedElsewhere = "git command script http fetch facts assert wait reboot config. firewall. dnssec. firmware."

// Every everyday job type changes a simulated host as a real one, by its own process and over SSH.
// Check mode leaves the tree as it is, and has the outcome of the run. A second run is unchanged,
// also in check mode. Control: a job type without a row fails the test.
func TestEverydayJobTypesOnASimulatedHost(t *testing.T) {
	t.Parallel()
	rows := map[string]bool{}
	for _, s := range simulatedSteps() {
		rows[s.uses] = true
	}
	for _, typ := range sdk.Describe(builtins()...).Types {
		family, _, _ := strings.Cut(typ.Name, ".")
		if !rows[typ.Name] && !strings.Contains(" "+simulatedElsewhere+" ", " "+typ.Name+" ") && !strings.Contains(simulatedElsewhere, family+".") {
			t.Errorf("job type %s has no row", typ.Name)
		}
	}
	l := newSimulatedLab(t)
	for _, s := range simulatedSteps() {
		if s.before != "" {
			l.shell(t, s.before)
		}
		was := l.tree(t)
		if got := l.call(t, s, true); !got.Changed || !sound(got) || !maps.Equal(l.tree(t), was) {
			t.Errorf("%s %v, check mode: %+v; the tree stays: %t", s.uses, s.with, got, maps.Equal(l.tree(t), was))
		}
		got := l.call(t, s, false)
		if shown := l.shell(t, s.shows); !got.Changed || !sound(got) || shown != s.want {
			t.Fatalf("%s %v: %+v; it shows\n%s, expected\n%s", s.uses, s.with, got, shown, s.want)
		}
		now := l.tree(t)
		for _, check := range []bool{true, false} {
			if got := l.call(t, s, check); got.Changed || !sound(got) || !maps.Equal(l.tree(t), now) {
				t.Errorf("%s %v again, check mode %t: %+v; the tree stays: %t", s.uses, s.with, check, got, maps.Equal(l.tree(t), now))
			}
		}
	}
}

// A simulated host refuses as a real one does, and its tree stays as it was.
func TestSimulatedHostsRefuse(t *testing.T) {
	t.Parallel()
	l := newSimulatedLab(t)
	for name, c := range map[string]struct {
		step   simulated
		reason string
		login  bool // without become
	}{
		"a link out of the archive":   {simulated{uses: "unarchive", with: sdk.With{"source": "out.tar", "path": "/opt/x"}}, "leads out of its folder", false},
		"a name out of the archive":   {simulated{uses: "unarchive", with: sdk.With{"source": "dots.tar", "path": "/opt/x"}}, "leads out of its folder", false},
		"a named pipe":                {simulated{uses: "unarchive", with: sdk.With{"source": "pipe.tar", "path": "/opt/x"}}, "is a device or a named pipe", false},
		"a name of two lines":         {simulated{uses: "unarchive", with: sdk.With{"source": "lines.tar", "path": "/opt/x"}}, "a name with a line break", false},
		"an archive that is cut":      {simulated{uses: "unarchive", with: sdk.With{"source": "cut.tar", "path": "/opt/x"}}, "cannot be read", false},
		"an archive that is damaged":  {simulated{uses: "unarchive", with: sdk.With{"source": "sum.tar.gz", "path": "/opt/x"}}, "cannot be read", false},
		"zip":                         {simulated{uses: "unarchive", with: sdk.With{"archive": "/etc/motd.zip", "path": "/opt/x"}}, "no archive", false},
		"an unknown owner":            {simulated{uses: "copy", with: sdk.With{"source": "site", "path": "/srv/w", "owner": "nosuch"}}, "does not know the owner nosuch", false},
		"a job of an unknown user":    {simulated{uses: "cron", with: sdk.With{"name": "x", "special": "@daily", "user": "nosuch", "command": "true"}}, "has no user nosuch", false},
		"a timer of an unknown user":  {simulated{uses: "cron", with: sdk.With{"name": "x", "calendar": "daily", "user": "nosuch", "command": "true"}}, "has no user nosuch", false},
		"an owner of an archive":      {simulated{uses: "unarchive", with: sdk.With{"source": "next.tar", "path": "/opt/x", "owner": "nosuch"}}, "does not know the owner nosuch", false},
		"a group of an archive":       {simulated{uses: "unarchive", with: sdk.With{"source": "next.tar", "path": "/opt/x", "owner": "root:nosuch"}}, "does not know the owner root:nosuch", false},
		"a group that is not there":   {simulated{uses: "user", with: sdk.With{"name": "carl", "groups": []string{"nosuch"}}}, "has no group nosuch", false},
		"a number that is taken":      {simulated{uses: "user", with: sdk.With{"name": "carl", "uid": 33}}, "has the number 33", false},
		"a user by the login":         {simulated{uses: "user", with: sdk.With{"name": "carl"}}, "only root", true},
		"a password by the login":     {simulated{uses: "user", with: sdk.With{"name": "carl", "password": "!"}}, "become: true", true},
		"the login itself":            {simulated{uses: "user", with: sdk.With{"name": "turnus", "state": "absent"}}, "is currently used", false},
		"a setting that is not there": {simulated{uses: "sysctl", with: sdk.With{"key": "net.nosuch.x", "value": 1}}, "no setting net.nosuch.x", false},
		"a value that is none":        {simulated{uses: "sysctl", with: sdk.With{"key": "vm.swappiness", "value": "much"}}, "Invalid argument", false},
		"a device that is not there":  {simulated{uses: "mount", with: sdk.With{"path": "/srv/x", "source": "/dev/nosuch", "type": "ext4"}}, "has no /dev/nosuch", false},
		"keys of nobody":              {simulated{uses: "authorized_key", with: sdk.With{"user": "nosuch", "keys": []string{keyOf("1")}}}, "no such user", false},
	} {
		l.user = map[bool]string{false: "root"}[c.login]
		was := l.tree(t)
		got := l.call(t, c.step, false)
		if !got.Failed || !strings.Contains(got.Reason, c.reason) || c.step.uses != "mount" && !maps.Equal(l.tree(t), was) {
			t.Errorf("%s: %+v, expected %q; the tree stays: %t", name, got, c.reason, maps.Equal(l.tree(t), was))
		}
	}
}

// sound reports an outcome that is neither a failure nor an accident.
func sound(o host.Outcome) bool { return !o.Failed && !o.Unreachable && !o.Lost && !o.Skipped }

func keyOf(letter string) string {
	return "ssh-ed25519 " + base64.StdEncoding.EncodeToString([]byte("\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20"+strings.Repeat(letter, 32)))
}

// simulatedLab is a simulated host, and a supervisor that reaches it.
type simulatedLab struct {
	fleet      *fleet.Fleet
	supervisor *host.Supervisor
	files      string
	user       string // who runs the steps; "" is the login
}

func newSimulatedLab(t *testing.T) *simulatedLab {
	t.Helper()
	f, err := fleet.Start(t.Context(), fleet.Config{Hosts: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	l := &simulatedLab{fleet: f, files: t.TempDir(), user: "root"}
	app := packed(t, tar.Header{Name: "app/", Typeflag: tar.TypeDir}, tar.Header{Name: "app/dir/hard", Linkname: "body\n"},
		tar.Header{Name: "app/a", Typeflag: tar.TypeLink, Linkname: "app/dir/hard"}, tar.Header{Name: "app/link", Typeflag: tar.TypeSymlink, Linkname: "dir/hard"})
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(app)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"site/a": "one\n", "site/sub/b": "2", "site/run": "#!/bin/sh\n", "app.tar.gz": zipped.String(), "sum.tar.gz": zipped.String()[:zipped.Len()-8] + "checksum", "next.tar": packed(t, tar.Header{Name: "new", Linkname: "2\n"}),
		"out.tar":  packed(t, tar.Header{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "../../etc"}, tar.Header{Name: "b", Linkname: "b"}),
		"dots.tar": packed(t, tar.Header{Name: "../a", Linkname: "a"}), "pipe.tar": packed(t, tar.Header{Name: "p", Typeflag: tar.TypeFifo}), "cut.tar": app[:1000],
		"lines.tar": packed(t, tar.Header{Name: "a\nb", Linkname: "x"}),
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(l.files, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(l.files, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l.supervisor = supervised(t, f.IdentityFile())
	return l
}

// packed is an archive; the body of a file is its Linkname.
func packed(t *testing.T, entries ...tar.Header) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range entries {
		body := ""
		if h.Mode = 0o755; h.Typeflag == 0 {
			h.Typeflag, h.Linkname, body = tar.TypeReg, "", h.Linkname
			h.Size = int64(len(body))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func (l *simulatedLab) call(t *testing.T, s simulated, check bool) host.Outcome {
	t.Helper()
	out, _ := l.run(t, s, check)
	return out
}

// run calls a step, and returns its output.
func (l *simulatedLab) run(t *testing.T, s simulated, check bool) (host.Outcome, string) {
	t.Helper()
	raw, err := json.Marshal(s.with)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	stdout := ""
	out, err := l.supervisor.Run(ctx, host.Call{
		Job: core.JobID{Run: "run"}, Step: "step", Attempt: 1, Type: s.uses, Params: raw, Host: l.fleet.Hosts()[0], Become: core.Become{User: l.user},
		Check: check, Untouched: check, Diff: check, Key: "key", Fence: 1, Files: l.files, Sink: func(e host.Event) { stdout += string(e.Stdout) },
	})
	if err != nil {
		t.Fatalf("%s %v: %v", s.uses, s.with, err)
	}
	return out, stdout
}

// shell runs a line as root, and returns what it printed as words.
func (l *simulatedLab) shell(t *testing.T, line string) string {
	t.Helper()
	got, stdout := l.run(t, simulated{uses: "command", with: sdk.With{"run": line, "ok_codes": []int{0, 1}}}, false)
	if got.Failed {
		t.Fatalf("%s: %+v", line, got)
	}
	return strings.Join(strings.Fields(stdout), " ")
}

func (l *simulatedLab) tree(t *testing.T) map[string]string {
	t.Helper()
	tree, err := l.fleet.Tree(l.fleet.Hosts()[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
