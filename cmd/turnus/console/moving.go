package console

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/turnus/turnus/core"
)

// Moving is the part of stderr below all messages, which changes in place. A console has one at
// most.
type Moving struct {
	c     *Console
	lines []string // on the screen, as they were written
	width int      // of the terminal at that time
	held  bool     // an operator is asked something: draw nothing
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

// Draw replaces the moving part by these lines, unless an operator is asked something. It writes
// the lines that changed, in one write.
func (m *Moving) Draw(lines []string) {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if m.held {
		return
	}
	width, height := m.Size()
	next := core.Map(lines[:min(len(lines), max(height-1, 1))], func(line string) string { return ansi.Truncate(Clean(line, m.c.color), width, "…") })
	if text := redraw(m.lines, next, m.width, width); text != "" {
		fmt.Fprint(raw{m.c.Err}, text)
	}
	m.lines, m.width = next, width
}

// redraw returns what changes the old lines on a terminal to the next ones. The cursor is below
// them before and after.
func redraw(old, next []string, oldWidth, width int) string {
	if len(old) > 0 && width != oldWidth {
		return clear(old, width) + joined(next)
	}
	from := 0
	for from < len(old) && from < len(next) && old[from] == next[from] {
		from++
	}
	if from == len(old) {
		return joined(next[from:])
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\x1b[%dA", len(old)-from)
	for i, line := range next[from:] {
		if at := from + i; at >= len(old) || old[at] != line {
			b.WriteString("\r\x1b[K" + line)
		}
		b.WriteByte('\n')
	}
	if len(next) < len(old) {
		b.WriteString("\r\x1b[J")
	}
	return b.String()
}

// clear returns what removes lines from a terminal, which wraps those that are wider than it.
func clear(lines []string, width int) string {
	rows := 0
	for _, line := range lines {
		rows += 1 + max(ansi.StringWidth(line)-1, 0)/max(width, 1)
	}
	if rows == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\r\x1b[J", rows)
}

func joined(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// above needs the console's lock. It prints a message above the lines, in one write; false where
// there are none.
func (m *Moving) above(text string) bool {
	if len(m.lines) == 0 {
		return false
	}
	width, _ := m.Size()
	fmt.Fprint(raw{m.c.Err}, clear(m.lines, width)+Clean(text, m.c.color)+"\n"+joined(m.lines))
	return true
}

// Size returns the columns and rows of the terminal.
func (m *Moving) Size() (width, height int) { return terminalSize(m.c.Err) }

// Close erases the moving part and ends it. It may be called twice.
func (m *Moving) Close() {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.erase()
	if m.c.moving == m {
		m.c.moving = nil
	}
}

// erase needs the console's lock.
func (m *Moving) erase() {
	if len(m.lines) > 0 {
		width, _ := m.Size()
		fmt.Fprint(raw{m.c.Err}, clear(m.lines, width))
		m.lines = nil
	}
}

func terminalSize(w io.Writer) (width, height int) {
	if f, ok := w.(interface{ Fd() uintptr }); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	return 80, 24
}
