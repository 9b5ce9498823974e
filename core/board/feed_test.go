package board_test

import (
	"fmt"
	"testing"

	"github.com/turnus/turnus/core/board"
)

func TestLost(t *testing.T) {
	for _, tc := range []struct {
		cursor, next string
		n, want      int
	}{
		{"", "", 0, 0},
		{"", "9-3", 3, 0},
		{"", "9-103", 3, 100}, // came late
		{"9-3", "9-3", 0, 0},
		{"9-3", "9-5", 2, 0},
		{"9-3", "9-50", 2, 45}, // was slow
		{"9-300", "10-2", 2, 0},
		{"9-300", "10-7", 2, 5},
		{"bad", "9-7", 2, 0},
	} {
		if got := board.LostMessages(tc.cursor, tc.next, tc.n); got != tc.want {
			t.Errorf("Lost(%q, %q, %d) is %d, expected %d", tc.cursor, tc.next, tc.n, got, tc.want)
		}
	}
}

// FuzzCursor: what is read is written the same.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", "1-1", "1795215306718189-20000", "0-0", "-", "1-", "01-1", "1-1 ", "(1-1", "999999999999999999-999999999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := board.ParseCursor(s)
		if err == nil && c.String() != s {
			t.Errorf("cursor %q is written as %q", s, c)
		}
		if err != nil && fmt.Sprint(c) != "" {
			t.Errorf("refused cursor %q gives %q", s, c)
		}
	})
}
