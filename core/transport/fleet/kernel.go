package fleet

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"syscall"
)

const (
	procSys      = "/proc/sys/"
	hostnameFile = "/etc/hostname"
	hostnameKey  = "kernel/hostname"
)

// settings are those of the kernel, with what a host has after a start.
var settings = [...][2]string{
	{hostnameKey, ""}, // the host's own
	{"fs/file-max", "1048576"},
	{"fs/inotify/max_user_watches", "65536"},
	{"fs/protected_hardlinks", "1"},
	{"kernel/panic", "0"},
	{"kernel/pid_max", "32768"},
	{"kernel/sysrq", "176"},
	{"net/core/somaxconn", "4096"},
	{"net/ipv4/conf/all/rp_filter", "0"},
	{"net/ipv4/ip_forward", "0"},
	{"net/ipv4/ip_local_port_range", "32768\t60999"},
	{"net/ipv4/tcp_syncookies", "1"},
	{"net/ipv6/conf/all/disable_ipv6", "0"},
	{"net/ipv6/conf/all/forwarding", "0"},
	{"vm/max_map_count", "65530"},
	{"vm/overcommit_memory", "0"},
	{"vm/swappiness", "60"},
}

// setting returns the file or folder below /proc/sys after a start; nil for others.
func (h *host) setting(key string) *node {
	for _, s := range settings {
		switch {
		case s[0] == hostnameKey && key == hostnameKey:
			return &node{data: []byte(h.name + "\n"), mode: 0o644}
		case s[0] == key:
			return &node{data: []byte(s[1] + "\n"), mode: 0o644}
		case strings.HasPrefix(s[0], key+"/"):
			return &node{dir: true, mode: 0o555}
		}
	}
	return nil
}

// set gives a setting of the kernel another value: as many numbers as it has, or a name. The caller
// holds mu.
func (m *memFS) set(p, text string) error {
	fields := strings.Fields(text)
	if len(fields) != len(strings.Fields(string(m.check(p).data))) {
		return syscall.EINVAL
	}
	for _, f := range fields {
		if _, err := strconv.ParseInt(f, 10, 64); err != nil && p != procSys+hostnameKey || len(f) > 64 {
			return syscall.EINVAL
		}
	}
	m.put(p, &node{data: []byte(strings.Join(fields, "\t") + "\n"), mode: 0o644})
	return nil
}

// write sets a setting of the kernel by its path.
func (m *memFS) write(p, text string) error {
	f, err := m.create(p, false, false, 0, actor{})
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(text))
	return err
}

// text returns the content of a file, up to maxCommand bytes; "" if it cannot be read.
func (m *memFS) text(p string) string {
	f, err := m.open(p)
	if err != nil {
		return ""
	}
	text, _ := slurp(f.reader())
	return text
}

// hostname is the name that the kernel has.
func (h *host) hostname() string { return strings.TrimSpace(h.fs.text(procSys + hostnameKey)) }

func hostname(_ context.Context, c *call, _ options) int {
	switch {
	case len(c.args) == 0:
		return c.print(c.sh.host.hostname() + "\n")
	case c.sh.uid != 0:
		return c.fail(1, "you must be root to change the host name")
	}
	if err := c.fs().write(procSys+hostnameKey, c.args[0]); err != nil {
		return c.fail(1, "invalid host name '%s'", c.args[0])
	}
	return 0
}

// boot starts the host again: the kernel gets its settings and mounts from the files.
func (h *host) boot() {
	h.fs.clearVolatile()
	h.mu.Lock()
	h.mounts = nil
	h.mu.Unlock()
	if name, _, _ := strings.Cut(h.fs.text(hostnameFile), "\n"); name != h.hostname() {
		_ = h.fs.write(procSys+hostnameKey, name) // a file without a name changes nothing
	}
	names, _ := h.fs.names("/etc/sysctl.d") // none if it was removed
	for _, name := range append(names, "../sysctl.conf") {
		for line := range strings.Lines(h.fs.text(path.Join("/etc/sysctl.d", name))) {
			if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(key, "#") {
				_ = h.fs.write(procSys+strings.ReplaceAll(strings.TrimSpace(key), ".", "/"), value) // as at a start, an unknown one stops nothing
			}
		}
	}
	for line := range strings.Lines(h.fs.text("/etc/fstab")) {
		if f := strings.Fields(line); len(f) > 3 && f[1] != "/" && !strings.HasPrefix(f[0], "#") && !strings.Contains(f[3], "noauto") {
			_ = h.mount(mount{f[0], unescape(f[1]), f[2], f[3]}) // nor does one that cannot be mounted
		}
	}
}

// spareDisk is a device without partitions, to practise on.
const spareDisk = "/dev/vdb"

// mount is a file system or swap space that is in use. Only the tables of the kernel show it: the
// files at its path stay visible.
type mount struct{ source, path, fstype, options string }

// swap reports whether it is swap space, which has no path.
func (m mount) swap() bool { return m.fstype == "swap" }

// flags are the options as the kernel shows them.
func (m mount) flags() string {
	access, rest := "rw", ""
	for o := range strings.SplitSeq(m.options, ",") {
		switch o {
		case "ro", "rw":
			access = o
		case "nosuid", "nodev", "noexec", "noatime":
			rest += "," + o
		}
	}
	return access + rest
}

// binds reports whether a folder of the host is mounted.
func (m mount) binds() bool { return strings.Contains(","+m.options+",", "bind,") }

// mountInfo is /proc/self/mountinfo.
func (h *host) mountInfo() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b strings.Builder
	b.WriteString("22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n")
	for i, m := range h.mounts {
		root, source, fstype := "/", m.source, m.fstype
		if m.binds() {
			root, source, fstype = m.source, "/dev/root", "ext4"
		}
		if !m.swap() {
			fmt.Fprintf(&b, "%d 22 254:%d %s %s %s - %s %s rw\n", i+23, i+1, escape(root), escape(m.path), m.flags(), fstype, escape(source))
		}
	}
	return b.String()
}

// swaps is /proc/swaps.
func (h *host) swaps() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out strings.Builder
	out.WriteString("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n")
	for _, m := range h.mounts {
		if m.swap() {
			out.WriteString(m.source + "                               partition\t1048572\t\t0\t\t-2\n")
		}
	}
	return out.String()
}

// escape writes a path as tables of the kernel have it, unescape reads it.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`).Replace(s)
}

func unescape(s string) string {
	return strings.NewReplacer(`\134`, `\`, `\040`, " ", `\011`, "\t", `\012`, "\n").Replace(s)
}

// maxMounts is the most mounts of a host.
const maxMounts = 256

// mount puts a file system in use, or returns why not.
func (h *host) mount(m mount) error {
	at, err := h.fs.stat(m.path)
	source, missing := h.fs.stat(m.source)
	switch {
	case !m.swap() && (err != nil || !at.dir):
		return fmt.Errorf("%s: mount point does not exist", m.path)
	case m.binds() && missing != nil || strings.HasPrefix(m.source, "/") && missing != nil:
		return fmt.Errorf("%s: special device %s does not exist", m.path, m.source)
	case m.binds() || m.fstype == "tmpfs":
	case m.fstype != "ext4" && m.fstype != "xfs" && !m.swap():
		return fmt.Errorf("%s: unknown filesystem type '%s' on a simulated host", m.path, m.fstype)
	case m.source != spareDisk || !source.odd:
		return fmt.Errorf("%s is not a block device: a simulated host has %s", m.source, spareDisk)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.mounts) >= maxMounts {
		return fmt.Errorf("%s: too many mounts", m.path)
	}
	h.mounts = append(h.mounts, m)
	return nil
}

// mounted finds the last mount at a path, or the swap space of a source, and lets edit change it,
// or remove it by false.
func (h *host) mounted(name string, swap bool, edit func(*mount) bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.mounts) - 1; i >= 0; i-- {
		m := &h.mounts[i]
		if m.swap() != swap || swap && m.source != name || !swap && m.path != name {
			continue
		}
		if !edit(m) {
			h.mounts = append(h.mounts[:i], h.mounts[i+1:]...)
		}
		return true
	}
	return false
}

const mountUsage = "mount -t TYPE [-o OPTIONS] SOURCE PATH"

// mountTool is mount -t TYPE -o OPTIONS SOURCE PATH, and mount -o remount,OPTIONS PATH.
func mountTool(_ context.Context, c *call, o options) int {
	at := c.sh.abs(c.args[len(c.args)-1])
	if opts, ok := strings.CutPrefix(o['o'], "remount,"); ok {
		if !c.sh.host.mounted(at, false, func(m *mount) bool { m.options = opts; return true }) {
			return c.fail(32, "%s: mount point not mounted or bad option.", at)
		}
		return 0
	}
	if len(c.args) != 2 {
		return c.misused(mountUsage)
	}
	return c.ended(32, c.sh.host.mount(mount{c.args[0], at, o['t'], o['o']}))
}

// unmount is umount, and swapoff.
func unmount(_ context.Context, c *call, _ options) int {
	name, swap := c.sh.abs(c.args[0]), c.name == "swapoff"
	if !c.sh.host.mounted(name, swap, func(*mount) bool { return false }) {
		return c.fail(32, "%s: not mounted.", name)
	}
	return 0
}

func swapon(_ context.Context, c *call, o options) int {
	return c.ended(255, c.sh.host.mount(mount{c.args[0], "none", "swap", o['o']}))
}

// ended is the exit code of a program that ended with an error, which it prints.
func (c *call) ended(code int, err error) int {
	if err != nil {
		return c.fail(code, "%s", reason(err))
	}
	return 0
}
