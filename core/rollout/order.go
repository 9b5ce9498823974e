package rollout

import (
	"slices"

	"github.com/turnus/turnus/core"
)

// RoleLabel on a host with the value RoleStandby puts it before the other members of its HA group.
const (
	RoleLabel   = "ha_role"
	RoleStandby = "standby"
)

// Order returns the hosts in the order in which a run takes them. It is stable: hosts keep the
// order given, except the later members of each HA group, which go behind all first members, the
// standby being the first. Where hosts without an HA group can be exchanged for that, no wave holds
// two members of one group.
func Order(hosts []core.Host, limits []int) []core.Host {
	groups := haGroups(hosts)
	if len(groups) == 0 {
		return slices.Clone(hosts)
	}
	o := &ordering{hosts: hosts, groups: groups, limits: limits}
	o.byRounds()
	if len(limits) > 1 {
		o.spread()
		o.rankMembers()
	}
	return core.Map(o.at, func(i int) core.Host { return hosts[i] })
}

// haGroups maps each HA group to the indexes of its members, standby first.
func haGroups(hosts []core.Host) map[string][]int {
	groups := map[string][]int{}
	for i, h := range hosts {
		if h.HAGroup != "" {
			groups[h.HAGroup] = append(groups[h.HAGroup], i)
		}
	}
	for _, members := range groups {
		slices.SortStableFunc(members, func(a, b int) int { return standby(hosts[b]) - standby(hosts[a]) })
	}
	return groups
}

func standby(h core.Host) int {
	if h.Labels[RoleLabel] == RoleStandby {
		return 1
	}
	return 0
}

type ordering struct {
	hosts  []core.Host
	groups map[string][]int // members in rank order
	limits []int
	at     []int // position -> index of the host
}

// byRounds puts the n-th members of all groups, and with the first ones the hosts
// without a group, before the (n+1)-th. Within a round the place of the group's
// earliest member decides.
func (o *ordering) byRounds() {
	type key struct{ round, place int }
	keys := make([]key, len(o.hosts))
	for i := range o.hosts {
		keys[i] = key{0, i}
	}
	for _, members := range o.groups {
		place := slices.Min(members)
		for round, i := range members {
			keys[i] = key{round, place}
		}
	}
	o.at = make([]int, len(o.hosts))
	for i := range o.at {
		o.at[i] = i
	}
	slices.SortStableFunc(o.at, func(a, b int) int {
		if d := keys[a].round - keys[b].round; d != 0 {
			return d
		}
		return keys[a].place - keys[b].place
	})
}

// spread exchanges second members in a wave for hosts without a group from another
// wave: from later ones first, so that the careful waves stay as they are.
func (o *ordering) spread() {
	free := make([][]int, len(o.limits)) // positions of hosts without a group, by wave
	held := make([]map[string]int, len(o.limits))
	for k := range held {
		held[k] = map[string]int{}
	}
	wave := 0
	for pos, i := range o.at {
		for pos >= o.limits[wave] {
			wave++
		}
		if g := o.hosts[i].HAGroup; g == "" {
			free[wave] = append(free[wave], pos)
		} else {
			held[wave][g]++
		}
	}
	for pos := len(o.at) - 1; pos >= 0; pos-- {
		k := Wave(o.limits, pos)
		g := o.hosts[o.at[pos]].HAGroup
		if g == "" || held[k][g] < 2 {
			continue
		}
		other, ok := o.roomFor(g, k, free, held)
		if !ok {
			continue
		}
		last := len(free[other]) - 1
		place := free[other][last]
		free[other] = free[other][:last]
		o.at[pos], o.at[place] = o.at[place], o.at[pos]
		held[k][g]--
		held[other][g]++
	}
}

// roomFor finds a wave with a host to give away and no member of group g.
func (o *ordering) roomFor(g string, k int, free [][]int, held []map[string]int) (int, bool) {
	for other := k + 1; other < len(free); other++ {
		if len(free[other]) > 0 && held[other][g] == 0 {
			return other, true
		}
	}
	for other := k - 1; other >= 0; other-- {
		if len(free[other]) > 0 && held[other][g] == 0 {
			return other, true
		}
	}
	return 0, false
}

// rankMembers gives the earliest of a group's places to its first member, and so on.
func (o *ordering) rankMembers() {
	places := map[string][]int{}
	for pos, i := range o.at {
		if g := o.hosts[i].HAGroup; g != "" {
			places[g] = append(places[g], pos)
		}
	}
	for g, members := range o.groups {
		for n, pos := range places[g] {
			o.at[pos] = members[n]
		}
	}
}
