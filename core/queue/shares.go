package queue

import (
	"cmp"
	"maps"
	"slices"
)

// FairShares returns how many leased jobs each tenant would have of a capacity, by weight: nobody
// more than it can use now (Leased and Due), and what one tenant leaves goes to the others.
func (l *Load) FairShares(capacity int) map[string]float64 {
	shares := make(map[string]float64, len(l.ByTenant))
	demand := func(t TenantLoad) float64 { return float64(t.Leased + t.Due) }
	weight := func(t TenantLoad) float64 { return float64(max(t.Weight, 1)) }
	names := slices.SortedFunc(maps.Keys(l.ByTenant), func(a, b string) int {
		x, y := l.ByTenant[a], l.ByTenant[b]
		return cmp.Or(cmp.Compare(demand(x)/weight(x), demand(y)/weight(y)), cmp.Compare(a, b))
	})
	left, weights := float64(capacity), 0.0
	for _, t := range l.ByTenant {
		weights += weight(t)
	}
	for _, name := range names { // the tenant that wants least by weight comes first
		t := l.ByTenant[name]
		shares[name] = min(demand(t), left*weight(t)/weights)
		left, weights = left-shares[name], weights-weight(t)
	}
	return shares
}

// Before counts the other tenants whose jobs are leased before those of this one: they could have
// more than they have, and have less by weight.
func (l *Load) Before(tenant string) int {
	own, n := l.ByTenant[tenant], 0
	for name, t := range l.ByTenant {
		if name != tenant && t.Hungry && Rank(t.Leased, t.Weight, 0) < Rank(own.Leased, own.Weight, 0) {
			n++
		}
	}
	return n
}
