package yamlread

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// longest word that is checked: the work grows with the square of it, and what is longer is no
// name.
const longest = 128

// DidYouMean is the hint that names what word most likely misspells, or "".
func DidYouMean(word string, names []string) string {
	if near := Nearest(word, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

// Nearest is the name that word most likely misspells, or "". A third of its letters may
// be wrong, at least one; letter case and the kind of dash do not count. Of equally near
// names the first is taken.
func Nearest(word string, names []string) string {
	n := utf8.RuneCountInString(word)
	if n == 0 || n > longest {
		return ""
	}
	w := fold(word)
	best, least := "", max(1, n/3)+1
	for _, name := range names {
		if m := utf8.RuneCountInString(name); m > longest || m-n >= least || n-m >= least {
			continue
		}
		if d := distance(w, fold(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

func fold(s string) []rune {
	return []rune(strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' {
			return '_'
		}
		return r
	}, strings.ToLower(s)))
}

// distance counts the letters to insert, drop, change or swap with their neighbour
// (optimal string alignment).
func distance(x, y []rune) int {
	before, prev, cur := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := range x {
		cur[0] = i + 1
		for j := range y {
			cost := 1
			if x[i] == y[j] {
				cost = 0
			}
			cur[j+1] = min(prev[j+1]+1, cur[j]+1, prev[j]+cost)
			if i > 0 && j > 0 && x[i] == y[j-1] && x[i-1] == y[j] {
				cur[j+1] = min(cur[j+1], before[j-1]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(y)]
}
