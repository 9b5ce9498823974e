package core

import "net/netip"

// ThisMachine reports whether an address, or a name, is this machine's own by its text:
// localhost, or of the loopback. Nothing is looked up: a name may be answered by anybody.
func ThisMachine(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
