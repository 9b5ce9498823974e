//go:build linux && labs

package firewall_test

import (
	"strings"
	"testing"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

// without makes commands of the host fail, as on one that lacks them.
func (d *device) without(lines string) {
	d.meet(func(c plugintest.Call) *plugintest.Reply {
		c.Command = lines + "\n" + c.Command
		reply := d.exec(d.t.Context(), c)
		return &reply
	})
}

const (
	noUnshare = `unshare() { return 127; }`
	noNetns   = noUnshare + `
ip() { [ "$1" != netns ] && command ip "$@"; }`
)

// A device without util-linux's unshare has its empty network namespace from iproute2.
func TestLabDeviceWithoutUnshareUsesIPNetns(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	d.shell("ip link add wan0 type bridge")
	d.without(noUnshare)
	loop := "table inet turnus {\n chain a { jump b\n }\n chain b { jump a\n }\n chain input { type filter hook input priority 0; jump a\n }\n}"
	want(t, d.kit.Run(d.with("", sdk.With{"ruleset": loop})), "failed", "nft refuses the ruleset") // seen in the namespace, not live
	want(t, d.kit.Run(d.with("iif wan0 drop\n tcp dport 25 drop")), "changed", "")
	want(t, d.kit.Run(d.with("iif wan0 drop\n tcp dport 25 drop")), "unchanged", "")
	want(t, d.kit.Run(d.with("tcp dport 23 drop", sdk.With{"mode": "widen"})), "changed", "")
	want(t, d.kit.Run(d.with("tcp dport 23 drop", sdk.With{"mode": "narrow"})), "changed", "")
	if left := d.shell("ip netns list"); strings.Contains(left, "turnus-") {
		t.Errorf("namespaces stay behind: %s", left)
	}
}

// A device whose kernel has no network namespaces at all: what can be known only in one is known
// when it is live, and the way back is as sure.
func TestLabDeviceWithoutNamespaces(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	d.without(noNetns)
	with := d.with("tcp dport { 22, 80 } accept")
	check := d.kit.Check(with)
	want(t, check, "changed", "would replace")
	want(t, d.kit.Run(d.with("tcp dport twenty drop")), "failed", "nft refuses the ruleset")
	want(t, d.kit.Run(with), "changed", "")
	want(t, d.kit.Run(with), "unchanged", "")
	old := d.live()
	want(t, d.kit.Run(d.with("tcp dport 23 drop", sdk.With{"mode": "widen"})), "failed", "mode widen needs an empty network namespace")

	// A ruleset that nft -c lets pass is refused by the kernel, as a whole.
	loop := "table inet turnus {\n chain a { jump b\n }\n chain b { jump a\n }\n chain input { type filter hook input priority 0; jump a\n }\n}"
	if got := d.kit.Run(d.with("", sdk.With{"ruleset": loop})); got.Outcome != "failed" && got.Outcome != "rolled_back" {
		t.Errorf("a jump loop: %s (%s)", got.Outcome, got.Reason)
	}
	d.host.OnProbe(func(int) error { return plugintest.Unreachable("r1", true) })
	want(t, d.kit.Run(d.with("drop", sdk.With{"confirm_timeout": armedFor.String(), "connect_timeout": "5s"})), "rolled_back", "the host is back at its old table")
	if now := d.live(); now != old {
		t.Errorf("live:\n%s\nexpected:\n%s", now, old)
	}
	d.host.OnProbe(func(int) error { return nil })
	d.shell("nft add rule inet turnus input tcp dport 25 drop")
	want(t, d.kit.Run(with), "failed", "drift")
	got := d.kit.Run(d.with("tcp dport 443 accept", sdk.With{"on_drift": "overwrite", "mgmt_sources": []string{"192.0.2.1"}}))
	want(t, got, "changed", "")
	if len(got.Logs) == 0 || !strings.Contains(d.live(), "dport 443") {
		t.Errorf("%v\n%s", got.Logs, d.live())
	}
}
