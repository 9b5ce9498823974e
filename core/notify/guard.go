package notify

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/turnus/turnus/core"
)

// guard keeps channels of the definitions from reaching the server's own network: who may write a channel must not be able to post to
// a database's port, or to the address where a cloud hands out keys. It looks at the address that is being connected to, after
// every lookup of a name: a name that means another address the second time changes nothing.
type guard struct{ allow []netip.Prefix }

// inner are networks that are nobody's on the outside, or that lead to such by a translation: IANA's registries of special addresses.
func inner() []netip.Prefix {
	var all []netip.Prefix
	for _, text := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
		"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// dialer of a nil guard reaches everything.
func (g *guard) dialer() *net.Dialer {
	if g == nil {
		return &net.Dialer{}
	}
	return &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error { return g.check(address) }}
}

func (g *guard) check(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %s: %w: %w", address, core.ErrInvalid, err)
	}
	ip := at.Addr().WithZone("").Unmap()
	within := func(p netip.Prefix) bool { return p.Contains(ip) }
	if slices.ContainsFunc(inner(), within) && !slices.ContainsFunc(g.allow, within) {
		return fmt.Errorf("%s is an address of the server's own network, which channels of the definitions may not reach: "+
			"--notify-allow of the server says which they may: %w", ip, core.ErrInvalid)
	}
	return nil
}
