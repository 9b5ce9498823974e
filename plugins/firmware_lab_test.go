//go:build linux && labs

package plugins_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/sdk"
)

// The firmware lab: devices that really reboot, with real RAUC and OpenSSH, under the real
// supervisor with the job types in a process.

// firmwareDevice is a device and a worker that knows it.
type firmwareDevice struct {
	*servers.Device
	t      *testing.T
	vendor *servers.Vendor
	place  *place

	mu    sync.Mutex
	saved []host.State // checkpoints
}

func newFirmwareDevice(t *testing.T) *firmwareDevice {
	t.Helper()
	vendor := servers.NewVendor(t)
	d := &firmwareDevice{t: t, vendor: vendor, Device: servers.NewDevice(t, vendor)}
	d.place = d.worker()
	return d
}

// worker starts another worker.
func (d *firmwareDevice) worker() *place {
	d.t.Helper()
	p := &place{supervisor: supervised(d.t, d.KeyFile), host: d.host(), files: d.t.TempDir(), fetched: d.t.TempDir()}
	if d.place != nil {
		p.files = d.place.files
	}
	return p
}

func (d *firmwareDevice) host() core.Host {
	return core.Host{Name: "r1", Address: d.Net.Address, SSH: core.SSH{User: "root", Port: 22, HostKeys: []string{d.HostKey}}}
}

// bundle puts a bundle among the worker's files and makes the params that install it.
func (d *firmwareDevice) bundle(version, behaviour string, more ...sdk.With) sdk.With {
	d.t.Helper()
	return d.params(d.vendor.Bundle(d.t, version, behaviour, servers.DeviceName), version, more...)
}

func (d *firmwareDevice) params(file, version string, more ...sdk.With) sdk.With {
	d.t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		d.t.Fatal(err)
	}
	name := filepath.Base(file)
	if err := os.WriteFile(filepath.Join(d.place.files, name), content, 0o600); err != nil {
		d.t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	with := sdk.With{
		"artifact":  sdk.With{"path": name, "sha256": hex.EncodeToString(sum[:]), "compatible": servers.DeviceName, "version": version},
		"state_dir": d.Path("data") + "/turnus", "reboot": d.Path("reboot"), "health": []string{"/run/slot/health"},
		"reboot_timeout": "20s", "health_timeout": "10s", "connect_timeout": "5s", "install_timeout": "1m",
	}
	for _, m := range more {
		maps.Copy(with, m)
	}
	return with
}

// stageOnly are the params that firmware.stage has of them.
func stageOnly(with sdk.With) sdk.With {
	out := sdk.With{}
	for _, k := range []string{"artifact", "driver", "script", "state_dir", "connect_timeout", "rate", "version_command"} {
		if v, ok := with[k]; ok {
			out[k] = v
		}
	}
	return out
}

// firmwareCall is one call of a job type; its hooks see what the worker is asked.
type firmwareCall struct {
	kind       string // firmware.upgrade when empty
	state      *host.State
	check      bool
	checkpoint func(name host.State) error
	mayStart   func(n int) string // the n-th question, from 1
	place      *place
}

func (d *firmwareDevice) call(ctx context.Context, with sdk.With, c firmwareCall) (host.Outcome, events, error) {
	d.t.Helper()
	raw, err := json.Marshal(with)
	if err != nil {
		d.t.Fatal(err)
	}
	if c.kind == "" {
		c.kind = "firmware.upgrade"
	}
	p := c.place
	if p == nil {
		p = d.place
	}
	var seen events
	asked := 0
	call := host.Call{
		Job: core.JobID{Run: "run"}, Step: "upgrade", Attempt: 1, Type: c.kind, Params: raw, Host: p.host, State: c.state, Check: c.check, Diff: true, Key: "key", Fence: 1, Files: p.files,
		Checkpoint: func(_ context.Context, s host.State) error {
			d.mu.Lock()
			d.saved = append(d.saved, s)
			d.mu.Unlock()
			if c.checkpoint != nil {
				return c.checkpoint(s)
			}
			return nil
		},
		MayStart: func(context.Context, time.Duration) string {
			asked++
			if c.mayStart == nil {
				return ""
			}
			return c.mayStart(asked)
		},
		Sink: func(e host.Event) { seen.stdout += string(e.Stdout); seen.diff += e.Diff },
	}
	got, err := p.supervisor.Run(ctx, call)
	return got, seen, err
}

// upgrade calls firmware.upgrade once.
func (d *firmwareDevice) upgrade(with sdk.With, c firmwareCall) host.Outcome {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	got, _, err := d.call(ctx, with, c)
	if err != nil {
		d.t.Fatal(err)
	}
	return got
}

// runs is the version that runs, and the slot.
func (d *firmwareDevice) runs() string {
	d.t.Helper()
	d.Await("a device that is up", d.Up)
	out, err := d.Shell(`. /etc/os-release; echo "$VERSION_ID $(cat /run/booted)"`)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

func (d *firmwareDevice) want(got host.Outcome, outcome, reason, runs string) {
	d.t.Helper()
	if o := word(got); o != outcome || !strings.Contains(got.Reason, reason) {
		log, _ := os.ReadFile(d.Path("rauc.log"))
		d.t.Fatalf("got %s (%s), want %s (%s); outputs %v\n%s", o, got.Reason, outcome, reason, got.Outputs, tail(log))
	}
	if runs == "" {
		return
	}
	if now := d.runs(); now != runs {
		d.t.Errorf("the device runs %s, want %s", now, runs)
	}
	slot, tries := d.Primary()
	if !strings.HasSuffix(runs, slot) || tries == "0" {
		d.t.Errorf("the next boot is slot %s with %s tries; it runs %s", slot, tries, runs)
	}
}

func tail(text []byte) []byte { return text[max(0, len(text)-2000):] }

func TestLabFirmwareUpgrade(t *testing.T) {
	t.Parallel()
	d := newFirmwareDevice(t)
	with := d.bundle("2.0", servers.ImageFine)
	d.want(d.upgrade(with, firmwareCall{check: true}), "changed", "would upgrade it from 1.0 to 2.0", "1.0 A")
	d.want(d.upgrade(stageOnly(with), firmwareCall{kind: "firmware.stage"}), "changed", "", "1.0 A")
	d.want(d.upgrade(stageOnly(with), firmwareCall{kind: "firmware.stage"}), "unchanged", "it is there", "1.0 A")
	begin := time.Now()
	got := d.upgrade(with, firmwareCall{})
	t.Logf("upgraded in %v, down for %v s", time.Since(begin).Round(time.Millisecond), got.Outputs["down_seconds"])
	d.want(got, "changed", "upgraded from 1.0 to 2.0", "2.0 B")
	if d.Boots() != 2 || got.Outputs["boot_id"] == got.Outputs["old_boot_id"] {
		t.Errorf("%d boots; outputs %v", d.Boots(), got.Outputs)
	}
	d.want(d.upgrade(with, firmwareCall{}), "unchanged", "it runs 2.0", "2.0 B")
	if _, err := d.Shell("rauc status mark-bad booted"); err != nil { // as after somebody's upgrade that was not finished
		t.Fatal(err)
	}
	d.want(d.upgrade(with, firmwareCall{}), "changed", "it ran 2.0 already", "2.0 B")
	d.want(d.upgrade(d.bundle("1.9", servers.ImageFine), firmwareCall{}), "failed", "allow_downgrade", "2.0 B")
	d.want(d.upgrade(d.bundle("1.9", servers.ImageFine, sdk.With{"allow_downgrade": true, "soak": "1s"}), firmwareCall{}), "changed", "", "1.9 A")
}

func TestLabFirmwareRefused(t *testing.T) {
	t.Parallel()
	d := newFirmwareDevice(t)
	other := servers.NewVendor(t)
	with := d.params(other.Bundle(t, "2.0", servers.ImageFine, servers.DeviceName), "2.0")
	d.want(d.upgrade(stageOnly(with), firmwareCall{kind: "firmware.stage"}), "failed", "signature verification failed", "1.0 A")
	d.want(d.upgrade(with, firmwareCall{}), "failed", "signature verification failed", "1.0 A")
	file := d.vendor.Bundle(t, "2.0", servers.ImageFine, servers.DeviceName)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content[100] ^= 1
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	d.want(d.upgrade(d.params(file, "2.0"), firmwareCall{}), "failed", "the device refuses the artifact", "1.0 A")
	// The playbook is right about the kind of device, the bundle is for another.
	d.want(d.upgrade(d.params(d.vendor.Bundle(t, "2.0", servers.ImageFine, "toaster"), "2.0"), firmwareCall{}), "failed", `is for "toaster"`, "1.0 A")
	with = d.bundle("2.0", servers.ImageFine)
	with["artifact"].(sdk.With)["compatible"] = "toaster"
	d.want(d.upgrade(with, firmwareCall{}), "failed", `the device is "bootlab"`, "1.0 A")
	with = d.bundle("2.0", servers.ImageFine)
	with["artifact"].(sdk.With)["version"] = "2.1"
	d.want(d.upgrade(with, firmwareCall{}), "failed", `holds version "2.0"`, "1.0 A")
	with = d.bundle("2.0", servers.ImageFine)
	with["artifact"].(sdk.With)["sha256"] = strings.Repeat("0", 64)
	d.want(d.upgrade(with, firmwareCall{}), "failed", "source has sha256", "1.0 A")
	d.empty()
	if d.Boots() != 1 {
		t.Errorf("it was rebooted: %d boots", d.Boots())
	}
}

// empty: nothing is staged on the device, not even a part.
func (d *firmwareDevice) empty() {
	d.t.Helper()
	if left, err := d.Shell("ls -A " + d.Path("data") + "/turnus/staged"); err != nil || left != "" {
		d.t.Errorf("left on the device: %q %v", left, err)
	}
}

func TestLabFirmwareDiskFull(t *testing.T) {
	t.Parallel()
	d := newFirmwareDevice(t)
	file := filepath.Join(t.TempDir(), "large.raucb")
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), servers.DiskSize), 0o600); err != nil {
		t.Fatal(err)
	}
	d.want(d.upgrade(stageOnly(d.params(file, "2.0")), firmwareCall{kind: "firmware.stage"}), "failed", "no room", "1.0 A")
	// It fits when it is checked, and somebody fills the disk meanwhile.
	if err := os.Truncate(file, servers.DiskSize*3/4); err != nil {
		t.Fatal(err)
	}
	slow := stageOnly(d.params(file, "2.0", sdk.With{"rate": "8MiB"}))
	filled := make(chan struct{})
	go func() {
		defer close(filled)
		d.uploading()
		_, _ = d.Shell("dd if=/dev/zero of=" + d.Path("data") + "/other bs=1M count=10")
	}()
	d.want(d.upgrade(slow, firmwareCall{kind: "firmware.stage"}), "failed", "upload", "1.0 A")
	<-filled
	d.empty()
}

// uploading returns when a part file grows on the device.
func (d *firmwareDevice) uploading() {
	d.Await("an upload", func() bool {
		out, err := d.Shell("find " + d.Path("data") + "/turnus/staged -name '*.part.*' -size +64k")
		return err == nil && out != ""
	})
}

func TestLabFirmwareRolledBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		behaviour string
		flag      string
		more      sdk.With
		reason    string
		boots     int
	}{
		"boots but sick":            {servers.ImageSick, "", nil, "the forwarding plane is down", 3},
		"returns on the old slot":   {servers.ImageDeaf, "", nil, "came back in slot rootfs.0 with version 1.0", 3},
		"said good, stayed bad":     {servers.ImageFine, "good-is-a-lie", nil, "is not kept, though the device reported that it is", 3},
		"the reboot is a lie":       {servers.ImageFine, "reboot-is-a-lie", nil, "still in its old boot", 1},
		"the new slot is not taken": {servers.ImageFine, "activate-fails", nil, "failed to activate slot rootfs.1", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newFirmwareDevice(t)
			with := d.bundle("2.0", c.behaviour, c.more)
			clear := func() {}
			if c.flag != "" {
				d.Flag(c.flag, true)
				clear = sync.OnceFunc(func() { d.Flag(c.flag, false) })
			}
			begin := time.Now()
			got := d.upgrade(with, firmwareCall{checkpoint: func(s host.State) error {
				if strings.Contains(string(s.JSON), `"phase":"rollback"`) && c.flag != "reboot-is-a-lie" {
					clear() // the way back works
				}
				return nil
			}})
			t.Logf("rolled back after %v: %s", time.Since(begin).Round(time.Millisecond), got.Reason)
			d.want(got, "rolled_back", c.reason, "1.0 A")
			if d.Boots() != c.boots {
				t.Errorf("%d boots, want %d", d.Boots(), c.boots)
			}
		})
	}
}

// The device of `make lab-firmware`: it stays until Ctrl-C. Without TURNUS_LAB the test sees that
// what it prints would work.
func TestLabFirmwareToPlayWith(t *testing.T) {
	d := newFirmwareDevice(t)
	example, err := os.ReadFile("../examples/firmware/rauc.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d.write("upgrade.yaml", strings.NewReplacer("reboot_timeout: 8m", "reboot_timeout: 20s\n      health_timeout: 5s", "soak: 2m", "soak: 3s", "rate: 2MiB", "rate: 20MiB").Replace(string(example)))
	d.write("hosts.yaml", fmt.Sprintf("hosts:\n  r1:\n    address: %s\n    user: root\n    host_key: %q\n    identity_file: %s\n    labels: {role: gateway, model: %s}\n",
		d.Net.Address, d.HostKey, d.KeyFile, servers.DeviceName))
	var commands []string
	for version, behaviour := range map[string]string{"2.0": servers.ImageFine, "3.0": servers.ImageSick, "4.0": servers.ImageDeaf} {
		with := d.bundle(version, behaviour)
		artifact := with["artifact"].(sdk.With)
		d.write(version+".raucb", d.file(artifact["path"].(string)))
		vars, err := json.Marshal(sdk.With{
			"image": version + ".raucb", "sha256": artifact["sha256"], "version": version, "compatible": servers.DeviceName,
			"health": "/run/slot/health", "reboot": d.Path("reboot"), "state_dir": d.Path("data") + "/turnus",
		})
		if err != nil {
			t.Fatal(err)
		}
		d.write(version+".json", string(vars))
		commands = append(commands, fmt.Sprintf("  bin/turnus run %[1]s/upgrade.yaml -i %[1]s/hosts.yaml --outside-windows -e @%[1]s/%[2]s.json   # %[3]s", d.Dir, version, behaviour))
	}
	if os.Getenv("TURNUS_LAB") == "" {
		d.want(d.upgrade(d.bundle("2.0", servers.ImageFine), firmwareCall{}), "changed", "", "2.0 B")
		return
	}
	slices.Sort(commands)
	t.Logf("\n\nA device is there, and runs 1.0. Upgrade it; see the sick and the deaf one come back:\n\n%s\n\n  ssh -i %s -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null root@%s rauc status\n\nCtrl-C removes it.\n",
		strings.Join(commands, "\n"), d.KeyFile, d.Net.Address)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
}

func (d *firmwareDevice) write(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(d.Path(name), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

func (d *firmwareDevice) file(name string) string {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.place.files, name))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}
