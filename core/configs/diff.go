package configs

import (
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

// FileDiff is a Difference for people.
type FileDiff struct {
	Name    string `json:"name"`
	Change  string `json:"change"` // added, changed, gone
	Added   int    `json:"lines_added"`
	Removed int    `json:"lines_removed"`
	Diff    string `json:"diff"` // unified; for a binary or long file only its size
}

// mostDiffed is the size above which contents are described instead of compared.
const mostDiffed = 4 << 20

// Diff compares the contents, which are text of a host.
func (d *Difference) Diff(host string) FileDiff {
	title := host + "/" + d.Name
	out := FileDiff{Name: d.Name, Change: "changed"}
	before, after := title, title
	switch {
	case !d.Was:
		out.Change, before = "added", "/dev/null"
	case !d.Is:
		out.Change, after = "gone", "/dev/null"
	}
	if len(d.Before)+len(d.After) > mostDiffed || strings.ContainsRune(string(d.Before), 0) || strings.ContainsRune(string(d.After), 0) {
		out.Diff = fmt.Sprintf("--- %s\n+++ %s\nbinary or large: %d bytes became %d\n", before, after, len(d.Before), len(d.After))
		return out
	}
	out.Diff = udiff.Unified(before, after, strings.ToValidUTF8(string(d.Before), "\ufffd"), strings.ToValidUTF8(string(d.After), "\ufffd"))
	headed := 0
	for l := range strings.Lines(out.Diff) {
		switch headed++; {
		case headed <= 2: // the names
		case strings.HasPrefix(l, "+"):
			out.Added++
		case strings.HasPrefix(l, "-"):
			out.Removed++
		}
	}
	return out
}
