package worker

import (
	"slices"
	"time"
)

// oracle decides by brute force, minute by minute, whether definitions are open. It finds the
// instant of a wall clock time by checking every minute of a table of days; nothing is shared with
// package windows.
type oracle struct {
	base  int64 // first minute of the tables, since 1970
	walls map[string][]wall
	spans map[*proofRule][][2]int64 // by rule of a posted version, whose values never change
}

// tableMinutes is how many minutes a zone's table has: days before and after the scenario.
const (
	tableBefore  = 40 * 60
	tableMinutes = tableBefore + 80*60
)

func newOracle(start time.Time) *oracle {
	return &oracle{base: start.Unix()/60 - tableBefore, walls: map[string][]wall{}, spans: map[*proofRule][][2]int64{}}
}

func (o *oracle) table(zone string) []wall {
	if t := o.walls[zone]; t != nil {
		return t
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	t := make([]wall, tableMinutes)
	for i := range t {
		t[i] = wallOf(time.Unix((o.base+int64(i))*60, 0), loc)
	}
	o.walls[zone] = t
	return t
}

// instant is the first minute that shows w; where none does, the first after the gap.
func (o *oracle) instant(zone string, w wall) int64 {
	t := o.table(zone)
	from := min(max(int64(w)-o.base-15*60, 0), tableMinutes)
	to := min(max(int64(w)-o.base+27*60, 0), tableMinutes)
	for i := from; i < to; i++ {
		if t[i] == w {
			return o.base + i
		}
	}
	for i := from; i < to; i++ {
		if t[i] > w {
			return o.base + i
		}
	}
	return o.base + tableMinutes // beyond what a scenario sees
}

// rule lists when a rule is open, in minutes.
func (o *oracle) rule(zone string, r *proofRule) [][2]int64 {
	if s, ok := o.spans[r]; ok {
		return s
	}
	step := wall(day)
	count := 3
	switch r.kind {
	case "weekly":
		step = 7 * day
	case "once":
		count = 0
	}
	var spans [][2]int64
	for n := -count; n <= count; n++ {
		begin := r.begin + wall(n)*step
		if at := int64(begin) - o.base; at < -20*60 || at > tableMinutes-20*60 {
			continue
		}
		from := o.instant(zone, begin)
		to := from + int64(r.length)
		if r.kind != "cron" { // its length is elapsed time
			to = o.instant(zone, begin+wall(r.length))
		}
		if from < to {
			spans = append(spans, [2]int64{from, to})
		}
	}
	o.spans[r] = spans
	return spans
}

// open reports whether a set is open in the minute m.
func (o *oracle) open(d proofDefs, set string, m int64) bool {
	s := d.find(set)
	if s == nil {
		return false
	}
	at := time.Unix(m*60, 0)
	if s.needsYes && (!at.Before(s.until) || !s.revoked.IsZero() && !at.Before(s.revoked)) {
		return false
	}
	covered := s.open
	for i := range s.rules {
		covered = covered || slices.ContainsFunc(o.rule(s.zone, &s.rules[i]), func(p [2]int64) bool { return p[0] <= m && m < p[1] })
	}
	if !covered || s.requires != "" && !o.open(d, s.requires, m) {
		return false
	}
	for _, f := range d.freezes {
		if slices.Contains(s.freezes, f.name) && o.instant(f.zone, f.from) <= m && m < o.instant(f.zone, f.to) {
			return false
		}
	}
	return true
}

// fits reports whether a set is open from t on for so long; both are right to the second.
func (o *oracle) fits(d proofDefs, set string, t time.Time, need time.Duration) bool {
	from := t.Unix()
	to := from + int64(need/time.Second)
	for m := from / 60; m*60 < to; m++ {
		if !o.open(d, set, m) {
			return false
		}
	}
	return true
}

// mayStart is fits with the set's cutoff.
func (o *oracle) mayStart(d proofDefs, set string, t time.Time, need time.Duration) bool {
	s := d.find(set)
	return s != nil && o.fits(d, set, t, max(need, minutes(s.cutoff)))
}
