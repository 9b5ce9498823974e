package redact

import "slices"

// Stream takes the values out of text that comes in pieces, also values that are split over pieces.
// It keeps the last bytes, and a possible beginning of a value, until more text decides. It keeps
// at most the length of the longest form of a value. It is for one goroutine at a time.
type Stream struct {
	set *Set
	out func([]byte)

	held    []byte
	shown   int // bytes of held that Idle has passed on
	covered int // bytes of held that stand for a value whose name was passed on
	made    []byte
	found   []match
}

// holding is how many bytes of any kind Write keeps: otherwise a watcher who sees that a piece
// waits could guess a value byte by byte. A beginning that is longer, white space within it
// included, has [minPrefix] bytes.
const holding = minPrefix * (maxGap + 1)

// Stream makes one that passes text on to out, whose argument is valid until out returns.
func (s *Set) Stream(out func([]byte)) *Stream { return &Stream{set: s, out: out} }

// Write takes a piece. It never fails.
func (s *Stream) Write(p []byte) (int, error) {
	if s.set == nil {
		if len(p) > 0 {
			s.out(p)
		}
		return len(p), nil
	}
	s.held = append(s.held, p...)
	s.pass(more, holding)
	return len(p), nil
}

// Flush ends the stream: it passes the kept bytes on, except a beginning of a value that reveals a
// part of it. Another stream may begin afterwards.
func (s *Stream) Flush() {
	if s.set != nil {
		s.pass(atEnd, 0)
	}
}

// Idle passes on kept bytes if they can be at most the first 15 bytes of a value, so that watched
// output does not stall. If a value does follow, these bytes were shown.
func (s *Stream) Idle() {
	if s.set == nil || len(s.held) == 0 {
		return
	}
	s.pass(more, 0)
	s.set.mu.RLock()
	found, undecided := s.set.scan(s.held, s.found[:0], idle)
	s.set.mu.RUnlock()
	if from := max(s.shown, s.covered); len(found) == 0 && from < undecided {
		s.out(s.held[from:undecided])
		s.shown = undecided
	}
}

// pass passes on all that is decided, except the last bytes.
func (s *Stream) pass(m mode, last int) {
	s.set.mu.RLock()
	found, undecided := s.set.scan(s.held, s.found[:0], m)
	s.set.mu.RUnlock()
	undecided = min(undecided, max(len(s.held)-last, 0))
	found = slices.DeleteFunc(found, func(f match) bool { return f.from >= undecided })
	s.found, s.made = found, s.made[:0]
	at := max(s.shown, s.covered)
	for _, f := range found {
		if f.from >= s.covered {
			if at < f.from {
				s.made = append(s.made, s.held[at:f.from]...)
			}
			s.made = append(s.made, tag(f.name)...)
		}
		s.covered = max(s.covered, f.to)
		at = max(at, s.covered)
	}
	if at < undecided {
		s.made = append(s.made, s.held[at:undecided]...)
	}
	s.held = s.held[:copy(s.held, s.held[undecided:])]
	s.shown, s.covered = max(s.shown-undecided, 0), max(s.covered-undecided, 0)
	if len(s.made) > 0 {
		s.out(s.made)
	}
}
