//go:build linux && labs

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport/fleet"
)

// A login that is not root changes root's files by a playbook, with the password of Ansible's
// inventory: the playbook's user and the step's count, the second run changes nothing, and the
// password is in nothing that anybody can read.
func TestLabBecomeByARealSudo(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1})
	key, public := servers.NewSSHKey(t)
	login, option := servers.UnprivilegedLogin(t, public, "%s ALL=(ALL) ALL", "")
	s := servers.StartSSHD(t, option)
	root := t.TempDir() // of root alone
	hosts := l.file("hosts.ini", fmt.Sprintf("[web]\nweb1 ansible_host=%s ansible_port=%d ansible_user=%s ansible_ssh_private_key_file=%s\n[web:vars]\nansible_become_password='%s'\n",
		s.Addresses[0], s.Port, login.User, key, login.Password))
	known := l.file("known_hosts", fmt.Sprintf("[%s]:%d %s\n", s.Addresses[0], s.Port, servers.AuthorizedKey(s.HostKey)))
	book := l.file("conf.yaml", `playbook: conf
targets: "true"
become: true
steps:
  - {name: conf, uses: file, with: {path: `+root+`/app.conf, content: "port 80\n", mode: "0640"}}
  - {name: who, uses: command, with: {run: 'id -un; tr "\0" " " </proc/$PPID/cmdline; cat', stdin: "input", changed: false}}
  - {name: app, uses: command, become: {user: app}, with: {run: id -un, changed: false}}
  - {name: login, uses: command, become: false, with: {run: id -un, changed: false}}
`)
	run := func(want int, more ...string) *process {
		p := l.start(append([]string{"run", book, "-i", hosts, "--known-hosts", known, "-o", "json"}, more...)...)
		p.wants(want)
		return p
	}
	first := run(0, "--diff")
	if text, err := os.ReadFile(filepath.Join(root, "app.conf")); err != nil || string(text) != "port 80\n" {
		t.Errorf("%q: %v", text, err)
	}
	for _, part := range []string{`"stdout": "root\n`, `input"`, `"stdout": "app\n"`, `"stdout": "` + login.User + `\n"`, `"changed"`} {
		if !first.out.has(part) {
			t.Errorf("%q is missing in %s", part, first.out)
		}
	}
	second := run(0)
	if !second.out.has(`"unchanged": 1`) {
		t.Errorf("the second run: %s", second.out)
	}
	for _, p := range []*process{first, second} {
		if text := p.out.String() + p.err.String(); strings.Contains(text, "horse") {
			t.Errorf("the password is shown: %s", text)
		}
	}

	// A wrong password fails the host immediately, and nothing is done.
	if err := os.Remove(filepath.Join(root, "app.conf")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(hosts)
	if err != nil {
		t.Fatal(err)
	}
	wrong := l.file("wrong.ini", strings.Replace(string(text), login.Password, "wrong horse", 1))
	p := l.start("run", book, "-i", wrong, "--known-hosts", known)
	p.wants(2)
	if !p.out.has("the password of user ops is wrong", "web1") || strings.Contains(p.out.String(), "horse") {
		t.Errorf("stdout: %s\nstderr: %s", p.out, p.err)
	}
	if _, err := os.Stat(filepath.Join(root, "app.conf")); err == nil {
		t.Error("the file was written")
	}
}

// A job gives sudo a wrong password one time, whatever its steps do afterwards: retries, polls,
// rescue and always would lock the account. sudo's own log counts.
func TestLabBecomeTriesAWrongPasswordOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1})
	log := filepath.Join(t.TempDir(), "sudo.log")
	key, public := servers.NewSSHKey(t)
	login, option := servers.UnprivilegedLogin(t, public, "Defaults logfile="+log+"\n%s ALL=(ALL) ALL", "")
	s := servers.StartSSHD(t, option)
	inventory := func(name, password string) string {
		return l.file(name, fmt.Sprintf("web1 ansible_host=%s ansible_port=%d ansible_user=%s ansible_ssh_private_key_file=%s ansible_become_password='%s'\n", s.Addresses[0], s.Port, login.User, key, password))
	}
	known := l.file("known_hosts", fmt.Sprintf("[%s]:%d %s\n", s.Addresses[0], s.Port, servers.AuthorizedKey(s.HostKey)))
	book := l.file("conf.yaml", `playbook: conf
targets: "true"
become: true
steps:
  - name: all
    steps:
      - {name: first, uses: command, with: {run: "true"}, retry: {attempts: 4, interval: 10ms}}
    rescue:
      - {name: second, uses: wait, with: {command: "true", interval: 10ms, timeout: 1h}}
    always:
      - {name: third, uses: file, with: {path: /root/x, content: x}}
      - {name: login, uses: command, become: false, with: {run: "true"}}
`)
	refused := func() int {
		text, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Count(string(text), "incorrect password attempt")
	}
	wrong := inventory("wrong.ini", "wrong horse")
	for i := range 2 { // the next run tries it again
		p := l.start("run", book, "-i", wrong, "--known-hosts", known, "-o", "json")
		p.wants(2)
		if got := refused(); got != i+1 {
			t.Errorf("sudo refused %d passwords in %d runs\n%s", got, i+1, p.out)
		}
		if !p.out.has("the password of user ops is wrong", "correct become_password") || strings.Contains(p.out.String(), "horse") {
			t.Errorf("stdout: %s\nstderr: %s", p.out, p.err)
		}
	}
	l.start("run", book, "-i", inventory("right.ini", login.Password), "--known-hosts", known, "--check").wants(0)
	if got := refused(); got != 2 {
		t.Errorf("the control: sudo refused the right password, or a command without one: %d", got)
	}
}
