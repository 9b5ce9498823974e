package inventory

import (
	"maps"
	"slices"
)

// orderMembers brings the members of groups into the order in which Ansible counts them: a group's
// own hosts as they were listed, then those of its children, then those of their children.
func (b *builder) orderMembers(inv *Inventory) {
	walk := memberWalk{inv: inv, seen: make([]int, len(inv.Hosts))}
	top := &group{name: "all"}
	if all := b.groups["all"]; all != nil {
		top.hosts, top.children = all.hosts, slices.Clone(all.children)
	}
	for _, g := range b.order {
		if len(g.parents) == 0 && g.name != "all" && g.name != "ungrouped" {
			top.addChild(g)
		}
	}
	ungrouped := inv.members["ungrouped"]
	inv.members["all"] = walk.members(top, ungrouped)
	inv.named = append(inv.named, "all")
	for _, g := range b.order {
		if g.name == "all" {
			continue
		}
		inv.named = append(inv.named, g.name)
		if g.name != "ungrouped" && len(inv.members[g.name]) > 0 {
			inv.members[g.name] = walk.members(g, nil)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(inv.members)) {
		if b.groups[name] == nil && name != "all" {
			inv.named = append(inv.named, name)
		}
	}
}

// Members returns the names of a group's hosts in the order in which Ansible counts them; nil for
// a group without hosts.
func (inv *Inventory) Members(group string) (names []string) {
	for _, i := range inv.members[group] {
		names = append(names, inv.Hosts[i].Name)
	}
	return names
}

// memberWalk goes through groups in widening circles.
type memberWalk struct {
	inv  *Inventory
	seen []int // of each host, the last walk that met it
	walk int
}

// members lists a group's hosts; first come behind its own ones. Hosts that are in it by another
// way than groups, as a customer's, come last.
func (w *memberWalk) members(g *group, first []int) []int {
	w.walk++
	var out []int
	add := func(i int) {
		if w.seen[i] != w.walk {
			w.seen[i] = w.walk
			out = append(out, i)
		}
	}
	own := func(g *group) {
		for _, e := range g.hosts {
			if i, made := w.inv.index[e.name]; made {
				add(i)
			}
		}
	}
	own(g)
	for _, i := range first {
		add(i)
	}
	met := map[*group]bool{g: true}
	for circle := g.children; len(circle) > 0; {
		var next []*group
		for _, c := range circle {
			if met[c] || c.name == "ungrouped" {
				continue
			}
			met[c] = true
			own(c)
			next = append(next, c.children...)
		}
		circle = next
	}
	for _, i := range w.inv.members[g.name] {
		add(i)
	}
	return out
}
