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

// TestLabExampleEveryday runs the playbooks of examples/everyday on a real machine: what they read,
// collect and remove is there.
func TestLabExampleEveryday(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "openssl", "openssl")
	m := servers.StartMachine(t)
	key, public := servers.NewSSHKey(t)
	if _, errs, code, err := m.Run(t.Context(), "mkdir -p /run/sshd", nil); err != nil || code != 0 {
		t.Fatalf("%v: %s", err, errs)
	}
	s := servers.StartSSHD(t, servers.Authorize(public), servers.SSHDAddresses(3), servers.Inside(0, m.Server()...))
	var probed atomic.Int32
	health := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { probed.Add(1) }))
	t.Cleanup(health.Close)
	l := example(t, "everyday",
		"address: 192.0.2.71", reach(s, s.Addresses[0], key), "address: 192.0.2.72", reach(s, s.Addresses[1], key), "address: 10.20.0.5", reach(s, s.Addresses[2], key),
		"http://127.0.0.1/health", health.URL, "port: 22", "port: "+health.URL[strings.LastIndexByte(health.URL, ':')+1:]) // the loopback address of the host is that of the test
	on := func(line string) string {
		out, errs, code, err := m.Run(t.Context(), line, nil)
		if err != nil || code != 0 {
			t.Fatalf("%s: exit %d, %v: %s", line, code, err, errs)
		}
		return out
	}
	on("cd /etc/ssl/certs && for name in site api; do openssl req -x509 -newkey ed25519 -nodes -keyout /dev/null -out $name.pem -days 9 -subj /CN=$name; done")
	on("touch -d '20 days ago' /var/log/old.gz && touch /var/log/new.gz")
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
	if left := on("ls /var/log/*.gz"); left != "/var/log/new.gz\n" {
		t.Errorf("files that are left: %q", left)
	}
}

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
