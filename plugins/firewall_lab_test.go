//go:build linux && labs

package plugins_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/plugins/sdk"
)

// The lab is a device in namespaces of its own: a real kernel's nftables, a real OpenSSH on the far
// side of a link, a boot id that a reboot changes. The worker side is a real supervisor with the
// job type in a process.

const labWait = 15 * time.Second // confirm_timeout: a busy machine needs seconds to get from the arming to the change

type labDevice struct {
	t       *testing.T
	net     *servers.Host
	dir     string
	hostKey ed25519.PrivateKey
	sshd    *servers.SSHD
	private string // the worker's key
	allow   servers.SSHDOption
	boots   int
}

func newLabDevice(t *testing.T) *labDevice {
	t.Helper()
	testparts.Need(t, "nft", "nftables")
	testparts.Need(t, "unshare", "util-linux")
	d := &labDevice{t: t, net: servers.NewHost(t), dir: t.TempDir()}
	var err error
	if _, d.hostKey, err = ed25519.GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	private, public := servers.NewSSHKey(t)
	d.private, d.allow = private, servers.Authorize(public)
	d.boot()
	return d
}

// boot starts sshd in the device's namespaces, with a boot id of its own.
func (d *labDevice) boot() {
	d.t.Helper()
	d.boots++
	id := filepath.Join(d.dir, "boot_id")
	if err := os.WriteFile(id, fmt.Appendf(nil, "00000000-0000-4000-8000-%012d\n", d.boots), 0o600); err != nil {
		d.t.Fatal(err)
	}
	wrap := `mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`
	d.sshd = servers.StartSSHD(d.t, servers.SSHDAddress(d.net.Address), d.allow, servers.HostKey(d.hostKey),
		servers.Inside(22, append(d.net.Prefix(), "/bin/sh", "-c", wrap, id)...))
}

// reboot ends every process, forgets the rules as a kernel does, and loads what is kept for the
// boot.
func (d *labDevice) reboot() {
	d.t.Helper()
	d.sshd.Stop()
	d.net.Kill("")
	d.shell("nft flush ruleset")
	if _, err := os.Stat(d.persist()); err == nil {
		d.shell("nft -f " + d.persist())
	}
	d.boot()
}

func (d *labDevice) persist() string { return filepath.Join(d.dir, "nftables.d", "turnus.nft") }

func (d *labDevice) shell(line string) string {
	d.t.Helper()
	out, err := d.net.Shell(line)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

func (d *labDevice) live() string { d.t.Helper(); return d.shell("nft -s list ruleset") }

// table is a ruleset with these rules in the input chain.
func (d *labDevice) table(rules string) sdk.With {
	return d.with("table inet turnus {\n chain input { type filter hook input priority 0; policy accept;\n" + rules + "\n }\n}\n")
}

func (d *labDevice) with(ruleset string) sdk.With {
	return sdk.With{
		"ruleset": ruleset, "state_dir": filepath.Join(d.dir, "state"), "persist": d.persist(),
		"confirm_timeout": labWait.String(), "connect_timeout": "2s",
	}
}

func (d *labDevice) place() *place {
	d.t.Helper()
	return &place{supervisor: supervised(d.t, d.private), host: d.sshd.Host("r1"), files: d.t.TempDir(), fetched: d.t.TempDir()}
}

// first pushes a harmless table, patiently.
func (d *labDevice) first(p *place) string {
	d.t.Helper()
	with := d.table("tcp dport 22 accept")
	with["confirm_timeout"], with["connect_timeout"] = "60s", "15s"
	if got, _ := p.run(d.t, "firewall.push", with, false); got.Failed || !got.Changed {
		d.t.Fatalf("the first push: %+v", got)
	}
	return d.live()
}

// watch reports when the table was first seen to be another than old, and how long until it was old
// again. It looks from this machine, past SSH and the job type; within bounds it.
func (d *labDevice) watch(ctx context.Context, old string, within time.Duration) (dark time.Duration, healed bool) {
	var since time.Time
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for {
		now, err := d.net.Shell("nft -s list ruleset")
		switch {
		case err != nil:
		case since.IsZero() && now != old:
			since = time.Now()
		case !since.IsZero() && now == old:
			return time.Since(since), true
		case !since.IsZero() && time.Since(since) > within:
			return time.Since(since), false
		}
		select {
		case <-ctx.Done():
			return 0, false
		case <-tick.C:
		}
	}
}

var lockouts = map[string]string{
	"soft: what stands, stays": "ct state established accept\n tcp dport 22 drop",
	"hard: nothing comes in":   "drop",
	"output: nothing goes out": "}\n chain output { type filter hook output priority 0; policy drop;",
}

func TestLabLockOutEndsAsRolledBack(t *testing.T) {
	t.Parallel()
	for name, rules := range lockouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newLabDevice(t)
			p := d.place()
			old := d.first(p)
			got, _ := p.run(t, "firewall.push", d.table(rules), false)
			if !got.RolledBack || !strings.Contains(got.Reason, "no fresh connection works") {
				t.Fatalf("got %+v", got)
			}
			if now := d.live(); now != old {
				t.Errorf("the device is not as before:\n%s", now)
			}
			again := d.table("tcp dport { 22, 80 } accept")
			again["confirm_timeout"], again["connect_timeout"] = "60s", "15s"
			if got, _ := p.run(t, "firewall.push", again, false); !got.Changed { // the lock is free
				t.Errorf("afterwards: %+v", got)
			}
			d.reboot()
			if now := d.live(); !strings.Contains(now, "80") {
				t.Errorf("the boot did not load what was confirmed:\n%s", now)
			}
		})
	}
}

// The worker and its plugin are killed when the lock-out is live: the device heals at most 2 s
// after confirm_timeout. Without its timer (the control) it does not.
func TestLabDeadMansSwitch(t *testing.T) {
	t.Parallel()
	for name, armed := range map[string]bool{"armed": true, "without it (control)": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newLabDevice(t)
			old := d.first(d.place())
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			worker := d.worker(d.table("drop"))
			killed := make(chan struct{})
			go func() {
				defer close(killed)
				waitFor(ctx, func() bool { now, err := d.net.Shell("nft -s list ruleset"); return err == nil && now != old })
				worker.kill()
				if !armed {
					d.net.Kill("guard")
				}
			}()
			dark, healed := d.watch(ctx, old, labWait+2*time.Second)
			<-killed
			if healed != armed {
				t.Fatalf("healed without the worker: %v after %v, want %v; worker: %s", healed, dark, armed, worker.out.String())
			}
			t.Logf("dark for %v, healed %v, with a confirm_timeout of %v", dark.Round(time.Millisecond), healed, labWait)
		})
	}
}

// A reboot while the timer runs is also a way back: the file for the boot is still the old one.
func TestLabRebootInTheWindow(t *testing.T) {
	t.Parallel()
	d := newLabDevice(t)
	p := d.place()
	old := d.first(p)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	with := d.table("drop")
	with["confirm_timeout"] = "5m" // the timer will not be what heals it
	worker := d.worker(with)
	waitFor(ctx, func() bool { return d.live() != old })
	worker.kill()
	d.reboot()
	if now := d.live(); now != old {
		t.Fatalf("after the reboot:\n%s", now)
	}
	again := d.table("tcp dport { 22, 80 } accept")
	again["confirm_timeout"], again["connect_timeout"] = "60s", "15s"
	if got, _ := p.run(t, "firewall.push", again, false); !got.Changed {
		t.Errorf("the lock of before the reboot is in the way: %+v", got)
	}
}

func (d *labDevice) worker(with sdk.With) *labWorker {
	d.t.Helper()
	params, err := json.Marshal(with)
	if err != nil {
		d.t.Fatal(err)
	}
	return startWorker(d.t, labOrder{Type: "firewall.push", Key: d.private, Host: d.sshd.Host("r1"), Params: params})
}

// The device of `make lab-firewall`: it stays until Ctrl-C. Without TURNUS_LAB the test sees that
// what it prints would work.
func TestLabFirewallToPlayWith(t *testing.T) {
	d := newLabDevice(t)
	files := map[string]string{
		"hosts.yaml": fmt.Sprintf("hosts:\n  r1:\n    address: %s\n    labels: {role: branch}\n    user: %s\n    host_key: %q\n    identity_file: %s\n",
			d.net.Address, d.sshd.User, servers.AuthorizedKey(d.sshd.HostKey), d.private),
		"push.yaml": "playbook: push\ntargets: true\nsteps:\n  - uses: firewall.push\n    with:\n      artifact: rules.nft\n      mgmt_sources: [" + d.net.Peer + "]\n" +
			"      state_dir: " + d.dir + "/state\n      persist: " + d.persist() + "\n      confirm_timeout: 15s\n      connect_timeout: 5s\n",
		"rules.nft": "table inet turnus {\n  chain input {\n    type filter hook input priority 0; policy drop;\n    ct state established,related accept\n" +
			"    ip saddr " + d.net.Peer + " tcp dport 22 accept\n  }\n}\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getenv("TURNUS_LAB") == "" {
		with := d.with(files["rules.nft"])
		with["confirm_timeout"], with["connect_timeout"], with["mgmt_sources"] = "60s", "15s", []string{d.net.Peer}
		if got, _ := d.place().run(t, "firewall.push", with, false); !got.Changed {
			t.Errorf("got %+v", got)
		}
		return
	}
	t.Logf("\n\nA device is there. Push to it, lock yourself out (remove the SSH rule and mgmt_sources), and see it come back:\n\n"+
		"  bin/turnus run %[1]s/push.yaml -i %[1]s/hosts.yaml --diff\n  $EDITOR %[1]s/rules.nft\n  ip netns exec %[2]s nft list ruleset\n\nCtrl-C removes it.\n", d.dir, d.net.Name)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
}
