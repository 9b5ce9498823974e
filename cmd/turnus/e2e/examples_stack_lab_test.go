//go:build linux && labs

package e2e

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
)

// TestLabExampleStack builds the stack of examples/stack on a real machine: PostgreSQL, an
// application that reads it, and a web server before that. Then the password changes.
func TestLabExampleStack(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "busybox", "busybox")
	testparts.Need(t, "pg_ctlcluster", "postgresql")
	clusters, err := filepath.Glob("/etc/postgresql/*/main")
	if err == nil && len(clusters) == 0 {
		err = fs.ErrNotExist
	}
	testparts.Able(t, "the cluster main of PostgreSQL in /etc/postgresql", err)
	m := exampleMachine(t, 3)
	// The services join the network of the test, where the addresses of the hosts are.
	m.file(t, "/run/joins.conf", "[Service]\nNetworkNamespacePath=/run/net\n")
	m.on(t, "set -e; mkdir /etc/systemd/system/service.d; cp /run/joins.conf /etc/systemd/system/service.d/; touch /run/net; "+
		"mount --bind /proc/$(pidof -s sshd)/ns/net /run/net; systemctl daemon-reload")
	db, app, web := m.sshd.Addresses[0], m.sshd.Addresses[1], m.sshd.Addresses[2]
	shop, front := testparts.FreePortOf(t, app), testparts.FreePortOf(t, web)
	version := filepath.Base(filepath.Dir(clusters[0]))
	l := example(t, "stack", "address: 192.0.2.90", m.reach(0), "address: 192.0.2.91", m.reach(1), "address: 192.0.2.93", m.reach(2),
		"'localhost, {{", "'{{", "localhost", db, "/15/", "/"+version+"/", "@15-", "@"+version+"-", "-client-15", "-client-"+version, // the loopback address of the host is that of the test
		":8080", fmt.Sprintf(":%d", shop), ":80 ", fmt.Sprintf(":%d ", front),
		"http://${{ host.address }}/", fmt.Sprintf("http://${{ host.address }}:%d/", front))
	run := func(password, want string) {
		t.Helper()
		l.env = []string{"SHOP_DB_PASSWORD=" + password}
		p := l.start("run", filepath.Join(l.dir, "stack.yaml"), "-i", filepath.Join(l.dir, "hosts.yaml"), "--limit", "db1,app1,web1",
			"--secrets", filepath.Join(l.dir, "secrets.yaml"))
		p.wants(0)
		if out := p.out.String(); !strings.Contains(out, want) || strings.Contains(out, password) {
			t.Errorf("expected %q, and no password: %s", want, out)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s:%d/cgi-bin/items", web, front), nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "bread\nmilk\n" {
			t.Errorf("the page: %q, %v", body, err)
		}
	}
	run("it's the first", "3 changed")
	run("it's the first", "3 unchanged")
	run("the second one", "1 unchanged, 2 changed")
}

// TestLabExamplePatchReboot upgrades a package of a real apt by examples/patch-reboot. The login is
// no root, and nothing asks for a reboot.
func TestLabExamplePatchReboot(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "dpkg-scanpackages", "dpkg-dev")
	m := exampleMachine(t, 2, servers.SSHDConfig("AuthorizedKeysFile %h/.ssh/authorized_keys"))
	m.sshd.User = "ops"
	l := example(t, "patch-reboot", "address: 192.0.2.61", m.reach(0), "address: 192.0.2.62", m.reach(1),
		`"FREQ=WEEKLY;BYDAY=SU", from: "02:00", to: "06:00"`, `"FREQ=DAILY", from: "00:00", to: "24:00"`)
	m.on(t, "useradd -m -p '*' ops && mkdir ~ops/.ssh && cp "+m.sshd.Dir+"/authorized_keys ~ops/.ssh/ && chown -R ops ~ops/.ssh && echo 'ops ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ops")
	m.on(t, `set -e; mkdir -p /srv/repo; cd /srv
for version in 1.0 1.1; do
  mkdir -p b/DEBIAN; printf 'Package: demo\nVersion: %s\nArchitecture: all\nMaintainer: t <t@example.net>\nDescription: t\n' $version >b/DEBIAN/control
  dpkg-deb --build --root-owner-group b repo/demo_$version.deb
done
(cd repo && dpkg-scanpackages -m . >Packages)
echo 'deb [trusted=yes] file:/srv/repo ./' >/etc/apt/sources.list
rm -rf /etc/apt/sources.list.d/* /var/lib/apt/lists/* /etc/apt/apt.conf.d/* /run/reboot-required
dpkg -i repo/demo_1.0.deb; systemctl reset-failed`)
	p := l.start("run", filepath.Join(l.dir, "patch.yaml"), "-i", filepath.Join(l.dir, "hosts.yaml"), "--windows", filepath.Join(l.dir, "windows"))
	p.wants(0)
	if version := m.on(t, "dpkg-query -W -f '${Version}' demo"); version != "1.1" || !strings.Contains(p.out.String(), "2 changed") {
		t.Errorf("demo %s: %s", version, p.out.String())
	}
}
