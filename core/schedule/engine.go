package schedule

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Options change what an Engine does by default.
type Options struct {
	// TTL is how long a record is an engine's own without being renewed: after it, the fires of a dead
	// server are taken over. 300 ms when 0.
	TTL time.Duration
	// Parallel is the number of launches at once, 32 when 0.
	Parallel int
	// Held is the number of schedules worked on at once, from Take until they are settled, 1024 when 0.
	Held int
	// LaunchTimeout bounds one call of Launcher, 10 s when 0.
	LaunchTimeout time.Duration
	// Events is told what happens; it must be quick, and safe for concurrent use.
	Events func(Event)
}

// Engine fires the schedules of a store: what each server runs. Its memory is bounded by Held,
// whatever the number of schedules.
type Engine struct {
	store    Store
	launcher Launcher
	o        Options
	planner  *planner
	launches chan struct{} // a place for each launch at once
	room     chan struct{} // a place for each schedule worked on
}

const (
	idle       = time.Second     // the longest wait: after it the store's clock is read again
	stopGrace  = 2 * time.Second // launches under way may take this long after Run's context ended
	postpone   = time.Second     // before runs are asked for again after an error
	quarantine = time.Minute     // before a record that cannot be read is looked at again
)

// NewEngine makes an engine. Any number of them, on any number of servers, may share a store.
func NewEngine(store Store, launcher Launcher, o Options) *Engine {
	if o.TTL <= 0 {
		o.TTL = 300 * time.Millisecond
	}
	if o.Parallel <= 0 {
		o.Parallel = 32
	}
	if o.Held <= 0 {
		o.Held = 1024
	}
	if o.LaunchTimeout <= 0 {
		o.LaunchTimeout = 10 * time.Second
	}
	return &Engine{store: store, launcher: launcher, o: o, planner: newPlanner(),
		launches: make(chan struct{}, o.Parallel), room: make(chan struct{}, o.Held)}
}

// Run fires what is due until ctx ends. Launches under way then have a moment to be settled, the
// rest is given back for other servers. Errors of the store are told as events, and waited out.
// Every goroutine has ended when Run returns.
func (e *Engine) Run(ctx context.Context) {
	// What must not be cut off in the middle gets this context.
	settle, cut := context.WithCancel(context.WithoutCancel(ctx))
	var batches, watch sync.WaitGroup
	defer watch.Wait() // in this order: batches end, cut ends the watch, the watch ends
	defer cut()
	defer batches.Wait()
	watch.Go(func() {
		select {
		case <-ctx.Done():
			pause(settle, stopGrace)
			cut()
		case <-settle.Done():
		}
	})

	for ctx.Err() == nil {
		places := e.places(ctx)
		if places == 0 {
			return
		}
		b, next, err := e.take(ctx, places)
		for range places - len(b.items) {
			<-e.room
		}
		if len(b.items) > 0 {
			batches.Go(func() { b.run(ctx, settle) })
			continue
		}
		if err == nil {
			err = e.store.Wait(ctx, next)
		}
		if err != nil && ctx.Err() == nil {
			e.trouble(ID{}, b.now(), fmt.Errorf("waiting for what is due: %w", err))
			pause(ctx, idle)
		}
	}
}

// places takes as many places for schedules as are free, up to a batch, and waits for one; 0 when
// ctx has ended.
func (e *Engine) places(ctx context.Context) int {
	select {
	case <-ctx.Done():
		return 0
	case e.room <- struct{}{}:
	}
	for n := 1; n < MaxBatch; n++ {
		select {
		case e.room <- struct{}{}:
		default:
			return n
		}
	}
	return MaxBatch
}

// take gets the next batch, or tells until when to wait for one.
func (e *Engine) take(ctx context.Context, most int) (b *batch, next time.Time, err error) {
	asked := time.Now()
	taken, err := e.store.Take(ctx, most, e.o.TTL)
	b = &batch{Engine: e, read: taken.Now, at: asked, renewed: asked, results: make(chan launched)}
	if err != nil {
		return b, time.Time{}, err
	}
	for _, r := range taken.Records {
		b.items = append(b.items, &item{Record: r, held: true})
	}
	return b, earlier(taken.Next, taken.Now.Add(idle)), nil
}

func (e *Engine) tell(v Event) {
	if e.o.Events != nil {
		e.o.Events(v)
	}
}

func (e *Engine) trouble(id ID, now time.Time, err error) {
	e.tell(Event{Kind: EventTrouble, Schedule: id, At: now, Err: err})
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
