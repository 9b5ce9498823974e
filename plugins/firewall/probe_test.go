//go:build linux

package firewall_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/turnus/turnus/plugins/firewall"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

// Probes do not look for ports in the worker's own network, and do not reveal what its names mean:
// an address is refused before the host is contacted, a name where it is connected to, whatever is
// expected there. The control is the operator's word, and the host's own probe.
func TestFaultS11ProbesOfTheWorkersNetwork(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	loopback := netip.MustParsePrefix("127.0.0.1/32")
	probe := func(to, expect string) sdk.With {
		return sdk.With{"probes": []sdk.With{{"to": to, "port": port, "expect": expect}}}
	}
	for _, expect := range []string{"open", "closed"} {
		for _, to := range []string{"127.0.0.1", "::ffff:127.0.0.1", "169.254.169.254", "10.0.0.1"} {
			kit := plugintest.New(t, firewall.Def())
			kit.Host("r1") // knows no command
			got := kit.Run(sdk.With{"ruleset": ruleset("tcp dport 22 accept"), "probes": probe(to, expect)["probes"]})
			if want(t, got, "failed", "its address is in the worker's own network"); got.Effects != "none" {
				t.Errorf("%s: effects %s", to, got.Effects)
			}
		}
		d := newDevice(t)
		d.kit = plugintest.New(t, firewall.Def())
		d.host = d.kit.Host("r1").Handle(d.handle)
		got := d.kit.Run(d.with("tcp dport 22 accept", probe("localhost", expect)))
		want(t, got, "rolled_back", "its address is in the worker's own network")
		if strings.Contains(got.Reason, "127.0.0.1") || strings.Contains(got.Reason, "::1") {
			t.Errorf("it shows what the name means: %s", got.Reason)
		}
	}
	d := newDevice(t)
	d.kit = plugintest.New(t, firewall.Def(loopback))
	d.host = d.kit.Host("r1").Handle(d.handle)
	d.host.Listen("10.0.0.1:80", func(net.Conn) {})
	want(t, d.kit.Run(d.with("tcp dport 22 accept", sdk.With{"probes": []sdk.With{
		{"to": "127.0.0.1", "port": port}, {"from": "host", "to": "10.0.0.1", "port": 80},
	}})), "changed", "")
}
