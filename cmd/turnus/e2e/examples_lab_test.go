//go:build linux && labs

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
)

const examples = "../../../examples"

// example copies an example's folder, with its places replaced by those of the test.
func example(t *testing.T, name string, replaced ...string) *lab {
	t.Helper()
	l := &lab{t: t, dir: t.TempDir()}
	if err := os.CopyFS(l.dir, os.DirFS(filepath.Join(examples, name))); err != nil {
		t.Fatal(err)
	}
	all := strings.NewReplacer(replaced...)
	err := filepath.WalkDir(l.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) == ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte(all.Replace(string(text))), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// reach returns the keys of the inventory by which a host of a real server is reached.
func reach(s *servers.SSHD, address, key string) string {
	return fmt.Sprintf("address: %s, port: %d, user: %s, host_key: %q, identity_file: %s", address, s.Port, s.User, servers.AuthorizedKey(s.HostKey), key)
}

// machineHosts is a real machine that is several hosts, each by an address of its own.
type machineHosts struct {
	*servers.Machine
	sshd *servers.SSHD
	key  string
}

func exampleMachine(t *testing.T, hosts int, opts ...servers.SSHDOption) machineHosts {
	t.Helper()
	m := machineHosts{Machine: servers.StartMachine(t)}
	key, public := servers.NewSSHKey(t)
	m.on(t, "mkdir -p /run/sshd")
	m.key, m.sshd = key, servers.StartSSHD(t, append(opts, servers.Authorize(public), servers.SSHDAddresses(hosts), servers.Inside(0, m.Server()...))...)
	return m
}

// reach returns the keys of the inventory of one of the hosts.
func (m machineHosts) reach(i int) string { return reach(m.sshd, m.sshd.Addresses[i], m.key) }

// on runs a command line that must succeed, and returns what it printed.
func (m machineHosts) on(t *testing.T, line string) string {
	t.Helper()
	out, errs, code, err := m.Run(t.Context(), line, nil)
	if err != nil || code != 0 {
		t.Fatalf("%s: exit %d, %v: %s", line, code, err, errs)
	}
	return out
}

func (m machineHosts) file(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(m.Path(path), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestLabExampleEveryday runs the playbooks of examples/everyday on a real machine: what they read,
// collect and remove is there.
func TestLabExampleEveryday(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "openssl", "openssl")
	m := exampleMachine(t, 3)
	var probed atomic.Int32
	health := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { probed.Add(1) }))
	t.Cleanup(health.Close)
	l := example(t, "everyday",
		"address: 192.0.2.71", m.reach(0), "address: 192.0.2.72", m.reach(1), "address: 10.20.0.5", m.reach(2),
		"http://127.0.0.1/health", health.URL, "port: 22", "port: "+health.URL[strings.LastIndexByte(health.URL, ':')+1:]) // the loopback address of the host is that of the test
	m.on(t, "cd /etc/ssl/certs && for name in site api; do openssl req -x509 -newkey ed25519 -nodes -keyout /dev/null -out $name.pem -days 9 -subj /CN=$name; done")
	m.on(t, "touch -d '20 days ago' /var/log/old.gz && touch /var/log/new.gz")
	for _, run := range []struct {
		playbook string
		more     []string
		want     string
	}{
		{"health.yaml", nil, "3 hosts in "},
		{"certificates.yaml", []string{"--fetch-dir", filepath.Join(l.dir, "fetched")}, "2 hosts in "},
		{"cleanup.yaml", []string{"--outside-windows"}, "3 hosts in "},
	} {
		p := l.start(append([]string{"run", filepath.Join(l.dir, run.playbook), "-i", filepath.Join(l.dir, "hosts.yaml")}, run.more...)...)
		p.wants(0)
		if !strings.Contains(p.out.String(), run.want) {
			t.Errorf("%s: %s", run.playbook, p.out.String())
		}
	}
	if n := probed.Load(); n != 1 {
		t.Errorf("%d probes of a service, expected 1", n)
	}
	if kept, err := os.ReadFile(filepath.Join(l.dir, "fetched", "web2", "etc/ssl/certs/site.pem")); err != nil || !strings.Contains(string(kept), "BEGIN CERTIFICATE") {
		t.Errorf("the certificate of a host: %q, %v", kept, err)
	}
	if left := m.on(t, "ls /var/log/*.gz"); left != "/var/log/new.gz\n" {
		t.Errorf("files that are left: %q", left)
	}
}

// TestLabExampleUsers makes the accounts of examples/authorized-keys on a real machine: who has
// left is gone, and groups and keys are those of the playbook.
func TestLabExampleUsers(t *testing.T) {
	t.Parallel()
	m := exampleMachine(t, 1)
	l := example(t, "authorized-keys")
	hosts := l.file("hosts.yaml", "hosts:\n  m1: {"+m.reach(0)+"}\n")
	m.on(t, "groupadd carls && useradd -m carl && useradd -m -G carls anna && mkdir ~anna/.ssh && echo ssh-ed25519 AAAA old >~anna/.ssh/authorized_keys && chown -R anna: ~anna/.ssh")
	for _, want := range []string{"1 changed", "1 unchanged"} {
		p := l.start("run", filepath.Join(l.dir, "users.yaml"), "-i", hosts)
		p.wants(0)
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("expected %q: %s", want, p.out.String())
		}
	}
	got := m.on(t, "id -nG anna | tr ' ' '\\n' | sort; id -nG ben; grep -c . ~anna/.ssh/authorized_keys; grep -c 'ssh-ed25519 .* ben$' ~ben/.ssh/authorized_keys; id carl >&2 || echo gone")
	if got != "adm\nanna\noperators\nben operators\n1\n1\ngone\n" {
		t.Errorf("the accounts: %q", got)
	}
}

// TestLabExampleCertificates renews a certificate by a CA, and rolls back one that the server does
// not serve, on a real machine.
func TestLabExampleCertificates(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "openssl", "openssl")
	m := exampleMachine(t, 2)
	l := example(t, "certificates", "address: 192.0.2.80", m.reach(0), "address: 192.0.2.81", m.reach(1),
		"service: nginx", "service: site", `-connect "$ADDRESS"`, "-unix /run/site.sock")
	m.file(t, "/usr/local/bin/site", siteServer)
	m.file(t, "/etc/systemd/system/site.service", "[Service]\nExecStart=/bin/sh /usr/local/bin/site\nExecReload=/bin/kill -HUP $MAINPID\n")
	m.on(t, `set -e; mkdir -p /etc/internal-ca; cd /etc/internal-ca
openssl req -x509 -newkey ed25519 -nodes -keyout ca.key -out ca.pem -days 900 -subj /CN=internal-ca
openssl req -x509 -newkey ed25519 -nodes -keyout - -days 9 -subj /CN=old >/etc/ssl/private/site.pem
systemctl daemon-reload; systemctl start site`)
	show := func() string {
		return m.on(t, "cd /etc/ssl/private && ls site.pem* && openssl x509 -in site.pem -noout -issuer -ext subjectAltName -fingerprint")
	}
	renew := func(code int, want string, more ...string) {
		t.Helper()
		p := l.start(append([]string{"run", filepath.Join(l.dir, "renew.yaml"), "-i", filepath.Join(l.dir, "hosts.yaml"), "--limit", "web1"}, more...)...)
		p.wants(code)
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("expected %q: %s", want, p.out.String())
		}
	}
	renew(0, "1 changed")
	first := show()
	if !strings.HasPrefix(first, "site.pem\nissuer=CN = internal-ca\n") || !strings.Contains(first, "DNS:web1\n") {
		t.Errorf("after the renewal: %s", first)
	}
	renew(0, "1 unchanged")
	m.on(t, "touch /run/stuck")
	renew(2, "serves another certificate", "-e", "renew=100")
	if after := show(); after != first {
		t.Errorf("after the rollback: %s\nexpected %s", after, first)
	}
	m.on(t, "rm /run/stuck")
	renew(0, "1 changed", "-e", "renew=100")
	if after := show(); after == first || !strings.HasPrefix(after, "site.pem\nissuer=CN = internal-ca\n") {
		t.Errorf("after another renewal: %s", after)
	}
}

// siteServer serves a certificate over TLS. SIGHUP has it read the certificate again, except while
// it is stuck.
const siteServer = `trap '[ -e /run/stuck ] || kill $child' HUP
while :; do
  openssl s_server -unix /run/site.sock -unlink -www -cert /etc/ssl/private/site.pem -key /etc/ssl/private/site.pem &
  child=$!
  while kill -0 $child 2>/dev/null; do wait $child; done
done
`

// TestLabExampleFirewall pushes the rules of examples/firewall to a real device: in one push, then
// other rules in two phases.
func TestLabExampleFirewall(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "nft", "nftables")
	device := servers.NewHost(t)
	key, public := servers.NewSSHKey(t)
	s := servers.StartSSHD(t, servers.SSHDAddress(device.Address), servers.Authorize(public), servers.Inside(22, device.Prefix()...))
	l := example(t, "firewall", "192.0.2.10, ", device.Peer+", ", "to: 127.0.0.1", "to: "+device.Address)
	state := t.TempDir()
	for _, name := range []string{"at-once.yaml", "widen-narrow.yaml"} {
		text, err := os.ReadFile(filepath.Join(l.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		l.file(name, strings.ReplaceAll(string(text), "persist: /etc/nftables.d/turnus.nft", "persist: "+state+"/turnus.nft\n      state_dir: "+state+"/state"))
	}
	hosts := l.file("device.yaml", "hosts:\n  branch1: {labels: {role: branch}, "+reach(s, device.Address, key)+"}\n")
	push := func(playbook, port string) {
		t.Helper()
		p := l.start("run", filepath.Join(l.dir, playbook), "-i", hosts)
		p.wants(0)
		if live, err := device.Shell("nft list table inet turnus"); err != nil || !strings.Contains(live, port) || !strings.Contains(p.out.String(), "1 changed") {
			t.Errorf("%s: expected %q in the table: %v\n%s\n%s", playbook, port, err, live, p.out.String())
		}
	}
	push("at-once.yaml", "{ 80, 443 }")
	rules, err := os.ReadFile(filepath.Join(l.dir, "rules/branch.nft"))
	if err != nil {
		t.Fatal(err)
	}
	l.file("rules/branch.nft", strings.Replace(string(rules), "80, 443", "80, 8443", 1))
	push("widen-narrow.yaml", "{ 80, 8443 }")
}
