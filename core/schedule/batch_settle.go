package schedule

import (
	"context"
	"fmt"
	"time"
)

// settle records what the launches came to. Where somebody else has written meanwhile, it is
// recorded in what they wrote; what they have settled is theirs to tell.
func (b *batch) settle(ctx context.Context, items []*item) {
	for _, it := range items {
		defer b.release(it)
	}
	const tries = 4
	for range tries {
		if items = b.settleOnce(ctx, items); len(items) == 0 {
			return
		}
		if items = b.reread(ctx, items); len(items) == 0 {
			return
		}
	}
	// What is left comes back after its hold, and its launch is repeated without effect.
}

// settlement is one item's on its way into the store.
type settlement struct {
	*item
	what []settled // empty: none of its launches was begun
}

// settleOnce returns the items whose version was not right.
func (b *batch) settleOnce(ctx context.Context, items []*item) (again []*item) {
	var changes []Change
	var settlements []settlement
	now := b.now()
	for _, it := range items {
		switch {
		case it.taken && len(it.done) > 0:
			again = append(again, it)
		case it.taken:
		case len(it.done) == 0: // not begun: for others, at once
			changes = append(changes, Change{ID: it.ID, Version: it.Version, Keep: true, Due: b.read})
			settlements = append(settlements, settlement{item: it})
		default:
			s, what := settle(it.state, it.done, now)
			if len(what) == 0 { // settled by somebody else, or given up
				continue
			}
			changes = append(changes, b.change(it, s, it.plan.due(&s, now, false)))
			settlements = append(settlements, settlement{it, what})
		}
	}
	if len(changes) == 0 {
		return again
	}
	versions, err := b.write(ctx, changes)
	if err != nil {
		b.trouble(ID{}, b.now(), fmt.Errorf("recording the launches of %d schedules: %w", len(changes), err))
		return nil
	}
	for i, s := range settlements {
		switch {
		case versions[i] > 0:
			b.report(s.item, s.what, now)
		case len(s.done) > 0:
			again = append(again, s.item)
		}
	}
	return again
}

// reread reads the records of items as they are now.
func (b *batch) reread(ctx context.Context, items []*item) (kept []*item) {
	ids := make([]ID, len(items))
	for i, it := range items {
		ids[i] = it.ID
	}
	read, err := b.store.Get(ctx, ids)
	if err != nil {
		b.trouble(ID{}, b.now(), fmt.Errorf("reading %d schedules again: %w", len(items), err))
		return nil
	}
	present := byID(read.Records)
	for _, it := range items {
		r, ok := present[it.ID]
		if !ok {
			continue // deleted
		}
		d, s, err := Decode(it.ID, r.Data)
		if err != nil {
			continue
		}
		p, err := b.planner.plan(d)
		if err != nil {
			continue
		}
		it.Version, it.plan, it.state, it.taken = r.Version, p, s, false
		kept = append(kept, it)
	}
	return kept
}

func (b *batch) report(it *item, what []settled, now time.Time) {
	for _, w := range what {
		switch {
		case w.skip != nil:
			b.tell(Event{Kind: EventSkipped, Schedule: it.ID, At: now, Skip: *w.skip, Err: w.err})
		case w.err != nil:
			b.tell(Event{Kind: EventFailed, Schedule: it.ID, At: now, Fire: it.plan.bare(w.claim), Err: w.err})
		default:
			b.fired(it, w.claim, now)
		}
	}
}

func (b *batch) fired(it *item, c Claim, now time.Time) {
	start := c.Nominal
	if c.Cause != ByTrigger {
		start = it.plan.start(c.Nominal)
	}
	b.tell(Event{Kind: EventFired, Schedule: it.ID, At: now, Fire: it.plan.bare(c), Late: now.Sub(start)})
}
