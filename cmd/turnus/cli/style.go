package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// color is an ANSI code.
type color string

const (
	red    color = "31"
	green  color = "32"
	yellow color = "33"
	cyan   color = "36"
	faint  color = "2"
	bold   color = "1"
)

// paint colours s where colour is wanted.
func (a *app) paint(c color, s string) string {
	if !a.color {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

func outcomeColor(o core.Outcome) color {
	switch o {
	case core.Changed:
		return yellow
	case core.Failed, core.Lost, core.RolledBack, core.Unreachable:
		return red
	case core.Skipped, core.Cancelled:
		return cyan
	}
	return green
}

// printJSON writes one indented document.
func printJSON(s *screen, v any) error {
	enc := json.NewEncoder(raw{s})
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// table writes rows in aligned columns; the first row is the head.
func table(w io.Writer, rows [][]string) {
	var width []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-len([]rune(cell))+2))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// short writes a duration as people say it: 430ms, 4.2s, 1m20s.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// plural is "1 host", "2 hosts".
func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
