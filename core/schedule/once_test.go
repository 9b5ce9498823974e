package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
)

func once(change ...func(*Definition)) Definition {
	d := Definition{At: clock("03 02:00:30"), CatchUp: CatchUpOnce}
	for _, c := range change {
		c(&d)
	}
	return d
}

func TestOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		d    Definition
		poll []string
		want []string
	}{
		{"on time", once(), []string{"03 02:00:29", "03 02:00:30", "03 03:00", "04 02:00:30"}, []string{"launch 02:00"}},
		{"late, when no server looked", once(), []string{"03 09:00", "04 09:00"}, []string{"catch_up 02:00"}},
		{"late within its limit", once(within(8 * time.Hour)), []string{"03 09:00"}, []string{"catch_up 02:00"}},
		{"too late", once(within(time.Hour)), []string{"03 09:00"}, []string{"skip 02:00"}},
		{"late, and not wanted then", once(catchUp(CatchUpSkip)), []string{"03 09:00"}, []string{"skip 02:00"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.d)
			for _, at := range c.poll {
				w.poll(clock(at))
				w.complete()
			}
			w.want(c.want...)
			if w.s.Triggered+w.s.Skipped != 1 || w.s.Last[0].RunID != "acme:nightly-20260303T020030Z" {
				t.Errorf("state %+v", w.s)
			}
		})
	}
}

// A schedule that triggered once is kept for KeepOnce, and as long as its run is not complete.
func TestOnceGoes(t *testing.T) {
	w := newWorld(t, once())
	if w.poll(w.d.At); w.s.Triggered != 1 {
		t.Fatalf("state %+v", w.s)
	}
	gone := w.d.At.Add(KeepOnce)
	if d := w.decide(gone.Add(-time.Minute)); d.Gone || !d.Due.Equal(gone.Add(59*time.Minute)) && !d.Due.Equal(gone) {
		t.Errorf("before: %+v", d)
	}
	if d := w.decide(gone); d.Gone || d.Due.Before(gone.Add(time.Hour)) {
		t.Errorf("its run is not complete: %+v", d)
	}
	w.complete()
	if d := w.decide(gone); !d.Gone {
		t.Errorf("after: %+v", d)
	}
	paused := newWorld(t, once())
	paused.s.Paused = true
	if d := paused.decide(gone); d.Gone || len(paused.s.Claimed) > 0 {
		t.Errorf("one that never triggered, because it is paused: %+v", d)
	}
}

func TestOnceIsChecked(t *testing.T) {
	for part, d := range map[string]Definition{
		"expected one of them":    {At: clock("03 02:00"), Cron: "0 2 * * *"},
		"whole second":            {At: clock("03 02:00").Add(time.Millisecond)},
		"it has one fire time":    once(catchUp(CatchUpAll)),
		"jitter is for schedules": once(func(d *Definition) { d.Jitter = time.Minute }),
		"from 1990 to 2199":       {At: time.Date(1989, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		d.ID = ID{Name: "x"}
		if err := d.Validate(); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v", part, err)
		}
	}
}
