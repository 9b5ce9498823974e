package schedule

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// nomad#5410: at a clock change a job was launched thousands of times.
func TestTrapClockSetBackLaunchesNothingTwice(t *testing.T) {
	for _, c := range []CatchUp{CatchUpSkip, CatchUpOnce, CatchUpAll} {
		w := newWorld(t, Definition{Cron: "*/10 * * * *", CatchUp: c})
		w.done = true
		w.poll(clock("03 00:05"))
		w.run(clock("03 02:00"))
		before := len(w.log)
		for at := clock("03 01:00"); !at.After(clock("03 02:00")); at = at.Add(time.Second) { // the store's clock, an hour back
			w.poll(at)
		}
		if len(w.log) != before {
			t.Errorf("%s: launched again: %v", c, w.log[before:])
		}
		w.run(clock("03 03:00"))
		if w.s.Triggered != 18 || w.s.Skipped != 0 {
			t.Errorf("%s: %d triggered, %d skipped in three hours, expected 18", c, w.s.Triggered, w.s.Skipped)
		}
	}
}

func TestTrapClockSetForwardByYearsIsBounded(t *testing.T) {
	for c, want := range map[CatchUp]int64{CatchUpSkip: 0, CatchUpOnce: 1, CatchUpAll: MaxCatchUp} {
		w := newWorld(t, Definition{Cron: "* * * * *", CatchUp: c})
		w.done = true
		w.poll(clock("03 00:00").AddDate(40, 0, 0).Add(30 * time.Second))
		if w.s.Triggered > want+1 || w.s.Triggered < want/2 || len(w.log) > MaxCatchUp+2 {
			t.Errorf("%s: %d triggered with %d lines, expected about %d", c, w.s.Triggered, len(w.log), want)
		}
	}
}

// awx#5014: after an outage the night's shutdowns ran in the morning.
func TestTrapCatchUpHasAnExpiry(t *testing.T) {
	for _, c := range []CatchUp{CatchUpOnce, CatchUpAll} {
		w := newWorld(t, Definition{Cron: "0 1 * * *", CatchUp: c, StartWithin: 4 * time.Hour})
		w.poll(clock("03 08:00"))
		w.want("skip 01:00")
		w.because("too late: start_within 4h0m0s has passed")
		w.poll(clock("04 04:59"))
		w.want("catch_up 01:00")
	}
}

// semaphore#2376: a task that hung had 200 runs waiting behind it in the morning.
func TestTrapAHungRunPilesUpNothing(t *testing.T) {
	for _, o := range []Overlap{OverlapSkip, OverlapQueue} {
		w := newWorld(t, Definition{Cron: "*/5 * * * *", Overlap: o})
		w.due = clock("03 00:05")
		w.run(clock("03 20:00")) // it hangs
		if w.s.Triggered != 1 || len(w.s.Claimed) > 0 {
			t.Fatalf("%s: %d triggered while the first hangs", o, w.s.Triggered)
		}
		w.complete()
		w.run(clock("03 20:04"))
		if want := map[Overlap]int64{OverlapSkip: 1, OverlapQueue: 2}[o]; w.s.Triggered != want {
			t.Errorf("%s: %d triggered after it ended, expected %d", o, w.s.Triggered, want)
		}
		if got := w.s.Triggered + w.s.Skipped; got != 240 {
			t.Errorf("%s: %d fire times are reported, expected 240", o, got)
		}
	}
}

// temporal, and every cron library tried: what follows a clock change is missed or doubled.
func TestTrapClockChangesTriggerOnce(t *testing.T) {
	w := newWorld(t, Definition{Cron: "30 2 * * *", Timezone: "Europe/Berlin"})
	w.done = true
	w.s.Since = clock("28 12:00")
	w.poll(w.s.Since)
	w.run(clock("30 12:00"))
	w.want("launch 01:00", "launch 00:30") // 03:00+02 in place of 02:30, then 02:30+02
	w.s.Since = time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC)
	w.poll(w.s.Since)
	w.run(w.s.Since.AddDate(0, 0, 2))
	w.want("launch 00:30", "launch 01:30") // the first of the two, then 02:30+01
}

// A long downtime costs no long decision: 40 years of minutes are decided with a few thousand
// steps.
func TestTrapLongDowntimeIsCheap(t *testing.T) {
	for _, c := range []CatchUp{CatchUpSkip, CatchUpOnce, CatchUpAll} {
		w := newWorld(t, Definition{Cron: "* * * * *", CatchUp: c, Jitter: 30 * time.Second})
		began := time.Now()
		w.decide(clock("03 00:00").AddDate(40, 0, 0))
		if took := time.Since(began); took > time.Minute { // 21 million triggers would take longer
			t.Errorf("%s: took %v", c, took)
		}
		if len(w.log) > 2 {
			t.Errorf("%s: %d events for one downtime", c, len(w.log))
		}
	}
}

// With any ticks, and any death between decision, launch and its record, exactly the times of the
// cron expression are launched, each once.
func TestTriggersAreExactlyThoseOfTheExpression(t *testing.T) {
	planner := newPlanner()
	rapid.Check(t, func(t *rapid.T) {
		d := Definition{ID: ID{Name: "n"}, CatchUp: CatchUpAll, Overlap: rapid.SampledFrom([]Overlap{OverlapSkip, OverlapQueue, OverlapCancel}).Draw(t, "overlap"),
			Cron:     rapid.SampledFrom([]string{"*/20 * * * *", "0 * * * *", "30 1,2,3 * * *", "5 */7 * * *", "0 0 * * *"}).Draw(t, "cron"),
			Timezone: rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe"}).Draw(t, "zone"),
			Jitter:   time.Duration(rapid.IntRange(0, 1200).Draw(t, "jitter")) * time.Second}
		from := rapid.SampledFrom([]time.Time{clock("28 20:00"), clock("10 00:00"), time.Date(2026, 10, 24, 20, 0, 0, 0, time.UTC), time.Date(2026, 4, 4, 1, 0, 0, 0, time.UTC)}).Draw(t, "from")
		s, launched, triggered := State{Since: from}, map[string]int{}, 0
		p, err := planner.plan(d)
		if err != nil {
			t.Fatal(err)
		}
		for now := from; ; {
			dec := p.decide(s, now, func(string) bool { return false })
			if len(dec.Skips) > 0 {
				t.Fatalf("skipped %+v", dec.Skips)
			}
			crash := rapid.IntRange(0, 6).Draw(t, "crash")
			if crash > 0 { // the claim is written
				s = dec.State
			}
			var all []launch
			for _, c := range dec.State.Claimed {
				if crash > 1 { // launched
					launched[c.RunID]++
				}
				all = append(all, launch{run: c.RunID})
			}
			if crash > 2 { // recorded
				var what []finished
				s, what = finish(s, all, now)
				triggered += len(what)
			}
			if now.Sub(from) > 40*time.Hour && len(s.Claimed) == 0 && crash > 2 && len(all) == 0 {
				break
			}
			if now.Sub(from) <= 40*time.Hour {
				now = now.Add(time.Duration(rapid.IntRange(1, 6000).Draw(t, "tick")) * time.Second)
			}
		}
		want, err := d.Next(from, 1000)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, at := range want {
			if at.After(s.Since) {
				break
			}
			n++
			if launched[RunID(d.ID, at)] == 0 {
				t.Fatalf("the fire of %s was not launched", at)
			}
		}
		if len(launched) != n || int64(n) != s.Triggered || triggered != n {
			t.Fatalf("%d runs launched, %d counted, %d reported, expected %d", len(launched), s.Triggered, triggered, n)
		}
	})
}

func TestJitterIsFixedAndKeepsTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Definition{ID: ID{Tenant: "acme", Name: fmt.Sprintf("n%d", rapid.IntRange(0, 1000).Draw(t, "name"))},
			Cron:     rapid.SampledFrom([]string{"* * * * *", "*/7 * * * *", "0 1,2 * * *", "30 2 * * *"}).Draw(t, "cron"),
			Timezone: "Europe/Berlin", Jitter: time.Duration(rapid.IntRange(0, 86_400).Draw(t, "jitter")) * time.Second}
		one, err := newPlanner().plan(d)
		if err != nil {
			t.Fatal(err)
		}
		other, _ := newPlanner().plan(d)
		at := clock("28 00:00").Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "at")) * time.Minute)
		for range 5 {
			at, _ = one.next(at)
			next, _ := one.next(at)
			start := one.start(at)
			if start.Before(at) || !start.Before(next) || start.Sub(at) > d.Jitter || !start.Equal(other.start(at)) {
				t.Fatalf("%s starts at %s, the next one is %s", at, start, next)
			}
		}
	})
	spread := map[time.Duration]int{} // minutes of an hour
	for i := range 6000 {
		p, err := newPlanner().plan(Definition{ID: ID{Name: fmt.Sprint(i)}, Cron: "0 0 * * *", Jitter: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		spread[p.start(clock("04 00:00")).Sub(clock("04 00:00")).Truncate(time.Minute)]++
	}
	for minute, n := range spread {
		if n > 200 || len(spread) != 60 {
			t.Errorf("%d of 6000 start in minute %v of %d", n, minute, len(spread))
		}
	}
}

func TestLatestIsTheLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Definition{ID: ID{Name: "n"}, Timezone: rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Africa/Cairo"}).Draw(t, "zone"),
			Cron: rapid.SampledFrom([]string{"* * * * *", "*/7 2,3 * * *", "30 2 * * *", "0 0 1 * *", "0 0 29 2 *", "0-20 0 1 1 *"}).Draw(t, "cron")}
		p, err := newPlanner().plan(d)
		if err != nil {
			t.Fatal(err)
		}
		from := clock("01 00:00").Add(time.Duration(rapid.IntRange(0, 40_000).Draw(t, "from")) * time.Minute)
		until := from.Add(time.Duration(rapid.IntRange(0, 200_000).Draw(t, "span"))*time.Second + time.Duration(rapid.IntRange(0, 5).Draw(t, "years"))*8766*time.Hour)
		got, ok := p.latest(from, until)
		if !ok {
			if at, any := p.next(from); any && !at.After(until) {
				t.Fatalf("none found, but %s", at)
			}
			return
		}
		next, more := p.next(got)
		if !got.After(from) || got.After(until) || more && !next.After(until) {
			t.Fatalf("latest in (%s, %s] is %s, but then comes %s", from, until, got, next)
		}
	})
}
