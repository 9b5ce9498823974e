//go:build linux && labs

package plugins_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/sdk"
)

// everyday is a step that changes its host once.
type everyday struct {
	uses   string
	before string // brings the machine to where the step has work
	with   sdk.With
	state  string // prints what the step is about
	disk   string // the folder whose disk is full; "" for a step that writes no byte
}

// everydaySteps are the steps of all job types that bring a host to a state.
func everydaySteps() []everyday {
	tree := "cd /srv/w 2>/dev/null && find . | sort | while read -r f; do stat -c '%A %U %n' \"$f\"; [ -d \"$f\" ] || cat \"$f\"; done; ls -A /srv/w* | grep turnus; true"
	one := func(path string) string {
		return "stat -c '%a %U:%G' " + path + " 2>/dev/null && cat " + path + "; ls -A ${f:-" + filepath.Dir(path) + "} | grep -e turnus- -e part -e .new; true"
	}
	edit := "rm -rf /srv/e; mkdir /srv/e; printf 'a\nport 1\n' >/srv/e/f; chown 33:34 /srv/e/f; chmod 640 /srv/e/f"
	return []everyday{
		{"file", "rm -rf /srv/e; mkdir /srv/e", sdk.With{"path": "/srv/e/f", "content": "port 80\n", "mode": "0640", "validate": "grep -q ^port %s"}, one("/srv/e/f"), "/srv/e"},
		{"file", edit, sdk.With{"path": "/srv/e/f", "template": "f.tmpl", "vars": sdk.With{"port": 80}, "owner": "root:root"}, one("/srv/e/f"), "/srv/e"},
		{"file", "rm -rf /srv/e; mkdir /srv/e", sdk.With{"path": "/srv/e/d/e", "state": "directory", "mode": "0750"}, "ls -lR /srv/e | grep ^d | cut -c 1-10", ""},
		{"file", "rm -rf /srv/e; mkdir /srv/e", sdk.With{"path": "/srv/e/l", "state": "link", "target": "x"}, "readlink /srv/e/l; ls -A /srv/e", ""},
		{"line", edit, sdk.With{"path": "/srv/e/f", "line": "port 2", "match": "^port "}, one("/srv/e/f"), "/srv/e"},
		{"block", edit, sdk.With{"path": "/srv/e/f", "name": "x", "content": "1\n2\n"}, one("/srv/e/f"), "/srv/e"},
		{"copy", "rm -rf /srv/w; mkdir /srv/w; echo old >/srv/w/old", sdk.With{"source": "site", "path": "/srv/w", "delete": true}, tree, "/srv/w"},
		{"unarchive", "rm -rf /srv/u; mkdir /srv/u", sdk.With{"source": "app.tar", "path": "/srv/u/w"}, "ls -A /srv/u; ls -lA /srv/u/w 2>/dev/null | cut -c 1-10; cat /srv/u/w/a 2>/dev/null | cksum", "/srv/u"},
		{"git", "rm -rf /srv/g; mkdir /srv/g", sdk.With{"url": "file:///srv/up", "path": "/srv/g/w", "version": "v1"}, "git -C /srv/g/w rev-parse HEAD 2>/dev/null; cat /srv/g/w/f 2>/dev/null; ls -A /srv/g/w/.git 2>/dev/null | grep -e lock -e turnus; true", "/srv/g"},
		{"user", "userdel -r anna 2>/dev/null; groupadd -f ops; true", sdk.With{"name": "anna", "uid": 1600, "comment": "Anna", "groups": []string{"ops"}, "password": "!"}, "grep ^anna: /etc/passwd /etc/shadow | cut -d: -f 1-3,5-7; id -nG anna 2>/dev/null; ls /etc/*.lock 2>/dev/null; true", "/etc"},
		{"group", "groupdel deploy 2>/dev/null; true", sdk.With{"name": "deploy", "gid": 2000}, "grep ^deploy: /etc/group /etc/gshadow; ls /etc/*.lock 2>/dev/null; true", "/etc"},
		{"authorized_key", "rm -rf /home/bert/.ssh", sdk.With{"user": "bert", "keys": []string{publicKey("1")}}, "cd /home/bert; stat -c '%a %U' .ssh .ssh/authorized_keys 2>/dev/null; cat .ssh/authorized_keys 2>/dev/null; ls -A .ssh 2>/dev/null; true", "/home"},
		{"cron", "rm -f /etc/cron.d/backup", sdk.With{"name": "backup", "schedule": "30 2 * * *", "command": "true"}, one("/etc/cron.d/backup"), "/etc/cron.d"},
		{"cron", "cd /etc/systemd/system; systemctl stop night.timer 2>/dev/null; systemctl -q disable night.timer 2>/dev/null; rm -f night.*; systemctl daemon-reload; systemctl reset-failed", sdk.With{"name": "night", "calendar": "Mon *-*-* 03:00", "command": "true"}, "cd /etc/systemd/system; stat -c '%a %U:%G' night.* 2>/dev/null && cat night.*; systemctl is-enabled night.timer; systemctl is-active night.timer; systemctl show -p NeedDaemonReload night.timer night.service; ls -A | grep new; true", "/etc/systemd/system"},
		{"sysctl", "rm -f /etc/sysctl.d/*turnus*; echo 20000 30000 >/proc/sys/net/ipv4/ip_local_port_range", sdk.With{"key": "net.ipv4.ip_local_port_range", "value": "15000 65000"}, "tr '\\t' ' ' </proc/sys/net/ipv4/ip_local_port_range; cd /etc/sysctl.d; for f in *turnus*; do [ -e $f ] && cat $f; done; ls -A | grep -i new; true", "/etc/sysctl.d"},
		{"hostname", "hostname old; echo old >/etc/hostname", sdk.With{"name": "web1"}, "uname -n; cat /etc/hostname", "/etc"},
		{"mount", "umount /srv/m 2>/dev/null; rm -rf /srv/m; printf '# static\n' >/etc/fstab", sdk.With{"path": "/srv/m", "source": "tmpfs", "type": "tmpfs", "options": "size=1024k"}, "cat /etc/fstab; grep -c ' /srv/m ' /proc/self/mountinfo; ls -A /etc | grep 'fstab.'; true", "/etc"},
		{"service", "systemctl -q disable --now demo 2>/dev/null; true", sdk.With{"name": "demo", "state": "started", "enabled": true}, "systemctl is-active demo; systemctl is-enabled demo; true", ""},
		{"package", "dpkg -r demo demo-lib >/dev/null 2>&1; rm -rf /usr/share/demo; mkdir /usr/share/demo", sdk.With{"names": []string{"demo"}}, "dpkg-query -W -f '${db:Status-Status} ${Version}\n' demo demo-lib 2>/dev/null; cat /usr/share/demo/version 2>/dev/null; true", "/usr/share/demo"},
	}
}

// elsewhereProven are job types that bring no state, or whose state has labs of its own.
const elsewhereProven = "command script http fetch facts assert wait reboot config. firewall. dnssec. firmware."

// Every everyday job type over a real OpenSSH, as the worker calls it. Check mode changes nothing
// and has the outcome of the run. A second run is unchanged, in one round trip. A login with sudo
// gets the same state in as many round trips. On a full disk the step fails, and with room a retry
// finishes it, as it does after its worker was killed before a call of the host, while the host was
// at work, or after the last call. Control: a job type without a row fails the test.
func TestLabEverydayJobTypes(t *testing.T) {
	t.Parallel()
	for _, pkg := range []string{"git", "sudo", "dpkg-scanpackages"} {
		testparts.Need(t, pkg, pkg)
	}
	steps := everydaySteps()
	rows := map[string]bool{}
	for _, s := range steps {
		rows[s.uses] = true
	}
	for _, typ := range sdk.Describe(builtins()...).Types {
		family, _, _ := strings.Cut(typ.Name, ".")
		if !rows[typ.Name] && !strings.Contains(" "+elsewhereProven, " "+typ.Name+" ") && !strings.Contains(elsewhereProven, family+".") {
			t.Errorf("job type %s has no row", typ.Name)
		}
	}
	for part := range 3 { // each machine has every third step
		t.Run("", func(t *testing.T) {
			t.Parallel()
			l := newEverydayLab(t)
			for i := part; i < len(steps); i += 3 {
				t.Run(steps[i].uses, func(t *testing.T) { l.prove(t, steps[i]) })
			}
		})
	}
}

// everydayLab is a machine with systemd and OpenSSH, and a supervisor that reaches it.
type everydayLab struct {
	m          *servers.Machine
	server     *servers.SSHD
	supervisor *host.Supervisor
	key, files string
	fetched    string // folder of the worker
	root, ops  core.Host
	latched    core.Host // root, whose programs begin by latch
	fence      uint64    // of the last call
}

func newEverydayLab(t *testing.T) *everydayLab {
	t.Helper()
	key, public := servers.NewSSHKey(t)
	l := &everydayLab{m: servers.StartMachine(t), key: key, files: t.TempDir(), fetched: t.TempDir()}
	lab(t, l.m, repository+"apt-get -qq update")
	lab(t, l.m, `set -e
useradd -m -p '*' ops; useradd -m bert; echo 'ops ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ops; chmod 440 /etc/sudoers.d/ops; rm -f /etc/sudoers.d/README
mkdir -p /run/sshd /etc/cron.d /srv; echo '`+servers.AuthorizedKey(public)+`' >/opt/lab_keys; chmod 644 /opt/lab_keys
printf '[Service]\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/demo.service; systemctl daemon-reload
git config --system user.email t@example.net; git config --system user.name t; git config --system safe.directory '*'
git init -q /srv/up; cd /srv/up; echo one >f; git add f; git commit -qm one; git tag v1; chmod -R go+rX /srv/up`)
	big := strings.Repeat("0123456789abcdef", 1<<14)
	for name, text := range map[string]string{
		"f.tmpl": "host {{.Host}} port {{.Vars.port}}\n", "site/a": "a" + big, "site/sub/b": "b", "app.tar": tarOf(t, member{"a", "a" + big, 0}),
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(l.files, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(l.files, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lab(t, l.m, "cat >/opt/latch.sh <<'END'\n"+latch+`END
chmod 755 /opt/latch.sh; mkdir /opt/latch; mkfifo -m 666 /opt/held /opt/release
for p in /usr/sbin/* /usr/bin/*; do ln -sf /opt/latch.sh "/opt/latch/${p##*/}"; done`)
	s := servers.StartSSHD(t, servers.Inside(0, l.m.Server()...), servers.SSHDConfig("AuthorizedKeysFile /opt/lab_keys"))
	latched := servers.StartSSHD(t, servers.Inside(0, l.m.Server()...), servers.SSHDConfig("AuthorizedKeysFile /opt/lab_keys", "SetEnv PATH=/opt/latch:/usr/sbin:/usr/bin:/sbin:/bin"))
	l.latched = latched.Host("m1")
	l.server, l.supervisor, l.root = s, supervised(t, key), s.Host("m1")
	l.ops = l.root
	l.ops.SSH.User = "ops"
	return l
}

// call calls the step, and returns its round trips: sessions of the server.
func (l *everydayLab) call(t *testing.T, s everyday, check, become bool) (host.Outcome, int) {
	t.Helper()
	raw, err := json.Marshal(s.with)
	if err != nil {
		t.Fatal(err)
	}
	trips := func() int { return strings.Count(l.server.Log(), "Starting session: ") }
	before := trips()
	c := host.Call{
		Job: core.JobID{Run: "run"}, Step: "step", Attempt: 1, Type: s.uses, Params: raw, Host: l.root, Check: check, Untouched: check, Diff: check, Key: "key", Files: l.files, Fetch: l.fetched,
		Queue: "lab", Fence: l.next(), Sink: func(host.Event) {},
	}
	if become {
		c.Host, c.Become = l.ops, core.Become{User: "root"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := l.supervisor.Run(ctx, c)
	if err != nil {
		t.Fatalf("%s %v: %v", s.uses, s.with, err)
	}
	return out, trips() - before
}

// next is the fence of a new lease: the host ends what those before it left running.
func (l *everydayLab) next() uint64 {
	l.fence++
	return l.fence
}

func good(o host.Outcome) bool { return !o.Failed && !o.Unreachable && !o.Lost && !o.Skipped }

// prove takes a step through all that may happen to it.
func (l *everydayLab) prove(t *testing.T, s everyday) {
	t.Helper()
	state := func() string { t.Helper(); return lab(t, l.m, s.state) }
	lab(t, l.m, s.before)
	was := state()
	checked, _ := l.call(t, s, true, false)
	if now := state(); now != was || !good(checked) || !checked.Changed {
		t.Errorf("check mode: %+v, and %q became %q", checked, was, now)
	}
	first, trips := l.call(t, s, false, false)
	want := state()
	if !good(first) || !first.Changed || want == was {
		t.Fatalf("the run: %+v, and %q became %q", first, was, want)
	}
	again, least := l.call(t, s, false, false)
	if now := state(); !good(again) || again.Changed || now != want || least != 1 {
		t.Errorf("the second run: %+v in %d round trips, and %q became %q", again, least, want, now)
	}
	lab(t, l.m, s.before)
	sudo, sudoTrips := l.call(t, s, false, true)
	if now := state(); !good(sudo) || !sudo.Changed || now != want || sudoTrips != trips || trips > 3 {
		t.Errorf("with sudo: %+v in %d round trips, as root %d; %q, expected %q", sudo, sudoTrips, trips, now, want)
	}
	if again, n := l.call(t, s, false, true); !good(again) || again.Changed || n != least {
		t.Errorf("the second run with sudo: %+v in %d round trips, as root %d", again, n, least)
	}
	l.refused(t, s, state)
	l.killed(t, s, want, state)
	l.killedAtWork(t, s, want, state)
	if s.disk != "" {
		l.full(t, s, want, state)
	}
}

// refused runs a step that has a validate command with one that refuses the new file.
func (l *everydayLab) refused(t *testing.T, s everyday, state func() string) {
	t.Helper()
	if s.with["validate"] == nil {
		return
	}
	s.with = maps.Clone(s.with)
	s.with["validate"] = "echo line 7 is wrong; false %s"
	for _, become := range []bool{false, true} {
		lab(t, l.m, s.before)
		was := state()
		if got, _ := l.call(t, s, false, become); !got.Failed || !strings.Contains(got.Reason, "line 7 is wrong") || state() != was {
			t.Errorf("refused by validate, become: %t: %+v, and %q became %q", become, got, was, state())
		}
	}
}

// killed kills the worker before the call, before each of its calls of the host and after the last.
func (l *everydayLab) killed(t *testing.T, s everyday, want string, state func() string) {
	t.Helper()
	raw, err := json.Marshal(s.with)
	if err != nil {
		t.Fatal(err)
	}
	var last host.Outcome
	trips := 0
	for at := 1; ; at++ {
		lab(t, l.m, s.before)
		w := startWorker(t, labOrder{Type: s.uses, Key: l.key, Host: l.root, Params: raw, Files: l.files, Fence: l.next(), KillCall: at})
		if err := w.cmd.Wait(); err == nil { // it has ended before
			if at < 4 || last.Changed || trips != 1 {
				t.Errorf("killed after the last of %d calls: %+v in %d round trips: %s", at-1, last, trips, w.out.String())
			}
			break
		}
		last, trips = l.call(t, s, false, false)
		if now := state(); !good(last) || now != want {
			t.Errorf("killed before call %d: %+v, then %q, expected %q", at, last, now, want)
		}
	}
}

// latch begins each program of a command. While /opt/at exists it counts them: the program of that
// number reports that it is stopped, and begins no more. One that ignores SIGTERM, as all that a
// trap starts, would stop until the host kills it: it is not counted.
const latch = `#!/bin/sh
while read -r key ignored; do [ $key != SigIgn: ] || break; done </proc/$$/status
case $ignored in *[4567cdef]???) ignores=1 ;; *) ignores= ;; esac
if [ -z "$ignores" ] && read -r at 2>/dev/null </opt/at; then
  n=1
  while ! /usr/bin/mkdir "/opt/turn/$n" 2>/dev/null; do n=$((n + 1)); done
  if [ "$n" = "$at" ]; then
    echo "$$ ${0##*/} $*" >/opt/held
    read -r never </opt/release
  fi
fi
for d in /usr/sbin /usr/bin; do [ ! -x "$d/${0##*/}" ] || exec "$d/${0##*/}" "$@"; done
exit 127
`

// killedAtWork kills the worker while a program of its commands is stopped on the host: up to four
// of them, spread over all. The host still works then, and has done a part.
func (l *everydayLab) killedAtWork(t *testing.T, s everyday, want string, state func() string) {
	t.Helper()
	raw, err := json.Marshal(s.with)
	if err != nil {
		t.Fatal(err)
	}
	start := func(at int) *labWorker {
		lab(t, l.m, s.before+fmt.Sprintf("\nrm -rf /run/turnus /opt/turn; mkdir -m 700 /run/turnus; mkdir -m 777 /opt/turn; echo %d >/opt/at", at))
		return startWorker(t, labOrder{Type: s.uses, Key: l.key, Host: l.latched, Params: raw, Files: l.files, Fence: l.next()})
	}
	w := start(0)
	err = w.cmd.Wait()
	programs, notANumber := strconv.Atoi(lab(t, l.m, "rm /opt/at; ls /opt/turn | wc -l"))
	if err != nil || notANumber != nil || programs == 0 || state() != want {
		t.Fatalf("its commands start %d programs, so that none is killed at work: %v, %v: %s", programs, err, notANumber, w.out.String())
	}
	for part := range min(4, programs) {
		at := programs * (part + 1) / min(4, programs)
		held := l.held(t, start(at))
		lab(t, l.m, "rm /opt/at")
		if held == "" {
			t.Errorf("program %d of %d was not held: nobody was killed at work", at, programs)
			continue
		}
		last, _ := l.call(t, s, false, false)
		if now := state(); !good(last) || now != want {
			t.Errorf("killed at program %d of %d, %s: %+v, then %q, expected %q", at, programs, held, last, now, want)
		}
		if pid, _, _ := strings.Cut(held, " "); lab(t, l.m, "kill -0 "+pid+" 2>/dev/null && echo lives; true") != "" {
			t.Errorf("killed at program %d of %d: %s outlives the next lease", at, programs, held)
		}
	}
}

// held waits until a program is stopped, and then kills the worker. It returns the program, "" if
// the worker ended before.
func (l *everydayLab) held(t *testing.T, w *labWorker) string {
	t.Helper()
	fifo := l.m.Path("/opt/held")
	said, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		text, err := os.ReadFile(fifo)
		if err != nil {
			t.Error(err)
		}
		said <- strings.TrimSpace(string(text))
	}()
	go func() { ended <- w.cmd.Wait() }()
	select {
	case program := <-said:
		w.end()
		<-ended
		return program
	case err := <-ended:
		t.Logf("the worker: %v: %s", err, w.out.String())
		if err := os.WriteFile(fifo, nil, 0o600); err != nil { // the reader waits for a writer
			t.Fatal(err)
		}
		<-said
		return ""
	}
}

// full runs the step where its folder has no byte left, and again with room.
func (l *everydayLab) full(t *testing.T, s everyday, want string, state func() string) {
	t.Helper()
	lab(t, l.m, s.before+"; d="+s.disk+`; rm -rf /keep; cp -a $d /keep && mount -t tmpfs -o size=256m tmpfs $d && chmod --reference=/keep $d && chown --reference=/keep $d && cp -a /keep/. $d/ || exit 1
used=$(df -k --output=used $d | tail -n 1); mount -o remount,size=$((used + 8))k $d || exit 1
cat /dev/zero >$d/.filler 2>/dev/null; true`)
	defer lab(t, l.m, "umount "+s.disk)
	was := state()
	if got, _ := l.call(t, s, false, false); !got.Failed || !strings.Contains(got.Reason, "df -h") {
		t.Errorf("on a full disk: %+v; %q became %q", got, was, state())
	}
	lab(t, l.m, "rm "+s.disk+"/.filler; mount -o remount,size=64m "+s.disk)
	if got, _ := l.call(t, s, false, false); !good(got) || state() != want {
		t.Errorf("with room again: %+v, then %q, expected %q", got, state(), want)
	}
}
