package schedule

import (
	"context"
	"fmt"
	"slices"
	"time"
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
	for items := range slices.Chunk(b.items, chunk) {
		b.renewIfOld(settle)
		b.claim(settle, items, running)
	}
	work, stop := context.WithCancel(settle)
	defer stop()
	b.collect(settle, b.launchAll(ctx, work))
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

// running asks the launcher, a batch of runs at a time.
func (b *batch) running(ctx context.Context, runs []string) (map[string]bool, error) {
	running := map[string]bool{}
	for some := range slices.Chunk(runs, MaxBatch) {
		found, err := b.askHolding(ctx, some)
		if err != nil {
			return running, err
		}
		for _, run := range found {
			running[run] = true
		}
	}
	return running, nil
}

// askHolding asks the launcher once, and keeps the items held for as long as it takes.
func (b *batch) askHolding(ctx context.Context, runs []string) ([]string, error) {
	type answer struct {
		runs []string
		err  error
	}
	got := make(chan answer, 1)
	go func() { // joined below: LaunchTimeout bounds it
		ctx, cancel := context.WithTimeout(ctx, b.o.LaunchTimeout)
		defer cancel()
		found, err := b.launcher.Running(ctx, runs)
		got <- answer{found, err}
	}()
	renew := time.NewTicker(b.renewEvery())
	defer renew.Stop()
	for {
		select {
		case a := <-got:
			return a.runs, a.err
		case <-renew.C:
			b.renew(ctx)
		}
	}
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
		it.taken = err != nil || versions[i] == 0
		if !it.taken {
			it.Version = versions[i]
		}
	}
}
