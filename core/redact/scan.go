package redact

// match is a stretch of a text that is a form of a value, or the beginning of one at the text's end.
type match struct {
	from, to int
	name     string
}

// What follows the text that is scanned.
type mode int

const (
	more  mode = iota // further text may: what may be the beginning of a form is not decided
	idle              // nothing for a while: only what already tells something is not decided
	atEnd             // nothing: what tells something of a value is taken for a match
	whole             // nothing, and only whole forms are matches
)

// telling is how many bytes of a form tell something of the value.
const telling = MinValue

// scan lists the matches that begin before undecided, the longest of each place, by where they begin. It needs s.mu.
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

// at looks for the longest form that begins a text; open tells that more text is needed to say.
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
		length, matched, cut := p.begins(text)
		switch {
		case matched == 0:
			continue
		case matched == len(p.text):
		case cut && m != whole && matched >= telling:
		case cut:
			continue
		case m == more, m == idle && matched >= telling:
			return best, true
		case m == atEnd && matched >= telling:
		default:
			continue
		}
		if length > best.to {
			best = match{to: length, name: p.name}
		}
	}
	return best, false
}

// begins tells how many bytes of the pattern a text begins with, all or as many as the text has, and the length of that
// in the text; else 0. It also does with a part of the pattern where cut says that the rest was cut off.
func (p *pattern) begins(text []byte) (length, matched int, cut bool) {
	gap := 0
	for i, b := range text {
		if b == p.text[matched] {
			matched++
			gap = 0
			if matched == len(p.text) {
				return i + 1, matched, false
			}
			continue
		}
		if gap++; p.loose && blank(b) && gap <= maxGap {
			continue
		}
		switch cut, open := cutMark(text[i:]); {
		case cut:
			return i, matched, true
		case open:
			return i, matched, false
		}
		return 0, 0, false
	}
	return len(text), matched, false
}

// cutMark tells whether a text begins with what stands where text was cut off: an ellipsis, or what takes the place of half a
// character. open tells that it may, once more of it is there.
func cutMark(text []byte) (cut, open bool) {
	for _, mark := range []string{"\u2026", "\uFFFD"} {
		n := min(len(text), len(mark))
		if string(text[:n]) == mark[:n] {
			return n == len(mark), n < len(mark)
		}
	}
	return false, false
}

func blank(b byte) bool { return b == '\n' || b == ' ' || b == '\r' || b == '\t' }
