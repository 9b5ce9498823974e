package notify

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

func TestFaultS11GuardRefusesInnerAddresses(t *testing.T) {
	t.Parallel()
	g := newGuard([]netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::1/128")})
	for _, bad := range []string{
		"127.0.0.1:80", "[::1]:80", "10.0.0.1:25", "172.16.3.4:443", "192.168.1.1:443", "169.254.169.254:80", "100.64.0.1:80", "0.0.0.0:80", "[::]:80", "255.255.255.255:80",
		"[fe80::1%eth0]:80", "[fd00::2]:80", "[ff02::1]:80", "224.0.0.1:80", "[::ffff:127.0.0.1]:80", "[::ffff:10.0.0.1]:80", "[::127.0.0.1]:80", "[64:ff9b::a00:1]:80", "[2002:7f00:1::]:80",
		"198.18.0.1:80", "168.63.129.16:80", "[::ffff:168.63.129.16]:32526", "nonsense",
	} {
		if err := g.Check(bad); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s may be reached: %v", bad, err)
		}
	}
	for _, fine := range []string{"93.184.216.34:443", "[2606:2800:220:1::1]:443", "10.1.2.3:443", "[::ffff:10.1.2.3]:443", "[fd00::1]:443"} {
		if err := g.Check(fine); err != nil {
			t.Errorf("%s may not be reached: %v", fine, err)
		}
	}
}

// A channel of the definitions does not reach the server's own network; the same without the guard
// does. The name is one that means an outer address when it is resolved, and an inner one when it
// is connected to: the connection counts.
func TestChannelsDoNotReachTheServersNetwork(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	_, port, err := net.SplitHostPort(r.Listener.Addr().String())
	must(t, err)
	b := newBed(t, newLedger(t), hook("http://localhost:"+port), func(c *Config) { c.Allow = nil })
	b.start()
	b.run("r1", ledger.Outcome{Outcome: core.Failed})
	until(t, "it to be given up", func() bool { return len(b.all(ledger.NotificationDeadLettered)) == 1 })
	if deadLettered := b.all(ledger.NotificationDeadLettered)[0]; !strings.Contains(deadLettered.Reason, "--notify-allow") || strings.Contains(deadLettered.Reason, "127.0.0.1") || strings.Contains(deadLettered.Reason, "::1") {
		t.Errorf("%+v", deadLettered)
	}
	if got := r.ids(); len(got) != 0 {
		t.Fatalf("it was reached: %q", got)
	}

	// The negative control: the same client without its guard.
	open := newWeb(b.cfg, nil)
	defer open.client.CloseIdleConnections()
	must(t, open.post(t.Context(), "http://localhost:"+port, []byte("{}"), "x", nil))
	if got := r.ids(); len(got) != 1 {
		t.Fatalf("without the guard %d came", len(got))
	}

	// A name that is another address at each look: the guard sees the one that is connected to.
	rebinding := newGuard(nil).Dialer()
	rebinding.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no DNS in this test") }}
	if conn, err := rebinding.DialContext(t.Context(), "tcp", "127.0.0.1:"+port); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("%v, %v", conn, err)
	}
}
