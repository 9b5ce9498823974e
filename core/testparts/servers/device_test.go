//go:build linux

package servers_test

import (
	"testing"

	"github.com/turnus/turnus/core/testparts/servers"
)

// The lab itself: a reboot is one, a slot without tries is left, and a power cut is noticed by the
// boot id alone.
func TestADeviceReallyReboots(t *testing.T) {
	t.Parallel()
	d := servers.NewDevice(t, servers.NewVendor(t))
	check := func() string {
		out, err := d.Shell("cat /proc/sys/kernel/random/boot_id; cat /run/booted; . /etc/os-release; echo $VERSION_ID; rauc status >/dev/null && echo rauc")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	again := func(how func()) {
		n := d.Boots()
		how()
		d.Await("another boot", func() bool { return d.Boots() > n && d.Up() })
	}
	first := check()
	t.Log(first)
	again(func() { _, _ = d.Shell(d.Path("reboot")) })
	second := check()
	if first == second {
		t.Error("the boot id did not change")
	}
	if _, err := d.Shell("rauc status mark-active other"); err != nil {
		t.Fatal(err)
	}
	again(d.Reset)
	if slot, tries := d.Primary(); slot != "B" || tries != "0" {
		t.Errorf("after the activation: primary %s with %s tries", slot, tries)
	}
	third := check()
	again(d.Reset) // its one try has ended
	fourth := check()
	t.Log(third, fourth)
}
