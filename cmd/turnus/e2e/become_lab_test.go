//go:build linux && labs

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
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
		if !p.out.has("the password of user ops is wrong", "give the right one with -K or --become-password-env") || strings.Contains(p.out.String(), "horse") {
			t.Errorf("stdout: %s\nstderr: %s", p.out, p.err)
		}
	}
	l.start("run", book, "-i", inventory("right.ini", login.Password), "--known-hosts", known, "--check").wants(0)
	if got := refused(); got != 2 {
		t.Errorf("the control: sudo refused the right password, or a command without one: %d", got)
	}
}

// A server's command as root gets the password of the workers' credential and no other: the command
// runs as root, and the password is in no answer, record or log.
func TestLabExecAsRootThroughAServer(t *testing.T) {
	t.Parallel()
	key, public := servers.NewSSHKey(t)
	account, option := servers.UnprivilegedLogin(t, public, "%s ALL=(ALL) ALL", "")
	s := servers.StartSSHD(t, option)
	u := newUpSite(t, 0, "{name: who, uses: command, with: {run: id -un}}")
	u.file("ops/inventory.yaml", fmt.Sprintf("hosts:\n  web1: {address: %s, port: %d, user: %s, host_key: %q}\n", s.Addresses[0], s.Port, account.User, servers.AuthorizedKey(s.HostKey)))
	secret := filepath.Join(u.dir, "sudo-password")
	logins := u.file("logins.yaml", fmt.Sprintf("credentials:\n  default: {identity_file: %s, become_password: {file: %s}, addresses: [127.0.0.0/8]}\n", key, secret))
	u.file("sudo-password", account.Password+"\n")
	u.more = []string{"--secrets", logins}
	p, c := u.up()
	until(t, "the project to be there", func() bool {
		_, err := c.Playbooks(t.Context(), client.Page{Limit: 1})
		return err == nil
	})
	token, err := c.CreateToken(t.Context(), api.NewToken{Name: "eva", Tenant: "*", Role: "operator", Permissions: []api.Permission{api.PermitExec, api.PermitBecome}})
	if err != nil {
		t.Fatal(err)
	}
	file := u.file("eva.token", token.Secret+"\n")
	exec := func(want int, more ...string) *process {
		args := append([]string{"exec", "web1", "--server", address(p), "--token-file", file}, more...)
		e := u.start(append(args, "--", "id -un; cat")...)
		e.wants(want)
		return e
	}
	if e := exec(0); !e.out.has("(1 host): " + account.User) {
		t.Errorf("the control is not the login: %s", e.out)
	}
	root := exec(0, "--become", "--reason", "ticket 9")
	if !root.out.has("(1 host): root") {
		t.Errorf("%s\n%s", root.out, root.err)
	}
	entries, err := client.All(t.Context(), 0, func(ctx context.Context, page client.Page) (client.List[api.Entry], error) {
		return c.Audit(ctx, client.AuditFilter{What: "run.exec"}, page)
	})
	if err != nil || len(entries) != 2 {
		t.Fatalf("%d entries: %v", len(entries), err)
	}
	audited := string(entries[0].After)
	for _, part := range []string{`"become":true`, `"launch_reason":"ticket 9"`} {
		if !strings.Contains(audited, part) {
			t.Errorf("the audit log has no %s: %s", part, audited)
		}
	}
	for what, text := range map[string]string{"answers": root.out.String() + root.err.String(), "audit log": audited, "log": p.err.String() + p.out.String()} {
		if strings.Contains(text, "horse") {
			t.Errorf("the %s has the password: %s", what, text)
		}
	}
}
