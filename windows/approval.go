package windows

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/turnus/turnus/windows/civil"
)

// Hash returns the hash that an approval of the set is bound to: sha256:HEX of all fields that
// decide when it is open. Any edit changes it; approvals and carry-over are not a part of it.
func (s *Set) Hash() string {
	bare := *s
	bare.Approval, bare.Carry = nil, nil
	bare.FourEyes = false // it changes no time
	bare.Allow = make([]Rule, len(s.Allow))
	for i, r := range s.Allow {
		r.Approval = nil
		bare.Allow[i] = r
	}
	text, err := json.Marshal(bare)
	if err != nil {
		return "" // plain values: it cannot fail; an empty hash equals none that is written down
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// HashOf returns the hash that an approval of the set is bound to. It covers Set.Hash, and the
// hashes of wider scopes whose rules may open the set. Rules that only narrow the set are not a
// part.
func (d *Definitions) HashOf(s *Set) string {
	if s.Inherit == Replace || s.Allow != nil && s.Inherit != Extend {
		return s.Hash()
	}
	wider := d.wider(s)
	if len(wider) == 0 {
		return s.Hash()
	}
	sum := sha256.New()
	for _, level := range append([]*Set{s}, wider...) {
		fmt.Fprintln(sum, level.Hash())
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}

// consent is an approval, worked out: when it holds, and why not otherwise.
type consent struct {
	span          // when it holds
	name   string // the approval's id, else who gave it; "" is that none is needed
	why    string // it holds never
	before string // why it does not hold before its span
	after  string // why not after
	lifts  []string
}

func always() consent { return consent{span: span{math.MinInt64, math.MaxInt64}} }

// consent works out an approval, once. No approval given means that none is needed.
func (c *compiler) consent(a *Approval, s *Set, zone *time.Location) (out consent, err error) {
	out, known := c.consented[a]
	if !known {
		if out, err = c.weigh(a, s, zone); err == nil {
			c.consented[a] = out
		}
	}
	return out, err
}

func (c *compiler) weigh(a *Approval, s *Set, zone *time.Location) (consent, error) {
	out := always()
	if a == nil {
		return out, nil
	}
	out.name = cmp.Or(a.ID, a.By)
	switch {
	case a.State == Proposed:
		out.why = "unapproved: " + a.name() + " is only proposed"
	case a.State == Revoked && a.RevokedAt.IsZero():
		out.why = "unapproved: " + a.name() + " was revoked"
	case a.Window != "" && a.Window != c.hash(s):
		out.why = "unapproved: the window was edited after " + a.name()
	}
	if c.work != nil && out.why == "" {
		if err := a.Covers(c.work.Change, c.work.Targets); err != nil {
			out.why = "unapproved: " + err.Error()
		}
	}
	show := func(t time.Time) string { return t.In(zone).Format("2006-01-02 15:04") }
	if !a.At.IsZero() {
		out.open, out.before = a.At.UnixNano(), fmt.Sprintf("unapproved: before %s was given, %s", a.name(), show(a.At))
	}
	end := func(t time.Time, why string) {
		if nano := t.UnixNano(); nano < out.close {
			out.close, out.after = nano, why
		}
	}
	if !a.Until.IsZero() {
		end(a.Until, fmt.Sprintf("unapproved: %s expired %s", a.name(), show(a.Until)))
	}
	if !a.RevokedAt.IsZero() {
		end(a.RevokedAt, fmt.Sprintf("unapproved: %s was revoked %s", a.name(), show(a.RevokedAt)))
	}
	if a.MaxOccurrences > 0 {
		last, err := c.lastCovered(a, s, zone)
		if err != nil {
			return out, err
		}
		if !last.IsZero() {
			end(last, fmt.Sprintf("unapproved: %s covers %d occurrences", a.name(), a.MaxOccurrences))
		}
	}
	for _, name := range a.Freezes {
		if f := c.defs.Freezes[name]; f != nil && a.cannotLift(f) == "" {
			out.lifts = append(out.lifts, name)
		}
	}
	return out, nil
}

// lastCovered is when the last occurrence that an approval covers closes; zero if fewer come.
// Rules under one approval count together: what overlaps or touches is one occurrence.
func (c *compiler) lastCovered(a *Approval, s *Set, zone *time.Location) (time.Time, error) {
	from := c.countFrom(a, s, zone)
	if !from.Before(c.hi) {
		return time.Time{}, nil
	}
	var list []span
	for i := range s.Allow {
		r := &s.Allow[i]
		if r.Approval != a && (r.Approval != nil || s.Approval != a) {
			continue
		}
		occurrences, err := r.occurrences(zone, from, c.hi)
		if err != nil {
			return time.Time{}, err
		}
		for _, o := range occurrences {
			list = append(list, spanOf(o.open, o.close))
		}
	}
	if s.Allow == nil && s.Approval == a {
		wide := *c
		wide.lo = from
		for _, parent := range c.defs.nearest(s) {
			theirs, _, _, err := wide.allows(parent)
			if err != nil {
				return time.Time{}, err
			}
			for _, p := range theirs {
				if p.why == "" && p.close > from.UnixNano() {
					list = append(list, p.span)
				}
			}
		}
	}
	if all := unite(list); len(all) >= a.MaxOccurrences {
		return at(all[a.MaxOccurrences-1].close), nil
	}
	return time.Time{}, nil
}

// countFrom is when an approval begins to count its occurrences.
func (c *compiler) countFrom(a *Approval, s *Set, zone *time.Location) time.Time {
	if !a.At.IsZero() {
		return a.At
	}
	first := time.Time{}
	if s.Allow == nil {
		return c.h.From // of what it inherits
	}
	for i := range s.Allow {
		r := &s.Allow[i]
		switch begins := r.Valid; {
		case r.Approval != a && (r.Approval != nil || s.Approval != a):
		case begins == nil && r.At.IsZero():
			return c.h.From
		default:
			start := r.At
			if begins != nil {
				start = begins.First
			}
			if first.IsZero() || start.Before(first) {
				first = start
			}
		}
	}
	instant, _ := civil.Resolve(first, zone)
	return instant
}

// split appends to out what of a piece is approved, and what is not.
func (ok consent) split(out []piece, p piece) []piece {
	if ok.why != "" || ok.open <= p.open && p.close <= ok.close {
		p.why = ok.why
		return append(out, p)
	}
	if ok.empty() { // revoked before it began: the two sides of its span would overlap
		p.why = ok.after
		return append(out, p)
	}
	add := func(s span, why, note string) {
		if s.empty() {
			return
		}
		q := p
		q.span, q.why = s, why
		if note != "" && s != p.span {
			q.notes = append(slices.Clip(q.notes), note)
		}
		out = append(out, q)
	}
	add(span{p.open, min(p.close, ok.open)}, ok.before, "")
	add(p.and(ok.span), "", "clipped to its approval")
	add(span{max(p.open, ok.close), p.close}, ok.after, "")
	return out
}

// Bound reports whether what a set opens depends on the work: an approval of the set, or of one it
// inherits from or requires, is bound to a change or to targets.
func (d *Definitions) Bound(name string) bool { return d.bound(name, map[string]bool{}) }

func (d *Definitions) bound(name string, seen map[string]bool) bool {
	s := d.Sets[name]
	if s == nil || seen[name] {
		return false
	}
	seen[name] = true
	for _, level := range append([]*Set{s}, d.wider(s)...) {
		if slices.ContainsFunc(d.Given, func(g *Given) bool { return g.Set == level.Name && g.bound() }) {
			return true
		}
		if level.Approval.bound() || slices.ContainsFunc(level.Allow, func(r Rule) bool { return r.Approval.bound() }) {
			return true
		}
		if slices.ContainsFunc(level.Requires, func(name string) bool { return d.bound(name, seen) }) {
			return true
		}
	}
	return false
}

func (a *Approval) bound() bool { return a != nil && (a.Change != "" || a.Targets != "") }

// WithoutFreezes are the definitions with no freeze in force: when work could start if every
// freeze were lifted.
func (d *Definitions) WithoutFreezes() *Definitions {
	out := &Definitions{Sets: d.Sets, Freezes: make(map[string]*Freeze, len(d.Freezes)), Holidays: d.Holidays, Given: d.Given}
	for name, f := range d.Freezes { // the sets stay as they are: approvals are bound to them
		none := *f
		none.To = none.From
		out.Freezes[name] = &none
	}
	return out
}
