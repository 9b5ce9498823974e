//go:build linux && labs

package plugins_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/sdk"
)

func TestLabFirmwareNeverReturns(t *testing.T) {
	t.Parallel()
	d := newFirmwareDevice(t)
	with := d.bundle("2.0", servers.ImageFine, sdk.With{"reboot_timeout": "2s", "connect_timeout": "10s"})
	got := d.upgrade(with, firmwareCall{checkpoint: func(s host.State) error {
		if strings.Contains(string(s.JSON), `"asked"`) && d.Boots() == 1 {
			_ = os.WriteFile(d.Path("flags/no-power"), nil, 0o600)
		}
		return nil
	}})
	d.want(got, "lost", "it is not proven that the device went back to 1.0", "")
}

// The window closes between the admission of the installation and the reboot: nothing is rebooted,
// the old slot stays the next, and the job continues in the next window, with what is installed.
func TestLabFirmwareWindowClosesBeforeTheReboot(t *testing.T) {
	t.Parallel()
	d := newFirmwareDevice(t)
	with := d.bundle("2.0", servers.ImageFine)
	got := d.upgrade(with, firmwareCall{mayStart: func(n int) string {
		if n == 1 {
			return ""
		}
		return "the window closes in 3 min"
	}})
	d.want(got, "held", "the window closes in 3 min", "1.0 A")
	if d.Boots() != 1 {
		t.Errorf("it was rebooted")
	}
	n := d.Boots()
	d.Reset() // a power cut while the job waits
	d.Await("its boot", func() bool { return d.Boots() > n && d.Up() })
	if now := d.runs(); now != "1.0 A" {
		t.Errorf("a power cut outside of the window booted %s", now)
	}
	installs := d.installs()
	d.want(d.upgrade(with, firmwareCall{state: got.State}), "changed", "upgraded from 1.0 to 2.0", "2.0 B")
	if again := d.installs(); again != installs {
		t.Errorf("installed %d times more", again-installs)
	}
	// A window that never was open: not even an installation.
	shut := firmwareCall{mayStart: func(int) string { return "closed" }}
	d.want(d.upgrade(d.bundle("3.0", servers.ImageFine), shut), "held", "closed", "2.0 B")
	if again := d.installs(); again != installs {
		t.Error("installed outside of the window")
	}
	// Rollback outranks the window: it closes for good once the reboot was allowed.
	late := firmwareCall{mayStart: func(n int) string {
		if n <= 2 {
			return ""
		}
		return "closed"
	}}
	d.want(d.upgrade(d.bundle("3.0", servers.ImageSick), late), "rolled_back", "the forwarding plane is down", "2.0 B")
}

// installs counts the installations that RAUC began.
func (d *firmwareDevice) installs() int {
	d.t.Helper()
	log, err := os.ReadFile(d.Path("rauc.log"))
	if err != nil {
		d.t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "installing ") && strings.HasSuffix(strings.TrimSpace(line), ": started") {
			n++
		}
	}
	return n
}

// The worker and its plugin are killed in every phase, at its begin and a moment into it: another
// one continues, to the same end, with one installation and one reboot in all.
func TestLabFirmwareWorkerIsKilledInEachPhase(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 250 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			d := newFirmwareDevice(t)
			old := "1.0"
			for i, at := range []string{`"phase":"install"`, `"began"`, `"phase":"reboot"`, `"asked"`, `"phase":"back"`, `"phase":"health"`, `"phase":"commit"`} {
				version := fmt.Sprintf("2.%d", i)
				with := d.bundle(version, servers.ImageFine, sdk.With{"soak": "300ms"})
				boots, installs := d.Boots(), d.installs()
				out := d.killed(with, at, after)
				slot := string("BA"[i%2])
				if now := d.runs(); now != version+" "+slot || !strings.Contains(out, "Failed:false") || !strings.Contains(out, "upgraded from "+old) {
					t.Fatalf("killed at %s: it runs %s, want %s %s; %s", at, now, version, slot, out)
				}
				if d.Boots() != boots+1 || d.installs() != installs+1 {
					t.Errorf("killed at %s: %d reboots and %d installations, want one each", at, d.Boots()-boots, d.installs()-installs)
				}
				if next, tries := d.Primary(); next != slot || tries != "3" {
					t.Errorf("killed at %s: slot %s boots next with %s tries", at, next, tries)
				}
				old = version
			}
		})
	}
}

// killed has a worker that kills itself begin, and another one end. It returns the report of the
// second.
func (d *firmwareDevice) killed(with sdk.With, at string, after time.Duration) string {
	d.t.Helper()
	params, err := json.Marshal(with)
	if err != nil {
		d.t.Fatal(err)
	}
	order := labOrder{
		Key: d.KeyFile, Host: d.host(), Type: "firmware.upgrade", Params: params, Files: d.place.files,
		State: filepath.Join(d.t.TempDir(), "state"), KillAt: at, KillAfter: after,
	}
	first := startWorker(d.t, order)
	_ = first.cmd.Wait()
	if first.cmd.ProcessState.Success() {
		d.t.Logf("at %s after %v: it had ended before", at, after)
	}
	order.KillAt = ""
	second := startWorker(d.t, order)
	if err := second.cmd.Wait(); err != nil {
		d.t.Fatalf("%v: %s", err, second.out.String())
	}
	if first.cmd.ProcessState.Success() {
		return first.out.String()
	}
	return second.out.String()
}

// The worker is killed in the middle of an upload: the next one begins again, and nothing of the
// first is left.
func TestLabFirmwareUploadIsCut(t *testing.T) {
	t.Parallel()
	d := newFirmwareDevice(t)
	file := d.vendor.Bundle(t, "2.0", servers.ImageFine, servers.DeviceName)
	with := d.params(file, "2.0", sdk.With{"rate": 2048})
	params, err := json.Marshal(stageOnly(with))
	if err != nil {
		t.Fatal(err)
	}
	w := startWorker(t, labOrder{Key: d.KeyFile, Host: d.host(), Type: "firmware.stage", Params: params, Files: d.place.files})
	d.Await("an upload", func() bool {
		out, err := d.Shell("find " + d.Path("data") + "/turnus/staged -name '*.part.*'")
		return err == nil && out != ""
	})
	w.kill()
	if out, err := d.Shell("ls " + d.Path("data") + "/turnus/staged"); err != nil || !strings.Contains(out, ".part.") {
		t.Fatalf("the upload had ended: %q %v", out, err)
	}
	with["rate"] = 0
	d.want(d.upgrade(stageOnly(with), firmwareCall{kind: "firmware.stage"}), "changed", "", "1.0 A")
	if out, err := d.Shell("ls " + d.Path("data") + "/turnus/staged"); err != nil || strings.Contains(out, ".part.") {
		t.Errorf("left on the device: %q %v", out, err)
	}
}

// The connection is cut while the device installs: the installation continues, is found, and is not
// begun again. A reset of the device then is another thing: what was cut off is installed again,
// into the slot that does not run.
func TestLabFirmwareInstallationIsCut(t *testing.T) {
	t.Parallel()
	d := newFirmwareDevice(t)
	for i, cut := range []func(){
		func() {
			_, _ = d.Shell("for p in $(pgrep -x sshd); do [ \"$(cut -d' ' -f4 /proc/$p/stat)\" = 1 ] || kill -9 $p; done")
		},
		func() {
			n := d.Boots()
			d.Reset()
			servers.Poll(t.Context(), 10*time.Millisecond, func() bool { return d.Boots() > n })
		},
	} {
		_ = os.Remove(d.Path("installing"))
		d.Flag("install-waits", true)
		go func() {
			servers.Poll(t.Context(), 10*time.Millisecond, func() bool { return exists(d.Path("installing")) })
			cut()
			_ = os.Remove(d.Path("flags/install-waits"))
		}()
		version := fmt.Sprintf("2.%d", i)
		installs := d.installs()
		got := d.upgrade(d.bundle(version, servers.ImageFine), firmwareCall{})
		if i == 0 {
			d.want(got, "changed", "upgraded", version+" B")
			if n := d.installs() - installs; n != 1 {
				t.Errorf("%d installations, want 1", n)
			}
			continue
		}
		d.want(got, "rolled_back", "cut off on the device", "2.0 B")
	}
}

func exists(file string) bool { _, err := os.Stat(file); return err == nil }

// scriptOf are the device's own commands, as an engineer would write them.
func (d *firmwareDevice) scriptOf(image string, more ...sdk.With) sdk.With {
	script := sdk.With{
		"version": ". /etc/os-release; echo $VERSION_ID", "compatible": "echo " + servers.DeviceName,
		"verify":  `head -c 4 "$FIRMWARE" | grep -q hsqs`,
		"install": `cat "$FIRMWARE" >` + d.Dir + `/slot-$SLOT.img`,
		"slots":   []string{"A", "B"}, "slot": "cat /run/booted", "primary": d.Path("backend") + " get-primary",
		"activate": d.Path("backend") + ` set-primary "$SLOT"`, "commit": d.Path("backend") + ` set-state "$SLOT" good`,
		"committed": `[ "$(` + d.Path("backend") + ` get-state "$(cat /run/booted)")" = good ]`,
	}
	for _, m := range more {
		maps.Copy(script, m)
	}
	return d.params(image, "2.0", sdk.With{"driver": "script", "script": script})
}

func (d *firmwareDevice) image(version, behaviour string) string {
	d.t.Helper()
	file := filepath.Join(d.t.TempDir(), "image.bin")
	if err := os.WriteFile(file, d.vendor.Image(d.t, version, behaviour), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return file
}

func TestLabFirmwareScriptDriver(t *testing.T) {
	t.Parallel()
	d := newFirmwareDevice(t)
	// openwrt#12675: the updater reports success, and wrote nothing.
	lie := d.scriptOf(d.image("2.0", servers.ImageFine), sdk.With{"install": "true"})
	d.want(d.upgrade(lie, firmwareCall{}), "rolled_back", "came back with version 1.0, expected 2.0", "1.0 A")
	d.want(d.upgrade(d.scriptOf(d.image("2.0", servers.ImageSick)), firmwareCall{}), "rolled_back", "the forwarding plane is down", "1.0 A")
	d.want(d.upgrade(d.scriptOf(d.image("2.0", servers.ImageFine), sdk.With{"verify": "exit 1"}), firmwareCall{}), "failed", "refuses the artifact", "1.0 A")
	d.want(d.upgrade(d.scriptOf(d.image("2.0", servers.ImageFine)), firmwareCall{}), "changed", "upgraded from 1.0 to 2.0", "2.0 B")
}

// sysupgrade, on a device that keeps one image: it writes the slot that runs, reboots unasked, and
// there is no way back.
func (d *firmwareDevice) sysupgrade(install string) sdk.With {
	with := d.scriptOf(d.image("2.0", servers.ImageFine))
	script := with["script"].(sdk.With)
	for _, k := range []string{"slots", "slot", "primary", "activate", "commit", "committed"} {
		delete(script, k)
	}
	script["install"], script["install_reboots"] = install, true
	with["irreversible"], with["reboot_timeout"], with["install_timeout"] = true, "2s", "1s"
	return with
}

func TestLabFirmwareSysupgrade(t *testing.T) {
	t.Parallel()
	d := newFirmwareDevice(t)
	write := `cat "$FIRMWARE" >` + d.Dir + `/next.img; mv ` + d.Dir + "/next.img " + d.Dir + "/slot-A.img; "
	d.want(d.upgrade(d.sysupgrade("exit 3"), firmwareCall{}), "failed", "ended with exit status 3", "1.0 A")
	d.want(d.upgrade(d.sysupgrade("exit 0"), firmwareCall{}), "failed", "still in its old boot; it has no second slot, and runs version 1.0", "1.0 A")
	with := d.sysupgrade(write + d.Path("reboot"))
	with["reboot_timeout"] = "30s"
	d.want(d.upgrade(with, firmwareCall{}), "changed", "upgraded from 1.0 to 2.0", "")
	if now := d.runs(); now != "2.0 A" {
		t.Errorf("it runs %s", now)
	}
}

// A reboot that was none, on a device that reports the new version as soon as it is written: only
// the boot id shows it. The control takes that guard out, by a device whose boot id changes without
// a boot: then the false reboot passes.
func TestLabFirmwareFalseReboot(t *testing.T) {
	t.Parallel()
	for name, guarded := range map[string]bool{"the boot id tells": true, "without it (control)": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newFirmwareDevice(t)
			said := d.Path("data") + "/said"
			with := d.sysupgrade("echo 2.0 >" + said)
			with["script"].(sdk.With)["version"] = "cat " + said + " 2>/dev/null || echo 1.0"
			c := firmwareCall{checkpoint: func(s host.State) error {
				if !guarded && strings.Contains(string(s.JSON), `"phase":"back"`) {
					_, err := d.Shell("echo another >/run/boot_id")
					return err
				}
				return nil
			}}
			got := word(d.upgrade(with, c))
			t.Logf("%s: %s", name, got)
			if (got == "failed") != guarded {
				t.Errorf("got %s", got)
			}
			if d.Boots() != 1 {
				t.Errorf("it rebooted")
			}
		})
	}
}

// Two devices' uploads share their worker's cap. Its use is also shown in plugins/host, where time
// is not this machine's.
func TestLabFirmwareUploadsShareTheWorkersRate(t *testing.T) {
	t.Parallel()
	key, public := servers.NewSSHKey(t)
	const rate = 6 << 20
	size := 6 << 20
	if v, err := strconv.Atoi(os.Getenv("BENCH_MB")); err == nil && v > 0 {
		size = v << 20
	}
	supervisor := supervised(t, key, func(c *host.Config) { c.UploadRate = rate })
	files := t.TempDir()
	content := bytes.Repeat([]byte("firmware"), size/8)
	if err := os.WriteFile(filepath.Join(files, "fw.bin"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	begin := time.Now()
	var all sync.WaitGroup
	for i := range 2 {
		server, dir := servers.StartSSHD(t, servers.Authorize(public)), t.TempDir()
		params, err := json.Marshal(sdk.With{
			"artifact": sdk.With{"path": "fw.bin", "sha256": hex.EncodeToString(sum[:]), "version": "2"}, "driver": "script", "state_dir": dir,
			"script": sdk.With{"version": "echo 1", "verify": "true", "install": "true", "install_reboots": true},
		})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			got, err := supervisor.Run(t.Context(), host.Call{
				Job: core.JobID{Run: "run", Index: i}, Step: "stage", Attempt: 1, Type: "firmware.stage", Params: params, Host: server.Host("r1"), Key: "key", Fence: 1, Files: files,
			})
			if err != nil || !got.Changed || got.Failed {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	t.Logf("%.1f MB/s in all, cap %.1f", float64(2*size)/took.Seconds()/1e6, float64(rate)/1e6)
	if least := time.Duration(2*size) * time.Second / rate * 95 / 100; took < least {
		t.Errorf("took %v, the cap allows no less than %v", took, least)
	}
}
