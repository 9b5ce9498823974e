package console

import (
	"bytes"
	"testing"
)

// No text of a host, a plugin or a file can move the cursor, set a title or clear the screen.
func TestScreenLetsNoOrderPass(t *testing.T) {
	for _, c := range []struct{ name, in, styled, plain string }{
		{"text", "a\tb\nü·\n", "a\tb\nü·\n", "a\tb\nü·\n"},
		{"own colour", "\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m", "red"},
		{"title", "a\x1b]0;pwn\x07b", "a·]0;pwn·b", "a·]0;pwn·b"},
		{"clear", "\x1b[2J\x1b[1A\x1b[K", "·[2J·[1A·[K", "·[2J·[1A·[K"},
		{"hidden text", "\x1b[8mx\x1b[1;31mx", "·[8mx·[1;31mx", "·[8mx·[1;31mx"},
		{"return and backspace", "ok\rno\b", "ok·no·", "ok·no·"},
		{"C1", "\u009b2J\x9b2J", "·2J\ufffd2J", "·2J\ufffd2J"},
		{"from right to left", "rm \u202etxt.a\u2066b\u2069", "rm ·txt.a·b·", "rm ·txt.a·b·"},
		{"Hebrew and Arabic", "שלום مرحبا\u200f", "שלום مرحبا\u200f", "שלום مرحبا\u200f"},
		{"escape at the end", "x\x1b", "x·", "x·"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Clean(c.in, true); got != c.styled {
				t.Errorf("styled: %q, want %q", got, c.styled)
			}
			if got := Clean(c.in, false); got != c.plain {
				t.Errorf("plain: %q, want %q", got, c.plain)
			}
		})
	}
}

func TestDocumentsAreNotFiltered(t *testing.T) {
	var b bytes.Buffer
	s := newScreen(&b, false, func() {})
	if err := PrintJSON(s, "\u009bx"); err != nil || b.String() != "\"\u009bx\"\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}
