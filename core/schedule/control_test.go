package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
)

func (l *lab) pause(d schedule.Definition, reason string) {
	l.Helper()
	l.ok(l.control.SetPaused(l.Context(), d.ID, true, reason, noted("schedule.pause")))
}

func (l *lab) resume(d schedule.Definition) {
	l.Helper()
	l.ok(l.control.SetPaused(l.Context(), d.ID, false, "", noted("schedule.resume")))
}

// align makes the schedules of the definitions be these; there is no document of them in the lab.
func (l *lab) align(all ...schedule.Definition) int {
	l.Helper()
	n, err := l.control.Align(l.Context(), all, ledger.Basis{Kind: "definitions", Name: "current"}, nil)
	l.ok(err)
	return n
}

func TestAlignAgainChangesNothing(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "0 * * * *")
		l.align(d)
		defer l.completing()()
		l.serve()
		l.pass(2*time.Hour + time.Minute)
		before := l.status(d.ID)
		d.CatchUp, d.Overlap = schedule.CatchUpSkip, schedule.OverlapSkip // what empty means
		if n := l.align(d); n != 0 || l.status(d.ID).Edition != before.Edition {
			t.Fatalf("the same definition was written again: %d", n)
		}
		d.Payload = []byte("newer") // keeps state and next fire
		if n := l.align(d); n != 1 {
			t.Fatalf("%d changed", n)
		}
		if s := l.status(d.ID); s.State.Triggered != 2 || s.Next.Hour() != 3 || string(s.Definition.Payload) != "newer" {
			t.Errorf("status %+v", s)
		}
		l.pass(time.Hour)
		if r := l.runs()[schedule.RunID(d.ID, time.Now().Truncate(time.Hour))]; r.LaunchedBy != "schedule:newer" {
			t.Errorf("launched %+v", r)
		}
	})
}

// Those of the definitions come and go with them; a person's stays, until the definitions have one
// of its name.
func TestAlign(t *testing.T) {
	inLab(t, func(l *lab) {
		mine := every(0, "0 * * * *")
		l.put(mine)
		var all []schedule.Definition
		for i := range 1500 {
			all = append(all, every(i+1, "0 * * * *"))
		}
		if n := l.align(all...); n != 1500 {
			t.Errorf("%d made", n)
		}
		if n := l.align(all[:10]...); n != 1490 {
			t.Errorf("%d removed", n)
		}
		if s := l.status(mine.ID); s.By != "bob" {
			t.Errorf("%+v", s)
		}
		l.align(append(all[:10:10], mine)...)
		if s := l.status(mine.ID); s.By != "" {
			t.Errorf("%+v", s)
		}
		if n := l.align(); n != 11 {
			t.Errorf("%d removed", n)
		}
		_, err := l.control.Align(l.Context(), all, ledger.Basis{Kind: "definitions", Name: "current", Version: 3}, nil)
		if left, _, _ := l.ledger.Schedules(l.Context(), ledger.AllTenants(), ledger.Page{}); !errors.Is(err, core.ErrConflict) || len(left) != 0 {
			t.Errorf("on the basis of definitions that are not the ledger's: %v, %d rows", err, len(left))
		}
	})
}

func TestANewExpressionCountsFromNow(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "0 * * * *")
		d.CatchUp = schedule.CatchUpAll
		l.put(d)
		l.pass(3*time.Hour + time.Minute) // nobody looks: three triggers are missed
		d.Cron = "30 * * * *"
		l.put(d)
		l.serve()
		l.pass(time.Hour)
		if got := l.runs(); len(got) != 1 {
			t.Errorf("launched %v, expected that of 03:30 only", got)
		}
		if s := l.status(d.ID); s.Next.Minute() != 30 || s.State.Triggered != 1 {
			t.Errorf("status %+v", s)
		}
	})
}

// Launches of the former expression are dropped: one that fails, and those of a backfill. The run
// that it was to cancel continues, and counts.
func TestANewExpressionDropsClaimsAndBackfills(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "*/5 * * * *")
		d.Overlap = schedule.OverlapCancel
		l.put(d)
		first, failing := schedule.RunID(d.ID, time.Now().Add(5*time.Minute)), schedule.RunID(d.ID, time.Now().Add(10*time.Minute))
		l.serve()
		l.pass(6 * time.Minute)
		l.failWith(func(schedule.Trigger) error { return fmt.Errorf("no definitions: %w", core.ErrUnavailable) })
		l.pass(5 * time.Minute)
		_, err := l.control.Backfill(l.Context(), d.ID, time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour), noted("schedule.backfill"))
		l.ok(err)
		if s := l.status(d.ID).State; len(s.Claimed) != 1 || len(s.Backfill) != 1 || len(s.Active) != 0 {
			t.Fatalf("before: %+v", s)
		}
		d.Cron = "30 * * * *"
		l.put(d)
		l.failWith(nil)
		l.pass(10 * time.Minute)
		s := l.status(d.ID).State
		if got := l.runs(); len(got) != 1 || len(s.Claimed) != 0 || len(s.Backfill) != 0 || len(s.Active) != 1 || s.Active[0].ID != first {
			t.Errorf("launched %v, expected %s only: %+v", got, first, s)
		}
		if last := s.Last[len(s.Last)-1]; s.Skipped != 1 || last.RunID != failing || last.Reason.Text() != "its time was changed" {
			t.Errorf("skipped %d, last %+v", s.Skipped, last)
		}
	})
}

func TestPutRefuses(t *testing.T) {
	inLab(t, func(l *lab) {
		put := func(d schedule.Definition, ifEdition int64, quota int) error {
			_, err := l.control.Put(l.Context(), d, "bob", ifEdition, core.Quota{What: "schedules", Max: quota}, noted("schedule.put"))
			return err
		}
		if err := put(every(2, "0 0 * *"), 0, 2); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "schedule acme:s2") {
			t.Errorf("a bad one: %v", err)
		}
		l.ok(put(every(1, "0 * * * *"), 0, 2))
		if err := put(every(1, "5 * * * *"), 0, 2); !errors.Is(err, core.ErrConflict) {
			t.Errorf("one that is there: %v", err)
		}
		first := l.status(every(1, "").ID).Edition
		l.ok(put(every(1, "5 * * * *"), first, 2))
		if err := put(every(1, "6 * * * *"), first, 2); !errors.Is(err, core.ErrConflict) {
			t.Errorf("in the place of an older edition: %v", err)
		}
		l.ok(put(every(2, "5 * * * *"), 0, 2))
		if err := put(every(3, "6 * * * *"), 0, 2); !errors.Is(err, core.ErrQuota) {
			t.Errorf("over the quota: %v", err)
		}
		l.ok(put(schedule.Definition{ID: schedule.ID{Tenant: "other", Name: "s"}, Cron: "0 * * * *"}, 0, 2))
		id := every(1, "").ID
		if err := l.control.Delete(l.Context(), id, first, noted("schedule.delete")); !errors.Is(err, core.ErrConflict) {
			t.Errorf("an older edition is deleted: %v", err)
		}
		last := l.status(id).Edition
		l.ok(l.control.Delete(l.Context(), id, last, noted("schedule.delete")))
		l.pass(time.Millisecond)
		l.ok(put(every(1, "5 * * * *"), 0, 2))
		if again := l.status(id).Edition; again <= last {
			t.Errorf("edition %d comes after %d", again, last)
		}
		if entries, _, err := l.ledger.AuditLog(l.Context(), ledger.AllTenants(), ledger.AuditFilter{Kind: "schedule"}, ledger.Page{}); err != nil || len(entries) != 6 {
			t.Errorf("%d entries in the audit log, expected those of the 6 changes: %v", len(entries), err)
		}
	})
}

func TestPauseAndResume(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "0 * * * *")
		d.Paused = true
		l.align(d)
		defer l.completing()()
		l.serve()
		l.pass(3*time.Hour + time.Minute)
		if s := l.status(d.ID); len(l.runs()) != 0 || !s.State.Paused || !s.Next.IsZero() {
			t.Fatalf("%d launched while paused: %+v", len(l.runs()), s)
		}
		l.resume(d)
		l.align(d) // git still has it paused, but nobody changed it there
		l.pass(time.Hour)
		if len(l.runs()) != 1 {
			t.Fatalf("%d launched after resume, expected the next one only", len(l.runs()))
		}
		l.pause(d, "CHG7")
		l.pass(time.Hour)
		if s := l.status(d.ID); len(l.runs()) != 1 || s.State.Reason != "CHG7" {
			t.Fatalf("%d launched, %+v", len(l.runs()), s.State)
		}
		d.Paused = false // git has it continue: a change
		l.align(d)
		l.pass(time.Hour)
		if len(l.runs()) != 2 {
			t.Fatalf("%d launched", len(l.runs()))
		}
		if err := l.control.SetPaused(l.Context(), schedule.ID{Name: "nobody"}, true, "x", noted("schedule.pause")); !errors.Is(err, core.ErrNotFound) || !strings.Contains(err.Error(), "nobody") {
			t.Errorf("got %v", err)
		}
	})
}

func (l *lab) trigger(d schedule.Definition, key string) (ledger.Accepted, error) {
	return l.control.Trigger(l.Context(), d.ID, key, func(f schedule.Trigger) (ledger.NewRun, error) { return l.Prepare(l.Context(), f) }, noted("schedule.trigger"))
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
				if _, err := l.trigger(d, fmt.Sprintf("key-%d", i%4)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if s := l.status(d.ID).State; len(l.runs()) != 4 || s.Triggered != 4 {
			t.Fatalf("%d launched, %d counted, expected one for each of 4 keys", len(l.runs()), s.Triggered)
		}
		run, err := l.trigger(d, "key-1")
		l.ok(err)
		l.pass(time.Minute)
		if _, ok := l.runs()[run.Run.ID]; run.Created || len(l.runs()) != 4 || !ok || l.status(d.ID).State.Triggered != 4 {
			t.Errorf("%d launched, %+v", len(l.runs()), run)
		}
		for _, key := range []string{"", strings.Repeat("k", schedule.MaxKey+1)} {
			if _, err := l.trigger(d, key); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("key %q: %v", key, err)
			}
		}
	})
}

func TestTriggersAreBoundByTheRunsThatAreNotComplete(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "0 0 1 1 *")
		l.put(d)
		for i := range schedule.MaxActive {
			_, err := l.trigger(d, fmt.Sprint(i))
			l.ok(err)
		}
		if _, err := l.trigger(d, "more"); !errors.Is(err, core.ErrConflict) {
			t.Errorf("got %v", err)
		}
		if _, err := l.trigger(d, "0"); err != nil {
			t.Errorf("a key that is known: %v", err)
		}
		l.complete(schedule.TriggerRunID(d.ID, "3"))
		if _, err := l.trigger(d, "more"); err != nil {
			t.Errorf("after one has ended: %v", err)
		}
	})
}

func TestBackfillIsBoundedAndRepeatsNothing(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "0 * * * *")
		l.put(d)
		defer l.completing()()
		l.serve()
		start := time.Now()
		l.pass(2*time.Hour + time.Minute)
		for range 2 { // asked for twice
			n, err := l.control.Backfill(l.Context(), d.ID, start.Add(-3*time.Hour), start.Add(2*time.Hour), noted("schedule.backfill"))
			if err != nil || n != 6 {
				t.Fatalf("%d fire times, %v; expected 21:00 to 02:00", n, err)
			}
		}
		l.pass(10 * time.Minute)
		got := l.runs()
		if len(got) != 6 {
			t.Errorf("launched %v", got)
		}
		if _, ok := got[schedule.RunID(d.ID, start.Add(-3*time.Hour))]; !ok {
			t.Errorf("21:00 was not launched: %v", got)
		}
		for name, r := range map[string][2]time.Time{"not over": {start, start.Add(24 * time.Hour)}, "the wrong way": {start, start.Add(-time.Hour)}, "too many": {start.AddDate(-1, 0, 0), start}} {
			if _, err := l.control.Backfill(l.Context(), d.ID, r[0], r[1], noted("schedule.backfill")); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestOverlapOverEngines(t *testing.T) {
	for o, want := range map[schedule.Overlap]int{schedule.OverlapSkip: 1, schedule.OverlapQueue: 1, schedule.OverlapCancel: 5} {
		inLab(t, func(l *lab) {
			d := every(1, "*/10 * * * *")
			d.Overlap = o
			l.put(d)
			l.serve()
			s := l.serve()
			l.pass(51 * time.Minute)
			cancelled := 0
			for _, r := range l.runs() {
				if r.Phase == ledger.PhaseCancelled {
					cancelled++
				}
			}
			if got := len(l.runs()); got != want || cancelled != want-1 {
				t.Errorf("%s: %d launched, %d cancelled, expected %d launched", o, got, cancelled, want)
			}
			l.complete()
			due, err := l.control.MakeDue(l.Context(), d.ID)
			l.ok(err)
			if due != (o == schedule.OverlapQueue) {
				t.Errorf("%s: due: %v", o, due)
			}
			s.engine.Check()
			synctest.Wait()
			if got := len(l.runs()); (o == schedule.OverlapQueue) != (got == want+1) {
				t.Errorf("%s: %d launched immediately after the first was complete", o, got)
			}
		})
	}
}

func TestControlsBesideEngines(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "* * * * *")
		d.Overlap = schedule.OverlapQueue
		l.align(d)
		defer l.completing()()
		from := time.Now()
		l.serve()
		l.serve()
		for i := range 200 {
			l.pass(1313 * time.Millisecond)
			d.Payload = fmt.Appendf(nil, "%d", i)
			for {
				_, err := l.control.Align(l.Context(), []schedule.Definition{d}, ledger.Basis{Kind: "definitions", Name: "current"}, nil)
				if errors.Is(err, core.ErrConflict) { // an engine was faster
					continue
				}
				l.ok(err)
				break
			}
		}
		to := time.Now()
		l.pass(time.Second)
		l.exactly(from, to, d)
	})
}

func TestDeletedAndMadeAnewKnowsNothing(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "5 * * * *")
		l.align(d)
		l.serve()
		l.pass(6 * time.Minute)
		l.align()
		l.align(d)
		l.pass(time.Minute)
		if s := l.status(d.ID).State; s.Triggered != 0 || len(s.Active) != 0 || len(l.runs()) != 1 {
			t.Errorf("the schedule that was made again has what the old one launched: %+v", s)
		}
	})
}

// A schedule with a time triggers once on any number of servers, must be in the future, and is
// removed after KeepOnce. The same again is the same, even after its trigger.
func TestOnceOnServers(t *testing.T) {
	inLab(t, func(l *lab) {
		complete := l.completing()
		l.serve()
		l.serve()
		d := schedule.Definition{ID: schedule.ID{Name: "x"}, At: time.Now().Add(90 * time.Second).Truncate(time.Second)}
		put := func(d schedule.Definition) (schedule.Status, error) {
			return l.control.Put(l.Context(), d, "bob", 0, core.Quota{}, noted("schedule.put"))
		}
		first, err := put(d)
		if l.ok(err); !first.Next.Equal(d.At) || first.Definition.CatchUp != schedule.CatchUpOnce {
			t.Errorf("made %+v", first)
		}
		l.pass(time.Hour)
		again, err := put(d)
		if l.ok(err); again.Edition != first.Edition || again.State.Triggered != 1 || !again.Next.IsZero() {
			t.Errorf("again %+v", again)
		}
		if runs := l.runs(); len(runs) != 1 || runs[schedule.RunID(d.ID, d.At)].ID == "" || again.State.Last[0].RunID != schedule.RunID(d.ID, d.At) {
			t.Errorf("runs %v, state %+v", runs, again.State)
		}
		d.ID.Name = "y"
		if _, err := put(d); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "is in the past") {
			t.Errorf("in the past: %v", err)
		}
		complete()
		l.stop()
		l.pass(schedule.KeepOnce)
		l.serve()
		l.pass(time.Minute)
		if _, err := l.control.Get(l.Context(), ledger.AllTenants(), first.Definition.ID); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("later: %v", err)
		}
	})
}
