package windows

import (
	"cmp"
	"slices"
	"time"
)

// Denied is a time that a freeze, a holiday or another deny takes out of a set.
type Denied struct {
	From, To time.Time
	Use      string // freeze/NAME, holidays/NAME, or the id of a rule
	Cancels  bool   // it drops each occurrence that it touches
}

// Denials lists what denies time within [from, to), by start. A freeze is among it also where an
// approval lifts it: Occurrences has what opens after all.
func (c *Compiled) Denials(from, to time.Time) []Denied {
	var out []Denied
	for _, d := range c.denies {
		for _, s := range d.spans.touching(spanOf(from, to)) {
			out = append(out, Denied{at(s.open), at(s.close), d.name, d.cancel})
		}
	}
	slices.SortStableFunc(out, func(a, b Denied) int {
		return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To), cmp.Compare(a.Use, b.Use))
	})
	return slices.Compact(out) // a set may name what a wider one names
}
