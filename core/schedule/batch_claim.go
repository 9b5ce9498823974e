package schedule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
)

// claimed is a decision on its way into the store.
type claimed struct {
	*item
	Decision
}

// claim decides for some items, and writes what was decided. Those that another server has by now
// are left to it.
func (b *batch) claim(ctx context.Context, items []*item, running map[string]bool) {
	var changes []Change
	var claims []claimed
	for _, it := range items {
		if it.taken {
			b.release(it)
			continue
		}
		d := it.plan.decide(it.state, b.read, func(run string) bool { return running[run] })
		c := b.change(it, d.State, d.Due)
		switch {
		case !d.Changed && c.Hold > 0: // taken over: the claim stands as it is
			continue
		case !d.Changed:
			c.Data, c.Keep = nil, true
		}
		changes, claims = append(changes, c), append(claims, claimed{it, d})
	}
	if len(changes) == 0 {
		return
	}
	versions, err := b.write(ctx, changes)
	if err != nil {
		b.trouble(ID{}, b.now(), fmt.Errorf("claiming the fires of %d schedules: %w", len(changes), err))
	}
	for i, c := range claims {
		if err != nil || versions[i] == 0 {
			b.release(c.item)
			continue
		}
		c.Version, c.state = versions[i], c.State
		b.tellDecision(c)
		if changes[i].Hold == 0 {
			b.release(c.item)
		}
	}
}

// tellDecision tells what a decision dropped, and what it found to have been launched.
func (b *batch) tellDecision(c claimed) {
	for _, k := range c.Skips {
		b.tell(Event{Kind: EventSkipped, Schedule: c.ID, At: b.read, Skip: k})
	}
	for _, found := range c.Found {
		b.fired(c.item, found, b.read)
	}
}

// change writes a state: held while something of it is to be launched, else due when it has to be looked at.
func (b *batch) change(it *item, s State, due time.Time) Change {
	c := Change{ID: it.ID, Version: it.Version, Data: Encode(it.plan.Definition, s), Due: due}
	if _, ok := s.claimsAfter(b.now()); !ok {
		c.Due, c.Hold = time.Time{}, b.o.TTL
	}
	return c
}

// write sends changes, and finds out what became of them if the reply is lost: a record
// that has the data that was written has it from here, or it says the same.
func (b *batch) write(ctx context.Context, changes []Change) ([]uint64, error) {
	versions, err := b.store.Write(ctx, changes)
	if !errors.Is(err, core.ErrUnknown) {
		return versions, err
	}
	ids := make([]ID, len(changes))
	for i := range changes {
		ids[i] = changes[i].ID
	}
	now, err := b.store.Get(ctx, ids)
	if err != nil {
		return nil, err
	}
	present := byID(now.Records)
	versions = make([]uint64, len(changes))
	for i, c := range changes {
		if r := present[c.ID]; !c.Keep && r.Version > c.Version && bytes.Equal(r.Data, c.Data) {
			versions[i] = r.Version
		}
	}
	return versions, nil
}
