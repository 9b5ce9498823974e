package scheduletest

import (
	"context"
	"sync"
	"time"

	"github.com/turnus/turnus/core/schedule"
)

var waitTests = []test{
	{"WaitEndsWhenTheTimeHasCome", func(f *fixture) {
		end := f.now().Add(60 * time.Millisecond)
		for early := 0; ; early++ { // it may return early, but not for ever
			f.ok(f.Wait(f.Context(), end))
			if !f.now().Before(end) {
				return
			}
			if early > 1000 {
				f.Fatal("returns early again and again")
			}
		}
	}},
	{"WaitEndsAtOnceWhenSomethingIsDue", func(f *fixture) {
		f.create(id(1), f.now().Add(-time.Second), "a")
		f.promptly(func(ctx context.Context) error { return f.Wait(ctx, f.now().Add(time.Hour)) })
		f.create(id(2), f.now().Add(time.Minute), "before until")
		f.take(1, time.Hour)
		f.promptly(func(ctx context.Context) error { return f.Wait(ctx, f.now().Add(time.Hour/2)) })
		f.promptly(func(ctx context.Context) error { return f.Wait(ctx, f.now().Add(-time.Hour)) })
		f.promptly(func(ctx context.Context) error { return f.Wait(ctx, time.Time{}) })
	}},
	{"WaitEndsWhenAnEarlierDueTimeIsWritten", func(f *fixture) {
		const waiters = 5
		ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
		defer cancel()
		until := f.now().Add(50 * time.Second)
		for _, write := range []func(){
			func() { f.create(id(1), f.now().Add(time.Second), "new") },
			func() { // moved
				f.take(1, time.Hour)
				r, _ := f.read(id(2))
				f.write(schedule.Change{ID: id(2), Version: r.Version, Keep: true, Due: f.now()})
			},
		} {
			for _, n := range []int{1, 2} { // nothing is due before until, as far as is known
				if r, ok := f.read(id(n)); ok {
					f.write(schedule.Change{ID: id(n), Version: r.Version, Keep: true, Hold: time.Hour})
				} else if n == 2 {
					f.create(id(2), time.Time{}, "never")
				}
			}
			var wg sync.WaitGroup
			for range waiters {
				wg.Go(func() {
					for f.earliest().After(until) { // early returns are allowed
						if err := f.Wait(ctx, until); err != nil {
							f.Errorf("not woken: %v", err)
							return
						}
					}
				})
			}
			tick(ctx, f, 20*time.Millisecond)
			write()
			wg.Wait()
			if f.now().After(until) {
				f.Fatal("woken by the time only")
			}
		}
	}},
	{"WaitEndsWithItsContext", func(f *fixture) {
		ctx, cancel := context.WithCancel(f.Context())
		done := make(chan error)
		go func() {
			for ctx.Err() == nil {
				if err := f.Wait(ctx, f.now().Add(time.Hour)); err != nil {
					done <- err
					return
				}
			}
			done <- ctx.Err()
		}()
		tick(f.Context(), f, 20*time.Millisecond)
		cancel()
		if err := <-done; err == nil {
			f.Fatal("no error")
		}
	}},
}

// earliest is the due time that comes first of the two records of a test.
func (f *fixture) earliest() time.Time {
	read, err := f.Get(f.Context(), []schedule.ID{id(1), id(2)})
	if err != nil {
		f.Error(err)
		return time.Time{}
	}
	first := read.Now.Add(24 * time.Hour)
	for _, r := range read.Records {
		if !r.Due.IsZero() && r.Due.Before(first) {
			first = r.Due
		}
	}
	return first
}

// promptly fails unless a call ends well before the time it was told to wait for.
func (f *fixture) promptly(call func(context.Context) error) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), 20*time.Second)
	defer cancel()
	f.ok(call(ctx))
}
