package schedule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
)

// batch is what one Take gave, on its way from decision to settlement. Its fields belong to the
// goroutine of run; launches only send to results.
type batch struct {
	*Engine
	read    time.Time // the store's clock
	at      time.Time // when that was read, by the process's monotonic clock
	renewed time.Time // when the holds were last renewed, by the same clock
	items   []*item
	results chan launched
}

// item is one record of a batch. Its Version is the one that the next write has to match.
type item struct {
	Record
	plan    *plan
	state   State
	pending int // launches under way
	done    []launch
	held    bool // it takes a place, and its hold is renewed
	taken   bool // by another server: its version is not ours any more
}

// launched is a launch that has ended, or was not begun.
type launched struct {
	launch
	item  *item
	begun bool
}

// now is the store's clock, as far as the time since it was read tells.
func (b *batch) now() time.Time { return b.read.Add(time.Since(b.at)) }

// run decides, launches and settles. When ctx ends no further launch begins; settle is cut later.
func (b *batch) run(ctx, settle context.Context) {
	defer func() {
		for _, it := range b.items {
			b.release(it)
		}
	}()
	b.decode(settle)
	running := b.ask(settle)
	const chunk = 64 // decided together: deciding must not outlast the hold
	for start := 0; start < len(b.items); start += chunk {
		b.renewIfOld(settle)
		b.claim(settle, b.items[start:min(start+chunk, len(b.items))], running)
	}
	work, stop := context.WithCancel(settle)
	defer stop()
	underway := 0
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
	b.collect(settle, underway)
}

// release gives an item's place to another schedule.
func (b *batch) release(it *item) {
	if it.held {
		it.held = false
		<-b.room
	}
}

// decode drops the records that cannot be read, and puts them off.
func (b *batch) decode(ctx context.Context) {
	var bad []Change
	b.keep(func(it *item) bool {
		d, s, err := Decode(it.ID, it.Data)
		if err == nil {
			it.plan, err = b.planner.plan(d)
		}
		if err != nil {
			b.trouble(it.ID, b.now(), err)
			bad = append(bad, Change{ID: it.ID, Version: it.Version, Keep: true, Hold: quarantine})
			return false
		}
		it.state, it.Data = s, nil
		return true
	})
	b.putOff(ctx, bad)
}

// keep releases the items that are not to be kept.
func (b *batch) keep(keep func(*item) bool) {
	kept := b.items[:0]
	for _, it := range b.items {
		if keep(it) {
			kept = append(kept, it)
		} else {
			b.release(it)
		}
	}
	b.items = kept
}

func (b *batch) putOff(ctx context.Context, changes []Change) {
	if len(changes) == 0 {
		return
	}
	if _, err := b.store.Write(ctx, changes); err != nil {
		b.trouble(ID{}, b.now(), fmt.Errorf("putting off %d schedules: %w", len(changes), err))
	}
}

// ask finds out which runs are not complete. Schedules whose runs could not be asked for are put off:
// a fire is not launched blindly.
func (b *batch) ask(ctx context.Context) map[string]bool {
	var runs []string
	for _, it := range b.items {
		runs = append(runs, it.plan.asks(&it.state, b.read)...)
	}
	running, err := b.running(ctx, runs)
	if err == nil {
		return running
	}
	b.trouble(ID{}, b.now(), fmt.Errorf("asking which runs are complete: %w", err))
	var later []Change
	b.keep(func(it *item) bool {
		if it.taken || len(it.plan.asks(&it.state, b.read)) == 0 {
			return !it.taken
		}
		later = append(later, Change{ID: it.ID, Version: it.Version, Keep: true, Hold: postpone})
		return false
	})
	b.putOff(ctx, later)
	return running
}

// running asks the launcher, and keeps the items held for as long as it takes.
func (b *batch) running(ctx context.Context, runs []string) (map[string]bool, error) {
	type answer struct {
		runs []string
		err  error
	}
	running := map[string]bool{}
	for len(runs) > 0 {
		some := runs[:min(len(runs), MaxBatch)]
		runs = runs[len(some):]
		got := make(chan answer, 1)
		go func() {
			ctx, cancel := context.WithTimeout(ctx, b.o.LaunchTimeout)
			defer cancel()
			found, err := b.launcher.Running(ctx, some)
			got <- answer{found, err}
		}()
		renew := time.NewTicker(b.renewEvery())
		var a answer
		for waiting := true; waiting; {
			select {
			case a = <-got:
				waiting = false
			case <-renew.C:
				b.renew(ctx)
			}
		}
		renew.Stop()
		if a.err != nil {
			return running, a.err
		}
		for _, run := range a.runs {
			running[run] = true
		}
	}
	return running, nil
}

// asks lists the runs of which a decision has to know whether they are complete.
func (p *plan) asks(s *State, now time.Time) []string {
	var runs []string
	for _, r := range s.Active {
		runs = append(runs, r.ID)
	}
	for _, c := range s.Claimed {
		if until := p.until(c); !until.IsZero() && now.After(until) {
			runs = append(runs, c.RunID)
		}
	}
	return runs
}

// claim decides for some items, and writes what was decided. Those that another server has by now are left to it.
func (b *batch) claim(ctx context.Context, items []*item, running map[string]bool) {
	var changes []Change
	var changed []*item
	var decided []Decision
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
		changes, changed, decided = append(changes, c), append(changed, it), append(decided, d)
	}
	if len(changes) == 0 {
		return
	}
	versions, err := b.write(ctx, changes)
	if err != nil {
		b.trouble(ID{}, b.now(), fmt.Errorf("claiming the fires of %d schedules: %w", len(changes), err))
	}
	for i, it := range changed {
		if err != nil || versions[i] == 0 {
			b.release(it)
			continue
		}
		it.Version, it.state = versions[i], decided[i].State
		for _, k := range decided[i].Skips {
			b.tell(Event{Kind: EventSkipped, Schedule: it.ID, At: b.read, Skip: k})
		}
		for _, c := range decided[i].Found {
			b.fired(it, c, b.read)
		}
		if changes[i].Hold == 0 {
			b.release(it)
		}
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
	present := map[ID]Record{}
	for _, r := range now.Records {
		present[r.ID] = r
	}
	versions = make([]uint64, len(changes))
	for i, c := range changes {
		if r := present[c.ID]; !c.Keep && r.Version > c.Version && bytes.Equal(r.Data, c.Data) {
			versions[i] = r.Version
		}
	}
	return versions, nil
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
		if out.err = b.launcher.Cancel(work, run, "a later fire of schedule "+it.ID.String()+" takes its place: "+c.RunID); out.err != nil {
			out.err = fmt.Errorf("cancelling run %s: %w", run, out.err)
			return
		}
	}
	out.err = b.launcher.Launch(work, it.plan.fire(c))
}

func (p *plan) fire(c Claim) Fire {
	return Fire{Schedule: p.ID, RunID: c.RunID, Nominal: c.Nominal, Cause: c.Cause, Payload: p.Payload}
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

func (b *batch) renewEvery() time.Duration { return max(b.o.TTL/3, time.Millisecond) }

func (b *batch) renewIfOld(ctx context.Context) {
	if time.Since(b.renewed) > b.renewEvery() {
		b.renew(ctx)
	}
}

// renew keeps what is worked on from being taken over.
func (b *batch) renew(ctx context.Context) {
	b.renewed = time.Now()
	var items []*item
	var changes []Change
	for _, it := range b.items {
		if it.held && !it.taken {
			items = append(items, it)
			changes = append(changes, Change{ID: it.ID, Version: it.Version, Keep: true, Hold: b.o.TTL})
		}
	}
	if len(changes) == 0 {
		return
	}
	versions, err := b.store.Write(ctx, changes)
	for i, it := range items {
		if it.taken = err != nil || versions[i] == 0; !it.taken {
			it.Version = versions[i]
		}
	}
}

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

// settleOnce returns the items whose version was not right.
func (b *batch) settleOnce(ctx context.Context, items []*item) (again []*item) {
	var changes []Change
	var changed []*item
	var told [][]settled
	now := b.now()
	for _, it := range items {
		switch {
		case it.taken && len(it.done) > 0:
			again = append(again, it)
			continue
		case it.taken:
			continue
		case len(it.done) == 0: // not begun: for others, at once
			changes = append(changes, Change{ID: it.ID, Version: it.Version, Keep: true, Due: b.read})
			changed, told = append(changed, it), append(told, nil)
			continue
		}
		s, what := settle(it.state, it.done, now)
		if len(what) > 0 { // else settled by somebody else, or given up
			changes = append(changes, b.change(it, s, it.plan.due(&s, now, false)))
			changed, told = append(changed, it), append(told, what)
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
	for i, it := range changed {
		switch {
		case versions[i] > 0:
			b.report(it, told[i], now)
		case len(it.done) > 0:
			again = append(again, it)
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
	present := map[ID]Record{}
	for _, r := range read.Records {
		present[r.ID] = r
	}
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

func (p *plan) bare(c Claim) Fire {
	f := p.fire(c)
	f.Payload = nil
	return f
}
