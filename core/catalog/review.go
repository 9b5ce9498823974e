package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/core/ledger"
)

// MaxLeft is how many hosts that are left out are named.
const MaxLeft = 100

// HostSource is a source of hosts in its present state.
type HostSource struct {
	Source sources.Source
	State  sources.State
	Left   []string // hosts of the generation in use that are left out beside the project, each with the reason
	Unread error    // why the generation in use cannot be read with the project: it gives no hosts
}

// HostSources are the sources of tenants in scope, by name. Without a tenant they are for those who
// see all.
func (c *Catalog) HostSources(scope ledger.Scope) (all []HostSource) {
	now := c.Current()
	for _, k := range c.knownSources() {
		if !scope.Allows(k.Tenant) || k.Tenant == "" && !scope.All() {
			continue
		}
		taken := now.hosts.taken[k.Name]
		all = append(all, HostSource{k.Source, k.state, taken.Left, taken.Err})
	}
	slices.SortFunc(all, func(a, b HostSource) int { return strings.Compare(a.Source.Name, b.Source.Name) })
	return all
}

// HostSource finds one of HostSources.
func (c *Catalog) HostSource(scope ledger.Scope, name string) (HostSource, error) {
	all := c.HostSources(scope)
	i := slices.IndexFunc(all, func(s HostSource) bool { return s.Source.Name == name })
	if i < 0 {
		return HostSource{}, fmt.Errorf("source %.63q is not in the settings of the server: %w", name, core.ErrNotFound)
	}
	return all[i], nil
}

// DiffSource returns what the waiting generation of a source would change, as the ledger has both.
// If none waits, State.Waiting is nil.
func (c *Catalog) DiffSource(ctx context.Context, scope ledger.Scope, name string) (HostSource, sources.Difference, error) {
	s, err := c.HostSource(scope, name)
	if err != nil {
		return s, sources.Difference{}, err
	}
	if s.State, err = c.keeper.State(ctx, s.Source); err != nil {
		return s, sources.Difference{}, err
	}
	used, held, err := c.keeper.Generations(ctx, s.Source)
	if err != nil {
		return s, sources.Difference{}, err
	}
	if s.State.Waiting == nil {
		held = used
	}
	d, err := sources.Diff(ctx, used, held)
	return s, d, err
}

// ApproveSource puts the waiting generation of a source into use, on this server immediately.
// Errors are those of sources.Keeper.Approve.
func (c *Catalog) ApproveSource(ctx context.Context, scope ledger.Scope, who, name, generation string) (HostSource, error) {
	s, err := c.HostSource(scope, name)
	if err != nil {
		return s, err
	}
	if _, err = c.keeper.Approve(ctx, who, s.Source, generation); err == nil {
		err = c.refreshSources(ctx)
	}
	if err != nil {
		return s, err
	}
	return c.HostSource(scope, name)
}
