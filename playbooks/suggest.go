package playbooks

import (
	"fmt"
	"strings"
)

// oneOf lists what may stand in a place, cut when there is too much of it.
func oneOf(names []string) string {
	const most = 24
	switch {
	case len(names) == 0:
		return ""
	case len(names) == 1:
		return names[0]
	case len(names) > most:
		return fmt.Sprintf("one of: %s, … (%d in all)", strings.Join(names[:most], ", "), len(names))
	}
	return "one of: " + strings.Join(names, ", ")
}

// didYouMean is the hint for a misspelt word, or "".
func didYouMean(word string, names []string) string {
	if near := nearest(word, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

// nearest is the name that word most likely misspells, or "". Case and the
// kind of dash do not count; a third of the letters may be wrong.
func nearest(word string, names []string) string {
	fold := strings.NewReplacer("-", "_", " ", "_")
	w := fold.Replace(strings.ToLower(word))
	if len(w) > 64 {
		return ""
	}
	best, bestDistance := "", max(1, len(w)/3)+1
	for _, name := range names {
		if len(name) > 64 {
			continue
		}
		if d := distance(w, fold.Replace(strings.ToLower(name))); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// distance counts the letters to insert, drop, change or swap (optimal string alignment).
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
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
