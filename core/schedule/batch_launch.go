package schedule

import (
	"context"
	"fmt"
	"time"
)

// launchAll begins every launch that is due among the claims, and returns how many those are. They
// end in results.
func (b *batch) launchAll(ctx, work context.Context) (underway int) {
	for _, it := range b.items {
		if !it.held {
			continue
		}
		for _, c := range it.state.Claimed {
			if !c.After.After(b.read) {
				it.pending++
				underway++
				go b.launch(ctx, work, it, c)
			}
		}
	}
	return underway
}

// launch carries out one claim, once there is a place for it.
func (b *batch) launch(ctx, work context.Context, it *item, c Claim) {
	out := launched{item: it, launch: launch{run: c.RunID}}
	defer func() { b.results <- out }()
	select {
	case <-ctx.Done():
		return
	case b.launches <- struct{}{}:
		defer func() { <-b.launches }()
	}
	// A process that was stopped for a while must not launch what is too late by now.
	if until := it.plan.until(c); ctx.Err() != nil || !until.IsZero() && b.now().After(until) {
		return
	}
	work, cancel := context.WithTimeout(work, b.o.LaunchTimeout)
	defer cancel()
	out.begun = true
	for _, run := range c.Cancel {
		reason := fmt.Sprintf("a later fire of schedule %s takes its place: %s", it.ID, c.RunID)
		if err := b.launcher.Cancel(work, run, reason); err != nil {
			out.err = fmt.Errorf("cancelling run %s: %w", run, err)
			return
		}
	}
	out.err = b.launcher.Launch(work, it.plan.fire(c))
}

// collect settles items as their launches end, together what ended together, and keeps the others held.
func (b *batch) collect(ctx context.Context, underway int) {
	renew := time.NewTicker(b.renewEvery())
	defer renew.Stop()
	for underway > 0 {
		var ready []*item
		select {
		case <-renew.C:
			b.renew(ctx)
			continue
		case r := <-b.results:
			underway--
			ready = b.ended(r, ready)
		}
		for more := true; more && underway > 0 && len(ready) < MaxBatch; {
			select {
			case r := <-b.results:
				underway--
				ready = b.ended(r, ready)
			default:
				more = false
			}
		}
		b.settle(ctx, ready)
	}
}

// ended adds the item of an ended launch to those that are ready, if it was its last.
func (b *batch) ended(r launched, ready []*item) []*item {
	r.item.pending--
	if r.begun {
		r.item.done = append(r.item.done, r.launch)
	}
	if r.item.pending == 0 {
		return append(ready, r.item)
	}
	return ready
}
