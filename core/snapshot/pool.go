package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

// PoolOf returns the pool whose workers reach a host: the host's own, or else the playbook's. "" is
// a host that workers of every pool take.
func PoolOf(p *playbooks.Playbook, h core.Host) string { return cmp.Or(h.Pool, p.Pool) }

// CheckPool refuses hosts that workers of pool do not take, because they belong to another one. An
// empty pool takes every host. The error wraps core.ErrInvalid and names hosts and pools.
func CheckPool(p *playbooks.Playbook, hosts []core.Host, pool string) error {
	if pool == "" {
		return nil
	}
	others := map[string][]string{}
	for _, h := range hosts {
		if its := PoolOf(p, h); its != "" && its != pool {
			others[its] = append(others[its], h.Name)
		}
	}
	if len(others) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(others))
	return fmt.Errorf("playbook %s: the workers here are of pool %q, and %s: launch it where workers have --pool %s, or leave these hosts out with --limit: %w",
		p.Name, pool, ListPools(others), names[0], core.ErrInvalid)
}

// ListPools writes the hosts of each pool, and of many only the first.
func ListPools(pools map[string][]string) string {
	parts := core.Map(slices.Sorted(maps.Keys(pools)), func(pool string) string { return fmt.Sprintf("pool %q has %s", pool, core.Few(pools[pool], 5)) })
	return strings.Join(parts, "; ")
}
