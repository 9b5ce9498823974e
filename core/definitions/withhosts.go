package definitions

import (
	"context"
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/playbooks"
)

// HostSource is hosts that another system keeps. A host belongs to the project or to one source,
// never to both.
type HostSource struct {
	Tenant string // of all its hosts; "": the customer that each host has
	Hosts  inventory.Document
}

// TakenHosts is the result of WithHosts for a HostSource.
type TakenHosts struct {
	Names []string
	Left  []string // hosts that are left out, each with the reason
	Err   error    // the source cannot be read with the project, so it has no hosts
}

// WithHosts returns the set with hosts of sources behind its own. Groups, customers and sites of
// the project apply to them, with group_vars. No source changes a host of the project or of another
// source, and none of a tenant joins window sets and HA groups of others. The error is that of ctx.
func (s *Set) WithHosts(ctx context.Context, from []HostSource) (*Set, []TakenHosts, error) {
	next, taken := *s, make([]TakenHosts, len(from))
	tree := newDocFS(s.docs)
	for _, tenants := range []bool{false, true} { // the provider's sources first: they count as the project
		owned := ownersOf(next)
		for i, src := range from {
			if (src.Tenant != "") != tenants {
				continue
			}
			inv, err := inventory.LoadFS(ctx, tree, s.layout[partInventory], src.Hosts)
			if ctx.Err() != nil {
				return nil, nil, ctx.Err()
			}
			if err == nil {
				err = next.take(ctx, src, inv, owned, &taken[i])
			}
			if err != nil {
				taken[i] = TakenHosts{Err: err}
			}
		}
	}
	l := &loader{ctx: ctx, set: &next, within: playbooks.TargetsTime, given: []string{fmt.Sprintf("%d of the project", len(s.Inventory.Hosts))}}
	for i, src := range from {
		l.given = append(l.given, fmt.Sprintf("%d of %s", len(taken[i].Names), src.Hosts.Name))
	}
	if err := l.selectHosts(); err != nil {
		return nil, nil, err
	}
	next.others = from
	next.Warnings = bounded(slices.Concat(s.apart, l.problems, l.warnings))
	return &next, taken, nil
}

// Explain returns where each value of a host comes from. No such host is core.ErrNotFound.
func (s *Set) Explain(ctx context.Context, host string) ([]inventory.Origin, error) {
	var from []inventory.Document
	if file, _, _, ok := s.Inventory.Place(host); ok {
		for _, src := range s.others {
			if src.Hosts.Name == file {
				from = append(from, src.Hosts)
			}
		}
	}
	return inventory.ExplainFS(ctx, newDocFS(s.docs), s.layout[partInventory], host, from...)
}

// take adds the hosts that a source names to the set.
func (s *Set) take(ctx context.Context, src HostSource, with *inventory.Inventory, owned *owners, taken *TakenHosts) error {
	alone, err := inventory.Load(ctx, nil, src.Hosts)
	if err != nil {
		return err
	}
	had := s.Inventory
	s.Inventory = had.With(with, func(h *core.Host) bool {
		said, named := alone.Host(h.Name)
		if !named {
			return false // a host of the project
		}
		if why := s.leftOut(src, owned, *h, said); why != "" {
			taken.Left = append(taken.Left, h.Name+": "+why)
			return false
		}
		if src.Tenant != "" {
			h.HAGroup = owned.haGroup(src.Tenant, h.HAGroup)
		}
		taken.Names = append(taken.Names, h.Name)
		return true
	})
	for _, h := range alone.Hosts {
		if _, twice := had.Host(h.Name); twice {
			taken.Left = append(taken.Left, h.Name+": the project or another source has a host of this name")
		}
	}
	return nil
}

// leftOut is why a host of a source is left out; "" takes it.
func (s *Set) leftOut(src HostSource, owned *owners, h, said core.Host) string {
	switch {
	case src.Tenant != "" && h.Customer != src.Tenant:
		return fmt.Sprintf("its customer is %s, but the source is of tenant %s: add a filter to the source", yamlread.Quote(h.Customer), src.Tenant)
	case h.WindowSet != "" && s.Windows.Sets[h.WindowSet] == nil:
		return undefinedSet(h, src.Tenant)
	case src.Tenant != "":
		return owned.refuses(src.Tenant, h, said)
	}
	return ""
}
