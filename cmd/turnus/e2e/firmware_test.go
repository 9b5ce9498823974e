//go:build linux && labs

package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
)

// pair is two devices that carry traffic by turns: the name of the active one is in a file that
// both see, as VRRP would decide.
type pair struct {
	*lab
	vendor  *servers.Vendor
	devices map[string]*servers.Device
	active  string // file
}

func newPair(t *testing.T) *pair {
	t.Helper()
	dir := t.TempDir()
	p := &pair{lab: &lab{t: t, dir: dir}, vendor: servers.NewVendor(t), active: filepath.Join(dir, "active")}
	p.devices = map[string]*servers.Device{"fw-a": servers.NewDevice(t, p.vendor), "fw-b": servers.NewDevice(t, p.vendor)}
	p.file("active", "fw-b\n")
	inventory := "hosts:\n"
	for _, m := range []struct{ name, peer, role string }{{"fw-a", "fw-b", "standby"}, {"fw-b", "fw-a", "active"}} {
		d := p.devices[m.name]
		inventory += fmt.Sprintf("  %s: {address: %s, user: root, identity_file: %s, host_key: [%q], ha_group: gate, labels: {role: firewall, ha_role: %s}}\n",
			m.name, d.Net.Address, d.KeyFile, d.HostKey, m.role)
		for tool, line := range map[string]string{
			"role":     `[ "$(cat ` + p.active + `)" = ` + m.name + ` ] && echo active || echo standby`,
			"failover": "echo " + m.peer + " >" + p.active + ".new && mv " + p.active + ".new " + p.active,
			"ready":    "test -e " + p.devices[m.peer].Path("up"),
		} {
			// The same command line on both members, as on real ones: it is on each one's disk.
			if _, err := d.Shell("printf '%s\\n' '#!/bin/sh' " + shellQuote(line) + " >" + d.Path("data") + "/" + tool); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.Shell("mkdir -p /etc/fw && mv " + d.Path("data") + "/role " + d.Path("data") + "/failover " + d.Path("data") + "/ready /etc/fw/ && ln -s " + d.Path("data") + " /etc/fw/data && ln -s " + d.Path("reboot") + " /etc/fw/reboot"); err != nil {
			t.Fatal(err)
		}
	}
	p.hosts = p.file("hosts.yaml", inventory)
	return p
}

func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// upgrade runs the example playbook, and checks both members each 100 ms meanwhile.
func (p *pair) upgrade(version, behaviour string) (*process, darkness) {
	p.t.Helper()
	content, err := os.ReadFile(p.vendor.Bundle(p.t, version, behaviour, servers.DeviceName))
	if err != nil {
		p.t.Fatal(err)
	}
	p.file("fw.raucb", string(content))
	example, err := os.ReadFile("../../../examples/firmware/pair.yaml")
	if err != nil {
		p.t.Fatal(err)
	}
	health := patience / 2 // so that it is the device that is named where one does not come back
	if behaviour == servers.ImageSick {
		health = 8 * time.Second // it is waited for to its end, and the old slot must be healthy within it on a loaded machine
	}
	p.file("firmware-pair.yaml", strings.Replace(string(example), "reboot_timeout: 8m", fmt.Sprintf("reboot_timeout: %v\n      health_timeout: %v", patience/2, health), 1))
	sum := sha256.Sum256(content)
	vars, err := json.Marshal(map[string]string{
		"image": "fw.raucb", "sha256": hex.EncodeToString(sum[:]), "version": version, "compatible": servers.DeviceName, "health": "/run/slot/health",
		"ready": "sh /etc/fw/ready", "role": "sh /etc/fw/role", "failover": "sh /etc/fw/failover", "reboot": "sh \"$(readlink /etc/fw/reboot)\"", "state_dir": "/etc/fw/data/turnus",
	})
	if err != nil {
		p.t.Fatal(err)
	}
	stop, seen := p.probe()
	run := p.start("run", filepath.Join(p.dir, "firmware-pair.yaml"), "-i", p.hosts, "--outside-windows", "--agent", "none", "--connect-timeout", "60s", "--cpu-limit", "0", "--memory-limit", "0", "-o", "json", "-e", string(vars))
	run.code()
	close(stop)
	return run, <-seen
}

// darkness counts what a probe each 100 ms saw.
type darkness struct {
	probes, one, both int // in all; with one member down; with both
	silent            int // the active member was down
}

// carries is the member that carries the traffic.
func (p *pair) carries() string {
	active, _ := os.ReadFile(p.active)
	return strings.TrimSpace(string(active))
}

// dark are the members that do not answer.
func (p *pair) dark() map[string]bool {
	down := map[string]bool{}
	for name, device := range p.devices {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(device.Net.Address, "22"), 300*time.Millisecond)
		if err != nil {
			down[name] = true
			continue
		}
		// A connection costs the device a process: the next one comes when this one has been served,
		// or the probe alone would keep the machine busy.
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		_, _ = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	return down
}

func (p *pair) probe() (chan struct{}, chan darkness) {
	stop, seen := make(chan struct{}), make(chan darkness, 1)
	go func() {
		var d darkness
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			before, down := p.carries(), p.dark()
			if len(down) > 0 { // also by a second look: a machine that stood still for a moment sees neither device
				again := p.dark()
				maps.DeleteFunc(down, func(name string, _ bool) bool { return !again[name] })
			}
			d.probes++
			switch len(down) {
			case 2:
				d.both++
			case 1:
				d.one++
			}
			if down[before] && before == p.carries() {
				d.silent++
			}
			select {
			case <-stop:
				seen <- d
				return
			case <-tick.C:
			}
		}
	}()
	return stop, seen
}

// runs returns what each member runs.
func (p *pair) runs() string {
	p.t.Helper()
	var all []string
	for _, name := range []string{"fw-a", "fw-b"} {
		out, err := p.devices[name].Shell(". /etc/os-release; echo $VERSION_ID")
		if err != nil {
			p.t.Fatal(err)
		}
		all = append(all, name+" "+out)
	}
	return strings.Join(all, ", ")
}

// A pair is upgraded standby first, with a failover in between: never both down, and always with
// the one that carries the traffic. A first member that fails freezes the pair, and so does a peer
// that died.
func TestLabFirmwareOfAPairIsNeverDownTogether(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	run, dark := p.upgrade("2.0", servers.ImageFine)
	run.wants(0)
	t.Logf("%+v", dark)
	if got := p.runs(); got != "fw-a 2.0, fw-b 2.0" || dark.both > 0 || dark.silent > 0 {
		t.Fatalf("they run %s; %+v", got, dark)
	}
	boots := func() [2]int { return [2]int{p.devices["fw-a"].Boots(), p.devices["fw-b"].Boots()} }
	if got := boots(); got != [2]int{2, 2} {
		t.Errorf("boots %v", got)
	}

	run, dark = p.upgrade("3.0", servers.ImageSick)
	run.wants(2)
	if got := p.runs(); got != "fw-a 2.0, fw-b 2.0" || dark.both > 0 || dark.silent > 0 {
		t.Errorf("the first member was sick: they run %s; %+v", got, dark)
	}
	report := run.report()
	if got := boots(); got != [2]int{4, 2} || report.byHost(t, "fw-a").Outcome != core.RolledBack {
		t.Errorf("the other member of a frozen pair: boots %v; %+v", got, report)
	}

	p.devices["fw-b"].Flag("no-power", true)
	p.devices["fw-b"].Reset()
	until(t, "a dead peer", func() bool { return !p.devices["fw-b"].Up() })
	run, dark = p.upgrade("4.0", servers.ImageFine)
	run.wants(2)
	if got := run.report().byHost(t, "fw-a"); got.Outcome != core.Failed || !strings.Contains(got.Reason, "peer is not ready") || boots()[0] != 4 || dark.both > 0 || dark.one == 0 { // a probe that never sees a member that is down sees nothing
		t.Errorf("with a peer that is down: %+v, %+v", got, dark)
	}
}
