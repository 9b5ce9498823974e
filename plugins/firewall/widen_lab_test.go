//go:build linux && labs

package firewall_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

// table is a ruleset of the chain input with a policy.
func table(policy, rules string) string {
	return "table inet turnus {\n" + strings.ReplaceAll(rules, "INPUT", "chain input {\n    type filter hook input priority 0; policy "+policy+";") + "\n}\n"
}

var probed = []int{21, 22, 23, 25, 53, 80, 443, 8080}

// lets are the ports that a connection to the device gets through to: behind the table, a counter
// for each sees its first packet.
func (d *device) lets() string {
	d.t.Helper()
	var rules, dials strings.Builder
	for _, port := range probed {
		fmt.Fprintf(&rules, "tcp dport %d tcp flags & (syn | ack) == syn counter comment \"%d\"\n", port, port)
		fmt.Fprintf(&dials, "timeout 0.3 bash -c '</dev/tcp/127.0.0.1/%d' 2>/dev/null &\n", port)
	}
	seen := d.shell("ip link set lo up\nnft -f - <<'E'\ntable inet count {\n chain in { type filter hook input priority 50;\n" + rules.String() + "}\n}\nE\n" +
		dials.String() + "wait\nnft list table inet count; nft delete table inet count")
	var ports []string
	for line := range strings.Lines(seen) {
		if words := strings.Fields(line); slices.Contains(words, "counter") && !strings.Contains(line, "packets 0 ") {
			ports = append(ports, strings.Trim(words[len(words)-1], `"`))
		}
	}
	return strings.Join(ports, " ")
}

func union(a, b string) string {
	var list []string
	for _, port := range probed {
		p := fmt.Sprint(port)
		if strings.Contains(" "+a+" ", " "+p+" ") || strings.Contains(" "+b+" ", " "+p+" ") {
			list = append(list, p)
		}
	}
	return strings.Join(list, " ")
}

// With tables of any shape, the widened one lets through what either does: seen from outside, with
// packets.
func TestLabWidenLetsThroughWhatEitherDoes(t *testing.T) {
	t.Parallel()
	const est = "ct state established,related accept\n"
	for name, c := range map[string]struct{ old, fresh string }{
		"two lists of ports": {table("drop", "INPUT "+est+" tcp dport { 22, 80 } accept\n }"), table("drop", "INPUT "+est+" tcp dport { 22, 443 } accept\n }")},
		"old blocks a few":   {table("accept", "INPUT tcp dport { 80, 443 } drop\n }"), table("drop", "INPUT tcp dport { 80, 22 } accept\n }")},
		"new blocks a few":   {table("drop", "INPUT tcp dport 22 accept\n }"), table("accept", "INPUT tcp dport { 22, 25, 80 } drop\n }")},
		"reject":             {table("accept", "INPUT tcp dport 22 accept\n tcp dport 1-1000 reject with tcp reset\n }"), table("accept", "INPUT tcp dport 443 accept\n tcp dport 1-1000 reject\n }")},
		"chains and returns": {
			table("drop", "chain services { tcp dport 80 return\n tcp dport 22 accept\n tcp dport 23 jump deep\n tcp dport 25 goto deep\n }\n chain deep { tcp dport 25 drop\n tcp dport 23 return\n }\n INPUT jump services\n tcp dport 23 accept\n }"),
			table("accept", "chain services { tcp dport 25 return\n tcp dport 53 goto deep\n tcp dport 80 accept\n drop\n }\n chain deep { tcp dport 8080 accept\n }\n INPUT tcp dport 21 drop\n jump services\n tcp dport 25 accept\n }"),
		},
		"verdict maps": {
			table("drop", "map ports { type inet_service : verdict; elements = { 22 : accept, 23 : drop, 80 : jump web, 443 : goto web }\n }\n chain web { tcp dport 80 accept\n }\n INPUT tcp dport vmap @ports\n tcp dport vmap { 25 : accept, 53 : drop }\n tcp dport 8080 accept\n }"),
			table("drop", "map ports { type inet_service : verdict; elements = { 22 : drop, 23 : accept, 80 : drop, 443 : drop }\n }\n INPUT tcp dport vmap @ports\n tcp dport vmap { 25 : drop, 53 : accept }\n }"),
		},
		"sets of one name": {
			table("drop", "set ok { type inet_service; flags interval; elements = { 20-22, 80 }\n }\n INPUT tcp dport @ok accept\n }"),
			table("drop", "set ok { type inet_service; flags interval; elements = { 443, 8000-9000 }\n }\n INPUT tcp dport @ok accept\n }"),
		},
		"no chain in the new one": {table("drop", "INPUT tcp dport 22 accept\n }"), "table inet turnus {\n chain forward { type filter hook forward priority 0; policy drop; }\n}\n"},
		"limits and logs":         {table("drop", "INPUT tcp dport 22 limit rate 100/second log prefix \"a \" counter accept comment \"ssh\"\n }"), table("drop", "INPUT tcp dport 80 counter accept\n log prefix \"@x\" drop\n }")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDevice(t)
			load := func(text string) string {
				d.shell("nft add table inet turnus; nft delete table inet turnus; nft -f - <<'E'\n" + text + "E\n")
				return d.lets()
			}
			alone := load(c.fresh)
			old := load(c.old)
			wide := sdk.With{"ruleset": c.fresh, "mode": "widen", "on_drift": "overwrite"}
			want(t, d.kit.Check(d.with("", wide)), "changed", "would replace")
			got := d.kit.Run(d.with("", wide))
			want(t, got, "changed", "")
			if lets := d.lets(); lets != union(old, alone) {
				t.Errorf("it lets through %q, expected %q or %q\n%s", lets, old, alone, d.live())
			}
			want(t, d.kit.Run(d.with("", wide)), "unchanged", "is let through already")
			want(t, d.kit.Run(d.with("", sdk.With{"ruleset": c.fresh, "mode": "narrow"})), "changed", "")
			if lets := d.lets(); lets != alone {
				t.Errorf("narrowed it lets through %q, expected %q", lets, alone)
			}
			want(t, d.kit.Run(d.with("", sdk.With{"ruleset": c.fresh, "mode": "narrow"})), "unchanged", "")
			want(t, d.kit.Run(d.with("", sdk.With{"ruleset": c.fresh, "mode": "widen"})), "unchanged", "")
		})
	}
}

// Why it is not done the simple way: an accept in a chain of its own, however early, is not the
// last word.
func TestLabTrapTwoBaseChainsAreAnIntersection(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	d.shell("nft -f - <<'E'\n" + table("drop", "INPUT tcp dport 22 accept\n }") + "table inet early { chain input { type filter hook input priority -10; policy accept; tcp dport 80 accept\n }\n}\nE\n")
	if lets := d.lets(); lets != "22" {
		t.Errorf("two chains let through %q, expected only what both do", lets)
	}
}

func TestLabWidenRefusesWhatItCannotJoin(t *testing.T) {
	t.Parallel()
	plain := table("drop", "INPUT tcp dport 22 accept\n }")
	for name, c := range map[string]struct{ old, fresh, reason string }{
		"a rule that marks":      {plain, table("drop", "INPUT meta mark set 1\n tcp dport 22 accept\n }"), "rule 1 of chain input of the new table has the statement mangle"},
		"a rule that learns":     {table("drop", "set seen { type ipv4_addr; flags dynamic; }\n INPUT add @seen { ip saddr }\n tcp dport 22 accept\n }"), plain, "rule 1 of chain input of the live table has the statement set"},
		"another priority":       {plain, strings.Replace(plain, "priority 0", "priority 5", 1), "has priority 0 and would get 5"},
		"two chains at one hook": {plain, table("drop", "INPUT tcp dport 22 accept\n }\n chain more { type filter hook input priority 1; policy accept; }"), "two chains at the hook input, input and more"},
		"another nat": {table("drop", "INPUT tcp dport 22 accept\n }\n chain out { type nat hook postrouting priority 100; masquerade\n }"),
			table("drop", "INPUT tcp dport 22 accept\n }\n chain out { type nat hook postrouting priority 100; ip saddr 192.0.2.0/24 masquerade\n }"), "chain out, of type nat, is not the same in both"},
		"a set that time empties": {table("drop", "set ban { type ipv4_addr; flags timeout; }\n INPUT ip saddr @ban drop\n tcp dport 22 accept\n }"), plain, "the set ban of the live table is filled by rules or emptied by time"},
		"a limit that drops":      {plain, table("accept", "INPUT tcp dport 22 limit rate 10/second drop\n }"), "a limit that does not end in accept"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDevice(t)
			d.shell("nft -f - <<'E'\n" + c.old + "E\n")
			before := d.live()
			got := d.kit.Run(d.with("", sdk.With{"ruleset": c.fresh, "mode": "widen", "on_drift": "overwrite"}))
			want(t, got, "failed", c.reason)
			if got.Effects != "none" || d.live() != before {
				t.Errorf("effects %s; live:\n%s", got.Effects, d.live())
			}
		})
	}
}

func TestLabNarrowNeedsAWidenedHost(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	want(t, d.kit.Run(d.with("tcp dport 22 accept")), "changed", "")
	want(t, d.kit.Run(d.with("tcp dport 23 accept", sdk.With{"mode": "narrow"})), "failed", "was not widened to this ruleset")
	want(t, d.kit.Run(d.with("tcp dport 23 accept\n tcp dport 25 drop", sdk.With{"mode": "widen"})), "changed", "")
	want(t, d.kit.Run(d.with("tcp dport 23 accept", sdk.With{"mode": "narrow"})), "failed", "was not widened to this ruleset")
	d.shell("nft add rule inet turnus input tcp dport 80 drop")
	want(t, d.kit.Run(d.with("tcp dport 23 accept\n tcp dport 25 drop", sdk.With{"mode": "narrow"})), "failed", "was not widened to this ruleset")
	// A host without the table lets all through: there is nothing to widen, and narrowing may begin.
	d.shell("nft delete table inet turnus")
	want(t, d.kit.Run(d.with("tcp dport 23 accept", sdk.With{"mode": "widen"})), "unchanged", "is let through already")
	want(t, d.kit.Run(d.with("tcp dport 23 accept", sdk.With{"mode": "narrow"})), "changed", "")
}

// A worker dies after it applied the widened table: the next one finds it, and confirms it; the
// record for narrowing is there.
func TestLabWidenIsResumed(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	want(t, d.kit.Run(d.with("tcp dport 23 drop")), "changed", "")
	with := d.with("tcp dport 25 drop", sdk.With{"mode": "widen", "confirm_timeout": "2m"}) // the next one must be in time
	var running *plugintest.Running
	started := make(chan struct{})
	d.meet(func(c plugintest.Call) *plugintest.Reply {
		if !strings.Contains(c.Command, "state \"$D/$ID\"\nnow") {
			return nil
		}
		<-started
		running.Cancel()
		return &plugintest.Reply{Err: plugintest.Unreachable("r1", false)}
	})
	running = d.kit.Start(with)
	close(started)
	if dead := running.Wait(); dead.Outcome != "cancelled" {
		t.Fatalf("got %s (%s)", dead.Outcome, dead.Reason)
	}
	d.meet(nil)
	calls := len(d.host.Calls())
	got := d.kit.Run(with, plugintest.Attempt(2)) // with nothing saved: the host knows
	want(t, got, "changed", "")
	for _, c := range d.host.Calls()[calls:] {
		if is(c, "arm") {
			t.Error("it was pushed again")
		}
	}
	if lets := d.lets(); !strings.Contains(lets, "23") || !strings.Contains(lets, "25") {
		t.Errorf("it lets through %q", lets)
	}
	want(t, d.kit.Run(d.with("tcp dport 25 drop", sdk.With{"mode": "narrow"})), "changed", "")
}
