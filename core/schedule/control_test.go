package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/schedule"
)

func TestPutAgainChangesNothing(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "0 * * * *")
		l.put(d)
		l.serve()
		l.pass(2*time.Hour + time.Minute)
		before, err := l.store.Get(l.Context(), []schedule.ID{d.ID})
		l.ok(err)
		d.CatchUp, d.Overlap = schedule.CatchUpSkip, schedule.OverlapSkip // what empty means
		changed, err := l.control.Put(l.Context(), d)
		l.ok(err)
		after, err := l.store.Get(l.Context(), []schedule.ID{d.ID})
		l.ok(err)
		if changed[0] || after.Records[0].Version != before.Records[0].Version {
			t.Fatal("the same definition was written again")
		}
		d.Payload = []byte("newer") // keeps state and next fire
		if changed, err = l.control.Put(l.Context(), d); err != nil || !changed[0] {
			t.Fatalf("changed %v, %v", changed, err)
		}
		if s := l.status(d.ID); s.State.Fired != 2 || s.Next.Hour() != 3 || string(s.Definition.Payload) != "newer" {
			t.Errorf("status %+v", s)
		}
		l.pass(time.Hour)
		if s := l.runs.All()[schedule.RunID(d.ID, time.Now().Truncate(time.Hour))]; string(s.Payload) != "newer" {
			t.Errorf("launched %+v", s)
		}
	})
}

func TestANewExpressionCountsFromNow(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "0 * * * *")
		d.CatchUp = schedule.CatchUpAll
		l.put(d)
		l.pass(3*time.Hour + time.Minute) // nobody looks: three fires are missed
		d.Cron = "30 * * * *"
		l.put(d)
		l.serve()
		l.pass(time.Hour)
		if got := l.runs.All(); len(got) != 1 {
			t.Errorf("launched %v, expected that of 03:30 only", got)
		}
		if s := l.status(d.ID); s.Next.Minute() != 30 || s.State.Fired != 1 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestPutRefusesTheWholeCall(t *testing.T) {
	inLab(t, func(l *lab) {
		bad := every(2, "0 0 * *")
		for name, all := range map[string][]schedule.Definition{"a bad one": {every(1, "0 * * * *"), bad}, "one twice": {every(1, "0 * * * *"), every(1, "5 * * * *")}} {
			if _, err := l.control.Put(l.Context(), all...); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "schedule acme:s") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := l.control.Get(l.Context(), every(1, "").ID); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("a part was put: %v", err)
		}
	})
}

func TestManyArePutListedAndDeleted(t *testing.T) {
	inLab(t, func(l *lab) {
		const n = 700
		var all []schedule.Definition
		var ids []schedule.ID
		for i := range n {
			all = append(all, every(i, "0 0 * * *"))
			ids = append(ids, all[i].ID)
		}
		l.put(all...)
		seen := 0
		for p := (schedule.Page{Tenant: "acme", Limit: 100}); ; {
			some, next, err := l.control.List(l.Context(), p)
			l.ok(err)
			for _, s := range some {
				if s.Next.IsZero() || s.Definition.Cron == "" {
					t.Fatalf("listed %+v", s)
				}
				seen++
			}
			if p.Cursor = next; next == "" {
				break
			}
		}
		l.ok(l.control.Delete(l.Context(), append(ids, schedule.ID{Name: "nobody"})...))
		if some, _, err := l.control.List(l.Context(), schedule.Page{All: true, Limit: 10}); err != nil || len(some) != 0 || seen != n {
			t.Errorf("%d listed, %d left, %v", seen, len(some), err)
		}
	})
}

func TestPauseAndResume(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "0 * * * *")
		d.Paused = true
		l.put(d)
		l.serve()
		l.pass(3*time.Hour + time.Minute)
		if s := l.status(d.ID); l.runs.Count() != 0 || !s.State.Paused || !s.Next.IsZero() {
			t.Fatalf("%d launched while paused: %+v", l.runs.Count(), s)
		}
		l.ok(l.control.Resume(l.Context(), d.ID))
		l.put(d) // git still says paused, but nobody changed it there
		l.pass(time.Hour)
		if l.runs.Count() != 1 {
			t.Fatalf("%d launched after resume, expected the next one only", l.runs.Count())
		}
		l.ok(l.control.Pause(l.Context(), "CHG7", d.ID))
		l.pass(time.Hour)
		if s := l.status(d.ID); l.runs.Count() != 1 || s.State.Reason != "CHG7" {
			t.Fatalf("%d launched, %+v", l.runs.Count(), s.State)
		}
		d.Paused = false // git says go on: a change
		l.put(d)
		l.pass(time.Hour)
		if l.runs.Count() != 2 {
			t.Fatalf("%d launched", l.runs.Count())
		}
		if err := l.control.Pause(l.Context(), "x", schedule.ID{Name: "nobody"}); !errors.Is(err, core.ErrNotFound) || !strings.Contains(err.Error(), "nobody") {
			t.Errorf("got %v", err)
		}
	})
}

func TestTriggerLaunchesOnceAKey(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "0 0 1 1 *")
		d.Paused = true
		l.put(d)
		l.serve()
		l.serve()
		l.pass(time.Second)
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				if _, err := l.control.Trigger(l.Context(), d.ID, fmt.Sprintf("key-%d", i%4)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		l.pass(time.Second)
		if s := l.status(d.ID).State; l.runs.Count() != 4 || s.Fired != 4 {
			t.Fatalf("%d launched, %d counted, expected one for each of 4 keys", l.runs.Count(), s.Fired)
		}
		run, err := l.control.Trigger(l.Context(), d.ID, "key-1")
		l.ok(err)
		l.pass(time.Minute)
		if s := l.runs.All()[run]; l.runs.Count() != 4 || s.Cause != schedule.ByTrigger || string(s.Payload) != "what" {
			t.Errorf("%d launched, %+v", l.runs.Count(), s)
		}
		for _, key := range []string{"", strings.Repeat("k", schedule.MaxKey+1)} {
			if _, err := l.control.Trigger(l.Context(), d.ID, key); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("key %q: %v", key, err)
			}
		}
	})
}

func TestTriggersThatNobodyLaunchesAreBounded(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "0 0 1 1 *")
		l.put(d)
		for i := range schedule.MaxTriggers {
			_, err := l.control.Trigger(l.Context(), d.ID, fmt.Sprint(i))
			l.ok(err)
		}
		if _, err := l.control.Trigger(l.Context(), d.ID, "more"); !errors.Is(err, core.ErrConflict) {
			t.Errorf("got %v", err)
		}
		if _, err := l.control.Trigger(l.Context(), d.ID, "0"); err != nil {
			t.Errorf("a key that is known: %v", err)
		}
	})
}

func TestBackfillIsBoundedAndRepeatsNothing(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "0 * * * *")
		l.put(d)
		l.serve()
		start := time.Now()
		l.pass(2*time.Hour + time.Minute)
		for range 2 { // asked for twice
			n, err := l.control.Backfill(l.Context(), d.ID, start.Add(-3*time.Hour), start.Add(2*time.Hour))
			if err != nil || n != 6 {
				t.Fatalf("%d fires, %v; expected 21:00 to 02:00", n, err)
			}
		}
		l.pass(10 * time.Minute)
		got := l.runs.All()
		if len(got) != 6 {
			t.Errorf("launched %v", got)
		}
		if s := got[schedule.RunID(d.ID, start.Add(-3*time.Hour))]; s.Cause != schedule.ByBackfill {
			t.Errorf("21:00 is %+v", s)
		}
		for name, r := range map[string][2]time.Time{"not over": {start, start.Add(24 * time.Hour)}, "the wrong way": {start, start.Add(-time.Hour)}, "too many": {start.AddDate(-1, 0, 0), start}} {
			if _, err := l.control.Backfill(l.Context(), d.ID, r[0], r[1]); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestOverlapOverEngines(t *testing.T) {
	for o, want := range map[schedule.Overlap]int{schedule.OverlapSkip: 1, schedule.OverlapQueue: 1, schedule.OverlapCancel: 5} {
		inLab(t, func(l *lab) {
			l.runs.Hold = true
			d := every(1, "*/10 * * * *")
			d.Overlap = o
			l.put(d)
			l.serve()
			l.serve()
			l.pass(51 * time.Minute)
			if got := l.runs.Count(); got != want || len(l.runs.Cancelled()) != want-1 {
				t.Errorf("%s: %d launched, %v cancelled, expected %d launched", o, got, l.runs.Cancelled(), want)
			}
			l.runs.Complete()
			l.ok(l.control.Recheck(l.Context(), d.ID))
			l.pass(time.Second)
			if got := l.runs.Count(); (o == schedule.OverlapQueue) != (got == want+1) {
				t.Errorf("%s: %d launched after the first was complete", o, got)
			}
		})
	}
}

func TestControlsBesideEngines(t *testing.T) {
	inLab(t, func(l *lab) {
		l.runs.Slow = 50 * time.Millisecond
		d := every(1, "* * * * *")
		d.Overlap = schedule.OverlapQueue
		l.put(d)
		from := time.Now()
		l.serve()
		l.serve()
		for i := range 200 { // changed all the time, in the middle of launches too
			l.pass(1313 * time.Millisecond)
			d.Payload = fmt.Appendf(nil, "%d", i)
			l.put(d)
		}
		to := time.Now()
		l.pass(time.Second)
		l.exactly(from, to, d)
	})
}

func TestDeletedInTheMiddleOfALaunch(t *testing.T) {
	inLab(t, func(l *lab) {
		l.runs.Slow = time.Second
		d := every(1, "5 * * * *")
		l.put(d)
		l.serve()
		l.pass(5*time.Minute + 500*time.Millisecond)
		l.ok(l.control.Delete(l.Context(), d.ID))
		l.put(d)
		l.pass(time.Minute)
		if s := l.status(d.ID).State; s.Fired != 0 || len(s.Active) != 0 {
			t.Errorf("the schedule made anew has what the old one launched: %+v", s)
		}
	})
}
