//go:build linux && labs

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport/fleet"
)

// Each failure that people meet names the host, the step, the line of the playbook and what to do
// next, in what turnus run prints. Control: the playbook without a fault succeeds.
func TestLabFailuresNameWhatToDo(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1})
	full := filepath.Join(t.TempDir(), "full")
	if err := os.Mkdir(full, 0o755); err != nil {
		t.Fatal(err)
	}
	mount := func(args ...string) {
		if text, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, text)
		}
	}
	mount("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", full)
	t.Cleanup(func() { mount("umount", full) })
	key, public := servers.NewSSHKey(t)
	known := ""
	inventory := func(name, sudoers, password string) string {
		login, option := servers.UnprivilegedLogin(t, public, sudoers, "")
		s := servers.StartSSHD(t, option)
		known += fmt.Sprintf("[%s]:%d %s\n", s.Addresses[0], s.Port, servers.AuthorizedKey(s.HostKey))
		if password == "" {
			password = login.Password
		}
		return l.file(name, fmt.Sprintf("web1 ansible_host=%s ansible_port=%d ansible_user=%s ansible_ssh_private_key_file=%s ansible_become_password='%s'\n", s.Addresses[0], s.Port, login.User, key, password))
	}
	right := inventory("right.ini", "%s ALL=(ALL) ALL", "")
	wrong := inventory("wrong.ini", "%s ALL=(ALL) ALL", "wrong horse")
	tty := inventory("tty.ini", "Defaults requiretty\n%s ALL=(ALL) ALL", "")
	hosts := l.file("known_hosts", known)
	tree := filepath.Join(l.dir, "tree")
	if err := os.MkdirAll(tree, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		l.file(fmt.Sprintf("tree/f%d", i), strings.Repeat("x", 200_000))
	}
	act := "{name: act, uses: command, with: {run: \"true\"}}"
	for name, c := range map[string]struct {
		inventory, step string
		next            string // part of the hint; "" succeeds
	}{
		"control":        {right, act, ""},
		"wrong password": {wrong, act, "hint: give the right one with -K or --become-password-env"},
		"no tty":         {tty, act, "hint: in sudoers, write: Defaults:ops !requiretty"},
		"full in a copy": {right, "{name: act, uses: copy, with: {source: tree, path: " + full + "/tree}}", "hint: is the disk full, or a quota reached? See df -h on the host"},
		"full in a file": {right, "{name: act, uses: file, with: {path: " + full + "/one, content: \"" + strings.Repeat("y", 300_000) + "\"}}", "hint: is the disk full, or a quota reached? See df -h on the host"},
		"no unit":        {right, "{name: act, uses: service, with: {name: nosuch, state: started}}", "install it first, or correct the name"},
	} {
		file := strings.ReplaceAll(name, " ", "-") + ".yaml"
		p := l.start("run", l.file(file, "playbook: conf\ntargets: \"true\"\nbecome: true\nsteps:\n  - "+c.step+"\n"), "-i", c.inventory, "--known-hosts", hosts)
		if c.next == "" {
			p.wants(0)
			continue
		}
		p.wants(2)
		if !p.out.has("1 host: web1", "act: ", file+":5)", c.next) {
			t.Errorf("%s:\n%s", name, p.out)
		}
		for _, pattern := range []string{"*", "*/*"} {
			files, err := filepath.Glob(filepath.Join(full, pattern))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				if at, err := os.Stat(file); err != nil || at.Mode().IsRegular() {
					t.Errorf("%s left %s: %v", name, file, err)
				}
			}
		}
	}
}
