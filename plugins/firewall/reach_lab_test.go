//go:build linux && labs

package firewall_test

import (
	"strings"
	"testing"

	"github.com/turnus/turnus/plugins/sdk"
)

// An address that the table surely drops is refused before the host is touched; an unclear one is
// tried, because the timer heals it. Check mode is enough to ask.
func TestLabManagementSources(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	table := func(rules string, more ...string) string {
		return "define mgmt = { 192.0.2.0/24, 2001:db8::/32 }\ntable inet turnus {\n" + strings.Join(more, "\n") +
			"\n chain input { type filter hook input priority 0; policy drop;\n ct state established,related accept\n iifname \"lo\" accept\n" + rules + "\n }\n}\n"
	}
	for name, tc := range map[string]struct {
		text, source string
		port         int
		dropped      bool
	}{
		"nothing lets it in":          {table(""), "192.0.2.1", 22, true},
		"its network":                 {table("ip saddr 192.0.2.0/24 tcp dport 22 accept"), "192.0.2.1", 22, false},
		"all of its network":          {table("ip saddr 192.0.2.0/24 tcp dport 22 accept"), "192.0.2.0/25", 22, false},
		"another network":             {table("ip saddr 192.0.2.0/24 tcp dport 22 accept"), "198.51.100.1", 22, true},
		"a part of its network":       {table("ip saddr 192.0.2.0/25 tcp dport 22 accept"), "192.0.2.0/24", 22, false},
		"another port":                {table("tcp dport { 80, 443 } accept"), "192.0.2.1", 22, true},
		"a range of ports":            {table("tcp dport 20-30 accept"), "192.0.2.1", 22, false},
		"SSH is elsewhere":            {table("tcp dport 22 accept"), "192.0.2.1", 2222, true},
		"another protocol":            {table("udp dport 22 accept\n icmp type echo-request accept"), "192.0.2.1", 22, true},
		"the other family":            {table("ip saddr 0.0.0.0/0 accept"), "2001:db8::1", 22, true},
		"its family":                  {table("meta nfproto ipv6 tcp dport 22 accept"), "2001:db8::1", 22, false},
		"a named set":                 {table("ip saddr @ok accept", "set ok { type ipv4_addr; flags interval; elements = { 192.0.2.0/24 } }"), "192.0.2.9", 22, false},
		"not in the set":              {table("ip saddr @ok accept", "set ok { type ipv4_addr; flags interval; elements = { 198.51.100.5-198.51.100.9 } }"), "192.0.2.9", 22, true},
		"in its range":                {table("ip saddr @ok accept", "set ok { type ipv4_addr; flags interval; elements = { 198.51.100.5-198.51.100.9 } }"), "198.51.100.7", 22, false},
		"a set that packets fill":     {table("ip saddr @ok accept", "set ok { type ipv4_addr; flags dynamic,timeout; timeout 1h; }"), "192.0.2.9", 22, false},
		"dropped before":              {table("ip saddr 192.0.2.0/28 drop\n tcp dport 22 accept"), "192.0.2.1", 22, true},
		"dropped at times":            {table("ip saddr 192.0.2.0/28 limit rate 1/second drop\n tcp dport 22 accept"), "192.0.2.1", 22, false},
		"a chain":                     {table("tcp dport 22 jump ssh", "chain ssh { ip saddr 192.0.2.1 accept; }"), "192.0.2.1", 22, false},
		"a chain that returns":        {table("tcp dport 22 jump ssh\n ct state new drop", "chain ssh { ip saddr 198.51.100.1 accept; return; }"), "192.0.2.1", 22, true},
		"a chain left by goto":        {table("tcp dport 22 goto ssh\n accept", "chain ssh { ip saddr 198.51.100.1 accept; }"), "192.0.2.1", 22, true},
		"a verdict map":               {table("tcp dport vmap { 22 : accept, 80 : drop }"), "192.0.2.1", 22, false},
		"a verdict map that drops":    {table("tcp dport vmap { 22 : drop, 80 : accept }\n accept"), "192.0.2.1", 22, true},
		"a map of states":             {table("ct state vmap { established : accept, invalid : drop, new : jump n }", "chain n { tcp dport 22 accept; }"), "192.0.2.1", 22, false},
		"not this one":                {table("ip saddr != 192.0.2.1 accept"), "192.0.2.1", 22, true},
		"not another one":             {table("ip saddr != 192.0.2.9 accept"), "192.0.2.1", 22, false},
		"an interface":                {table("iifname \"eth0\" accept"), "192.0.2.1", 22, false},
		"the loopback alone":          {table("iifname \"lo\" accept"), "192.0.2.1", 22, true},
		"a set of another definition": {table("ip saddr { 192.0.2.0/24, 10.0.0.0/8 } tcp dport { 22 } counter log accept"), "192.0.2.1", 22, false},
		"policy accept":               {ruleset("tcp dport 80 drop"), "192.0.2.1", 22, false},
		"rejected":                    {ruleset("tcp dport 22 reject"), "192.0.2.1", 22, true},
		"an earlier hook":             {ruleset("accept") + "table inet turnus { chain raw { type filter hook prerouting priority -300; ip saddr 192.0.2.0/24 drop; }\n}", "192.0.2.1", 22, true},
		"what leaves is no matter":    {ruleset("accept") + "table inet turnus { chain out { type filter hook output priority 0; drop; }\n}", "192.0.2.1", 22, false},
	} {
		got := d.kit.Check(d.with("", sdk.With{"ruleset": tc.text, "mgmt_sources": []string{tc.source}, "mgmt_port": tc.port}))
		outcome, reason := "changed", ""
		if tc.dropped {
			outcome, reason = "failed", "surely drops SSH"
		}
		if got.Outcome != outcome || !strings.Contains(got.Reason, reason) {
			t.Errorf("%s: got %s (%s), want %s", name, got.Outcome, got.Reason, outcome)
		}
	}
}
