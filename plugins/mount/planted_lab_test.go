//go:build labs

package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core/testparts"
)

// A stranger owns the folder above a mount, and exchanges it, or the folder itself, for a link to a
// folder of root's right before mount or umount starts. Nothing of root's is mounted over or
// unmounted. Control: without an attack each action does its work, and the script as it was, which
// used the path again, mounts over the folder of root.
func TestLabMountFollowsNoExchangedPath(t *testing.T) {
	if os.Geteuid() != 0 {
		testparts.Able(t, "a folder that a stranger owns and root mounts in", syscall.EPERM)
	}
	unshare := testparts.Need(t, "unshare", "util-linux")
	now := strings.Replace(doScript, "cmd() {", "cmd() { (attack);", 1)
	const was = realScript + `mkdir -p "$p" && (attack) && mount -t "$t" -o "$o" "$s" "$p"` + "\n"
	const mounted = "mount -t tmpfs -o size=1m tmpfs \"$p\"\n"
	for name, c := range map[string]struct {
		before, attack, script, actions, options string
		want                                     string // where something is mounted, and with what
	}{
		"mount":                   {"", "", now, "mount", "size=1m", "/home/d/m rw"},
		"mount, the folder above": {"", "mv d gone; ln -s ../root d", now, "mount", "size=1m", "/home/gone/m rw"},
		"mount, the folder":       {"", "mv d/m d/gone; ln -s ../../root/m d/m", now, "mount", "size=1m", "/home/d/gone rw"},
		"as it was":               {"", "mv d gone; ln -s ../root d", was, "mount", "size=1m", "/root/m rw"},
		"bind":                    {"", "", now, "mount", "bind,ro", "/home/d/m ro"},
		"bind, the folder above":  {"", "mv d gone; ln -s ../root d", now, "mount", "bind,ro", "/home/gone/m rw"},
		"remount":                 {mounted, "", now, "remount", "size=2m,noexec", "/home/d/m rw,noexec"},
		"remount, replaced":       {mounted, "mv d gone; ln -s ../root d", now, "remount", "size=2m,noexec", "/home/gone/m rw,noexec"},
		"unmount":                 {mounted, "", now, "unmount", "size=1m", ""},
		"unmount, replaced":       {mounted + "mount -t tmpfs tmpfs ../root/m\n", "mv d gone; ln -s ../root d", now, "unmount", "size=1m", "/root/m rw"},
	} {
		t.Run(name, func(t *testing.T) {
			base, err := os.MkdirTemp("/tmp", "planted") //nolint:usetesting // the stranger must reach it
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(base) })
			p := Params{Path: filepath.Join(base, "home/d/m"), Source: "tmpfs", Type: "tmpfs", Options: c.options}
			if p.binds() {
				p.Source, p.Type = filepath.Join(base, "data"), "none"
			}
			script := p.vars() + "cd " + base + ` && mkdir -p home/d root/m data && chmod 755 . && cd home || exit 1
mkdir -p d/m; chown -R 65534 .
` + strings.Replace(c.before, "$p", "$PWD/d/m", 1) + `
home=$PWD
attack() { cd "$home"; ` + c.attack + `
true; } >/dev/null
cd /; set -- ` + c.actions + "\n(" + c.script + ") 2>/dev/null\nrc=$?; grep " + base + ` /proc/self/mountinfo | while read -r id up device root at f rest; do echo "${at#` + base + `} $f"; done; exit $rc`
			out, err := exec.CommandContext(t.Context(), unshare, "-m", "/bin/sh", "-c", script).CombinedOutput()
			got := strings.ReplaceAll(strings.TrimSpace(string(out)), ",relatime", "")
			if failed := err != nil; got != c.want || failed != (c.attack != "" && c.actions == "mount" && c.script == now) {
				t.Errorf("%q, %v; expected %q", got, err, c.want)
			}
		})
	}
}
