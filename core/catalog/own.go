package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
)

// A schedule of the definitions launches on whatever hosts its playbook selects. A person of one
// tenant must not reach other tenants' hosts by it.

// own returns a payload as a person in scope launches it: on hosts of all tenants only if the
// person may act for all.
func own(scope ledger.Scope, data []byte) ([]byte, error) {
	var p payload
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("what the schedule launches cannot be read: %w: %w", core.ErrInvalid, err)
	}
	if p.All && !scope.All() {
		p.All, p.Foreign = false, true
		return p.encode(), nil
	}
	return data, nil
}

// onlyOwn refuses a schedule that launches on hosts out of scope.
func (c *Catalog) onlyOwn(ctx context.Context, scope ledger.Scope, s *Schedule) error {
	narrow, err := own(scope, s.Definition.Payload)
	if err != nil || slices.Equal(narrow, s.Definition.Payload) {
		return err
	}
	now := c.Current()
	playbook, ok := now.Set.Playbook(s.Launches.Playbook)
	if !ok {
		return nil // its fire times are skipped
	}
	_, err = c.Prepare(ctx, now, playbook, s.Launches, Launching{Scope: ledger.AllTenants(), Only: func(h core.Host) bool { return !scope.Allows(h.Customer) }, SkipNoWindow: true})
	if noWindow := (*launch.NoWindowError)(nil); errors.As(err, &noWindow) {
		err = nil
	}
	noFacts := (*launch.NoFactsError)(nil)
	switch {
	case errors.As(err, &noFacts): // it may select some at its fire time
	case errors.Is(err, core.ErrNotFound): // it selects none of them
		return nil
	case errors.Is(err, core.ErrInvalid): // it may name hosts of others
		return fmt.Errorf("schedule %s cannot be launched on all of its hosts, so a backfill is refused; people of all tenants see why: %w", s.Definition.ID, core.ErrConflict)
	case err != nil:
		return err
	}
	return fmt.Errorf("schedule %s also launches on hosts of other tenants: a trigger leaves them out, a backfill cannot: %w", s.Definition.ID, core.ErrConflict)
}

// WithoutForeign returns the definition of a schedule, as the audit log has it, for readers of one
// tenant: without what a person of all tenants gave it that may name hosts or secrets of others.
func WithoutForeign(definition json.RawMessage) json.RawMessage {
	var s askedSchedule
	if json.Unmarshal(definition, &s) != nil || !s.All {
		return definition
	}
	s.Limit, s.Vars = nil, maps.Clone(s.Vars)
	maps.DeleteFunc(s.Vars, launch.MarksSecret)
	data, _ := json.Marshal(s) // it came as JSON
	return data
}
