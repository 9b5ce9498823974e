package console

import (
	"bufio"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// A frame keeps to the terminal that it is drawn on, also after a resize, and a dumb terminal has
// none.
func TestAFrameFitsTheTerminal(t *testing.T) {
	person, program, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = person.Close(), program.Close() }()
	t.Setenv("NO_COLOR", "1")
	t.Setenv("TERM", "dumb")
	if c := New(program, program, program); !c.Terminal || c.Live {
		t.Errorf("a dumb terminal: terminal %v, live %v, expected true and false", c.Terminal, c.Live)
	}
	t.Setenv("TERM", "xterm")
	c := New(program, program, program)
	if !c.Live {
		t.Fatal("a terminal is not live")
	}
	m := c.NewMoving()
	defer m.Close()
	lines := make([]string, 50)
	for i := range lines {
		lines[i] = strings.Repeat("x", 100)
	}
	shown := bufio.NewReader(person)
	for _, size := range []pty.Winsize{{Cols: 80, Rows: 24}, {Cols: 60, Rows: 16}, {Cols: 132, Rows: 40}} {
		if err := pty.Setsize(program, &size); err != nil {
			t.Fatal(err)
		}
		m.Draw(lines)
		c.Message("end of frame")
		rows, wide := 0, 0
		for {
			line, err := shown.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, "end of frame") {
				break
			}
			rows++
			wide = max(wide, strings.Count(line, "x")+strings.Count(line, "…"))
		}
		if rows != int(size.Rows)-1 || wide != min(int(size.Cols), 100) {
			t.Errorf("%d × %d: %d rows of %d columns", size.Cols, size.Rows, rows, wide)
		}
		for range rows { // what the message moved down
			if _, err := shown.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
}
