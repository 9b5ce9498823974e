package console

import (
	"fmt"
	"io"
	"strings"

	"golang.org/x/term"
)

// Moving is the part of stderr below all messages, which changes in place. A console has one at most.
type Moving struct {
	c     *Console
	drawn int  // lines on the screen that belong to it
	held  bool // an operator is asked something: draw nothing
}

// NewMoving begins a moving part. Close ends it.
func (c *Console) NewMoving() *Moving {
	m := &Moving{c: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moving = m
	return m
}

// Line prints a line that stays, unless an operator is asked something. It returns whether it did.
func (m *Moving) Line(text string) bool {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if m.held {
		return false
	}
	fmt.Fprintln(m.c.Err, text)
	return true
}

// Draw replaces the moving part by these lines, unless an operator is asked something.
func (m *Moving) Draw(lines []string) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if m.held {
		return
	}
	width := m.Width()
	var b strings.Builder
	if m.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", m.drawn)
	}
	for _, line := range lines {
		b.WriteString("\r\x1b[K" + cutVisible(Clean(line, m.c.color), width) + "\n")
	}
	b.WriteString("\x1b[J")
	m.drawn = len(lines)
	fmt.Fprint(raw{m.c.Err}, b.String())
}

// Width returns the columns of the terminal.
func (m *Moving) Width() int { return terminalWidth(m.c.Err) }

// Close erases the moving part and ends it.
func (m *Moving) Close() {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.erase()
	m.c.moving = nil
}

// erase needs the console's lock.
func (m *Moving) erase() {
	if m.drawn > 0 {
		fmt.Fprintf(raw{m.c.Err}, "\x1b[%dA\x1b[J", m.drawn)
		m.drawn = 0
	}
}

func terminalWidth(w io.Writer) int {
	if f, ok := w.(interface{ Fd() uintptr }); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

// cutVisible cuts a line to width columns; escape sequences take none.
func cutVisible(s string, width int) string {
	seen, escape := 0, false
	for i, r := range s {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		case seen == width:
			return s[:i] + "\x1b[0m"
		default:
			seen++
		}
	}
	return s
}
