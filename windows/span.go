package windows

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// span is [open, close) in nanoseconds since 1970.
type span struct{ open, close int64 }

func spanOf(open, close time.Time) span { return span{open.UnixNano(), close.UnixNano()} }

func at(nano int64) time.Time { return time.Unix(0, nano).UTC() }

func (s span) empty() bool { return s.close <= s.open }

func (s span) and(o span) span { return span{max(s.open, o.open), min(s.close, o.close)} }

func (s span) has(t int64) bool { return s.open <= t && t < s.close }

// spans are sorted, disjoint, and do not touch.
type spans []span

// unite sorts spans and merges what overlaps or touches.
func unite(list []span) spans {
	slices.SortFunc(list, func(a, b span) int { return cmp.Or(cmp.Compare(a.open, b.open), cmp.Compare(a.close, b.close)) })
	var out spans
	for _, s := range list {
		switch n := len(out); {
		case s.empty():
		case n > 0 && s.open <= out[n-1].close:
			out[n-1].close = max(out[n-1].close, s.close)
		default:
			out = append(out, s)
		}
	}
	return out
}

// from is the index of the first span that ends after t.
func (l spans) from(t int64) int {
	return sort.Search(len(l), func(i int) bool { return l[i].close > t })
}

// find is the span that holds t.
func (l spans) find(t int64) (span, bool) {
	if i := l.from(t); i < len(l) && l[i].has(t) {
		return l[i], true
	}
	return span{}, false
}

// touching are the spans that share time with s.
func (l spans) touching(s span) spans {
	i := l.from(s.open)
	j := i
	for j < len(l) && l[j].open < s.close {
		j++
	}
	return l[i:j]
}

// cut is s without the spans of l.
func (l spans) cut(s span) []span {
	var out []span
	for _, hole := range l.touching(s) {
		if hole.open > s.open {
			out = append(out, span{s.open, hole.open})
		}
		s.open = hole.close
	}
	if !s.empty() {
		out = append(out, s)
	}
	return out
}

// keep returns the parts that s and the spans of l share.
func (l spans) keep(s span) []span {
	var out []span
	for _, other := range l.touching(s) {
		out = append(out, s.and(other))
	}
	return out
}
