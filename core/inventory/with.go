package inventory

import (
	"maps"
	"slices"

	"github.com/turnus/turnus/core"
)

// With returns the inventory with the hosts of another one that take accepts behind its own. take
// may change its copy of the host.
// Groups of one name become one. A host that both have stays as inv has it.
func (inv *Inventory) With(other *Inventory, take func(*core.Host) bool) *Inventory {
	all := &Inventory{
		Hosts: slices.Clone(inv.Hosts), Sources: slices.Concat(inv.Sources, other.Sources), Warnings: inv.Warnings,
		index: maps.Clone(inv.index), members: maps.Clone(inv.members), named: slices.Clone(inv.named),
		logins: inv.logins, foreign: inv.foreign, places: slices.Clone(inv.places),
	}
	to := make([]int, len(other.Hosts)) // their places in all
	for i, h := range other.Hosts {
		to[i] = -1
		if _, has := all.index[h.Name]; has || !take(&h) {
			continue
		}
		to[i] = len(all.Hosts)
		all.index[h.Name] = to[i]
		all.Hosts = append(all.Hosts, h)
		all.places = append(all.places, other.places[i])
	}
	had := make(map[string]bool, len(inv.named))
	for _, name := range inv.named {
		had[name] = true
	}
	for _, name := range other.named {
		var more []int
		for _, i := range other.members[name] {
			if to[i] >= 0 {
				more = append(more, to[i])
			}
		}
		if len(more) == 0 {
			continue
		}
		all.members[name] = slices.Concat(all.members[name], more)
		if !had[name] {
			all.named = append(all.named, name)
		}
	}
	return all
}
