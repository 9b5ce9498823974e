//go:build linux

package servers

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	_ "embed" // the device's scripts
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts"
)

var (
	//go:embed init.sh
	initScript []byte
	//go:embed backend.sh
	backendScript []byte
	//go:embed reboot.sh
	rebootScript []byte
	//go:embed preinstall.sh
	preInstallScript []byte
	//go:embed dbus.conf
	busConfig []byte // without activation: a second RAUC would be started where the first is not ready yet
)

// DeviceName is the devices' own name for their kind.
const DeviceName = "bootlab"

// How an image behaves.
const (
	ImageFine = "fine"
	ImageSick = "sick" // boots, and its health command fails
	ImageDeaf = "deaf" // boots, does not let anybody in, and is reset by its watchdog
	ImageDead = "dead" // hangs for ever
)

// Device has two slots with an image each, a boot loader that counts tries, an init in namespaces
// of its own (network, process ids, mounts), and in it OpenSSH, D-Bus and RAUC. Each boot has a new
// boot id. It runs from NewDevice to the end of the test. Its files are in Dir, what must survive a
// boot in Dir/data, a small disk.
type Device struct {
	Dir     string
	Net     *Host
	HostKey string // as inventories hold it
	KeyFile string // private half of a key that root may log in with

	tb     testing.TB
	holder *exec.Cmd

	mu    sync.Mutex
	init  *exec.Cmd // of the boot under way
	boots int
	off   bool
	ended chan struct{}
}

// maxBoots bounds a device whose boots fail immediately.
const maxBoots = 100

// DiskSize is the size of a device's disk.
const DiskSize = 24 << 20

// NewDevice makes a device that trusts vendor's bundles, and boots its version 1.0 from slot A.
func NewDevice(tb testing.TB, vendor *Vendor) *Device {
	tb.Helper()
	for program, from := range map[string]string{
		"rauc": "rauc", "dbus-daemon": "dbus", "mksquashfs": "squashfs-tools", "unshare": "util-linux", "nsenter": "util-linux", "sshd": "openssh-server",
	} {
		testparts.Need(tb, program, from)
	}
	dir, err := os.MkdirTemp("", "bootlab") //nolint:usetesting // a test's own folder has its name in it, and mount options take no comma
	must(tb, err)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	d := &Device{Net: NewHost(tb), Dir: dir, tb: tb, ended: make(chan struct{})}
	for _, dir := range []string{"data", "boot", "flags"} {
		d.must(os.Mkdir(d.Path(dir), 0o700))
	}
	image := vendor.Image(tb, "1.0", ImageFine)
	for _, slot := range []string{"A", "B"} {
		d.write("slot-"+slot+".img", image, 0o600)
		d.write("boot/"+slot+".tries", []byte("3\n"), 0o600)
	}
	d.write("boot/primary", []byte("A\n"), 0o600)
	d.write("init", initScript, 0o600)
	d.write("backend", backendScript, 0o700)
	d.write("reboot", rebootScript, 0o700)
	d.write("pre-install", preInstallScript, 0o700)
	d.write("dbus.conf", busConfig, 0o600)
	d.write("ca.pem", vendor.CA, 0o600)
	d.write("system.conf", d.config(), 0o600)
	d.keys()
	d.hold()
	go d.run()
	tb.Cleanup(d.stop)
	d.Await("its first boot", func() bool { return d.Up() })
	return d
}

func (d *Device) config() []byte {
	var text strings.Builder
	fmt.Fprintf(&text, "[system]\ncompatible=%s\nbootloader=custom\nstatusfile=%[2]s/rauc.status\nmountprefix=/run/rauc\n[keyring]\npath=%[2]s/ca.pem\n"+
		"[handlers]\nbootloader-custom-backend=%[2]s/backend\npre-install=%[2]s/pre-install\n", DeviceName, d.Dir)
	for i, slot := range []string{"A", "B"} {
		fmt.Fprintf(&text, "[slot.rootfs.%d]\ndevice=%s/slot-%[3]s.img\ntype=raw\nbootname=%[3]s\n", i, d.Dir, slot)
	}
	return []byte(text.String())
}

// keys makes the device's host key, and the one to log in with.
func (d *Device) keys() {
	d.tb.Helper()
	pair := func(file string) string {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		d.must(err)
		block, err := ssh.MarshalPrivateKey(key, "bootlab")
		d.must(err)
		d.write(file, pem.EncodeToMemory(block), 0o600)
		public, err := ssh.NewPublicKey(key.Public())
		d.must(err)
		return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
	}
	d.HostKey, d.KeyFile = pair("host_key"), d.Path("login_key")
	d.write("authorized_keys", []byte(pair("login_key")+"\n"), 0o600)
	d.write("sshd_config", fmt.Appendf(nil, "ListenAddress %s\nPort 22\nHostKey %[2]s/host_key\nAuthorizedKeysFile %[2]s/authorized_keys\nSetEnv SHLVL=2\nPidFile none\nStrictModes no\n"+
		"MaxStartups 1000\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nUseDNS no\nPrintMotd no\nPrintLastLog no\nSubsystem sftp internal-sftp\n", d.Net.Address, d.Dir), 0o600)
}

// hold starts the process whose mounts and network every boot begins with: the disk outlives a
// boot.
func (d *Device) hold() {
	d.tb.Helper()
	prefix := d.Net.Prefix()
	line := fmt.Sprintf(`mount --make-rprivate / && mount -t tmpfs -o size=%d,mode=700 none "$0/data" && : >"$0/held" && exec sleep 100000`, DiskSize)
	d.holder = exec.Command(prefix[0], append(prefix[1:], "/bin/sh", "-c", line, d.Dir)...) //nolint:noctx,gosec // it ends with the device
	d.holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	d.must(d.holder.Start())
	d.Await("its disk", func() bool { return d.is("held") })
}

// run is power and boot loader: it boots until the device is switched off.
func (d *Device) run() {
	defer close(d.ended)
	for {
		if d.is("flags/no-power") { // as a device that never comes back
			<-time.After(20 * time.Millisecond)
		} else if err := d.boot(); err != nil {
			d.tb.Errorf("bootlab: %v", err)
			return
		}
		d.mu.Lock()
		off := d.off
		d.mu.Unlock()
		if off {
			return
		}
	}
}

// boot runs one boot to its end.
func (d *Device) boot() error {
	slot, err := d.choose()
	if err != nil {
		return err
	}
	d.mu.Lock()
	if d.off {
		d.mu.Unlock()
		return nil
	}
	if d.boots++; d.boots > maxBoots {
		d.mu.Unlock()
		return fmt.Errorf("the device boots in a circle: see %s", d.Path("console.log"))
	}
	id := fmt.Sprintf("%08x-0000-4000-8000-%012d", os.Getpid(), d.boots)
	cmd := exec.Command("nsenter", "-t", strconv.Itoa(d.holder.Process.Pid), "-m", "-n", "unshare", "--pid", "--fork", "--mount", "--mount-proc", "--kill-child", //nolint:noctx,gosec // it ends with the device
		"/bin/sh", d.Path("init"), d.Dir, slot, id)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	console, err := os.OpenFile(d.Path("console.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		cmd.Stdout, cmd.Stderr = console, console
		err = cmd.Start()
		_ = console.Close()
	}
	if err == nil {
		d.init = cmd
	}
	d.mu.Unlock()
	if err != nil {
		return err
	}
	_ = cmd.Wait() // however it ended: a reboot
	d.mu.Lock()
	d.init = nil
	d.mu.Unlock()
	if err := os.Remove(d.Path("up")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// choose is the boot loader: the primary slot while it has tries, else the other.
func (d *Device) choose() (string, error) {
	primary, err := d.text("boot/primary")
	if err != nil {
		return "", err
	}
	other := map[string]string{"A": "B", "B": "A"}[primary]
	for _, slot := range []string{primary, other} {
		text, err := d.text("boot/" + slot + ".tries")
		if err != nil {
			return "", err
		}
		if tries, err := strconv.Atoi(text); err == nil && tries > 0 {
			return slot, os.WriteFile(d.Path("boot/"+slot+".tries"), []byte(strconv.Itoa(tries-1)+"\n"), 0o600)
		}
	}
	return primary, nil // nothing is good: the first is as good as any
}

func (d *Device) stop() {
	d.mu.Lock()
	d.off = true
	if d.init != nil {
		_ = d.init.Process.Kill()
	}
	d.mu.Unlock()
	<-d.ended
	_ = d.holder.Process.Kill()
	_ = d.holder.Wait()
}

// Path returns the path of a file of the device, for this machine. Only the device sees the files
// in data.
func (d *Device) Path(name string) string { return filepath.Join(d.Dir, name) }

// Reset cuts the power for a moment, as nobody asked the device.
func (d *Device) Reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.init != nil {
		_ = d.init.Process.Kill()
	}
}

// Flag sets or clears a fault: no-power, good-is-a-lie, reboot-is-a-lie, activate-fails,
// install-waits.
func (d *Device) Flag(name string, on bool) {
	d.tb.Helper()
	if on {
		d.write("flags/"+name, nil, 0o600)
	} else {
		d.must(os.Remove(d.Path("flags/" + name)))
	}
}

// Up reports whether the present boot serves connections.
func (d *Device) Up() bool { return d.is("up") }

// Boots counts the boots so far.
func (d *Device) Boots() int { return core.Locked(&d.mu, &d.boots) }

// Primary is the slot that the boot loader tries first, and its tries.
func (d *Device) Primary() (slot, tries string) {
	d.tb.Helper()
	slot, err := d.text("boot/primary")
	d.must(err)
	tries, err = d.text("boot/" + slot + ".tries")
	d.must(err)
	return slot, tries
}

// Shell runs a line in the device's present boot, as root.
func (d *Device) Shell(line string) (string, error) {
	d.mu.Lock()
	var pid string
	if d.init != nil {
		pid = children(d.init.Process.Pid)
	}
	d.mu.Unlock()
	if pid == "" {
		return "", errors.New("the device is off")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nsenter", "-t", pid, "-m", "-n", "-p", "/bin/sh", "-c", line).Output() //nolint:gosec // a test's own words
	return strings.TrimSpace(string(out)), err
}

// children is the one child of a process.
func children(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	return strings.TrimSpace(string(text))
}

// Await waits for a condition, generously.
func (d *Device) Await(what string, ok func() bool) {
	d.tb.Helper()
	if !Poll(context.Background(), 10*time.Millisecond, ok) {
		console, _ := os.ReadFile(d.Path("console.log"))
		d.tb.Fatalf("bootlab: no sign of %s\n%s", what, console)
	}
}

func (d *Device) is(name string) bool { _, err := os.Stat(d.Path(name)); return err == nil }

func (d *Device) text(name string) (string, error) {
	text, err := os.ReadFile(d.Path(name))
	return strings.TrimSpace(string(text)), err
}

func (d *Device) write(name string, content []byte, mode os.FileMode) {
	d.tb.Helper()
	d.must(os.WriteFile(d.Path(name), content, mode))
}

func (d *Device) must(err error) {
	d.tb.Helper()
	if err != nil {
		d.tb.Fatal(err)
	}
}
