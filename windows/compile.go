package windows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/windows/civil"
)

// Horizon is the time a set is compiled for. Nothing is known outside of it.
type Horizon struct{ From, To time.Time }

// DefaultDays is the length of a horizon, unless set otherwise.
const DefaultDays = 400

const maxHorizon = 60 * 366 * 24 * time.Hour

// Ahead is the horizon that begins at from and lasts a number of days.
func Ahead(from time.Time, days int) Horizon {
	return Horizon{from, from.Add(time.Duration(days) * 24 * time.Hour)}
}

// Compiled is a window set worked out for a horizon. It is immutable: one is shared by all
// hosts of the set, by any number of goroutines.
type Compiled struct {
	Name    string
	Zone    *time.Location
	Horizon Horizon
	Cutoff  time.Duration
	Overrun Overrun
	Carry   *CarryOver // nil: no limit
	Dropped []Dropped  // occurrences of the horizon that came to nothing, by start

	closed string // why the whole set is closed, because something is unknown
	open   spans  // also in the margins around the horizon: other sets may require this one

	// Of the horizon:
	fits       index
	windows    []Window
	unapproved []Window
	longest    time.Duration

	// For Explain:
	allowed  []piece // before requires and denies
	held     []piece // not approved
	denies   []denial
	requires []*Compiled
}

// Window is a time during which the set is open.
type Window struct {
	Open, Close time.Time
	Rules       []string // that open it
	Notes       []string // why it differs from the rules: clipped, shortened by a clock change
	Unapproved  string   // why it is not open after all; "" if it is
}

// Dropped is an occurrence that came to nothing.
type Dropped struct {
	Rule   string
	Start  time.Time // wall time in the set's zone, floating
	Reason string
}

// piece is a part of an occurrence.
type piece struct {
	span
	whole span // the occurrence, also what of it is not approved
	rules []string
	start time.Time // wall time of the occurrence
	lifts []string  // freezes that do not apply to it
	notes []string
	why   string // it is not approved
}

// denial is one deny, worked out.
type denial struct {
	name   string
	freeze string // the name of the freeze, if it is one
	cancel bool
	spans  spans
}

// Closed is a set that never opens, for a reason: a name that nobody defines, a file that
// could not be read.
func Closed(name, reason string) *Compiled {
	return &Compiled{Name: name, Zone: time.UTC, Overrun: Finish, closed: reason}
}

// Compile works out a window set. It never fails: what is unknown makes a set that is closed
// and has the reason.
func (d *Definitions) Compile(name string, h Horizon) *Compiled { return d.CompileAll(h, name)[name] }

// CompileAll compiles several sets for one horizon. It compiles each set that they require once.
func (d *Definitions) CompileAll(h Horizon, names ...string) map[string]*Compiled {
	return d.compileAll(h, nil, names)
}

// CompileFor is CompileAll for certain work: an approval that is bound to other work does not
// hold.
func (d *Definitions) CompileFor(h Horizon, work Work, names ...string) map[string]*Compiled {
	return d.compileAll(h, &work, names)
}

func (d *Definitions) compileAll(h Horizon, work *Work, names []string) map[string]*Compiled {
	out := make(map[string]*Compiled, len(names))
	c := newCompiler(d, h, work)
	const longest = 32*24*time.Hour + 26*time.Hour // what begins before the horizon may end in it
	c.lo, c.hi = h.From.Add(-longest), h.To.Add(longest)
	valid := h.To.After(h.From) && h.To.Sub(h.From) <= maxHorizon && h.From.Year() >= firstYear && h.To.Year() <= lastYear+60
	for _, name := range names {
		if !valid {
			out[name] = Closed(name, "the horizon is empty, longer than 60 years, or out of range")
			continue
		}
		out[name] = c.set(name)
	}
	return out
}

type compiler struct {
	defs   *Definitions
	h      Horizon
	work   *Work     // nil: what approvals are bound to is not checked
	lo, hi time.Time // wider than h, so that nothing is cut at its ends
	busy   map[string]bool
	done   map[string]*Compiled
	zones  map[string]*time.Location
	given  map[string][]*Given // by set; made when first asked for

	// Each rule of a set asks for the same approvals.
	consented map[*Approval]consent
	hashes    map[*Set]string
}

func newCompiler(d *Definitions, h Horizon, work *Work) *compiler {
	return &compiler{
		defs: d, h: h, work: work, busy: map[string]bool{}, done: map[string]*Compiled{}, zones: map[string]*time.Location{},
		consented: map[*Approval]consent{}, hashes: map[*Set]string{},
	}
}

// hash is HashOf, worked out once.
func (c *compiler) hash(s *Set) string {
	if c.hashes[s] == "" {
		c.hashes[s] = c.defs.HashOf(s)
	}
	return c.hashes[s]
}

// zone loads each zone once: the data is on disk.
func (c *compiler) zone(name string) (*time.Location, error) {
	if zone := c.zones[name]; zone != nil {
		return zone, nil
	}
	zone, err := civil.LoadZone(name)
	if err == nil {
		c.zones[name] = zone
	}
	return zone, err
}

func (c *compiler) set(name string) *Compiled {
	if out := c.done[name]; out != nil {
		return out
	}
	s := c.defs.Sets[name]
	switch {
	case s == nil:
		return Closed(name, "no window set has the name "+quote(name))
	case c.busy[name]:
		return Closed(name, "window set "+quote(name)+" requires itself")
	}
	c.busy[name] = true
	out, err := c.compile(s)
	if err != nil {
		out = Closed(name, strings.TrimPrefix(err.Error(), "invalid "))
	}
	c.busy[name], c.done[name] = false, out
	return out
}

func (c *compiler) compile(s *Set) (*Compiled, error) {
	zone, err := c.zone(s.Timezone)
	if err != nil {
		return nil, err
	}
	out := &Compiled{Name: s.Name, Zone: zone, Horizon: c.h}
	c.settings(s, out)
	levels := append([]*Set{s}, c.defs.wider(s)...)
	for _, level := range levels {
		for _, name := range level.Requires {
			required := c.set(name)
			if required.closed != "" {
				return nil, fmt.Errorf("requires %s, which is closed: %s", name, required.closed)
			}
			out.requires = append(out.requires, required)
		}
		if out.denies, err = c.denials(out.denies, level); err != nil {
			return nil, err
		}
	}
	pieces, dropped, _, err := c.allows(s)
	if err != nil {
		return nil, err
	}
	out.Dropped = dropped
	out.allowed = slices.DeleteFunc(pieces, func(p piece) bool {
		if p.why != "" {
			out.held = append(out.held, p)
		}
		return p.why != ""
	})
	out.sweep()
	return out, nil
}

// settings takes what is not given from the nearest wider scope that gives it.
func (c *compiler) settings(s *Set, out *Compiled) {
	for _, level := range append([]*Set{s}, c.defs.wider(s)...) {
		if out.Cutoff == 0 && level.Cutoff != nil {
			out.Cutoff = *level.Cutoff
		}
		out.Overrun = cmp.Or(out.Overrun, level.Overrun)
		if out.Carry == nil {
			out.Carry = level.Carry
		}
	}
	out.Overrun = cmp.Or(out.Overrun, Finish)
}

// sweep takes requires and denies from what is allowed, and merges the rest.
func (c *Compiled) sweep() {
	open := make([]piece, 0, len(c.allowed))
	for _, p := range c.allowed {
		had := len(open)
		left, why := c.left(open, p)
		if len(left) == had {
			c.drop(p, why)
		}
		open = left
	}
	all := merge(open)
	c.open = make(spans, 0, len(all))
	for _, w := range all {
		c.open = append(c.open, spanOf(w.Open, w.Close))
	}
	first := c.open.from(c.Horizon.From.UnixNano())
	last := first + len(c.open.touching(spanOf(c.Horizon.From, c.Horizon.To)))
	c.windows, c.fits = all[first:last], newIndex(c.open[first:last])
	for _, w := range c.windows {
		c.longest = max(c.longest, w.Close.Sub(w.Open))
	}
	for _, p := range c.held {
		parts, _ := c.left(nil, p)
		for _, part := range parts {
			for _, rest := range c.open.cut(part.span) {
				if rest.and(spanOf(c.Horizon.From, c.Horizon.To)).empty() {
					continue
				}
				c.unapproved = append(c.unapproved, Window{at(rest.open), at(rest.close), part.rules, part.notes, p.why})
			}
		}
	}
	slices.SortStableFunc(c.unapproved, func(a, b Window) int { return a.Open.Compare(b.Open) })
	slices.SortStableFunc(c.Dropped, func(a, b Dropped) int { return a.Start.Compare(b.Start) })
	c.Dropped = slices.DeleteFunc(c.Dropped, func(d Dropped) bool { // the margins are not of interest
		from, to := civil.Wall(c.Horizon.From, c.Zone), civil.Wall(c.Horizon.To, c.Zone)
		return d.Start.Before(day(from)) || d.Start.After(to)
	})
}

// left appends to out what requires and denies leave of a piece, and returns what took it if
// nothing is left.
func (c *Compiled) left(out []piece, p piece) (parts []piece, why string) {
	for _, d := range c.denies {
		if d.cancel && !slices.Contains(p.lifts, d.freeze) && len(d.spans.touching(p.whole)) > 0 {
			return out, "cancelled by " + d.name
		}
	}
	first := len(out)
	out = append(out, p)
	apply := func(note string, do func(span) []span) bool {
		var next []piece
		for _, part := range out[first:] {
			for _, s := range do(part.span) {
				q := part
				if s != part.span {
					q.notes = appendNew(slices.Clip(q.notes), note)
				}
				q.span = s
				next = append(next, q)
			}
		}
		out = append(out[:first], next...)
		return len(next) > 0
	}
	for _, r := range c.requires {
		if s, ok := r.open.find(p.open); ok && p.close <= s.close {
			continue // the whole piece lies within
		}
		if !apply("cut to the hours of "+r.Name, r.open.keep) {
			return out, "outside the hours of " + r.Name
		}
	}
	for _, d := range c.denies {
		if d.cancel || slices.Contains(p.lifts, d.freeze) || len(d.spans.touching(p.span)) == 0 {
			continue
		}
		if !apply("clipped by "+d.name, d.spans.cut) {
			return out, "taken by " + d.name
		}
	}
	return out, ""
}

func (c *Compiled) drop(p piece, why string) {
	for _, rule := range p.rules {
		c.Dropped = append(c.Dropped, Dropped{rule, p.start, why})
	}
}

// merge makes windows of what overlaps or touches.
func merge(pieces []piece) []Window {
	sorted := make([]*piece, len(pieces)) // pieces are large
	for i := range pieces {
		sorted[i] = &pieces[i]
	}
	slices.SortStableFunc(sorted, func(a, b *piece) int { return cmp.Compare(a.open, b.open) })
	out := make([]Window, 0, len(pieces))
	var last int64
	for _, p := range sorted {
		n := len(out)
		if n == 0 || p.open > last {
			out = append(out, Window{Open: at(p.open), Close: at(p.close), Rules: slices.Clip(p.rules), Notes: slices.Clip(p.notes)})
			last = p.close
			continue
		}
		w := &out[n-1]
		if p.close > last {
			w.Close, last = at(p.close), p.close
		}
		for _, rule := range p.rules {
			w.Rules = appendNew(w.Rules, rule)
		}
		for _, note := range p.notes {
			w.Notes = appendNew(w.Notes, note)
		}
	}
	return out
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
