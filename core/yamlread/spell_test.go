package yamlread

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	names := []string{"command", "fetch", "stop_after", "web", "wait", "größe"}
	for _, c := range []struct{ name, word, want string }{
		{"letter left out", "comand", "command"},
		{"letter too many", "ffetch", "fetch"},
		{"neighbours swapped", "fecth", "fetch"},
		{"case and dash", "Stop-After", "stop_after"},
		{"short word, one letter", "wep", "web"},
		{"short word, two letters", "wxy", ""},
		{"a letter is not a byte", "grösse", "größe"},
		{"the first of two", "wab", "web"},
		{"far from all", "reboot", ""},
		{"empty", "", ""},
		{"too long", strings.Repeat("w", longest+1), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Nearest(c.word, names); got != c.want {
				t.Errorf("Nearest(%q) = %q, want %q", c.word, got, c.want)
			}
		})
	}
}

func TestDidYouMean(t *testing.T) {
	if got := DidYouMean("comand", []string{"command"}); got != `did you mean "command"?` {
		t.Errorf("near: %q", got)
	}
	if got := DidYouMean("reboot", []string{"command"}); got != "" {
		t.Errorf("far: %q", got)
	}
}

func TestDistanceIsSymmetricAndBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SliceOfN(rapid.RuneFrom([]rune("abü")), 0, 8)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := distance(a, b)
		if back := distance(b, a); back != d {
			t.Fatalf("%q to %q: %d, back: %d", a, b, d, back)
		}
		if (d == 0) != (string(a) == string(b)) || d > max(len(a), len(b)) || d < max(len(a)-len(b), len(b)-len(a)) {
			t.Fatalf("%q to %q: %d", a, b, d)
		}
	})
}
