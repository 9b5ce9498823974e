package schedule

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
)

func hourly(change ...func(*Definition)) Definition {
	d := Definition{Cron: "0 * * * *"}
	for _, c := range change {
		c(&d)
	}
	return d
}

func within(d time.Duration) func(*Definition) { return func(s *Definition) { s.StartWithin = d } }
func catchUp(c CatchUp) func(*Definition)      { return func(s *Definition) { s.CatchUp = c } }
func overlap(o Overlap) func(*Definition)      { return func(s *Definition) { s.Overlap = o } }

func TestDecideIsTheWholeOfIt(t *testing.T) {
	d := hourly()
	d.ID = ID{Name: "nightly"}
	s := State{Since: clock("03 00:00")}
	p, err := newPlanner().plan(d)
	if err != nil {
		t.Fatal(err)
	}
	dec := p.decide(s, clock("03 01:00"), func(string) bool { return false })
	if len(dec.State.Claimed) != 1 || dec.State.Claimed[0].RunID != "nightly-20260303T0100Z" || len(s.Claimed) != 0 {
		t.Errorf("decided %+v", dec)
	}
	d.Cron = "never"
	if _, err := newPlanner().plan(d); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestTriggersOnTime(t *testing.T) {
	w := newWorld(t, hourly())
	w.poll(clock("03 00:30"))
	w.want()
	if !w.due.Equal(clock("03 01:00")) {
		t.Fatalf("due at %s", w.due)
	}
	w.poll(clock("03 01:00"))
	w.complete()
	w.poll(clock("03 02:00:59"))
	w.want("launch 01:00", "launch 02:00")
	if w.s.Triggered != 2 || w.s.Skipped != 0 || len(w.s.Last) != 2 || w.s.Last[1].RunID != "acme:nightly-20260303T0200Z" {
		t.Fatalf("state %+v", w.s)
	}
}

func TestCatchUp(t *testing.T) {
	for _, c := range []struct {
		name string
		d    Definition
		want []string
		why  string
	}{
		{"skip", hourly(), []string{"skip 01:00-06:00 x6"}, "no server looked"},
		{"skip within its limit", hourly(within(12 * time.Hour)), []string{"skip 01:00-06:00 x6"}, "no server looked"},
		{"skip all too late", hourly(within(10 * time.Minute)), []string{"skip 01:00-06:00 x6"}, "start_within 10m0s"},
		{"once", hourly(catchUp(CatchUpOnce)), []string{"skip 01:00-05:00 x5", "catch_up 06:00"}, "only the latest"},
		{"once too late", hourly(catchUp(CatchUpOnce), within(20*time.Minute)), []string{"skip 01:00-06:00 x6"}, "too late"},
		{"once within its limit", hourly(catchUp(CatchUpOnce), within(time.Hour)), []string{"skip 01:00-05:00 x5", "catch_up 06:00"}, "only the latest"},
		{"all", hourly(catchUp(CatchUpAll)), []string{"catch_up 01:00", "catch_up 02:00", "catch_up 03:00", "catch_up 04:00", "catch_up 05:00", "catch_up 06:00"}, ""},
		{"all within its limit", hourly(catchUp(CatchUpAll), within(2*time.Hour)), []string{"skip 01:00-04:00 x4", "catch_up 05:00", "catch_up 06:00"}, "too late"},
		{"all too late", hourly(catchUp(CatchUpAll), within(10*time.Minute)), []string{"skip 01:00-06:00 x6"}, "too late"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.d)
			w.done = true
			w.poll(clock("03 06:30"))
			w.want(c.want...)
			if c.why != "" {
				w.because(c.why)
			}
			w.run(clock("03 07:00"))
			w.want("launch 07:00")
		})
	}
}

func TestOnceStandsBackForATriggerOnTime(t *testing.T) {
	w := newWorld(t, hourly(catchUp(CatchUpOnce)))
	w.poll(clock("03 05:00:30"))
	w.want("skip 01:00-03:00 x3", "skip 04:00", "launch 05:00")
	w.because("a later fire is on time")
}

func TestStartWithinIsCountedFromTheNominalTime(t *testing.T) {
	w := newWorld(t, hourly(within(30*time.Second)))
	w.done = true
	w.poll(clock("03 01:00:30"))
	w.want("launch 01:00")
	w.poll(clock("03 02:00:31")) // within Grace, but too late
	w.want("skip 02:00")
	w.because("too late: start_within 30s")
}

func TestOverlapSkip(t *testing.T) {
	w := newWorld(t, hourly())
	w.poll(clock("03 01:00"))
	w.run(clock("03 03:30"))
	w.want("launch 01:00", "skip 02:00", "skip 03:00")
	w.because("run acme:nightly-20260303T0100Z is not complete")
	w.complete()
	w.run(clock("03 04:00"))
	w.want("launch 04:00")
}

func TestOverlapQueue(t *testing.T) {
	w := newWorld(t, hourly(overlap(OverlapQueue)))
	w.poll(clock("03 01:00"))
	w.run(clock("03 04:30"))
	w.want("launch 01:00", "skip 03:00", "skip 04:00")
	w.because("the fire of 2026-03-03T02:00Z waits already")
	w.complete()
	w.run(clock("03 04:31"))
	w.want("launch 02:00")
	w.complete()
	w.run(clock("03 05:00"))
	w.want("launch 05:00")
}

func TestOverlapQueueWaitsNoLongerThanStartWithin(t *testing.T) {
	w := newWorld(t, hourly(overlap(OverlapQueue), within(20*time.Minute)))
	w.poll(clock("03 01:00"))
	w.run(clock("03 02:20"))
	w.want("launch 01:00")
	w.run(clock("03 02:21"))
	w.want("skip 02:00")
	w.because("it waited until start_within 20m0s had passed")
}

func TestOverlapCancel(t *testing.T) {
	w := newWorld(t, hourly(overlap(OverlapCancel)))
	w.poll(clock("03 01:00"))
	w.run(clock("03 02:30"))
	w.want("launch 01:00", "cancel 01:00", "launch 02:00")
	w.complete()
	w.run(clock("03 03:00"))
	w.want("launch 03:00")
}

// A fire that is not launched cancels nothing, and the next one knows of the run that continues.
func TestOverlapCancelOfAFireThatIsNotLaunched(t *testing.T) {
	w := newWorld(t, hourly(overlap(OverlapCancel)))
	w.poll(clock("03 01:00"))
	w.decide(clock("03 02:00"))
	w.launch(clock("03 02:00"), core.ErrInvalid)
	w.poll(clock("03 03:00"))
	w.want("launch 01:00", "skip 02:00", "cancel 01:00", "launch 03:00")
	w.decide(clock("03 04:00"))
	w.launch(clock("03 04:00"), errors.New("away"))
	w.poll(clock("03 05:00")) // that was tried for too long
	w.want("skip 04:00", "cancel 03:00", "launch 05:00")
}

func TestOverlapCancelWaitsForALaunchThatFails(t *testing.T) {
	w := newWorld(t, hourly(overlap(OverlapCancel), catchUp(CatchUpOnce)))
	w.decide(clock("03 01:00"))
	w.launch(clock("03 01:00"), errors.New("away"))
	w.decide(clock("03 02:00")) // nobody knows whether the first one runs
	w.launch(clock("03 02:00"), nil)
	w.poll(clock("03 02:00:01"))
	w.want("launch 01:00", "cancel 01:00", "launch 02:00")
}

func TestCatchUpWaitsWhateverOverlapSays(t *testing.T) {
	for _, o := range []Overlap{OverlapSkip, OverlapQueue, OverlapCancel} {
		w := newWorld(t, hourly(overlap(o), catchUp(CatchUpAll)))
		w.poll(clock("03 01:00"))
		w.poll(clock("03 04:30")) // nobody looked for hours, and the run of 01:00 still continues
		w.run(clock("03 04:45"))
		w.want("launch 01:00")
		for _, want := range []string{"catch_up 02:00", "catch_up 03:00", "catch_up 04:00"} {
			w.complete()
			w.run(w.due.Add(5 * time.Minute))
			w.want(want)
		}
		w.run(clock("03 05:10")) // on time, behind one that is caught up
		w.want()
		w.complete()
		w.run(clock("03 05:15"))
		w.want("catch_up 05:00")
	}
}

func TestPauseMakesNoBacklog(t *testing.T) {
	w := newWorld(t, hourly(overlap(OverlapQueue), catchUp(CatchUpAll)))
	w.poll(clock("03 01:00"))
	w.poll(clock("03 02:00")) // waits
	w.s.pause(w.d.ID, clock("03 02:10"), "CHG7")
	if w.s.Waiting != nil || w.s.Last[len(w.s.Last)-1].Reason != "the schedule was paused: CHG7" {
		t.Fatalf("state %+v", w.s)
	}
	w.complete()
	w.poll(clock("03 05:00"))
	w.want("launch 01:00")
	if !w.due.IsZero() {
		t.Fatalf("a paused schedule is due at %s", w.due)
	}
	w.s.resume(clock("03 05:30"))
	w.poll(clock("03 05:30"))
	w.run(clock("03 06:00"))
	w.want("launch 06:00")
}

func TestBackfill(t *testing.T) {
	w := newWorld(t, hourly(within(time.Hour)))
	w.poll(clock("03 05:00"))
	w.complete()
	w.s.Paused = true
	w.s.Backfill = []Span{{After: clock("03 00:59"), To: clock("03 03:30")}, {After: clock("03 04:30"), To: clock("03 05:00")}}
	w.poll(clock("03 05:10"))
	w.run(clock("03 05:20"))
	w.want("skip 01:00-04:00 x4", "launch 05:00", "backfill 01:00")
	w.complete()
	w.run(clock("03 05:30"))
	w.complete()
	w.run(clock("03 05:40"))
	w.want("backfill 02:00", "backfill 03:00")
	w.complete()
	w.run(clock("03 05:50"))
	w.want() // that of 05:00 was launched
	if len(w.s.Backfill) > 0 {
		t.Fatalf("left: %+v", w.s.Backfill)
	}
}

func TestFailedLaunches(t *testing.T) {
	away := errors.New("queue is away")
	for _, c := range []struct {
		name string
		d    Definition
		last time.Time // of an attempt
		gone bool
	}{
		{"until RetryFor", hourly(), clock("03 01:10"), true},
		{"until start_within", hourly(within(3 * time.Minute)), clock("03 01:03"), true},
		{"for ever, if it has to be caught up", hourly(catchUp(CatchUpOnce)), clock("03 01:55"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.d)
			w.due = clock("03 01:00")
			tries := 0
			for w.due.Before(clock("03 01:55")) {
				now := w.due
				w.decide(now)
				if len(w.s.Claimed) == 0 {
					break
				}
				tries++
				if now.After(c.last) {
					t.Fatalf("tried at %s", now)
				}
				w.launch(now, away)
			}
			if c.gone {
				w.want("skip 01:00")
				w.because("queue is away")
			} else {
				w.want()
			}
			if tries < 8 || tries > 200 {
				t.Errorf("%d attempts", tries)
			}
		})
	}
	t.Run("refused at once", func(t *testing.T) {
		w := newWorld(t, hourly(catchUp(CatchUpAll)))
		w.decide(clock("03 01:00"))
		w.launch(clock("03 01:00"), fmt.Errorf("no such playbook: %w", core.ErrInvalid))
		w.want("skip 01:00")
		w.because("refused: no such playbook")
	})
}

func TestARepeatedFinishCountsOnce(t *testing.T) {
	w := newWorld(t, hourly())
	w.decide(clock("03 01:00"))
	run := w.s.Claimed[0].RunID
	s, first := finish(w.s, []launch{{run, nil}}, clock("03 01:00"))
	s, again := finish(s, []launch{{run, nil}, {run, errors.New("slow")}}, clock("03 01:00"))
	if len(first) != 1 || len(again) != 0 || s.Triggered != 1 || len(s.Claimed) != 0 {
		t.Fatalf("ended %v, then %v: %+v", first, again, s)
	}
}
