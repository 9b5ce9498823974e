package inventory

import (
	"maps"
	"slices"

	"github.com/turnus/turnus/core"
)

// With returns the inventory with the hosts of another one that take accepts behind its own. take
// may change its copy of the host.
// Groups of one name become one. A host that both have stays as inv has it: twice has its name.
func (inv *Inventory) With(other *Inventory, take func(*core.Host) bool) (all *Inventory, twice []string) {
	all = &Inventory{
		Hosts: slices.Clone(inv.Hosts), Warnings: slices.Clone(inv.Warnings),
		index: maps.Clone(inv.index), members: maps.Clone(inv.members), named: slices.Clone(inv.named),
		logins: maps.Clone(inv.logins), foreign: slices.Clone(inv.foreign), places: slices.Clone(inv.places),
	}
	to := make([]int, len(other.Hosts)) // their places in all
	for i, h := range other.Hosts {
		to[i] = -1
		if _, has := all.index[h.Name]; has {
			twice = append(twice, h.Name)
			continue
		}
		if !take(&h) {
			continue
		}
		if login, has := other.logins[h.Name]; has {
			all.logins[h.Name] = login
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
	return all, twice
}
