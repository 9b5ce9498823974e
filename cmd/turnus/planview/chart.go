package planview

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/windows"
)

// Bounds of the chart.
const (
	maxTextRows  = 24
	maxSVGRows   = 200
	chartSamples = 240 // instants at which a set is asked what denies
)

// chart is when hosts may run, when something forbids it, and when they are expected to: a
// row for each customer and window set, or for each host.
type chart struct {
	from, to time.Time
	zone     *time.Location
	rows     []chartRow
	more     int // rows that are left out: those with the fewest hosts
	peak     float64
}

type chartRow struct {
	label  string
	hosts  int
	set    *windows.Compiled // nil: at any time
	open   []forecast.Span
	denied []deniedSpan
	runs   []forecast.Span
}

type deniedSpan struct {
	forecast.Span
	by string
}

// chart gathers the rows. most bounds them; columns is how fine its load will be drawn.
func (d *View) chart(most, columns int) *chart {
	c := &chart{from: d.at, zone: d.commonZone()}
	c.to = d.result.FinishP90
	if !c.to.After(c.from) {
		c.to = c.from.AddDate(0, 0, 14)
	}
	c.to = c.to.Add(max(c.to.Sub(c.from)/25, time.Minute))
	rows := d.chartRows()
	slices.SortStableFunc(rows, func(con, b chartRow) int { return cmp.Compare(b.hosts, con.hosts) })
	if len(rows) > most {
		c.more = len(rows) - most
		rows = rows[:most]
	}
	denied := map[*windows.Compiled][]deniedSpan{}
	for i := range rows {
		r := &rows[i]
		if r.set == nil {
			continue
		}
		for _, w := range r.set.Occurrences(c.from, c.to) {
			if w.Unapproved == "" {
				r.open = append(r.open, forecast.Span{From: w.Open, To: w.Close})
			}
		}
		if _, known := denied[r.set]; !known {
			denied[r.set] = c.deniedBy(r.set)
		}
		r.denied = denied[r.set]
	}
	c.rows = rows
	for _, r := range rows {
		for _, load := range c.load(r, columns) {
			c.peak = max(c.peak, load)
		}
	}
	return c
}

func (d *View) chartRows() []chartRow {
	type key struct {
		label string
		set   *windows.Compiled
	}
	at := map[key]int{}
	sets := map[string]int{}
	var rows []chartRow
	for i, h := range d.launch.Hosts {
		k := key{cmp.Or(h.Customer, "(no customer)"), d.result.Windows[i].Set}
		if d.byHost {
			k.label = h.Name
		}
		n, ok := at[k]
		if !ok {
			n = len(rows)
			at[k] = n
			sets[k.label]++
			rows = append(rows, chartRow{label: k.label, set: k.set})
		}
		rows[n].hosts++
		rows[n].runs = append(rows[n].runs, d.result.Hosts[i].Runs...)
	}
	for i := range rows {
		if r := &rows[i]; sets[r.label] > 1 && r.set != nil {
			r.label += "/" + r.set.Name
		}
	}
	return rows
}

// deniedBy are the times at which something forbids what the rules may allow.
func (c *chart) deniedBy(set *windows.Compiled) []deniedSpan {
	var out []deniedSpan
	step := c.to.Sub(c.from) / chartSamples
	for i := range chartSamples {
		from := c.from.Add(time.Duration(i) * step)
		e, err := set.Explain(from.Add(step/2), time.Nanosecond)
		if err != nil {
			return nil
		}
		if e.Open || e.Cause != windows.ByFreeze && e.Cause != windows.ByHolidays && e.Cause != windows.ByDeny {
			continue
		}
		by := strings.TrimSpace(string(e.Cause) + " " + e.By)
		if n := len(out); n > 0 && out[n-1].by == by && out[n-1].To.Equal(from) {
			out[n-1].To = from.Add(step)
			continue
		}
		out = append(out, deniedSpan{forecast.Span{From: from, To: from.Add(step)}, by})
	}
	return out
}

// load is how many hosts of a row work in each column, in the mean.
func (c *chart) load(r chartRow, columns int) []float64 {
	out := make([]float64, columns)
	for _, run := range r.runs {
		lo, hi := c.place(run.From, columns), c.place(run.To, columns)
		for i := max(int(lo), 0); i < columns && float64(i) < hi; i++ {
			out[i] += max(min(hi, float64(i+1))-max(lo, float64(i)), 0)
		}
	}
	return out
}

// place is the place of an instant among columns.
func (c *chart) place(t time.Time, columns int) float64 {
	return float64(t.Sub(c.from)) / float64(c.to.Sub(c.from)) * float64(columns)
}

// covers reports for each column whether one of the spans touches it.
func (c *chart) covers(columns int, spans []forecast.Span) []bool {
	out := make([]bool, columns)
	for _, s := range spans {
		lo, hi := c.place(s.From, columns), c.place(s.To, columns)
		for i := max(int(lo), 0); i < columns && float64(i) < hi; i++ {
			out[i] = true
		}
	}
	return out
}

const day = 24 * time.Hour

// tick is a mark on the axis.
type tick struct {
	at    time.Time
	label string
}

// ticks are at most that many marks at round local times.
func (c *chart) ticks(most int) []tick {
	for _, step := range []time.Duration{
		time.Minute, 2 * time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
		day, 2 * day, 7 * day, 14 * day, 28 * day,
	} {
		if c.to.Sub(c.from)/step < time.Duration(most) {
			return c.ticksEvery(step)
		}
	}
	return c.ticksEvery(84 * day)
}

// ticksEvery are the multiples of a step since local midnight; a day is one of the calendar.
func (c *chart) ticksEvery(step time.Duration) []tick {
	local := c.from.In(c.zone)
	t := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, c.zone)
	layout := "01-02 15:04"
	if step >= day {
		layout = "Mon 01-02"
	}
	var out []tick
	for t.Before(c.to) && len(out) < 100 {
		if !t.Before(c.from) {
			out = append(out, tick{t, t.Format(layout)})
		}
		if step >= day {
			t = t.AddDate(0, 0, int(step/day))
		} else {
			t = t.Add(step)
		}
	}
	return out
}

// glyphs draw the chart on a terminal.
type glyphs struct {
	load                      []string // from little to much
	open, denied, closed, bar string
}

func glyphsFor(unicode bool) glyphs {
	if unicode {
		return glyphs{strings.Split("▁▂▃▄▅▆▇█", ""), "░", "×", "·", "│"}
	}
	return glyphs{[]string{"1", "2", "3", "4", "5", "6", "7", "8"}, "-", "x", ".", "|"}
}

// speaksUnicode reports whether the locale's characters are UTF-8.
func speaksUnicode() bool {
	locale := cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG"))
	locale = strings.ToLower(locale)
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

// columns is the width of the terminal, or the value of COLUMNS, or 100.
func columns(con *console.Console) int {
	width, _, err := term.GetSize(int(con.Out.Fd()))
	if err != nil || width <= 0 {
		if width, err = strconv.Atoi(os.Getenv("COLUMNS")); err != nil {
			width = 100
		}
	}
	return min(max(width, 40), 240)
}

// writeChart draws a row of text for each row of the chart.
func writeChart(con *console.Console, d *View) {
	if d.result.FinishP50.IsZero() {
		return
	}
	const longest = 24
	total := columns(con)
	c := d.chart(maxTextRows, max(total-longest-2, 16))
	label := 4
	for _, r := range c.rows {
		label = max(label, min(len([]rune(console.Printable(r.label))), longest))
	}
	columns := total - label - 2
	c = d.chart(maxTextRows, columns)
	g := glyphsFor(speaksUnicode())
	fmt.Fprintf(con.Out, "%s  %s\n", strings.Repeat(" ", label), c.axis(columns, g.bar))
	for _, r := range c.rows {
		name := []rune(console.Printable(r.label))
		if len(name) > label {
			name = append(name[:label-1], '~')
		}
		fmt.Fprintf(con.Out, "%s%s  %s\n", string(name), strings.Repeat(" ", label-len(name)), chartLine(con, c, r, columns, g))
	}
	if c.more > 0 {
		fmt.Fprintf(con.Out, "and %d rows more; -o svg draws up to %d\n", c.more, maxSVGRows)
	}
	least, most := con.Paint(console.Green, g.load[0]), con.Paint(console.Green, g.load[len(g.load)-1])
	fmt.Fprintf(con.Out, "%s to %s hosts at work (%s is %.2g in the mean)  %s window  %s freeze, holiday or deny  %s closed; times are %s\n",
		least, most, most, c.peak, con.Paint(console.Cyan, g.open), con.Paint(console.Red, g.denied), g.closed, c.zone)
}

// axis is the line of ticks.
func (c *chart) axis(columns int, bar string) string {
	line := []rune(strings.Repeat(" ", columns))
	end := 0
	for _, t := range c.ticks(max(columns/12, 2)) {
		at := int(c.place(t.at, columns))
		text := []rune(bar + t.label)
		if at < end || at+len(text) > columns {
			continue
		}
		copy(line[at:], text)
		end = at + len(text) + 1
	}
	return strings.TrimRight(string(line), " ")
}

func chartLine(con *console.Console, c *chart, r chartRow, columns int, g glyphs) string {
	load := c.load(r, columns)
	open := c.covers(columns, r.open)
	denied := c.covers(columns, core.Map(r.denied, func(s deniedSpan) forecast.Span { return s.Span }))
	var b strings.Builder
	for i := 0; i < columns; {
		mark, paint := c.mark(r, load[i], open[i], denied[i], g)
		n := 1 // columns alike are painted together
		for ; i+n < columns; n++ {
			if next, _ := c.mark(r, load[i+n], open[i+n], denied[i+n], g); next != mark {
				break
			}
		}
		text := strings.Repeat(mark, n)
		if paint != "" {
			text = con.Paint(paint, text)
		}
		b.WriteString(text)
		i += n
	}
	return b.String()
}

func (c *chart) mark(r chartRow, load float64, open, denied bool, g glyphs) (string, console.Color) {
	switch {
	case load > 0 && c.peak > 0:
		level := int(math.Ceil(load / c.peak * float64(len(g.load))))
		return g.load[min(max(level, 1), len(g.load))-1], console.Green
	case open:
		return g.open, console.Cyan
	case denied:
		return g.denied, console.Red
	case r.set == nil:
		return " ", ""
	}
	return g.closed, ""
}
