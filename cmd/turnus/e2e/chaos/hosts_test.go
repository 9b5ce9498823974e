//go:build linux

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
)

// host is a managed machine: OpenSSH in namespaces of its own for processes and mounts, so that its
// /proc and /tmp are nobody else's, as on a real one. All of it ends with its first process.
type host struct {
	name, dir string
	port      int
	process   *process
}

// init of a host. Its folder is /mnt; sshd is not the first process, so that what a session leaves
// behind belongs to an init, as on a real host.
const hostInit = `set -e
mount --bind "$1" /mnt
for d in /tmp /var/tmp /run /root; do mount -t tmpfs -o mode=0755 tmpfs "$d"; done
chmod 1777 /tmp /var/tmp
mkdir -p /run/sshd /run/lock
/usr/sbin/sshd -D -e -f /mnt/sshd_config &
wait`

const sshdConfig = `ListenAddress 127.0.0.1
Port %d
HostKey /mnt/host_key
AuthorizedKeysFile /mnt/authorized_keys
PermitUserEnvironment yes
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
UseDNS no
PidFile none
PrintMotd no
PrintLastLog no
MaxStartups 200
MaxSessions 64
LogLevel ERROR
SetEnv SHLVL=2
Subsystem sftp internal-sftp
`

// keys are the keys with which workers log in, one each, by which hosts distinguish them.
type keys struct {
	files   []string
	allowed string // as authorized_keys holds them
}

func newKeys(t *testing.T, workers int) keys {
	t.Helper()
	var k keys
	for i := range workers {
		file, public := servers.NewSSHKey(t)
		k.files = append(k.files, file)
		k.allowed += fmt.Sprintf("environment=\"CHAOS_WORKER=worker-%d\" %s", i, ssh.MarshalAuthorizedKey(public))
	}
	return k
}

// newHosts starts hosts, and returns them with their lines of the inventory.
func newHosts(t *testing.T, dir string, names []string, k keys, more func(name string) string) (hosts []*host, inventory string) {
	t.Helper()
	testparts.Need(t, "sshd", "openssh-server")
	testparts.Need(t, "unshare", "util-linux")
	hostKey, public := servers.NewSSHKey(t)
	key, err := os.ReadFile(hostKey)
	if err != nil {
		t.Fatal(err)
	}
	oracle, err := os.ReadFile("testdata/oracle.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		h := &host{name: name, dir: filepath.Join(dir, "hosts", name), port: testparts.FreePort(t)}
		if err := os.MkdirAll(filepath.Join(h.dir, "live"), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{
			"host_key": string(key), "authorized_keys": k.allowed, "sshd_config": fmt.Sprintf(sshdConfig, h.port), "oracle": string(oracle), "log": "",
		} {
			if err := os.WriteFile(filepath.Join(h.dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(filepath.Join(h.dir, "oracle"), 0o755); err != nil {
			t.Fatal(err)
		}
		h.process = start(t, nil, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c", hostInit, "init", h.dir)
		hosts = append(hosts, h)
		inventory += fmt.Sprintf("  %s: {address: %[1]s.chaos, port: %[2]d, user: root, host_key: [%[3]q]%[4]s}\n", name, h.port, servers.AuthorizedKey(public), more(name))
	}
	return hosts, inventory
}

// log returns what the host has noted.
func (h *host) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// able ends the test where the machine allows no namespaces: it fails in CI, and skips loudly
// elsewhere.
func able(t *testing.T) {
	t.Helper()
	testparts.Need(t, "redis-server", "redis-server")
	testparts.Need(t, "gcc", "gcc")
	out, err := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c", "mount -t tmpfs tmpfs /mnt").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	testparts.Able(t, "hosts in namespaces of their own (root)", err)
}
