package redact

// match is a stretch of a text that is a form of a value, or the beginning of one at the text's
// end.
type match struct {
	from, to int
	name     string
}

// mode describes the text that follows the scanned text.
type mode int

const (
	more  mode = iota // further text may: what may be the beginning of a form is not decided
	idle              // nothing for a while: only text that reveals something already is not decided
	atEnd             // nothing: most of a value is taken for a match
	whole             // nothing, and only whole forms are matches
)

// minPrefix is how many bytes at the end of a text count as the beginning of a form, if they are
// also half of it. A replaced guess shows a host that the guess is right: with a smaller number it
// could find the value byte by byte.
const minPrefix = 16

// scan lists the matches that begin before undecided, the longest of each place, by where they
// begin. It needs s.mu.
func (s *Set) scan(text []byte, found []match, m mode) (_ []match, undecided int) {
	for i := range text {
		b := text[i]
		if !s.first[b] {
			continue
		}
		if i+1 < len(text) { // most places are done with here
			next := text[i+1]
			if key := uint16(b)<<8 | uint16(next); s.begins[key>>6]&(1<<(key&63)) == 0 && (!s.spread[b] || !blank(next)) {
				continue
			}
		}
		best, open := s.at(text[i:], m)
		if open {
			return found, i
		}
		if best.to > 0 {
			found = append(found, match{i, i + best.to, best.name})
		}
	}
	return found, len(text)
}

// at looks for the longest form that begins a text; open reports that more text is needed to
// decide.
func (s *Set) at(text []byte, m mode) (best match, open bool) {
	next := 1
	if s.spread[text[0]] {
		for next < len(text) && next <= maxGap+1 && blank(text[next]) {
			next++
		}
	}
	if next == len(text) || len(text) == 1 { // whatever form begins so
		return best, m == more
	}
	if key := uint16(text[0])<<8 | uint16(text[1]); s.begins[key>>6]&(1<<(key&63)) != 0 {
		if best, open = s.among(s.by[key], text, m, best); open {
			return best, true
		}
	}
	if next > 1 {
		key := uint16(text[0])<<8 | uint16(text[next])
		if s.begins[key>>6]&(1<<(key&63)) != 0 {
			best, open = s.among(s.by[key], text, m, best)
		}
	}
	return best, open
}

// among takes the longest of some patterns, and what was found before.
func (s *Set) among(patterns []*pattern, text []byte, m mode, best match) (_ match, open bool) {
	for _, p := range patterns {
		length, matched := p.begins(text)
		switch {
		case matched == 0:
			continue
		case matched == len(p.text):
		case m == more, m == idle && matched >= minPrefix:
			return best, true
		case m == atEnd && matched >= minPrefix && 2*matched >= len(p.text):
		default:
			continue
		}
		if length > best.to {
			best = match{to: length, name: p.name}
		}
	}
	return best, false
}

// begins reports how many bytes of the pattern a text begins with, all or as many as the text has,
// and the length of that in the text; else 0.
func (p *pattern) begins(text []byte) (length, matched int) {
	gap := 0
	for i, b := range text {
		if b == p.text[matched] {
			matched++
			gap = 0
			if matched == len(p.text) {
				return i + 1, matched
			}
			continue
		}
		if gap++; p.loose && blank(b) && gap <= maxGap {
			continue
		}
		return 0, 0
	}
	return len(text), matched
}

func blank(b byte) bool { return b == '\n' || b == ' ' || b == '\r' || b == '\t' }
