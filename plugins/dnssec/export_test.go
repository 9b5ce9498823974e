package dnssec

import "strings"

// TagOf is the tag of a key, as dig writes it.
func TagOf(rdata string) int {
	k, _ := parseKey(strings.Fields(rdata))
	return k.tag
}

// DSOf is its DS.
func DSOf(zone, rdata string) string {
	k, _ := parseKey(strings.Fields(rdata))
	return k.ds(zone, sha256Type).String()
}
