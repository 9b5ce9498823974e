package definitions

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/playbooks"
)

// TakenHosts is the result of WithHosts for a source.
type TakenHosts struct {
	Names []string
	Left  []string // hosts that are left out, each with the reason
	Err   error    // the source cannot be read with the project, so it has no hosts
}

// WithHosts returns the set with hosts of sources behind its own. Groups, customers and sites of
// the project apply to them, with group_vars. No source changes a host of the project or of another
// source, and none of a tenant joins window sets and HA groups of others. The error is that of ctx.
func (s *Set) WithHosts(ctx context.Context, from []inventory.Document) (*Set, []TakenHosts, error) {
	next, taken := *s, make([]TakenHosts, len(from))
	tree := newDocFS(s.docs)
	for _, tenants := range []bool{false, true} { // the provider's sources first: they count as the project
		owned := ownersOf(next)
		for i, src := range from {
			if (src.Customer != "") != tenants {
				continue
			}
			err := next.take(ctx, tree, src, owned, &taken[i])
			if ctx.Err() != nil {
				return nil, nil, ctx.Err()
			}
			if err != nil {
				taken[i] = TakenHosts{Err: err}
			}
		}
	}
	l := &loader{ctx: ctx, set: &next, within: playbooks.TargetsTime, given: []string{fmt.Sprintf("%d of the project", len(s.Inventory.Hosts))}}
	for i, src := range from {
		l.given = append(l.given, fmt.Sprintf("%d of %s", len(taken[i].Names), src.Name))
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
			if src.Name == file {
				from = append(from, src)
			}
		}
	}
	return inventory.ExplainFS(ctx, newDocFS(s.docs), s.layout[partInventory], host, from...)
}

// take adds the hosts that a source names to the set.
func (s *Set) take(ctx context.Context, tree fs.FS, src inventory.Document, owned *owners, taken *TakenHosts) error {
	with, err := inventory.LoadDocument(ctx, tree, s.layout[partInventory], src)
	if err != nil {
		return err
	}
	alone, err := inventory.Load(ctx, nil, src)
	if err != nil {
		return err
	}
	all, twice := s.Inventory.With(with, func(h *core.Host) bool {
		said, _ := alone.Host(h.Name)
		if why := s.leftOut(src, owned, *h, said); why != "" {
			taken.Left = append(taken.Left, h.Name+": "+why)
			return false
		}
		if src.Customer != "" {
			h.HAGroup = owned.haGroup(src.Customer, h.HAGroup)
		}
		taken.Names = append(taken.Names, h.Name)
		return true
	})
	s.Inventory = all
	for _, name := range twice {
		taken.Left = append(taken.Left, name+": the project or another source has a host of this name")
	}
	return nil
}

// leftOut is why a host of a source is left out; "" takes it.
func (s *Set) leftOut(src inventory.Document, owned *owners, h, said core.Host) string {
	switch why := src.LeftOut(&h); {
	case why != "":
		return why
	case h.WindowSet != "" && s.Windows.Sets[h.WindowSet] == nil:
		return undefinedSet(h, src.Customer)
	case src.Customer != "":
		return owned.refuses(src.Customer, h, said)
	}
	return ""
}
