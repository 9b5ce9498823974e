package firewall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A widened table lets through whatever the old or the new one lets through. Two base chains at one
// hook cannot do that: an accept ends only its own chain, so together they let through what both
// do. It is one base chain, which first asks the old rules, whose accept is final, and goes to the
// new ones wherever the old would drop or reject:
//
//	chain widened.input { type filter hook input priority 0; policy drop; jump old.input.input; goto new.input }   # or accept, where that is the old policy
//	chain old.input.input { the old rules, each drop and reject as goto new.input }
//	chain new.input { jump input; drop }                                                                           # or accept, by the new policy
//	chain input { the new rules }
//
// That is exact for rules that only check packets. Rules that change packets or fill sets would
// change what later ones see: they are refused.

// ruleTable is a table as nft lists it in JSON.
type ruleTable struct {
	chains  map[string]*ruleChain
	names   []string // of the chains, in order
	sets    map[string]object
	setsIn  []string
	objects []object // all else
}

type ruleChain struct {
	body  map[string]any
	rules []map[string]any
}

func (c *ruleChain) base() bool           { _, ok := c.body["hook"]; return ok }
func (c *ruleChain) text(k string) string { s, _ := c.body[k].(string); return s }

// parseTable reads the JSON of nft.
func parseTable(raw []byte) (*ruleTable, error) {
	var doc struct {
		Nftables []map[string]map[string]any `json:"nftables"`
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("reading the JSON of nft: %w", err)
	}
	t := &ruleTable{chains: map[string]*ruleChain{}, sets: map[string]object{}}
	for _, entry := range doc.Nftables {
		for kind, body := range entry {
			delete(body, "handle")
			o := object{kind, body}
			switch kind {
			case "metainfo", "table":
			case "chain":
				t.chains[o.text("name")] = &ruleChain{body: body}
				t.names = append(t.names, o.text("name"))
			case "rule":
				if c := t.chains[o.text("chain")]; c != nil {
					c.rules = append(c.rules, body)
				}
			case "set", "map":
				t.sets[o.text("name")] = o
				t.setsIn = append(t.setsIn, o.text("name"))
			default:
				t.objects = append(t.objects, o)
			}
		}
	}
	return t, nil
}

// hooks are the base chains of type filter by hook.
func (t *ruleTable) hooks(whose string) (map[string]*ruleChain, error) {
	out := map[string]*ruleChain{}
	for _, name := range t.names {
		c := t.chains[name]
		if !c.base() || c.text("type") != "filter" {
			continue
		}
		hook := c.text("hook")
		if other := out[hook]; other != nil {
			return nil, fmt.Errorf("the %s table has two chains at the hook %s, %s and %s: what both let through cannot be joined with another table's", whose, hook, other.text("name"), name)
		}
		out[hook] = c
	}
	return out, nil
}

// pure reports why rules that are joined with others do more than check packets, or nil.
func (t *ruleTable) pure(whose string, dynamic map[string]bool) error {
	for _, name := range t.names {
		if c := t.chains[name]; !c.base() || c.text("type") == "filter" {
			for i, r := range c.rules {
				list, _ := r["expr"].([]any)
				if why := impure(list); why != "" {
					return fmt.Errorf("rule %d of chain %s of the %s table has %s: it does more than match packets, so the rules after it would see something else", i+1, name, whose, why)
				}
			}
		}
	}
	for _, name := range t.setsIn {
		s := t.sets[name]
		flags, _ := s.body["flags"].([]any)
		if dynamic[name] || slices.Contains(flags, any("timeout")) || slices.Contains(flags, any("dynamic")) {
			return fmt.Errorf("the set %s of the %s table is filled by rules or emptied by time: a copy of it would not stay the same", name, whose)
		}
	}
	return nil
}

// impure is the statement of a rule that is not known to leave all as it is, or "".
func impure(list []any) string {
	limit, over := false, false
	verdict := ""
	for _, e := range list {
		statement, _ := e.(map[string]any)
		for kind, value := range statement {
			switch kind {
			case "match", "counter", "log", "vmap":
			case "accept", "drop", "reject", "return", "jump", "goto":
				verdict = kind
			case "limit":
				body, isMap := value.(map[string]any)
				if !isMap {
					return "a named limit"
				}
				limit = true
				over, _ = body["inv"].(bool)
			default:
				return "the statement " + kind
			}
		}
	}
	// A limit that sees fewer packets than it would alone must let through no fewer for it.
	if limit && (over && verdict != "drop" && verdict != "reject" || !over && verdict != "accept" && verdict != "") {
		return "a limit that does not end in accept, or over a rate in drop"
	}
	return ""
}

// widening makes the widened table.
type widening struct {
	family, table string
	old, fresh    *ruleTable
	taken         map[string]bool   // names of chains and sets
	shared        map[string]string // name of an old set here
	out           []map[string]any
	chains, rules []map[string]any
	maps          []map[string]any // verdict maps: after the chains that they name
	failed        error
}

// widen is the JSON of a table that lets through what old or fresh lets through. An error is the
// reason if there is none.
func widen(table string, oldRaw, newRaw []byte, oldDynamic, newDynamic map[string]bool) ([]byte, error) {
	family, name, _ := strings.Cut(table, " ")
	if family != "inet" && family != "ip" && family != "ip6" {
		return nil, fmt.Errorf("a table of the family %s: expected inet, ip or ip6", family)
	}
	old, err := parseTable(oldRaw)
	if err != nil {
		return nil, err
	}
	fresh, err := parseTable(newRaw)
	if err != nil {
		return nil, err
	}
	w := &widening{family: family, table: name, old: old, fresh: fresh, taken: map[string]bool{}, shared: map[string]string{}}
	if err := w.sound(oldDynamic, newDynamic); err != nil {
		return nil, err
	}
	for _, names := range [][]string{fresh.names, fresh.setsIn} {
		for _, n := range names {
			w.taken[n] = true
		}
	}
	w.build()
	if w.failed != nil {
		return nil, w.failed
	}
	list := slices.Concat([]map[string]any{{"table": map[string]any{"family": family, "name": name}}}, w.out, w.chains, w.maps, w.rules)
	data, err := json.Marshal(map[string]any{"nftables": list})
	if err != nil {
		return nil, fmt.Errorf("writing the widened table: %w", err)
	}
	return data, nil
}

// sound reports why the two cannot be joined.
func (w *widening) sound(oldDynamic, newDynamic map[string]bool) error {
	if err := w.old.pure("live", oldDynamic); err != nil {
		return err
	}
	if err := w.fresh.pure("new", newDynamic); err != nil {
		return err
	}
	before, err := w.old.hooks("live")
	if err != nil {
		return err
	}
	after, err := w.fresh.hooks("new")
	if err != nil {
		return err
	}
	for hook, was := range before {
		is := after[hook]
		if is != nil && fmt.Sprint(was.body["prio"]) != fmt.Sprint(is.body["prio"]) {
			return fmt.Errorf("the chain at the hook %s has priority %v and would get %v: the two see packets at different times", hook, was.body["prio"], is.body["prio"])
		}
	}
	return w.sameOthers()
}

// sameOthers refuses tables whose chains of other types, such as nat, are not the same: there is no
// union of two addresses.
func (w *widening) sameOthers() error {
	others := func(t *ruleTable) map[string]string {
		out := map[string]string{}
		for _, name := range t.names {
			if c := t.chains[name]; c.base() && c.text("type") != "filter" {
				out[name] = t.print(name, map[string]bool{})
			}
		}
		return out
	}
	was, is := others(w.old), others(w.fresh)
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if was[name] != is[name] {
			return fmt.Errorf("chain %s, of type %s, is not the same in both: only filters can be joined; first push that change alone", name, w.fresh.chains[name].text("type"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, ok := is[name]; !ok {
			return fmt.Errorf("chain %s, of type %s, is not in the new table: only filters can be joined; first push that change alone", name, w.old.chains[name].text("type"))
		}
	}
	return nil
}

// print writes a chain, and all that it leads to and reads, so that two are alike if they do the
// same.
func (t *ruleTable) print(name string, seen map[string]bool) string {
	c := t.chains[name]
	if c == nil || seen[name] {
		return ""
	}
	seen[name] = true
	var b strings.Builder
	write := func(v any) {
		line, _ := json.Marshal(v) //nolint:errchkjson // it was JSON a moment ago
		b.Write(line)
		b.WriteByte('\n')
	}
	write(c.body)
	var refs []string
	for _, r := range c.rules {
		r = clone(r).(map[string]any)
		write(stateless(r["expr"]))
		walk(r["expr"], func(kind, ref string) { refs = append(refs, kind+" "+ref) })
	}
	for len(refs) > 0 {
		kind, ref, _ := strings.Cut(refs[0], " ")
		refs = refs[1:]
		if kind == "chain" {
			b.WriteString(t.print(ref, seen))
			continue
		}
		if s, ok := t.sets[ref]; ok && !seen["@"+ref] {
			seen["@"+ref] = true
			write(setBody(s))
			walk(s.body["elem"], func(kind, ref string) { refs = append(refs, kind+" "+ref) })
		}
	}
	return b.String()
}

func setBody(s object) map[string]any {
	body := clone(s.body).(map[string]any)
	if list, ok := body["elem"].([]any); ok {
		body["elem"] = sorted(list)
	}
	return body
}

// walk visits the chains and sets that an expression names.
func walk(v any, visit func(kind, ref string)) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			walk(e, visit)
		}
	case map[string]any:
		for key, value := range v {
			if key == "jump" || key == "goto" {
				if to, ok := value.(map[string]any); ok {
					if name, ok := to["target"].(string); ok {
						visit("chain", name)
					}
				}
				continue
			}
			if key != "log" && key != "comment" {
				walk(value, visit)
			}
		}
	case string:
		if name, ok := strings.CutPrefix(v, "@"); ok {
			visit("set", name)
		}
	}
}

// clone copies a JSON value.
func clone(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = clone(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = clone(e)
		}
		return out
	}
	return v
}

func same(a, b any) bool {
	x, _ := json.Marshal(a) //nolint:errchkjson // it was JSON a moment ago
	y, _ := json.Marshal(b) //nolint:errchkjson // the same
	return bytes.Equal(x, y)
}
