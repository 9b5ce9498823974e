package console

import (
	"strings"
	"testing"
)

func TestOnlyChangedLinesAreWritten(t *testing.T) {
	for _, c := range []struct {
		name, old, next string
		oldWidth, width int
		want            string
	}{
		{"first", "", "a b", 80, 80, "a\nb\n"},
		{"same", "a b", "a b", 80, 80, ""},
		{"one changed", "a b c", "a x c", 80, 80, "\x1b[2A\r\x1b[Kx\n\n"},
		{"longer", "a", "a b", 80, 80, "b\n"},
		{"shorter", "a b c", "a", 80, 80, "\x1b[2A\r\x1b[J"},
		{"shorter and changed", "a b c", "x b", 80, 80, "\x1b[3A\r\x1b[Kx\n\n\r\x1b[J"},
		{"a narrower terminal has wrapped them", "aaaaaa b", "aa b", 6, 3, "\x1b[3A\r\x1b[Jaa\nb\n"},
		{"wide characters", "日本語 b", "x b", 6, 3, "\x1b[3A\r\x1b[Jx\nb\n"},
	} {
		if got := redraw(strings.Fields(c.old), strings.Fields(c.next), c.oldWidth, c.width); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestParseKeys(t *testing.T) {
	for in, want := range map[string][]Key{
		"dq": {'d', 'q'}, "\x1b[A\x1b[B": {KeyUp, KeyDown}, "\x1bOA": {KeyUp}, "\x1b": {KeyEscape}, "\r": {KeyEnter}, "\x1b[1;5Cx": {'x'}, "\x1b[": nil, "\x1b[5~": nil,
	} {
		got := parseKeys([]byte(in))
		if len(got) != len(want) {
			t.Errorf("%q: %v, want %v", in, got, want)
			continue
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("%q: %v, want %v", in, got, want)
			}
		}
	}
}
