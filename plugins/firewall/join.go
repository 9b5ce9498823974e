package firewall

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const maxName = 120 // of chains; the kernel takes a few more

// name is a free one.
func (w *widening) name(want string) string {
	for w.taken[want] {
		want = "x" + want
	}
	if len(want) > maxName && w.failed == nil {
		w.failed = fmt.Errorf("the name %s is too long: narrow what was widened before first", want)
	}
	w.taken[want] = true
	return want
}

// build makes the chains, sets and rules of the widened table, once the two are sound to join.
func (w *widening) build() {
	before, _ := w.old.hooks("")
	after, _ := w.fresh.hooks("")
	for _, name := range w.fresh.setsIn {
		s := w.fresh.sets[name]
		w.put(s.kind, clone(s.body).(map[string]any))
	}
	for _, o := range w.fresh.objects {
		w.out = append(w.out, map[string]any{o.kind: o.body})
	}
	for _, name := range w.fresh.names {
		c := w.fresh.chains[name]
		body := clone(c.body).(map[string]any)
		if c.base() && c.text("type") == "filter" { // without its hook: it is asked second, or, where the old table lets all through, never
			for _, key := range []string{"type", "hook", "prio", "policy"} {
				delete(body, key)
			}
		}
		w.chains = append(w.chains, map[string]any{"chain": body})
		for _, r := range c.rules {
			w.rule(name, clone(r["expr"]), r["comment"])
		}
	}
	for _, hook := range slices.Sorted(maps.Keys(before)) {
		if after[hook] != nil { // else nothing is blocked there by one of the two
			w.join(hook, before[hook], after[hook])
		}
	}
}

// put adds a set, or a map behind the chains that it may name.
func (w *widening) put(kind string, body map[string]any) {
	if kind == "map" {
		w.maps = append(w.maps, map[string]any{kind: body})
	} else {
		w.out = append(w.out, map[string]any{kind: body})
	}
}

func (w *widening) chain(name string) string {
	w.chains = append(w.chains, map[string]any{"chain": map[string]any{"family": w.family, "table": w.table, "name": name}})
	return name
}

func (w *widening) rule(chain string, expr, comment any) {
	body := map[string]any{"family": w.family, "table": w.table, "chain": chain, "expr": expr}
	if comment != nil {
		body["comment"] = comment
	}
	w.rules = append(w.rules, map[string]any{"rule": body})
}

func verdict(kind, target string) map[string]any {
	if target == "" {
		return map[string]any{kind: nil}
	}
	return map[string]any{kind: map[string]any{"target": target}}
}

// join makes the base chain of a hook.
func (w *widening) join(hook string, old, fresh *ruleChain) {
	base, next := w.name("widened."+hook), w.name("new."+hook)
	w.chains = append(w.chains, map[string]any{"chain": map[string]any{
		"family": w.family, "table": w.table, "name": base, "type": "filter", "hook": hook, "prio": old.body["prio"], "policy": "drop",
	}})
	c := &copying{w: w, hook: hook, next: w.chain(next), chains: map[string]string{}, maps: map[string]string{}}
	root := c.chain(old.text("name"))
	w.rule(base, []any{verdict("jump", root)}, nil)
	if policy(old) == "accept" {
		w.rule(base, []any{verdict("accept", "")}, nil)
	} else {
		w.rule(base, []any{verdict("goto", next)}, nil)
	}
	w.rule(next, []any{verdict("jump", fresh.text("name"))}, nil)
	w.rule(next, []any{verdict(policy(fresh), "")}, nil)
}

func policy(c *ruleChain) string { return cmp.Or(c.text("policy"), "accept") }

// copying copies old rules for one hook. A packet that they drop goes to the chain next.
type copying struct {
	w            *widening
	hook, next   string
	chains, maps map[string]string
}

func (c *copying) chain(name string) string {
	if to, ok := c.chains[name]; ok {
		return to
	}
	to := c.w.name("old." + c.hook + "." + name)
	c.chains[name] = c.w.chain(to)
	if from := c.w.old.chains[name]; from != nil {
		for _, r := range from.rules {
			c.w.rule(to, c.rewrite(clone(r["expr"])), r["comment"])
		}
	}
	return to
}

// rewrite turns verdict statements and names into those of the copy.
func (c *copying) rewrite(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = c.rewrite(v[i])
		}
	case map[string]any:
		for key, value := range v {
			switch key {
			case "drop", "reject":
				delete(v, key)
				maps.Copy(v, verdict("goto", c.next))
				return v
			case "jump", "goto":
				if to, ok := value.(map[string]any); ok {
					name, _ := to["target"].(string)
					v[key] = map[string]any{"target": c.chain(name)}
				}
				return v
			case "counter":
				v[key] = nil // also instead of a named one
			case "log", "comment":
			default:
				v[key] = c.rewrite(value)
			}
		}
	case string:
		if name, ok := strings.CutPrefix(v, "@"); ok {
			return "@" + c.set(name)
		}
	}
	return v
}

// set is the name of an old set or map here. One that the new table also has is not copied; a
// verdict map is copied for each hook.
func (c *copying) set(name string) string {
	s, ok := c.w.old.sets[name]
	if !ok {
		return name
	}
	if s.text("map") == "verdict" {
		if to, ok := c.maps[name]; ok {
			return to
		}
		to := c.w.name("old." + c.hook + "." + name)
		c.maps[name] = to
		body := clone(s.body).(map[string]any)
		body["name"] = to
		if body["elem"] != nil {
			body["elem"] = c.rewrite(body["elem"])
		}
		c.w.put("map", body)
		return to
	}
	if to, ok := c.w.shared[name]; ok {
		return to
	}
	to := name
	if there, ok := c.w.fresh.sets[name]; !ok || !same(setBody(s), setBody(there)) {
		to = c.w.name("old." + name)
		body := clone(s.body).(map[string]any)
		body["name"] = to
		c.w.put(s.kind, body)
	}
	c.w.shared[name] = to
	return to
}
