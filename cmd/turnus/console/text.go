package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
)

// Color is an ANSI code.
type Color string

// The colours, and two ways to stand out.
const (
	Red    Color = "31"
	Green  Color = "32"
	Yellow Color = "33"
	Cyan   Color = "36"
	Faint  Color = "2"
	Bold   Color = "1"
)

// Paint colours s where colour is wanted.
func (c *Console) Paint(color Color, s string) string {
	if !c.color {
		return s
	}
	return "\x1b[" + string(color) + "m" + s + "\x1b[0m"
}

// PaintDiff colours a line of a unified diff.
func (c *Console) PaintDiff(line string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return c.Paint(Green, line)
	case strings.HasPrefix(line, "-"):
		return c.Paint(Red, line)
	case strings.HasPrefix(line, "@@"):
		return c.Paint(Cyan, line)
	}
	return line
}

// OutcomeColor returns the colour of an outcome.
func OutcomeColor(o core.Outcome) Color {
	switch o {
	case core.Changed:
		return Yellow
	case core.Failed, core.Lost, core.RolledBack, core.Unreachable:
		return Red
	case core.Skipped, core.Cancelled:
		return Cyan
	}
	return Green
}

// PrintJSON writes one indented document; as YAML with the same keys where [Screen.Format] chose
// that.
func PrintJSON(s *Screen, v any) error {
	if s.form == "yaml" {
		return printYAML(s, v)
	}
	enc := json.NewEncoder(raw{s})
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// Table writes rows in aligned columns; the first row is the head. Where [Screen.Format] chose
// names it writes the first column alone, a line each.
func Table(w io.Writer, rows [][]string) {
	if s, ok := w.(*Screen); ok && s.form == "name" {
		names := slices.IndexFunc(rows[0], func(head string) bool { return head != "" }) // before it may be a mark
		for _, row := range rows[1:] {
			fmt.Fprintln(w, row[names])
		}
		return
	}
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

// Short writes a duration as people write it: 430ms, 4.2s, 1m20s.
func Short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// CutText returns the first n characters of s, the last of them "…" if there are more.
func CutText(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// FirstLine returns s up to its first newline.
func FirstLine(s string) string {
	for i, r := range s {
		if r == '\n' {
			return s[:i]
		}
	}
	return s
}

// BytesText is a size for people.
func BytesText(n int64) string {
	const unit = 1 << 10
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	size, at := float64(n)/unit, 0
	for ; size >= unit && at < 3; at++ {
		size /= unit
	}
	return fmt.Sprintf("%.1f %s", size, []string{"KiB", "MiB", "GiB", "TiB"}[at])
}

// LocalTime returns a time in the machine's zone, or "" for the zero time.
func LocalTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// YAMLText returns v as YAML.
func YAMLText(v any) (string, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return b.String(), enc.Close()
}

// UTC returns a time in UTC, as documents have it.
func UTC(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// LocalAndUTC returns a time in a zone and in UTC.
func LocalAndUTC(t time.Time, zone *time.Location) string {
	return t.In(zone).Format("Mon 2006-01-02 15:04 MST") + "  (" + UTC(t) + ")"
}
