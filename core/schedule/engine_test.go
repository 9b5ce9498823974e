package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/schedule"
	"github.com/turnus/turnus/core/schedule/memory"
	"github.com/turnus/turnus/core/schedule/scheduletest"
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

// The clock of every server is an hour off that of the store, or not: it changes nothing.
func TestServersFireEachOnceByTheStoresClock(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			inLab(t, func(l *lab) {
				all := some(12)
				l.put(all...)
				from := l.status(all[0].ID).Now
				for range 3 {
					l.serve()
				}
				l.pass(time.Hour - 4*time.Minute)
				l.exactly(from, from.Add(time.Hour-4*time.Minute), all...)
				for run, s := range l.runs.All() {
					if late := s.At.Add(l.ahead).Sub(s.Nominal); s.Calls != 1 || late < 0 || late > 2*time.Minute+10*time.Millisecond {
						t.Errorf("%s was launched %d times, %v after its nominal time", run, s.Calls, late)
					}
				}
			}, func(l *lab) { l.ahead = ahead })
		})
	}
}

func TestNegativeControlAServersOwnClockIsNoticed(t *testing.T) {
	inLab(t, func(l *lab) {
		l.put(every(1, "30 * * * *"))
		l.serve()
		l.pass(2 * time.Hour)
		early := 0
		for _, s := range l.runs.All() {
			if s.At.Before(s.Nominal) {
				early++
			}
		}
		if early == 0 {
			t.Error("nothing was launched early with a clock an hour off: the test above cannot fail")
		}
	}, func(l *lab) { l.store = ownClock{memory.New(), time.Hour} })
}

func TestServersKilledAtEveryPoint(t *testing.T) {
	for _, after := range []bool{false, true} {
		for at := 1; at <= 12; at++ {
			t.Run(fmt.Sprintf("call %d, effect %v", at, after), func(t *testing.T) {
				inLab(t, func(l *lab) {
					all := []schedule.Definition{every(1, "*/5 * * * *"), every(2, "*/5 * * * *")}
					l.put(all...)
					from := time.Now()
					l.pass(5*time.Minute - time.Second)
					for range 2 {
						l.serve(func(m *scheduletest.Mortal) { m.KillAt(at, after) })
					}
					l.pass(2 * time.Second)
					for _, s := range l.servers {
						s.Kill()
						s.Wait()
					}
					l.serve()
					l.pass(time.Second) // another has them in well under a second
					l.exactly(from, from.Add(5*time.Minute), all...)
					l.pass(10 * time.Minute)
					l.exactly(from, from.Add(15*time.Minute), all...)
				})
			})
		}
	}
}

func TestNegativeControlWithoutTakeOverAFireIsLost(t *testing.T) {
	for _, lose := range []bool{false, true} {
		inLab(t, func(l *lab) {
			if lose {
				l.store = sticky{l.store}
			}
			l.put(every(1, "5 * * * *"))
			var kill func()
			l.runs.FailWith(func(schedule.Fire) error { kill(); return scheduletest.ErrKilled })
			s := l.serve(func(m *scheduletest.Mortal) { kill = m.Kill })
			l.pass(5*time.Minute + time.Millisecond)
			s.Wait()
			l.runs.FailWith(nil)
			l.serve()
			l.pass(time.Second)
			if got := l.runs.Count(); got != map[bool]int{false: 1, true: 0}[lose] {
				t.Errorf("%d launched, without take-over: %v", got, lose)
			}
		})
	}
}

// A server that slept between Take and its claim finds that others went on, and changes nothing.
func TestASleepingServerChangesNothing(t *testing.T) {
	for _, compare := range []bool{true, false} {
		inLab(t, func(l *lab) {
			inner := l.store
			if !compare { // the negative control
				inner = lax{inner}
			}
			l.put(every(1, "5 * * * *"))
			l.pass(5*time.Minute - time.Second)
			l.store = &sleepy{Store: inner, nap: 5 * time.Second}
			l.serve()
			l.pass(time.Second + 100*time.Millisecond) // it has taken the record, and sleeps
			l.store = inner
			l.serve()
			l.pass(10 * time.Second)
			var told, calls int
			for _, n := range l.told(schedule.EventFired) {
				told += n
			}
			for _, s := range l.runs.All() {
				calls += s.Calls
			}
			if compare && (told != 1 || calls != 1) {
				t.Errorf("told %d times, launched with %d calls", told, calls)
			}
			if !compare && told+calls == 2 {
				t.Error("without compare-and-set nothing is doubled: this test cannot fail")
			}
			l.store = inner
		})
	}
}

func TestLostAnswersOfTheStore(t *testing.T) {
	unknown := fmt.Errorf("i/o timeout: %w", core.ErrUnknown)
	for _, every := range []int{2, 3, 5, 7} {
		inLab(t, func(l *lab) {
			all := some(12)
			l.put(all...)
			from := time.Now()
			l.store = &flaky{Store: l.store, fail: func(call int, name string) (before, after error) {
				if call%every == 0 && name != "wait" {
					return nil, unknown
				}
				return nil, nil
			}}
			l.serve()
			l.serve()
			l.pass(time.Hour - 4*time.Minute)
			l.exactly(from, from.Add(time.Hour-4*time.Minute), all...)
		})
	}
}

func TestTheStoreIsAwayForAWhile(t *testing.T) {
	inLab(t, func(l *lab) {
		all := []schedule.Definition{every(1, "*/10 * * * *")}
		all[0].CatchUp = schedule.CatchUpAll
		l.put(all...)
		from := time.Now()
		f := &flaky{Store: l.store, fail: func(int, string) (error, error) {
			if since := time.Since(from); since > 15*time.Minute && since < 45*time.Minute {
				return errAway, nil
			}
			return nil, nil
		}}
		l.store = f
		l.serve()
		l.pass(55 * time.Minute)
		l.exactly(from, from.Add(55*time.Minute), all...)
		if n := l.told(schedule.EventTrouble)[""]; n == 0 || n > 2000 {
			t.Errorf("%d events of trouble in half an hour", n)
		}
	})
}

func TestSlowLaunchesAreNotTakenOver(t *testing.T) {
	inLab(t, func(l *lab) {
		l.runs.Slow = 5 * time.Second
		all := []schedule.Definition{every(1, "*/5 * * * *"), every(2, "*/5 * * * *")}
		l.put(all...)
		from := time.Now()
		for range 3 {
			l.serve()
		}
		l.pass(time.Hour + 10*time.Second)
		l.exactly(from, from.Add(time.Hour), all...)
		for run, s := range l.runs.All() {
			if s.Calls != 1 {
				t.Errorf("%s was launched with %d calls", run, s.Calls)
			}
		}
	})
}

func TestALauncherThatIsAway(t *testing.T) {
	inLab(t, func(l *lab) {
		away := errors.New("queue is away")
		l.runs.FailWith(func(schedule.Fire) error { return away })
		d := every(1, "5 * * * *")
		l.put(d)
		l.serve()
		l.pass(7 * time.Minute)
		failed := l.told(schedule.EventFailed)[schedule.RunID(d.ID, time.Now().Truncate(time.Hour).Add(5*time.Minute))]
		if failed < 5 || failed > 12 {
			t.Errorf("%d attempts in two minutes", failed)
		}
		l.runs.FailWith(nil)
		l.pass(time.Minute)
		if s := l.status(d.ID).State; s.Fired != 1 || l.runs.Count() != 1 || l.told(schedule.EventFired)[s.Last[0].RunID] != 1 {
			t.Errorf("after it came back: %+v", s)
		}
	})
}

// blind is a launcher that cannot tell what runs.
type blind struct{ *scheduletest.Launches }

func (blind) Running(context.Context, []string) ([]string, error) { return nil, errAway }

func TestNothingIsLaunchedBlindly(t *testing.T) {
	inLab(t, func(l *lab) {
		d, fresh := every(1, "*/5 * * * *"), every(2, "7 * * * *")
		l.put(d, fresh)
		first := l.serve()
		l.pass(6 * time.Minute)
		first.Kill()
		s := scheduletest.Serve(l.Context(), l.store, blind{l.runs}, l.options)
		l.servers = append(l.servers, s)
		l.pass(5 * time.Minute) // 00:10 may overlap with 00:05, nobody can tell; 00:07 overlaps with nothing
		if got := l.runs.Count(); got != 2 {
			t.Errorf("%d launched, expected 00:05 and 00:07", got)
		}
		s.Kill()
		l.serve()
		l.pass(2 * time.Second)
		if got := l.told(schedule.EventFired); len(got)+len(l.told(schedule.EventSkipped)) < 3 {
			t.Errorf("told %v", got)
		}
	})
}

func TestARecordThatCannotBeReadStopsNoOther(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "5 * * * *")
		l.put(d)
		_, err := l.store.Write(l.Context(), []schedule.Change{{ID: every(2, "").ID, Due: time.Now(), Data: []byte{99, 1, 2}}})
		l.ok(err)
		l.serve()
		l.pass(6 * time.Minute)
		if l.runs.Count() != 1 {
			t.Errorf("%d launched", l.runs.Count())
		}
		if n := l.told(schedule.EventTrouble)[""]; n < 5 || n > 8 {
			t.Errorf("told of it %d times in six minutes, expected once a minute", n)
		}
	})
}

func TestAStoppedServerGivesBackWhatItDidNotBegin(t *testing.T) {
	inLab(t, func(l *lab) {
		l.runs.Slow = 500 * time.Millisecond
		l.options.Parallel = 1
		l.options.TTL = time.Minute // only what is given back is launched soon
		var all []schedule.Definition
		for i := range 10 {
			all = append(all, every(i, "5 * * * *"))
		}
		l.put(all...)
		from := time.Now()
		ctx, stop := context.WithCancel(l.Context())
		first := scheduletest.NewMortal(l.store, l.runs, func() {})
		done := make(chan struct{})
		go func() {
			defer close(done)
			schedule.NewEngine(first.Store(), first.Launcher(), l.options).Run(ctx)
		}()
		l.pass(5*time.Minute + 1200*time.Millisecond) // two are launched, one is under way
		stop()
		<-done
		if n := l.runs.Count(); n != 3 {
			t.Errorf("%d launched when it stopped, expected 3: the one under way is finished", n)
		}
		l.runs.Slow = 0
		l.serve()
		l.pass(time.Second)
		l.exactly(from, from.Add(5*time.Minute), all...)
	})
}

// Only what is due is read, whatever the number of schedules.
func TestOnlyWhatIsDueIsRead(t *testing.T) {
	inLab(t, func(l *lab) {
		var all []schedule.Definition
		for i := range 5000 {
			all = append(all, every(i, "0 0 1 6 *"))
		}
		l.put(all...)
		l.put(every(9999, "* * * * *"))
		taken := 0
		f := &flaky{Store: l.store, fail: func(int, string) (error, error) { return nil, nil }}
		l.store = &counting{flaky: f, taken: &taken}
		l.serve()
		l.pass(10 * time.Minute)
		if taken != 10 {
			t.Errorf("%d records were read in ten minutes, expected the 10 that were due", taken)
		}
		if f.calls > 3*600 {
			t.Errorf("%d calls of the store in ten minutes", f.calls)
		}
	})
}

type counting struct {
	*flaky
	taken *int
}

func (c *counting) Take(ctx context.Context, most int, hold time.Duration) (schedule.Taken, error) {
	out, err := c.flaky.Take(ctx, most, hold)
	*c.taken += len(out.Records)
	return out, err
}

func TestLateFiresAreToldSo(t *testing.T) {
	inLab(t, func(l *lab) {
		d := every(1, "5 * * * *")
		d.CatchUp = schedule.CatchUpOnce
		l.put(d)
		l.pass(30 * time.Minute)
		l.serve()
		l.pass(time.Second)
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, v := range l.events {
			if v.Kind == schedule.EventFired && v.Late.Truncate(time.Second) == 25*time.Minute && v.Fire.Cause == schedule.ByCatchUp {
				return
			}
		}
		t.Errorf("told %+v", l.events)
	})
}
