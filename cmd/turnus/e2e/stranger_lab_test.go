//go:build linux && labs

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core/testparts/servers"
)

// stranger types the commands of docs/hostkeys.md and README in the folder of an Ansible inventory.
type stranger struct {
	*lab
	typed int
}

// types runs a command that must exit with code, and show every text of want. It returns all that
// it showed.
func (s *stranger) types(code int, command []string, want ...string) string {
	s.t.Helper()
	s.typed++
	began := time.Now()
	p := s.start(command...)
	p.wants(code)
	shown := p.out.String() + p.err.String()
	for _, w := range want {
		if !strings.Contains(shown, w) {
			s.t.Fatalf("turnus %s: expected %q in\n%s", strings.Join(command, " "), w, tail(shown))
		}
	}
	s.t.Logf("%6.2fs  turnus %s", time.Since(began).Seconds(), strings.Join(command, " "))
	return shown
}

// ansibleFolder writes an inventory of 12 web and 8 db hosts at the addresses of a server, with
// group_vars.
func (s *stranger) ansibleFolder(sshd *servers.SSHD) {
	s.t.Helper()
	var ini strings.Builder
	for i, address := range sshd.Addresses {
		switch i {
		case 0:
			ini.WriteString("[web]\n")
		case 12:
			ini.WriteString("[db]\n")
		}
		name := fmt.Sprintf("web%d", i+1)
		if i >= 12 {
			name = fmt.Sprintf("db%d", i-11)
		}
		fmt.Fprintf(&ini, "%s ansible_host=%s\n", name, address)
	}
	for _, folder := range []string{"group_vars", "out"} {
		if err := os.Mkdir(filepath.Join(s.dir, folder), 0o700); err != nil {
			s.t.Fatal(err)
		}
	}
	s.file("hosts.ini", ini.String())
	s.file("group_vars/all.yml", fmt.Sprintf("ansible_user: %s\nansible_port: %d\nout: %s/out\n", sshd.User, sshd.Port, s.dir))
	s.file("group_vars/web.yml", "motd: a web server\n")
	s.file("group_vars/db.yml", "motd: a database\n")
	s.file("motd.yaml", `playbook: motd
targets: '"web" in host.groups || "db" in host.groups'
strategy: {waves: [1, 100%], stop_after: 1}
steps:
  - name: motd
    uses: file
    with: {path: "${{ host.vars.out }}/${{ host.name }}", content: "${{ host.name }} is ${{ host.vars.motd }}\n"}
`)
}

// TestLabStranger plays a person who has 20 hosts behind a real OpenSSH server, the Ansible
// inventory of them, a key in ~/.ssh, and the binary: from an unknown key of every host to a
// playbook that ran on all. The server turns away more than 10 logins at the same time. It prints
// how long each command took.
func TestLabStranger(t *testing.T) {
	t.Parallel()
	s := &stranger{lab: &lab{t: t, dir: t.TempDir()}}
	private, public := servers.NewSSHKey(t)
	sshd := servers.StartSSHD(t, servers.SSHDAddresses(20), servers.Authorize(public), servers.SSHDConfig("MaxStartups 10:100:10"))
	s.ansibleFolder(sshd)
	if err := os.Mkdir(filepath.Join(s.dir, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(private, filepath.Join(s.dir, ".ssh", "id_ed25519")); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s.types(0, []string{"hosts", "ls", "-i", "hosts.ini"}, "web12", "db8")
	s.types(4, []string{"exec", "-i", "hosts.ini", "all", "--", "hostname"}, "unknown host key", "hint: turnus hostkeys scan -i ")
	s.types(0, []string{"hostkeys", "scan", "-i", "hosts.ini"}, "db[1:8:1],web[1:12:1]", "DUPLICATE", ssh.FingerprintSHA256(sshd.HostKey))
	s.types(0, []string{"hostkeys", "accept", "-i", "hosts.ini", "--accept-all-new"}, "20 keys accepted")
	s.types(0, []string{"hostkeys", "check", "-i", "hosts.ini"})
	s.types(0, []string{"exec", "-i", "hosts.ini", "all", "--", "id -un"}, "20 hosts", sshd.User)
	s.types(0, []string{"validate", "motd.yaml"})
	s.types(0, []string{"plan", "motd.yaml", "-i", "hosts.ini"}, "20 hosts in 2 waves")
	s.types(0, []string{"run", "motd.yaml", "-i", "hosts.ini", "--check", "--diff"}, "+db8 is a database", "20 changed (check mode")
	s.types(0, []string{"run", "motd.yaml", "-i", "hosts.ini"}, "20 changed")
	s.types(0, []string{"run", "motd.yaml", "-i", "hosts.ini"}, "20 unchanged")
	took := time.Since(began)
	for name, want := range map[string]string{"web1": "web1 is a web server\n", "db8": "db8 is a database\n"} {
		if got, err := os.ReadFile(filepath.Join(s.dir, "out", name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, expected %q", name, got, err, want)
		}
	}
	t.Logf("%d commands, %.1fs, typing and reading not counted", s.typed, took.Seconds())
	if took > 10*time.Minute {
		t.Errorf("the commands took %v, expected at most 10 minutes", took)
	}
}
