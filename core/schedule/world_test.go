package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// world is one schedule without a store: it is checked at chosen times, and what becomes of its
// triggers is logged in short lines: "launch 03:00", "catch_up 03:00", "skip 03:00-05:00 x3",
// "cancel 03:00".
type world struct {
	t       testing.TB
	d       Definition
	planner *planner
	s       State
	running map[string]bool
	done    bool // runs are complete immediately
	due     time.Time
	log     []string
	reasons []string
}

// newWorld makes a schedule that was put on 2026-03-03 at 00:00, in UTC unless d has a zone.
func newWorld(t testing.TB, d Definition) *world {
	t.Helper()
	d.ID = ID{Tenant: "acme", Name: "nightly"}
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	return &world{t: t, d: d, planner: newPlanner(), s: State{Since: clock("03 00:00")}, running: map[string]bool{}}
}

// clock reads a day of March 2026 and a time.
func clock(text string) time.Time {
	for _, layout := range []string{"2006-01-02 15:04", "2006-01-02 15:04:05"} {
		if at, err := time.Parse(layout, "2026-03-"+text); err == nil {
			return at
		}
	}
	panic("not a time: " + text)
}

func (w *world) plan() *plan {
	p, err := w.planner.plan(w.d)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// decide makes a decision, and carries it out except the launches.
func (w *world) decide(now time.Time) Decision {
	d := w.plan().decide(w.s, now, func(run string) bool { return w.running[run] })
	for _, k := range d.Skips {
		w.skip(k)
	}
	w.s, w.due = d.State, d.Due
	// The decision is kept as it is.
	def, kept, err := Decode(w.d.ID, Encode(w.d, w.s))
	if err != nil {
		w.t.Fatal(err)
	}
	w.d, w.s = def, kept
	return d
}

func (w *world) skip(k Skip) {
	line := "skip " + short(k.From)
	if k.Count > 1 {
		line += fmt.Sprintf("-%s x%d", short(k.To), k.Count)
	}
	if k.More {
		line += "+"
	}
	w.log = append(w.log, line)
	w.reasons = append(w.reasons, k.Reason.Text())
}

func short(t time.Time) string { return t.Format("15:04") }

// launch carries out what is claimed, or fails with fail.
func (w *world) launch(now time.Time, fail error) {
	var all []launch
	for _, c := range w.s.Claimed {
		if c.After.After(now) {
			continue
		}
		for _, run := range c.Cancel {
			if fail == nil && w.running[run] {
				w.log = append(w.log, "cancel "+run[len(run)-5:len(run)-3]+":"+run[len(run)-3:len(run)-1])
				w.running[run] = false
			}
		}
		if fail == nil {
			w.running[c.RunID] = !w.done
			w.log = append(w.log, strings.Replace(string(c.Cause), "cron", "launch", 1)+" "+short(c.Nominal))
		}
		all = append(all, launch{c.RunID, fail})
	}
	var what []finished
	w.s, what = finish(w.s, all, now)
	for _, s := range what {
		if s.skip != nil {
			w.skip(*s.skip)
		}
	}
	w.due = w.plan().due(&w.s, now, false)
}

// poll decides and launches at a time, and again while something is due at that very time.
func (w *world) poll(now time.Time) {
	for range 3000 {
		w.decide(now)
		if len(w.s.Claimed) == 0 {
			return
		}
		w.launch(now, nil)
		if w.due.After(now) || w.due.IsZero() {
			return
		}
	}
	w.t.Fatalf("does not come to rest at %s", now)
}

// run looks whenever it is due, until a time.
func (w *world) run(until time.Time) {
	for n := 0; !w.due.IsZero() && !w.due.After(until); n++ {
		if n > 100_000 {
			w.t.Fatalf("is due again and again, now at %s", w.due)
		}
		w.poll(w.due)
	}
}

// complete ends all runs.
func (w *world) complete() { clear(w.running) }

// want compares the log since the last want.
func (w *world) want(lines ...string) {
	w.t.Helper()
	if !slices.Equal(w.log, lines) {
		w.t.Fatalf("got:\n\t%s\nwant:\n\t%s\nreasons:\n\t%s", strings.Join(w.log, "\n\t"), strings.Join(lines, "\n\t"), strings.Join(w.reasons, "\n\t"))
	}
	w.log = nil
}

// because expects a part of the last reason.
func (w *world) because(part string) {
	w.t.Helper()
	if len(w.reasons) == 0 || !strings.Contains(w.reasons[len(w.reasons)-1], part) {
		w.t.Fatalf("reasons are %q, expected %q in the last", w.reasons, part)
	}
}
