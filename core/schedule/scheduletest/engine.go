package scheduletest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/turnus/turnus/core/schedule"
)

var engineTests = []test{
	{"EnginesFireEachOnce", func(f *fixture) {
		f.catchUp(60, func(ctx context.Context, l schedule.Launcher, o schedule.Options, done func() bool) {
			var all []*Server
			for range 3 {
				all = append(all, Serve(ctx, f.Store, l, o))
			}
			until(ctx, f, "every fire is launched and settled", done)
			for _, s := range all {
				s.end()
				s.Wait()
			}
		})
	}},
	{"EnginesKilledAnywhereLoseAndDoubleNothing", func(f *fixture) {
		f.catchUp(20, func(ctx context.Context, l schedule.Launcher, o schedule.Options, done func() bool) {
			for n := 1; n <= 30; n++ { // two at a time, killed at one of their first calls
				at, after := 1+7*n%(3*n+1), n%2 == 0
				var pair []*Server
				for range 2 {
					pair = append(pair, Serve(ctx, f.Store, l, o, func(m *Mortal) { m.KillAt(at, after) }))
				}
				until(ctx, f, "both are dead, or there is nothing left to die of", func() bool { return pair[0].Dead() && pair[1].Dead() || done() })
				for _, s := range pair {
					s.Kill()
					s.Wait()
				}
			}
			last := Serve(ctx, f.Store, l, o)
			until(ctx, f, "every fire is launched and settled", done)
			last.end()
			last.Wait()
		})
	}},
	{"ADeadServersClaimsAreTakenOverSoon", func(f *fixture) {
		l := &Launches{}
		ctx, cancel := context.WithCancel(f.Context())
		defer cancel()
		f.create(id(1), f.now().Add(-time.Second), f.data(id(1), f.now().Add(-90*time.Second)))
		o := schedule.Options{}
		var kill func()
		deadly := &Launches{}
		deadly.FailWith(func(schedule.Fire) error { kill(); return ErrKilled })
		first := Serve(ctx, f.Store, deadly, o, func(m *Mortal) { kill = m.Kill })
		first.Wait()
		r, _ := f.read(id(1))
		_, s, err := schedule.Decode(r.ID, r.Data)
		if f.ok(err); len(s.Claimed) != 1 || l.Count() != 0 {
			f.Fatalf("died with %d launched and claims %+v, expected a claim only", l.Count(), s.Claimed)
		}
		if wait := r.Due.Sub(f.now()); wait > 500*time.Millisecond {
			f.Errorf("its claim is held for another %v", wait)
		}
		second := Serve(ctx, f.Store, l, o)
		until(ctx, f, "another launched it", func() bool { return l.Count() > 0 })
		second.end()
		second.Wait()
		if _, ok := l.All()[s.Claimed[0].RunID]; !ok {
			f.Errorf("launched %v, expected the run that was claimed, %s", l.All(), s.Claimed[0].RunID)
		}
	}},
	{"ManyAtOnceAreEachFiredOnce", func(f *fixture) {
		const n = 1500
		_, l := Storm(f.T, []schedule.Store{f.Store, f.Store, f.Store}, n, 2)
		if l.Count() != n {
			f.Fatalf("%d of %d were launched", l.Count(), n)
		}
	}},
}

// data is a record's data: every minute, all that was missed since a time.
func (f *fixture) data(id schedule.ID, since time.Time) string {
	d := schedule.Definition{ID: id, Cron: "* * * * *", CatchUp: schedule.CatchUpAll, Payload: []byte("what")}
	return string(schedule.Encode(d, schedule.State{Since: since.UTC().Truncate(time.Millisecond)}))
}

// catchUp has n schedules catch up on six minutes, and compares what was launched and told with the minutes.
func (f *fixture) catchUp(n int, run func(ctx context.Context, l schedule.Launcher, o schedule.Options, done func() bool)) {
	l := &Launches{}
	var mu sync.Mutex
	told := map[string]int{}
	o := schedule.Options{TTL: 150 * time.Millisecond, Events: func(v schedule.Event) {
		mu.Lock()
		defer mu.Unlock()
		if v.Kind == schedule.EventFired {
			told[v.Fire.RunID]++
		}
	}}
	ctx, cancel := context.WithTimeout(f.Context(), 2*time.Minute)
	defer cancel()
	began := f.now()
	since := began.Truncate(time.Minute).Add(-6*time.Minute - time.Second)
	want := map[string]bool{}
	for i := range n {
		f.create(id(i), began, f.data(id(i), since))
		for at := since.Truncate(time.Minute).Add(time.Minute); !at.After(began); at = at.Add(time.Minute) {
			want[schedule.RunID(id(i), at)] = true
		}
	}
	done := func() bool {
		for i := range n {
			if r, ok := f.read(id(i)); ok {
				if _, s, err := schedule.Decode(r.ID, r.Data); err != nil || len(s.Claimed) > 0 || s.Since.Before(began.Truncate(time.Minute)) {
					return false
				}
			}
		}
		return true
	}
	run(ctx, l, o, done)
	got := l.All()
	for run := range want {
		if _, ok := got[run]; !ok {
			f.Errorf("%s was not launched", run)
		}
	}
	for run, s := range got {
		if !want[run] && !s.Nominal.After(began) {
			f.Errorf("%s was launched, which no minute asks for", run)
		}
		if told[run] > 1 {
			f.Errorf("%s was told %d times", run, told[run])
		}
	}
	for i := range n {
		r, _ := f.read(id(i))
		_, s, err := schedule.Decode(r.ID, r.Data)
		if f.ok(err); s.Fired < 7 || s.Skipped != 0 && f.now().Truncate(time.Minute).Equal(began.Truncate(time.Minute)) {
			f.Errorf("%s counts %d fired and %d skipped, expected the 7 of its minutes", r.ID, s.Fired, s.Skipped)
		}
	}
}

// Storm puts n schedules that are due at the same moment under one engine a store, kills some of
// the engines at that moment, and returns the time from it until the last was launched.
func Storm(t TB, stores []schedule.Store, n, kill int) (time.Duration, *Launches) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	read, err := stores[0].Get(ctx, nil)
	if err != nil {
		t.Fatalf("clock: %v", err)
	}
	// The schedules have their fire a little in the past, so that they need not wait for a minute
	// to begin, and are due in two seconds or so.
	due := read.Now.Add(2*time.Second + time.Duration(n/20)*time.Millisecond)
	since := due.Truncate(time.Minute).Add(-time.Second)
	want := map[string]bool{}
	for first := 0; first < n; first += schedule.MaxBatch {
		var changes []schedule.Change
		for i := first; i < min(first+schedule.MaxBatch, n); i++ {
			id := schedule.ID{Tenant: "storm", Name: fmt.Sprintf("s-%d", i)}
			d := schedule.Definition{ID: id, Cron: fmt.Sprintf("%d * * * *", due.Minute()), CatchUp: schedule.CatchUpAll, Payload: []byte("playbook@revision")}
			changes = append(changes, schedule.Change{ID: id, Due: due, Data: schedule.Encode(d, schedule.State{Since: since})})
			want[schedule.RunID(id, due)] = true
		}
		if _, err := stores[0].Write(ctx, changes); err != nil {
			t.Fatalf("writing %d schedules: %v", len(changes), err)
		}
	}
	l := &Launches{}
	var all []*Server
	for _, s := range stores {
		all = append(all, Serve(ctx, s, l, schedule.Options{}))
	}
	fired := waitFor(ctx, t, stores[0], due)
	for _, s := range all[:kill] {
		s.Kill()
	}
	for l.Count() < n && ctx.Err() == nil {
		timer := time.NewTimer(2 * time.Millisecond)
		<-timer.C
	}
	cancel()
	for _, s := range all {
		s.Wait()
	}
	last := fired
	for run, s := range l.All() {
		if !want[run] {
			t.Fatalf("%s was launched, which nothing asks for", run)
		}
		if s.At.After(last) {
			last = s.At
		}
	}
	return last.Sub(fired), l
}

// waitFor blocks until the store's clock reaches a time, and returns the process's time then.
func waitFor(ctx context.Context, t TB, s schedule.Store, at time.Time) time.Time {
	t.Helper()
	read, err := s.Get(ctx, nil)
	if err != nil {
		t.Fatalf("clock: %v", err)
	}
	timer := time.NewTimer(at.Sub(read.Now))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return time.Now()
}
