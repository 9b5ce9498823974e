package windows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/windows/civil"
)

// wider lists the sets of wider scope, the narrowest first.
func (d *Definitions) wider(s *Set) []*Set {
	var out []*Set
	if s.Scope == nil {
		return nil
	}
	for _, name := range sortedNames(d.Sets) {
		if other := d.Sets[name]; other.Scope != nil && len(other.Scope) < len(s.Scope) && contains(s.Scope, other.Scope) {
			out = append(out, other)
		}
	}
	slices.SortStableFunc(out, func(a, b *Set) int { return len(b.Scope) - len(a.Scope) })
	return out
}

// nearest lists the sets of wider scope between which and s there is no other.
func (d *Definitions) nearest(s *Set) []*Set {
	all := d.wider(s)
	return slices.DeleteFunc(slices.Clone(all), func(o *Set) bool {
		return slices.ContainsFunc(all, func(between *Set) bool { return len(between.Scope) > len(o.Scope) && contains(between.Scope, o.Scope) })
	})
}

func contains(scope, part map[string]string) bool {
	for k, v := range part {
		if scope[k] != v {
			return false
		}
	}
	return true
}

// allows are the pieces that a set's rules open, resolved by inherit. stated is false if neither
// the set nor a wider one has an allow: such a set only denies or requires, and narrows nobody.
func (c *compiler) allows(s *Set) (own []piece, dropped []Dropped, stated bool, err error) {
	own, dropped, err = c.own(s)
	if err != nil || s.Inherit == Replace {
		return own, dropped, true, err
	}
	stated = s.Allow != nil
	if !stated && (s.Approval != nil || len(c.words(s.Name)) > 0) { // it approves what the set inherits
		defer func() { own, err = c.approve(own, s, err) }()
	}
	for _, parent := range c.defs.nearest(s) {
		theirs, more, said, err := c.allows(parent)
		switch {
		case err != nil:
			return nil, nil, false, err
		case !said:
		case !stated:
			own, dropped, stated = theirs, more, true
		case s.Inherit == Extend:
			own, dropped = append(own, theirs...), append(dropped, more...)
		default:
			var gone []Dropped
			if own, gone, err = intersect(own, theirs, parent.Name); err != nil {
				return nil, nil, false, fmt.Errorf("%w window set %s: %w", ErrInvalid, s.Name, err)
			}
			dropped = append(dropped, gone...)
		}
	}
	return own, dropped, stated, nil
}

// approve keeps inherited pieces to the approval of the set that has no rule of its own.
func (c *compiler) approve(pieces []piece, s *Set, err error) ([]piece, error) {
	if err != nil {
		return nil, err
	}
	zone, err := c.zone(s.Timezone)
	if err != nil {
		return nil, fmt.Errorf("window set %s: %w", s.Name, err)
	}
	all, err := c.consents(s, nil, zone)
	if err != nil {
		return nil, fmt.Errorf("window set %s: %w", s.Name, err)
	}
	out := make([]piece, 0, len(pieces))
	for _, p := range pieces {
		if p.why != "" {
			out = append(out, p)
			continue
		}
		out = splitAny(all, out, p)
	}
	return out, nil
}

// maxShared bounds the pieces of what two sets both allow, beside those of each: where long
// occurrences of both overlap, there is one for each pair.
const maxShared = 200_000

// intersect keeps what both allow. It is approved where both are.
func intersect(own, theirs []piece, parent string) (out []piece, dropped []Dropped, err error) {
	most := maxShared + len(own) + len(theirs)
	slices.SortStableFunc(theirs, func(a, b piece) int { return cmp.Compare(a.open, b.open) })
	var longest int64
	for _, q := range theirs {
		longest = max(longest, q.close-q.open)
	}
	for _, p := range own {
		var shared []span
		first, _ := slices.BinarySearchFunc(theirs, p.open-longest, func(q piece, t int64) int { return cmp.Compare(q.open, t) })
		for _, q := range theirs[first:] {
			if q.open >= p.close {
				break
			}
			s := p.and(q.span)
			if s.empty() {
				continue
			}
			if len(out) == most {
				return nil, nil, fmt.Errorf("its times and those of %s overlap more than %d times: let fewer occurrences overlap, or use inherit: replace", parent, most)
			}
			shared = append(shared, s)
			both := p
			both.span, both.whole = s, p.whole.and(q.whole)
			both.lifts = slices.Concat(p.lifts, q.lifts)
			both.notes = slices.Concat(p.notes, q.notes)
			both.why = cmp.Or(both.why, q.why)
			if s != p.span {
				both.notes = appendNew(both.notes, "cut to what "+parent+" allows")
			}
			out = append(out, both)
		}
		if len(shared) == 0 {
			for _, rule := range p.rules {
				dropped = append(dropped, Dropped{rule, p.start, "outside what " + parent + " allows"})
			}
		}
	}
	return out, dropped, nil
}

// own are the pieces of the set's own rules.
func (c *compiler) own(s *Set) (out []piece, dropped []Dropped, err error) {
	zone, err := c.zone(s.Timezone)
	if err != nil {
		return nil, nil, fmt.Errorf("window set %s: %w", s.Name, err)
	}
	for i := range s.Allow {
		r := &s.Allow[i]
		list, err := r.occurrences(zone, c.lo, c.hi)
		if err != nil {
			return nil, nil, fmt.Errorf("window set %s: %w", s.Name, err)
		}
		all, err := c.consents(s, r, zone)
		if err != nil {
			return nil, nil, fmt.Errorf("window set %s: %w", s.Name, err)
		}
		rules := []string{r.ID}
		out = slices.Grow(out, len(list))
		for _, o := range list {
			whole := spanOf(o.open, o.close)
			p := piece{span: whole, whole: whole, rules: rules, start: o.start, notes: notes(o)}
			if p.empty() {
				dropped = append(dropped, Dropped{r.ID, o.start, "empty: a clock change leaves nothing of it"})
				continue
			}
			if !r.AtUTC.IsZero() && !r.AtUTC.Equal(o.open) {
				p.why = fmt.Sprintf("zone data has moved it from the approved %s; confirm it", r.AtUTC.UTC().Format(time.RFC3339))
				out = append(out, p)
				continue
			}
			out = splitAny(all, out, p)
		}
	}
	return out, dropped, nil
}

// notes reports what a clock change does to an occurrence.
func notes(o occurrence) []string {
	var out []string
	switch length := o.close.Sub(o.open); {
	case length < o.nominal:
		out = append(out, "shortened by "+FormatDuration(o.nominal-length)+" by a clock change")
	case length > o.nominal:
		out = append(out, "lengthened by "+FormatDuration(length-o.nominal)+" by a clock change")
	}
	if o.moved {
		out = append(out, "opens late: "+o.start.Format("15:04")+" does not exist on that day")
	}
	return out
}

// denials works out the denies of one level and appends them.
func (c *compiler) denials(out []denial, s *Set) ([]denial, error) {
	zone, err := c.zone(s.Timezone)
	if err != nil {
		return nil, fmt.Errorf("window set %s: %w", s.Name, err)
	}
	for i := range s.Deny {
		deny := &s.Deny[i]
		d := denial{name: deny.Use, cancel: deny.Effect == Cancel}
		kind, name, _ := strings.Cut(deny.Use, "/")
		lo, hi := c.lo, c.hi
		if d.cancel { // any part of an occurrence counts, and a single window may be this long
			lo, hi = lo.Add(-maxOnce), hi.Add(maxOnce)
		}
		var list []span
		switch {
		case deny.Rule != nil:
			d.name = deny.Rule.ID
			occurrences, err := deny.Rule.occurrences(zone, lo, hi)
			if err != nil {
				return nil, fmt.Errorf("window set %s: %w", s.Name, err)
			}
			for _, o := range occurrences {
				list = append(list, deny.Rule.denied(o, zone))
			}
		case kind == "freeze":
			f := c.defs.Freezes[name]
			if f == nil {
				return nil, fmt.Errorf("window set %s: no freeze has the name %s", s.Name, quote(name))
			}
			freezeZone, err := c.zone(f.Timezone)
			if err != nil {
				return nil, fmt.Errorf("freeze %s: %w", name, err)
			}
			from, _ := civil.Resolve(f.From, freezeZone)
			d.freeze = name
			list = append(list, spanOf(from, civil.LastBefore(f.To, freezeZone)))
		default:
			first, last := day(civil.Wall(lo, zone)), day(civil.Wall(hi, zone))
			dates, ok := c.defs.holidayDates(name, first, last)
			if !ok || kind != "holidays" {
				return nil, fmt.Errorf("window set %s: nothing is known of %s", s.Name, quote(deny.Use))
			}
			for _, date := range dates {
				from, _ := civil.Resolve(date, zone)
				list = append(list, spanOf(from, civil.LastBefore(date.AddDate(0, 0, 1), zone)))
			}
		}
		d.spans = unite(list)
		out = append(out, d)
	}
	return out, nil
}
