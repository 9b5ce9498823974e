package console

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/turnus/turnus/core"
)

// Screen is stdout or stderr. Texts of hosts, plugins and files pass through it on their way to the
// operator's terminal. So it removes all control characters except newline, tab and the colours of
// [Console.Paint]. It is safe for concurrent use.
type Screen struct {
	w      io.Writer
	styled bool   // colours pass; else they are dropped
	form   string // of documents and tables: yaml, wide, name, or else as they are
	gone   func() // called when nobody reads any more; may be called more than once

	mu  sync.Mutex
	err error // the first that a write met
}

func newScreen(w io.Writer, styled bool, gone func()) *Screen {
	return &Screen{w: w, styled: styled, gone: gone}
}

// Write implements io.Writer. The count is that of p, also if fewer or more bytes were written for
// it.
func (s *Screen) Write(p []byte) (int, error) {
	if err := s.write(Clean(string(p), s.styled)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *Screen) write(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := io.WriteString(s.w, text)
	if err != nil && s.err == nil {
		s.err = err
	}
	if errors.Is(err, syscall.EPIPE) {
		s.gone()
	}
	return err
}

// Problem is the first error of a write.
func (s *Screen) Problem() error { return core.Locked(&s.mu, &s.err) }

// Fd lets the width of a terminal be found.
func (s *Screen) Fd() uintptr {
	if f, ok := s.w.(interface{ Fd() uintptr }); ok {
		return f.Fd()
	}
	return ^uintptr(0)
}

// raw is the way past the filter, for documents that escape their own text and for moving the
// cursor.
type raw struct{ s *Screen }

// Raw returns the way past the filter.
func (s *Screen) Raw() io.Writer { return raw{s} }

// Picture writes a document that has no control characters, such as an SVG, past the filter.
func (s *Screen) Picture(document string) error { return s.write(document) }

func (r raw) Write(p []byte) (int, error) {
	if err := r.s.write(string(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ownColor matches the sequences that paint writes.
var ownColor = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\x1b\[(?:0|1|2|31|32|33|36)m`) })

// Clean takes the control characters out of a text of lines; colours stay where styled.
func Clean(s string, styled bool) string {
	if strings.IndexFunc(s, func(r rune) bool { return r != '\n' && control(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for s != "" {
		i := strings.IndexByte(s, '\x1b')
		if i < 0 {
			i = len(s)
		}
		b.WriteString(PrintableLines(s[:i]))
		s = s[i:]
		seq := ownColor().FindString(s)
		switch {
		case s == "":
			continue
		case seq == "":
			seq = s[:1]
			b.WriteRune(noControl)
		case styled:
			b.WriteString(seq)
		}
		s = s[len(seq):]
	}
	return b.String()
}

// noControl stands for a control character.
const noControl = '·'

// control reports whether a terminal may take r as an order. An order to write from right to left
// counts: people would read another word than what is there. Tabs are harmless.
func control(r rune) bool {
	return r != '\t' && (r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069)
}

// Printable takes control characters out of one line, so that no host can drive the operator's
// terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if control(r) {
			return noControl
		}
		return r
	}, s)
}

// PrintableLines is Printable of a text with newlines.
func PrintableLines(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && control(r) {
			return noControl
		}
		return r
	}, s)
}

// OnTerminal reports whether the screen is a terminal.
func (s *Screen) OnTerminal() bool { return isTerminal(s.w) }
