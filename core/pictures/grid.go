package pictures

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// Sizes of the picture of a grid in pixels.
const (
	gridLabel = 220 // left of the cells
	gridTop   = 200 // above the cells: the title, and the slanted names of steps
	gridRight = 130 // right of the cells: the end of the last name
	gridLeast = 760 // width for title and legend
)

// MaxGridRows is how many hosts the picture of a grid has.
const MaxGridRows = 5000

// SortGrid puts bad hosts first, then those without an outcome. Equal hosts stay in their order.
func SortGrid(rows []api.GridHost) {
	slices.SortStableFunc(rows, func(a, b api.GridHost) int { return cmp.Compare(gridRank(a.Outcome), gridRank(b.Outcome)) })
}

func gridRank(o core.Outcome) int {
	if o == "" {
		return 2*Rank(core.Cancelled) + 1
	}
	return 2 * Rank(o)
}

// lettered are the outcomes by their letters; other letters are no result.
var lettered = func() (all [256]core.Outcome) {
	for _, o := range core.Outcomes() {
		all[o.Letter()] = o
	}
	return all
}()

// GridDocument draws what each step did on each host as one self-contained picture, the worst host
// first.
func GridDocument(g *api.Grid, title string) string {
	rows := slices.Clone(g.Items)
	SortGrid(rows)
	left := g.LeftOut + max(len(rows)-MaxGridRows, 0)
	text := gridText(rows, len(g.Steps))
	if left > 0 {
		text += "; " + counted(left, "host") + " not shown"
	}
	rows = rows[:min(len(rows), MaxGridRows)]
	d := newGridPicture(rows, len(g.Steps))
	for i := range rows {
		d.row(&rows[i], gridTop+i*pitch)
	}
	width := max(gridLabel+(1+len(g.Steps))*pitch+gridRight, gridLeast)
	height := gridTop + len(rows)*pitch + 44
	s := &SVG{}
	s.Add(`<?xml version="1.0" encoding="UTF-8"?>`)
	s.Add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="title desc">`, width, height, width, height)
	s.Add(`<title id="title">%s</title>`, title)
	s.Add(`<desc id="desc">%s</desc>`, text)
	s.Raw("<style>" + mapStyle + "</style>\n")
	s.Add(`<rect class="bg" width="%d" height="%d"/>`, width, height)
	s.Add(`<text class="text" x="%d" y="26" font-size="16" font-weight="600">%s</text>`, mapMargin, short(title, 80))
	s.Add(`<text class="dim" x="%d" y="46">%s</text>`, mapMargin, short(text, 110))
	s.heading("All steps", 0)
	for i, step := range g.Steps {
		s.heading(step.Name, i+1)
	}
	s.Raw(`<g class="map">` + d.String())
	d.legend(s, height-16)
	s.Raw("</g>\n")
	s.Add(`</svg>`)
	return s.String()
}

// gridText describes in words what the picture of a grid shows.
func gridText(rows []api.GridHost, steps int) string {
	hosts := make([]Host, len(rows))
	for i := range rows {
		hosts[i].Outcome = rows[i].Outcome
	}
	parts := core.Map(Counts(hosts), func(c Count) string { return fmt.Sprintf("%d %s", c.Hosts, resultWord(c.Outcome)) })
	return counted(len(rows), "host") + ", " + counted(steps, "step") + ": " + strings.Join(parts, ", ")
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

func resultWord(o core.Outcome) string {
	if o == "" {
		return "without an outcome"
	}
	return word(o)
}

// heading writes the name of a step above its column.
func (s *SVG) heading(name string, column int) {
	s.Add(`<text class="text" transform="translate(%d %d) rotate(-50)">%s</text>`, gridLabel+column*pitch+pitch/2+4, gridTop-6, short(name, 26))
}

// gridPicture is the cells of a grid that is being drawn.
type gridPicture struct {
	SVG
	steps int
	at    string                // x of each letter of a row
	seen  map[core.Outcome]bool // outcomes that the cells have
}

func newGridPicture(rows []api.GridHost, steps int) *gridPicture {
	at := make([]string, 1+steps)
	for i := range at {
		at[i] = fmt.Sprint(gridLabel + i*pitch + pitch/2)
	}
	d := &gridPicture{steps: steps, at: strings.Join(at, " "), seen: map[core.Outcome]bool{}}
	d.Grow(len(rows) * (320 + 5*steps))
	return d
}

// row draws a host: its name, its outcome and a letter a step. Equal cells side by side share a
// shape, which keeps the picture of a large run small.
func (d *gridPicture) row(h *api.GridHost, y int) {
	cells := make([]core.Outcome, 1+d.steps)
	cells[0] = h.Outcome
	for i := range min(len(h.Cells), d.steps) {
		cells[1+i] = lettered[h.Cells[i]]
	}
	d.Add(`<g><title>%s</title>`, h.Host+": "+resultWord(h.Outcome))
	d.Add(`<text x="%d" y="%d">%s</text>`, mapMargin, y+pitch/2+4, short(h.Host, 30))
	letters := make([]byte, len(cells))
	for i := 0; i < len(cells); {
		o, end := cells[i], i
		for end < len(cells) && cells[end] == o && (end != 1 || i == 1) { // the outcome stands alone
			letters[end] = o.Letter()
			end++
		}
		d.seen[o] = true
		if o != "" {
			d.Add(`<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="2"/>`, classOf(o), gridLabel+i*pitch+1, y+1, (end-i)*pitch-2, pitch-2)
		}
		i = end
	}
	d.Add(`<text x="%s" y="%d" font-size="11" text-anchor="middle">%s</text></g>`, d.at, y+pitch/2+4, string(letters))
}

// legend explains the letters of the cells.
func (d *gridPicture) legend(s *SVG, y int) {
	x := mapMargin
	for _, o := range worstFirst {
		if !d.seen[o] {
			continue
		}
		text := word(o)
		if o == "" {
			text = "no result"
		}
		x = s.key(o, string(o.Letter()), text, x, y)
	}
}
