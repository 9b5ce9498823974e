package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/queuetest"
)

const opens = 10 * time.Minute // of set ten, from the bubble's start on

// In a bubble it is midnight UTC, a Saturday. always is open, ten opens in ten minutes.
const bubbleWindows = `
window_sets:
  always: {timezone: UTC, allow: [{id: any, rrule: "FREQ=DAILY", from: "00:00", to: "24:00"}]}
  ten: {timezone: Europe/Berlin, allow: [{id: ten, rrule: "FREQ=DAILY", from: "01:10", to: "12:00"}]}
`

func (b *bed) windowed(body string, sets ...string) (*launch.Launch, queuetest.DriveOptions) {
	b.t.Helper()
	cal := calendarOf(b.t, bubbleWindows)
	l, err := launch.Prepare(parse(b.t, "targets: true\n"+body+upgrade), inSets(sets...), launch.Options{RunID: "r", Types: types, Windows: cal})
	if err != nil {
		b.t.Fatal(err)
	}
	o := b.options()
	o.Windows = func() *admission.Calendar { return cal }
	return l, o
}

// story returns the events of Drive.
func (b *bed) story() string {
	var out []string
	for _, e := range b.events {
		text := fmt.Sprintf("%s %d", e.Kind, e.Wave+1)
		if e.Kind == engine.EventWaiting {
			text = fmt.Sprintf("waiting %d for %s until %s", e.Waiting, e.Set, admission.Local(e.Until, e.Zone))
		}
		out = append(out, text)
	}
	return strings.Join(out, "\n")
}

func TestHostThatWaitsForItsWindowHoldsUpNoWave(t *testing.T) {
	inBed(t, func(b *bed) {
		start := time.Now()
		ends := map[int]time.Duration{}
		b.outcome = func(l queue.Lease) core.Outcome {
			ends[l.Job.Index] = time.Since(start)
			return core.Changed
		}
		l, o := b.windowed("strategy: {waves: [2]}\n", "always", "ten", "always", "always", "ten")
		// Starts order the hosts: what is open comes first, whatever the order in the inventory.
		if got := order(l); got != "always always | always ten ten" {
			t.Fatal(got)
		}
		s, err := b.drive(context.Background(), b.q, l, o)
		if err != nil || !s.Complete || s.Outcomes[core.Changed] != 5 {
			t.Fatalf("%+v, %v", s, err)
		}
		for i, late := range []bool{false, false, false, true, true} {
			if (ends[i] >= opens) != late || ends[i] > 2*opens {
				t.Errorf("host %d ended after %v", i, ends[i])
			}
		}
		const want = "released 2\nwaiting 2 for ten until Sat 2000-01-01 01:10 CET (2000-01-01T00:10:00Z)"
		if got := b.story(); got != want {
			t.Errorf("%s\nexpected\n%s", got, want)
		}
	})
}

// mixed is a launch whose first wave has a host that is open and one that waits.
func (b *bed) mixed(strategy string) (*launch.Launch, queuetest.DriveOptions) {
	b.t.Helper()
	l, o := b.windowed("strategy: {waves: [2]"+strategy+"}\n", "always", "ten", "ten", "ten")
	if got := order(l); got != "always ten | ten ten" {
		b.t.Fatal(got)
	}
	return l, o
}

func TestWaveThatWaitsForWindows(t *testing.T) {
	for _, c := range []struct {
		strategy string
		after    time.Duration // when the second wave is released
	}{
		{"", time.Minute},
		{", wait_for_windows: true", 2 * opens},
	} {
		inBed(t, func(b *bed) {
			start := time.Now()
			l, o := b.mixed(c.strategy)
			var released time.Duration
			say := o.OnEvent
			o.OnEvent = func(e engine.Event) {
				if e.Kind == engine.EventReleased {
					released = time.Since(start)
				}
				say(e)
			}
			s, err := b.drive(context.Background(), b.q, l, o)
			if err != nil || !s.Complete {
				t.Fatalf("%+v, %v", s, err)
			}
			if early := released < opens; released > c.after || early != (c.after < opens) {
				t.Errorf("strategy %q: the second wave came after %v, expected within %v", c.strategy, released, c.after)
			}
		})
	}
}

func TestNoWaveFollowsWhileNobodyIsProven(t *testing.T) {
	inBed(t, func(b *bed) {
		start := time.Now()
		l, o := b.windowed("strategy: {waves: [1]}\n", "ten", "ten", "ten")
		var released time.Duration
		o.OnEvent = func(e engine.Event) {
			if e.Kind == engine.EventReleased {
				released = time.Since(start)
			}
		}
		s, err := b.drive(context.Background(), b.q, l, o)
		if err != nil || !s.Complete || released < opens {
			t.Errorf("the second wave came after %v, though the first host waits ten minutes; %+v, %v", released, s, err)
		}
	})
}

// A canary that was skipped shows nothing, and one that did not succeed nothing good: while the
// other one waits for its window, no wave follows.
func TestOnlyAHostThatSucceededProvesAWave(t *testing.T) {
	for outcome, early := range map[core.Outcome]bool{
		core.Changed: true, core.Unchanged: true,
		core.Failed: false, core.RolledBack: false, core.Cancelled: false, core.Skipped: false, core.Unreachable: false,
	} {
		inBed(t, func(b *bed) {
			start := time.Now()
			b.outcome = func(l queue.Lease) core.Outcome {
				if l.Job.Index == 0 {
					return outcome
				}
				return core.Changed
			}
			l, o := b.mixed("")
			var released time.Duration
			o.OnEvent = func(e engine.Event) {
				if e.Kind == engine.EventReleased {
					released = time.Since(start)
				}
			}
			s, err := b.drive(context.Background(), b.q, l, o)
			if err != nil || !s.Complete || (released < opens) != early {
				t.Errorf("%s: the second wave came after %v; %+v, %v", outcome, released, s, err)
			}
		})
	}
}

// Edited windows show: the next opening is reported again.
func TestNextOpeningIsReportedAnew(t *testing.T) {
	inBed(t, func(b *bed) {
		start := time.Now()
		l, o := b.windowed("", "ten")
		old, edited := o.Windows(), calendarOf(t, strings.ReplaceAll(bubbleWindows, `from: "01:10"`, `from: "01:05"`))
		o.Windows = func() *admission.Calendar {
			if time.Since(start) > time.Minute {
				return edited
			}
			return old
		}
		if s, err := b.drive(context.Background(), b.q, l, o); err != nil || !s.Complete {
			t.Fatalf("%+v, %v", s, err)
		}
		const want = "waiting 1 for ten until Sat 2000-01-01 01:10 CET (2000-01-01T00:10:00Z)\nwaiting 1 for ten until Sat 2000-01-01 01:05 CET (2000-01-01T00:05:00Z)"
		if got := b.story(); got != want {
			t.Errorf("%s\nexpected\n%s", got, want)
		}
	})
}
