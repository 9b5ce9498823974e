package schedule_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
)

func some(n int) (all []schedule.Definition) {
	for i := range n {
		d := every(i, []string{"*/10 * * * *", "7 * * * *", "0 0,2,4 * * *", "*/30 1 * * *"}[i%4])
		d.Timezone = []string{"UTC", "Asia/Kolkata", "America/New_York"}[i%3]
		d.Jitter = time.Duration(i%5) * 30 * time.Second
		all = append(all, d)
	}
	return all
}

func TestServersTriggerEachOnce(t *testing.T) {
	inLab(t, func(l *lab) {
		all := some(12)
		l.put(all...)
		defer l.completing()()
		from := time.Now()
		for range 3 {
			l.serve()
		}
		l.pass(time.Hour - 4*time.Minute)
		l.exactly(from, from.Add(time.Hour-4*time.Minute), all...)
		for id, run := range l.runs() {
			if late := run.Created.Sub(nominal(t, id)); late < 0 || late > 2*time.Minute+10*time.Millisecond {
				t.Errorf("%s was launched %v after its nominal time", id, late)
			}
		}
	})
}

func nominal(t *testing.T, run string) time.Time {
	t.Helper()
	at, err := time.Parse("20060102T1504Z", run[len(run)-len("20060102T1504Z"):])
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestALauncherThatIsAway(t *testing.T) {
	inLab(t, func(l *lab) {
		away := fmt.Errorf("no definitions: %w", core.ErrUnavailable)
		l.failWith(func(schedule.Trigger) error { return away })
		d := every(1, "5 * * * *")
		l.put(d)
		l.serve()
		l.pass(7 * time.Minute)
		failed := l.reported(schedule.EventFailed)[schedule.RunID(d.ID, time.Now().Truncate(time.Hour).Add(5*time.Minute))]
		if failed < 5 || failed > 12 {
			t.Errorf("%d attempts in two minutes", failed)
		}
		l.failWith(nil)
		l.pass(time.Minute)
		if s := l.status(d.ID).State; s.Triggered != 1 || len(l.runs()) != 1 || l.reported(schedule.EventTriggered)[s.Last[0].RunID] != 1 {
			t.Errorf("after it came back: %+v", s)
		}
	})
}

// A fire that the ledger refuses is skipped, and takes no other with it.
func TestARefusedRunTakesNoOtherWithIt(t *testing.T) {
	inLab(t, func(l *lab) {
		good, taken, bad := every(1, "5 * * * *"), every(2, "5 * * * *"), every(3, "5 * * * *")
		l.put(good, taken, bad)
		at := time.Now().Add(5 * time.Minute)
		_, _, err := l.ledger.Accept(t.Context(), ledger.NewRun{ID: schedule.RunID(taken.ID, at), Playbook: "other", LaunchedBy: "eve", Jobs: []ledger.JobHost{{Host: "h"}}})
		l.ok(err)
		l.failWith(func(f schedule.Trigger) error {
			if f.Schedule == bad.ID {
				return fmt.Errorf("the playbook is gone: %w", core.ErrInvalid)
			}
			return nil
		})
		l.serve()
		l.pass(6 * time.Minute)
		for _, d := range []schedule.Definition{good, taken, bad} {
			triggered, skipped := int64(0), int64(1)
			if d.ID == good.ID {
				triggered, skipped = 1, 0
			}
			if s := l.status(d.ID).State; s.Triggered != triggered || s.Skipped != skipped || len(s.Claimed) != 0 {
				t.Errorf("%s: %+v", d.ID, s)
			}
		}
	})
}

// With overlap cancel_running, the running one continues if the ledger refuses its successor. The
// next fire takes its place.
func TestARefusedRunCancelsNothing(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "*/5 * * * *")
		d.Overlap = schedule.OverlapCancel
		l.put(d)
		first := schedule.RunID(d.ID, time.Now().Add(5*time.Minute))
		_, _, err := l.ledger.Accept(t.Context(), ledger.NewRun{ID: schedule.RunID(d.ID, time.Now().Add(10*time.Minute)), Playbook: "other", LaunchedBy: "eve", Jobs: []ledger.JobHost{{Host: "h"}}})
		l.ok(err)
		l.serve()
		l.pass(11 * time.Minute)
		if run := l.runs()[first]; run.Complete() || len(l.cancelled()) > 0 {
			t.Errorf("after its successor was refused: %+v, cancelled %v", run, l.cancelled())
		}
		l.pass(5 * time.Minute)
		if run := l.runs()[first]; !run.Complete() || !slices.Equal(l.cancelled(), []string{first}) {
			t.Errorf("after the next fire: %+v, cancelled %v", run, l.cancelled())
		}
	})
}

// The ledger is away for half an hour, and comes back.
func TestTheLedgerIsAwayForAWhile(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "*/10 * * * *")
		d.CatchUp = schedule.CatchUpAll
		l.put(d)
		defer l.completing()()
		from := time.Now()
		l.serve()
		l.pass(15 * time.Minute)
		hide(t, l, true)
		l.pass(30 * time.Minute)
		hide(t, l, false)
		l.pass(10 * time.Minute)
		l.exactly(from, from.Add(55*time.Minute), d)
		if n := l.reported(schedule.EventTrouble)[""]; n == 0 || n > 2000 {
			t.Errorf("%d events of trouble in half an hour", n)
		}
	})
}

// hide takes the table of schedules away, or brings it back.
func hide(t *testing.T, l *lab, away bool) {
	t.Helper()
	from, to := "hidden", "schedules"
	if away {
		from, to = to, from
	}
	l.raw("ALTER TABLE " + from + " RENAME TO " + to)
}

// A row that cannot be read stops no other, and is reported once a minute. Lists and the check have
// it with what to do. It stays as it is while the definitions change, and can only be removed.
func TestARowThatCannotBeReadStopsNoOther(t *testing.T) {
	inLab(t, func(l *lab) {
		d, damaged := every(1, "5 * * * *"), every(2, "5 * * * *")
		l.put(d, damaged)
		l.raw("UPDATE schedules SET data = x'0063', due = 1 WHERE name = 's2'")
		l.serve()
		l.pass(6 * time.Minute)
		if n := len(l.runs()); n != 1 {
			t.Errorf("%d launched", n)
		}
		if n := l.reported(schedule.EventTrouble)[""]; n < 5 || n > 8 {
			t.Errorf("reported %d times in six minutes, expected once a minute", n)
		}
		const what = "\nhint: turnus schedules rm acme:s2; then set it again"
		all, _, err := l.control.List(l.Context(), ledger.AllTenants(), ledger.Page{})
		if err != nil || len(all) != 2 || all[0].Damaged != nil || all[0].Next.IsZero() || all[1].Definition.ID != damaged.ID || all[1].By != "bob" ||
			!strings.Contains(core.ErrorText(all[1].Damaged), what) {
			t.Errorf("listed are %+v, %v", all, err)
		}
		if found, err := l.control.Check(l.Context(), true); err != nil || len(found) != 1 || found[0].Repaired || !strings.Contains(found[0].What, what) {
			t.Errorf("the check finds %+v, %v", found, err)
		}
		before := all[1]
		if n := l.align(damaged, every(3, "5 * * * *")); n != 1 || l.status(damaged.ID).Edition != before.Edition {
			t.Errorf("the definitions changed %d schedules", n)
		}
		if err := l.control.SetPaused(l.Context(), damaged.ID, true, "", noted("schedule.pause")); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("a pause: %v", err)
		}
		l.ok(l.control.Delete(l.Context(), damaged.ID, before.Edition, noted("schedule.delete")))
		if n := l.align(damaged, every(3, "5 * * * *")); n != 1 || l.status(damaged.ID).Damaged != nil {
			t.Errorf("%d schedules were made again", n)
		}
	})
}

// When a row is due is an index only: where it is lost or wrong, the row is still read, and
// triggers nothing twice.
func TestADueTimeThatIsTooEarlyTriggersNothing(t *testing.T) {
	inLab(t, func(l *lab) {
		all := []schedule.Definition{every(1, "*/10 * * * *"), every(2, "5 * * * *")}
		l.put(all...)
		defer l.completing()()
		from := time.Now()
		l.serve()
		l.serve()
		for range 50 {
			l.raw("UPDATE schedules SET due = 1")
			l.pass(time.Minute)
		}
		l.exactly(from, from.Add(50*time.Minute), all...)
	})
}

// Two servers decide on the same row: one changes it, the other changes nothing. The control:
// without the comparison of versions a fire is counted twice.
func TestNegativeControlWithoutTheVersionATriggerCountsTwice(t *testing.T) {
	for _, compared := range []bool{true, false} {
		inLab(t, func(l *lab) {
			d := every(1, "5 * * * *")
			l.put(d)
			other, err := ledger.Open(t.Context(), l.url, ledger.Options{})
			l.ok(err)
			defer func() { _ = other.Close() }()
			again := false
			l.failWith(func(schedule.Trigger) error { // called between the decision and the change
				if !again {
					again = true
					l.mu.Unlock()
					defer l.mu.Lock()
					l.pollFor(10*time.Millisecond, other)
					if !compared {
						l.raw("UPDATE schedules SET version = version - 1")
					}
				}
				return nil
			})
			l.pass(5 * time.Minute)
			l.pollFor(time.Second, l.ledger)
			s := l.status(d.ID).State
			reported := l.reported(schedule.EventTriggered)[schedule.RunID(d.ID, time.Now().Truncate(time.Minute))]
			if compared != (reported == 1) || len(l.runs()) != 1 || s.Triggered != 1 {
				t.Errorf("compared: %v; reported %d times, %d runs, %d counted", compared, reported, len(l.runs()), s.Triggered)
			}
		})
	}
}

// A ledger that takes no new run: a launch is reported as failed, and happens once it takes runs
// again.
func TestALaunchThatTheLedgerRefusesIsReported(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "5 * * * *")
		d.CatchUp = schedule.CatchUpOnce
		l.put(d)
		l.raw("CREATE TRIGGER full BEFORE INSERT ON runs BEGIN SELECT RAISE(ABORT, 'full'); END")
		l.serve()
		l.pass(6 * time.Minute)
		if reported := len(l.reported(schedule.EventFailed)); reported != 1 || len(l.runs()) != 0 {
			t.Errorf("%d runs reported as failed, %d launched", reported, len(l.runs()))
		}
		l.raw("DROP TRIGGER full")
		l.pass(time.Minute)
		if s := l.status(d.ID).State; s.Triggered != 1 || len(l.runs()) != 1 {
			t.Errorf("%d counted, %d runs", s.Triggered, len(l.runs()))
		}
	})
}

func TestCatchUpAfterDowntime(t *testing.T) {
	for catchUp, want := range map[schedule.CatchUp][2]int64{schedule.CatchUpSkip: {0, 3}, schedule.CatchUpOnce: {1, 2}, schedule.CatchUpAll: {3, 0}} {
		inLab(t, func(l *lab) {
			d := every(1, "*/10 * * * *")
			d.CatchUp = catchUp
			l.put(d)
			l.pass(35 * time.Minute)
			defer l.completing()()
			l.serve()
			l.pass(4 * time.Minute)
			if s := l.status(d.ID).State; s.Triggered != want[0] || s.Skipped != want[1] {
				t.Errorf("%s: %d triggered, %d skipped, expected %v", catchUp, s.Triggered, s.Skipped, want)
			}
			if catchUp != schedule.CatchUpSkip {
				l.mu.Lock()
				defer l.mu.Unlock()
				for _, v := range l.events {
					if v.Kind == schedule.EventTriggered && v.Late < 5*time.Minute {
						t.Errorf("a late trigger is not reported as late: %+v", v)
					}
				}
			}
		})
	}
}

// A thousand schedules trigger at one instant under three servers, each once, and before the next
// second.
func TestAThousandAtOnce(t *testing.T) {
	inLab(t, func(l *lab) {
		var all []schedule.Definition
		for i := range 1000 {
			all = append(all, every(i, "5 * * * *"))
		}
		l.align(all...)
		from := time.Now()
		for range 3 {
			l.serve()
		}
		l.pass(5*time.Minute + time.Second)
		l.exactly(from, from.Add(5*time.Minute), all...)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.prepared < 1000 || l.prepared > 2500 {
			t.Errorf("%d runs were prepared for 1000 fire times", l.prepared)
		}
	})
}

// Only what is due is read, whatever the number of schedules, and a server that waits asks about
// once a second.
func TestOnlyWhatIsDueIsPrepared(t *testing.T) {
	inLab(t, func(l *lab) {
		var all []schedule.Definition
		for i := range 2000 {
			all = append(all, every(i, "0 0 1 6 *"))
		}
		l.align(append(all, every(9999, "* * * * *"))...)
		defer l.completing()()
		l.serve()
		l.pass(10*time.Minute + time.Second)
		if l.prepared != 10 {
			t.Errorf("%d runs were prepared in ten minutes, expected the 10 that were due", l.prepared)
		}
	})
}
