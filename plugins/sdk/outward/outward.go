// Package outward owns keeping connections out of a machine's own network, if another person
// chooses their address. Such a person must not reach a database's port, or the address from which
// a cloud serves keys.
//
// The package must not know who connects, nor why.
package outward

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// Guard checks the address that is being connected to, after every lookup of a name: a name that
// means another address the second time changes nothing.
type Guard struct {
	Allow   []netip.Prefix // inner networks that may be reached
	Refused error          // what a connection to any other fails with
}

// inner are networks that are nobody's on the outside, or that lead to such by a translation:
// IANA's registries of special addresses, and the one outer address at which a cloud answers its
// own machines.
func inner() []netip.Prefix {
	var all []netip.Prefix
	for _, text := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "224.0.0.0/3",
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
		"5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// Dialer of a nil guard reaches everything.
func (g *Guard) Dialer() *net.Dialer {
	if g == nil {
		return &net.Dialer{}
	}
	return &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error { return g.Check(address) }}
}

// Check reports whether an address, as IP:PORT, may be reached. The error is Refused.
func (g *Guard) Check(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %s: %w: %w", address, g.Refused, err)
	}
	ip := at.Addr().WithZone("").Unmap()
	within := func(p netip.Prefix) bool { return p.Contains(ip) }
	if slices.ContainsFunc(inner(), within) && !slices.ContainsFunc(g.Allow, within) {
		return g.Refused
	}
	return nil
}
