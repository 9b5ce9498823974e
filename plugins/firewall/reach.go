package firewall

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/turnus/turnus/plugins/sdk"
)

// reachable refuses a table that surely drops a new SSH connection of a management source. It reads
// the table as far as it can and gives everything else the benefit of the doubt: the host's timer
// corrects cases that it cannot decide.
func (p *push) reachable() error {
	for _, text := range p.params.MgmtSources {
		from, err := source(text)
		if err != nil {
			return err
		}
		w := walker{table: &p.want, packet: packet{from: from, port: p.params.MgmtPort}}
		if chain := w.dropped(); chain != "" {
			return sdk.Refuse("the chain %s surely drops SSH (port %d) from %s, which is one of mgmt_sources", chain, p.params.MgmtPort, text)
		}
	}
	return nil
}

// packet is the first one of an SSH connection, from any address of a network.
type packet struct {
	from netip.Prefix
	port int
}

type truth int

const (
	no truth = iota
	maybe
	yes
)

func not(t truth) truth { return yes - t }

// any of several.
func either(a, b truth) truth { return max(a, b) }

type walker struct {
	table  *table
	packet packet
	depth  int
}

// dropped names the base chain that lets no such packet through; empty when there is none.
func (w *walker) dropped() string {
	var bases []object
	for _, o := range w.table.objects {
		if hook := o.text("hook"); o.kind == "chain" && (hook == "input" || hook == "prerouting") && w.sees(o.text("family")) {
			bases = append(bases, o)
		}
	}
	slices.SortStableFunc(bases, func(a, b object) int { return cmp.Compare(a.text("hook"), b.text("hook")) })
	for _, base := range bases {
		accepts, falls := w.chain(base.text("name"))
		if !accepts && (!falls || base.text("policy") == "drop") {
			return base.text("name")
		}
	}
	return ""
}

// sees reports whether a family's chains meet the packet.
func (w *walker) sees(family string) bool {
	return family == "inet" || (family == "ip") == w.packet.from.Addr().Is4() && (family == "ip" || family == "ip6")
}

// chain reports whether the packet may be accepted in a chain, and whether it may fall off its end.
func (w *walker) chain(name string) (accepts, falls bool) {
	if w.depth++; w.depth > 64 { // nft refuses loops; this bounds us without relying on it
		return true, true
	}
	defer func() { w.depth-- }()
	for _, o := range w.table.objects {
		if o.kind != "rule" || o.text("chain") != name {
			continue
		}
		r := w.rule(o)
		accepts, falls = accepts || r.accepts, falls || r.returns
		if !r.goesOn {
			return accepts, falls
		}
	}
	return accepts, true
}

// fate holds the ways in which a packet may leave a rule.
type fate struct{ accepts, returns, goesOn bool }

func (f fate) or(g fate) fate {
	return fate{f.accepts || g.accepts, f.returns || g.returns, f.goesOn || g.goesOn}
}

func (w *walker) rule(o object) fate {
	met := yes
	var result fate
	list, _ := o.body["expr"].([]any)
	for _, e := range list {
		statement, _ := e.(map[string]any)
		for kind, body := range statement {
			switch kind {
			case "match":
				met = min(met, w.match(body))
			case "counter", "log", "set", "mangle", "meta": // neither accepts nor drops
			case "accept", "drop", "reject", "return", "continue", "jump", "goto":
				result = w.verdict(kind, body)
				return w.when(met, result)
			case "vmap":
				return w.when(met, w.vmap(body))
			case "queue", "synproxy", "redirect", "dnat", "tproxy": // somebody else decides
				return w.when(met, fate{accepts: true, goesOn: true})
			default: // limit, quota, connlimit, xt, and what newer versions bring
				met = min(met, maybe)
			}
			if met == no {
				return fate{goesOn: true}
			}
		}
	}
	return fate{goesOn: true}
}

// when applies a verdict statement under a condition.
func (w *walker) when(met truth, f fate) fate {
	switch met {
	case no:
		return fate{goesOn: true}
	case maybe:
		f.goesOn = true
	}
	return f
}

func (w *walker) verdict(kind string, body any) fate {
	switch kind {
	case "accept":
		return fate{accepts: true}
	case "return":
		return fate{returns: true}
	case "continue":
		return fate{goesOn: true}
	case "jump", "goto":
		to, _ := body.(map[string]any)
		name, _ := to["target"].(string)
		if name == "" { // an anonymous chain
			return fate{accepts: true, goesOn: true}
		}
		accepts, falls := w.chain(name)
		if kind == "goto" { // what falls off continues where a return would
			return fate{accepts: accepts, returns: falls}
		}
		return fate{accepts: accepts, goesOn: falls}
	}
	return fate{} // drop, reject
}

func (w *walker) vmap(body any) fate {
	m, _ := body.(map[string]any)
	elements, ok := w.elements(m["data"])
	if !ok {
		return fate{accepts: true, goesOn: true}
	}
	var all fate
	hit := no
	for _, e := range elements {
		pair, _ := e.([]any)
		if len(pair) != 2 {
			return fate{accepts: true, goesOn: true}
		}
		met := w.compare(m["key"], pair[0])
		hit = either(hit, met)
		verdict, _ := pair[1].(map[string]any)
		for kind, target := range verdict {
			if met != no {
				all = all.or(w.verdict(kind, target))
			}
		}
		if met == yes {
			break
		}
	}
	if hit != yes {
		all.goesOn = true
	}
	return all
}

// elements of an anonymous set, or of a named one, as the table declares it. A set that packets
// fill has no known elements.
func (w *walker) elements(v any) ([]any, bool) {
	if m, isMap := v.(map[string]any); isMap {
		list, ok := m["set"].([]any)
		return list, ok
	}
	name, isName := v.(string)
	if !isName || name == "" || name[0] != '@' {
		return nil, false
	}
	for _, o := range w.table.objects {
		if (o.kind == "set" || o.kind == "map") && o.text("name") == name[1:] {
			list, ok := o.body["elem"].([]any)
			return list, ok
		}
	}
	return nil, false
}

func (w *walker) match(body any) truth {
	m, _ := body.(map[string]any)
	switch m["op"] {
	case "==", "in":
		return w.compare(m["left"], m["right"])
	case "!=":
		if !w.applies(m["left"]) {
			return no // nft asks for the protocol first
		}
		return not(w.compare(m["left"], m["right"]))
	}
	if !w.applies(m["left"]) {
		return no
	}
	return maybe
}

// field names what an expression reads of the packet: "ip saddr", "meta l4proto", "ct state".
func field(left any) string {
	m, _ := left.(map[string]any)
	if payload, ok := m["payload"].(map[string]any); ok {
		return fmt.Sprint(payload["protocol"], " ", payload["field"])
	}
	for _, kind := range []string{"meta", "ct"} {
		if inner, ok := m[kind].(map[string]any); ok {
			return kind + " " + fmt.Sprint(inner["key"])
		}
	}
	return ""
}

// applies is false for fields of protocols that the packet is not of.
func (w *walker) applies(left any) bool {
	m, _ := left.(map[string]any)
	payload, _ := m["payload"].(map[string]any)
	switch payload["protocol"] {
	case "ip", "icmp", "igmp":
		return w.packet.from.Addr().Is4() && payload["protocol"] == "ip"
	case "ip6", "icmpv6":
		return w.packet.from.Addr().Is6() && payload["protocol"] == "ip6"
	case "udp", "udplite", "sctp", "dccp", "ah", "esp", "comp", "arp":
		return false
	}
	return true
}

// compare reports whether what left reads is right, or one of it.
func (w *walker) compare(left, right any) truth {
	if !w.applies(left) {
		return no
	}
	switch list, isList := right.([]any); {
	case isList: // flags, as ct state has them
		return w.oneOf(left, list)
	default:
		if m, isMap := right.(map[string]any); isMap && m["set"] != nil {
			right = m
		} else if name, isName := right.(string); !isName || name == "" || name[0] != '@' {
			return w.single(left, right)
		}
	}
	elements, ok := w.elements(right)
	if !ok {
		return maybe
	}
	return w.oneOf(left, elements)
}

func (w *walker) oneOf(left any, list []any) truth {
	met := no
	for _, e := range list {
		met = either(met, w.single(left, e))
	}
	return met
}

func (w *walker) single(left, value any) truth {
	if m, ok := value.(map[string]any); ok {
		if elem, ok := m["elem"].(map[string]any); ok { // with a timeout, a comment or a counter
			value = elem["val"]
		}
	}
	word, isWord := value.(string)
	is := func(t bool) truth {
		switch {
		case !isWord:
			return maybe
		case t:
			return yes
		}
		return no
	}
	four := w.packet.from.Addr().Is4()
	switch field(left) {
	case "ip saddr", "ip6 saddr":
		return w.address(value)
	case "tcp dport", "th dport":
		return port(w.packet.port, value)
	case "ip protocol", "ip6 nexthdr", "meta l4proto":
		return is(word == "tcp")
	case "meta nfproto":
		return is(word == "ipv4" && four || word == "ipv6" && !four)
	case "meta protocol":
		return is(word == "ip" && four || word == "ip6" && !four)
	case "ct state":
		return is(word == "new")
	case "meta iif", "meta iifname":
		if isWord && word == "lo" {
			return no
		}
	}
	return maybe
}

// address: all of the source's addresses, some, or none.
func (w *walker) address(value any) truth {
	low, high, ok := span(value)
	if !ok {
		return maybe
	}
	first, last := w.packet.from.Addr(), lastOf(w.packet.from)
	switch {
	case low.BitLen() != first.BitLen() || last.Less(low) || high.Less(first):
		return no
	case !first.Less(low) && !high.Less(last):
		return yes
	}
	return maybe
}

func span(value any) (low, high netip.Addr, ok bool) {
	var err error
	switch v := value.(type) {
	case string:
		low, err = netip.ParseAddr(v)
		return low, low, err == nil
	case map[string]any:
		if inner, isPrefix := v["prefix"].(map[string]any); isPrefix {
			p, err := netip.ParsePrefix(fmt.Sprint(inner["addr"], "/", inner["len"]))
			if err != nil {
				return low, high, false
			}
			return p.Masked().Addr(), lastOf(p), true
		}
		if ends, isRange := v["range"].([]any); isRange && len(ends) == 2 {
			if low, err = netip.ParseAddr(fmt.Sprint(ends[0])); err == nil {
				high, err = netip.ParseAddr(fmt.Sprint(ends[1]))
			}
			return low, high, err == nil
		}
	}
	return low, high, false
}

func lastOf(p netip.Prefix) netip.Addr {
	raw := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(raw)*8; i++ {
		raw[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(raw)
	return last
}

func port(want int, value any) truth {
	low, high := value, value
	if m, ok := value.(map[string]any); ok {
		ends, isRange := m["range"].([]any)
		if !isRange || len(ends) != 2 {
			return maybe
		}
		low, high = ends[0], ends[1]
	}
	from, err := number(low)
	to, err2 := number(high)
	switch {
	case err != nil || err2 != nil:
		return maybe
	case from <= want && want <= to:
		return yes
	}
	return no
}

func number(v any) (int, error) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, fmt.Errorf("%v is no number", v)
	}
	return strconv.Atoi(n.String())
}
