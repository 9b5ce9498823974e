//go:build linux && labs

package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

// TestLabExampleUsers makes the accounts of examples/authorized-keys on a real machine: accounts of
// people who left are gone, and groups and keys are those of the playbook.
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

// exampleDevice copies examples/firmware beside a real device that reboots, and an image for it.
type exampleDevice struct {
	*lab
	*servers.Device
	hosts string
}

func newExampleDevice(t *testing.T, d *servers.Device, labels string, replaced ...string) exampleDevice {
	t.Helper()
	l := example(t, "firmware", append(replaced, "soak: 2m", "soak: 3s")...)
	return exampleDevice{l, d, l.file("device.yaml", fmt.Sprintf("hosts:\n  d1: {address: %s, user: root, identity_file: %s, host_key: [%q], labels: {%s}}\n", d.Net.Address, d.KeyFile, d.HostKey, labels))}
}

// upgrade runs a playbook with an image, and checks what it reports and which version then runs.
func (d exampleDevice) upgrade(playbook string, image []byte, vars map[string]string, code int, want, runs string, more ...string) {
	d.t.Helper()
	d.file("image.bin", string(image))
	vars["image"], vars["sha256"] = "image.bin", fmt.Sprintf("%x", sha256.Sum256(image))
	encoded, err := json.Marshal(vars)
	if err != nil {
		d.t.Fatal(err)
	}
	p := d.start(append([]string{"run", filepath.Join(d.dir, playbook), "-i", d.hosts, "--outside-windows", "-e", string(encoded)}, more...)...)
	p.wants(code)
	version, err := d.Shell(". /etc/os-release; echo $VERSION_ID")
	if err != nil || version != runs || !strings.Contains(p.out.String(), want) {
		d.t.Errorf("it runs %q (%v), expected %s and %q: %s", version, err, runs, want, p.out.String())
	}
}

// TestLabExampleFirmwareWithTwoSlots stages and installs an image on a real device by rauc.yaml of
// examples/firmware, and rolls back an image that is not healthy.
func TestLabExampleFirmwareWithTwoSlots(t *testing.T) {
	t.Parallel()
	vendor := servers.NewVendor(t)
	device := servers.NewDevice(t, vendor)
	for _, image := range []struct {
		version, behaviour string
		health             time.Duration
		code               int
		want, runs         string
		boots              int
	}{
		{"2.0", servers.ImageFine, patience / 2, 0, "1 changed", "2.0", 2},
		{"3.0", servers.ImageSick, 8 * time.Second, 2, "1 rolled back", "2.0", 4}, // it is waited for to its end
	} {
		d := newExampleDevice(t, device, "role: gateway, model: "+servers.DeviceName, "reboot_timeout: 8m", fmt.Sprintf("reboot_timeout: 8m\n      health_timeout: %v", image.health))
		bundle, err := os.ReadFile(vendor.Bundle(t, image.version, image.behaviour, servers.DeviceName))
		if err != nil {
			t.Fatal(err)
		}
		d.upgrade("rauc.yaml", bundle, map[string]string{
			"version": image.version, "compatible": servers.DeviceName, "health": "/run/slot/health",
			"reboot": device.Path("reboot"), "state_dir": device.Path("data") + "/turnus",
		}, image.code, image.want, image.runs)
		if n := device.Boots(); n != image.boots {
			t.Errorf("version %s: %d boots, expected %d", image.version, n, image.boots)
		}
	}
}

// TestLabExampleFirmwareWithOneSlot keeps the configuration of a real device and upgrades it by
// sysupgrade.yaml of examples/firmware. The device has stand-ins for the commands of OpenWrt: its
// image is that of the slot that runs.
func TestLabExampleFirmwareWithOneSlot(t *testing.T) {
	t.Parallel()
	vendor := servers.NewVendor(t)
	device := servers.NewDevice(t, vendor)
	d := newExampleDevice(t, device, "os: openwrt",
		"sysupgrade -", "/etc/fw/sysupgrade -", "ubus ", "/etc/fw/ubus ", "/tmp/sysinfo/", "/etc/fw/", "/tmp/turnus", "/run/turnus") // /run is in memory, as /tmp of OpenWrt
	for name, text := range map[string]string{
		"openwrt_release": ". /usr/lib/os-release; DISTRIB_RELEASE=$VERSION_ID",
		"fw/board_name":   "acme,br-100",
		"fw/ubus":         "#!/bin/sh\n" + `echo '{ "up": true }'`,
		"fw/sysupgrade": `#!/bin/sh
case $1 in
-b) tar -C / -czf - etc/fw ;;
-T) head -c 4 "$2" | grep -q hsqs ;;
-v) cat "$2" >` + device.Dir + `/next.img && mv ` + device.Dir + `/next.img ` + device.Dir + `/slot-A.img && ` + device.Path("reboot") + ` ;;
esac`,
	} {
		if _, err := device.Shell("mkdir -p /etc/fw && printf '%s\\n' " + shellQuote(text) + " >/etc/" + name + " && chmod 755 /etc/" + name); err != nil {
			t.Fatal(err)
		}
	}
	kept := filepath.Join(d.dir, "configs")
	upgrade := func(image []byte, code int, want, runs string, boots int) {
		t.Helper()
		d.upgrade("sysupgrade.yaml", image, map[string]string{"version": "2.0"}, code, want, runs, "--config-dir", kept)
		if n := device.Boots(); n != boots {
			t.Errorf("%d boots, expected %d", n, boots)
		}
	}
	upgrade([]byte("no image"), 2, "the device refuses the artifact", "1.0", 1)
	upgrade(vendor.Image(t, "2.0", servers.ImageFine), 0, "1 changed", "2.0", 2)
	ls := d.start("hosts", "config", "ls", "--config-dir", kept)
	ls.wants(0)
	if !strings.Contains(ls.out.String(), "d1") || !strings.Contains(ls.out.String(), "config.tar.gz.base64") {
		t.Errorf("the kept configuration: %s", ls.out.String())
	}
}
