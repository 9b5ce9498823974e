package definitions

import (
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// WindowUsers returns the tenants, sorted, whose hosts have a window set, or whose playbooks name
// it, be it through a set that inherits from it or requires it. "" is the provider.
func (s *Set) WindowUsers(name string) []string {
	known := map[string]bool{}
	uses := func(other string) bool {
		used, ok := known[other]
		if !ok && s.Windows.Sets[other] != nil {
			used = slices.Contains(s.Windows.Serves(other), name)
			known[other] = used
		}
		return used
	}
	var users tenants
	for _, h := range s.Inventory.Hosts {
		if uses(h.WindowSet) {
			users.add(h.Customer)
		}
	}
	for _, b := range s.Playbooks {
		named := uses(b.Window)
		for _, step := range b.Calls() {
			named = named || uses(step.Window)
		}
		if named {
			users.add(b.Tenant)
		}
	}
	slices.Sort(users)
	return users
}

// tenants is a set of few tenants.
type tenants []string

func (t *tenants) add(tenant string) {
	if !slices.Contains(*t, tenant) {
		*t = append(*t, tenant)
	}
}

// owners are the tenants that use what a host may name: window sets, HA groups and pools.
type owners struct {
	set      *Set
	windows  map[string]tenants // found when first asked
	haGroups map[string]tenants
	pools    map[string]bool
}

func ownersOf(s Set) *owners {
	o := &owners{set: &s, windows: map[string]tenants{}, haGroups: map[string]tenants{}, pools: map[string]bool{}}
	for _, h := range s.Inventory.Hosts {
		o.pools[h.Pool] = true
		group := o.haGroups[h.HAGroup]
		group.add(h.Customer)
		o.haGroups[h.HAGroup] = group
	}
	for _, b := range s.Playbooks {
		o.pools[b.Pool] = true
	}
	return o
}

// refuses is why a source of a tenant may not bring a host; "" takes it. Windows, locks and pools
// of others do not change by the data of the tenant's system. h has the project's groups, and the
// second host does not.
func (o *owners) refuses(tenant string, h, said core.Host) string {
	switch {
	case !o.opens(h.WindowSet, tenant):
		return undefinedSet(h, tenant)
	case h.HAGroup != "" && len(o.haGroups[h.HAGroup]) > 0 && !slices.Contains(o.haGroups[h.HAGroup], tenant):
		return fmt.Sprintf("HA group %s belongs to hosts of others: choose another name, for example %s", yamlread.Quote(h.HAGroup), yamlread.Quote(tenant+"-"+h.HAGroup))
	case len(o.haGroup(tenant, h.HAGroup)) > maxHAGroup:
		return fmt.Sprintf("HA group %s is too long: with its tenant it has at most %d bytes", yamlread.Quote(h.HAGroup), maxHAGroup)
	case said.Pool != "" && !o.pools[h.Pool]:
		return fmt.Sprintf("no host or playbook of the project has pool %s", yamlread.Quote(h.Pool))
	}
	return ""
}

// maxHAGroup is how long a lock may be, in bytes.
const maxHAGroup = 128

// haGroup returns the HA group of a host that a source of a tenant brings. A group that the project
// lacks gets the tenant in front, so that sources of two tenants never share its lock.
func (o *owners) haGroup(tenant, group string) string {
	if group == "" || len(o.haGroups[group]) > 0 {
		return group
	}
	return tenant + "/" + group
}

// opens reports whether a tenant's hosts may have a window set: those that the tenant uses, or no
// other tenant does.
func (o *owners) opens(set, tenant string) bool {
	if set == "" {
		return true
	}
	users, ok := o.windows[set]
	if !ok {
		users = o.set.WindowUsers(set)
		o.windows[set] = users
	}
	return slices.Contains(users, tenant) || !slices.ContainsFunc(users, func(other string) bool { return other != "" })
}

func undefinedSet(h core.Host, tenant string) string {
	text := fmt.Sprintf("window set %s is not defined", yamlread.Quote(h.WindowSet))
	if tenant != "" { // the same text for a set of others, so that the tenant cannot find its name
		text += " for tenant " + tenant
	}
	return text
}
