package forecast

import (
	"time"

	"github.com/turnus/turnus/core/api"
)

// parts cuts a range into at most 200 parts of an hour, six hours or a day.
func parts(from, to time.Time) []api.CalendarCount {
	const most = 200
	step := 24 * time.Hour
	for _, finer := range []time.Duration{time.Hour, 6 * time.Hour} {
		if to.Sub(from) <= most*finer {
			step = finer
			break
		}
	}
	var out []api.CalendarCount
	for begin := from.UTC(); begin.Before(to); begin = begin.Add(step) {
		end := begin.Add(step)
		if end.After(to) {
			end = to.UTC()
		}
		out = append(out, api.CalendarCount{From: begin, To: end})
	}
	return out
}

// density adds one to each part in which a lane has something.
func (v *view) density(all []api.CalendarCount, l *api.CalendarLane) {
	mark := func(field func(*api.CalendarCount) *int, each func(add func(from, to time.Time))) {
		var seen []bool
		each(func(from, to time.Time) {
			if seen == nil { // most lanes have nothing of most kinds
				seen = make([]bool, len(all))
			}
			step := all[0].To.Sub(all[0].From)
			for i := max(0, int(from.Sub(all[0].From)/step)); i < len(all) && all[i].From.Before(to); i++ {
				if !seen[i] && all[i].To.After(from) {
					seen[i] = true
					*field(&all[i])++
				}
			}
		})
	}
	moment := func(t time.Time) (time.Time, time.Time) { return t, t.Add(1) }
	mark(func(c *api.CalendarCount) *int { return &c.Open }, func(add func(from, to time.Time)) {
		for _, w := range v.open {
			add(w.Open, w.Close)
		}
	})
	mark(func(c *api.CalendarCount) *int { return &c.Unapproved }, func(add func(from, to time.Time)) {
		for _, w := range v.unapproved {
			add(w.Open, w.Close)
		}
	})
	mark(func(c *api.CalendarCount) *int { return &c.Denied }, func(add func(from, to time.Time)) {
		for _, d := range v.denied {
			add(d.From, d.To)
		}
	})
	mark(func(c *api.CalendarCount) *int { return &c.FireTimes }, func(add func(from, to time.Time)) {
		for _, f := range l.FireTimes {
			add(moment(f.At))
		}
	})
	mark(func(c *api.CalendarCount) *int { return &c.Runs }, func(add func(from, to time.Time)) {
		for _, r := range l.Runs {
			add(taken(&r, v.At))
		}
	})
	mark(func(c *api.CalendarCount) *int { return &c.Conflicts }, func(add func(from, to time.Time)) {
		for _, c := range l.Conflicts {
			add(moment(c.At))
		}
	})
}

// taken is the time that a run takes in a calendar: until its P90 end, or without a forecast until
// now.
func taken(r *api.CalendarRun, now time.Time) (from, to time.Time) {
	end := r.FinishP90
	if end.IsZero() {
		end = now
	}
	if !end.After(r.Begin) {
		end = r.Begin.Add(time.Minute)
	}
	return r.Begin, end
}
