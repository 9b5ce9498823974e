package planview

import (
	"fmt"
	"strings"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/pictures"
)

// Sizes of the picture, in pixels.
const (
	svgLabel  = 190
	svgPlot   = 780
	svgRow    = 24
	svgTop    = 92
	svgBottom = 64
	svgBins   = 195 // of load: four pixels each
)

// svgStyle is all the picture needs: it loads nothing, and follows the reader's colour scheme.
const svgStyle = `
  svg{font:12px system-ui,sans-serif}
  .bg{fill:#fff}.text{fill:#1b1f24}.dim{fill:#57606a}.grid{stroke:#d0d7de}.band{fill:#f6f8fa}
  .open{fill:#b6d8f5}.denied{fill:url(#hatch)}.hatch{stroke:#c2410c}.load{fill:#1a7f37}.p50{stroke:#1b1f24}.p90{stroke:#1b1f24;stroke-dasharray:4 3}
  @media (prefers-color-scheme:dark){
  .bg{fill:#0d1117}.text{fill:#e6edf3}.dim{fill:#9aa4af}.grid{stroke:#30363d}.band{fill:#161b22}
  .open{fill:#1f4b73}.hatch{stroke:#f0883e}.load{fill:#3fb950}.p50,.p90{stroke:#e6edf3}}
`

// svg builds a picture; all text passes through escaping.
type svg struct{ pictures.SVG }

func writePlanSVG(con *console.Console, d *View) error {
	return con.Out.Picture(d.svg())
}

// svg draws the chart as one self-contained document.
func (d *View) svg() string {
	c := d.chart(maxSVGRows, svgBins)
	height := svgTop + len(c.rows)*svgRow + svgBottom
	width := svgLabel + svgPlot + 20
	title := "Forecast of " + d.launch.Playbook.Name
	s := &svg{}
	s.Add(`<?xml version="1.0" encoding="UTF-8"?>`)
	s.Add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="title desc">`, width, height, width, height)
	s.Add(`<title id="title">%s</title>`, title)
	s.Add(`<desc id="desc">%s</desc>`, d.sentence()+". "+c.describe())
	s.Raw("<style>" + svgStyle + "</style>\n")
	s.Add(`<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="6" stroke-width="2"/></pattern></defs>`)
	s.Add(`<rect class="bg" width="%d" height="%d"/>`, width, height)
	s.Add(`<text class="text" x="12" y="24" font-size="16" font-weight="600">%s</text>`, title)
	s.Add(`<text class="dim" x="12" y="44">%s</text>`, d.sentence())
	s.grid(c)
	for i, r := range c.rows {
		s.row(c, r, svgTop+i*svgRow, i%2 == 0)
	}
	s.ends(d, c)
	s.legend(c, svgTop+len(c.rows)*svgRow+24)
	s.Add(`</svg>`)
	return s.String()
}

// sentence is the forecast in one.
func (d *View) sentence() string {
	r := d.result
	hosts := core.Plural(len(d.launch.Hosts), "host")
	if n := len(d.launch.NoWindow); n > 0 {
		hosts += fmt.Sprintf(", %d more fit no window", n)
	}
	if r.FinishP50.IsZero() {
		return hosts + "; estimate: none finds a window in which it is done"
	}
	zone := d.commonZone()
	const layout = "Mon 2006-01-02 15:04 MST"
	return fmt.Sprintf("%s; estimate: %s %s (P50), %s (P90); what binds: %s", hosts, d.whoIsDone(),
		r.FinishP50.In(zone).Format(layout), r.FinishP90.In(zone).Format(layout), r.Binding.Cause.Text(r.Binding.Name))
}

// describe returns the picture in words, for people who do not see it.
func (c *chart) describe() string {
	return fmt.Sprintf("%s from %s to %s: open windows, times that a freeze, a holiday or a deny forbids, and how many hosts work, %.2g at most in the mean of a column.",
		core.Plural(len(c.rows), "row"), console.UTC(c.from), console.UTC(c.to), c.peak)
}

func (c *chart) x(s forecast.Span) (x, width float64) {
	lo := min(max(c.place(s.From, svgPlot), 0), svgPlot)
	hi := min(max(c.place(s.To, svgPlot), 0), svgPlot)
	return svgLabel + lo, max(hi-lo, 0.5)
}

func (s *svg) grid(c *chart) {
	bottom := svgTop + len(c.rows)*svgRow
	for _, t := range c.ticks(9) {
		x := svgLabel + c.place(t.at, svgPlot)
		s.Add(`<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, x, svgTop-8, x, bottom)
		s.Add(`<text class="dim" x="%.1f" y="%d" font-size="11">%s</text>`, x+3, svgTop-14, t.label)
	}
}

func (s *svg) row(c *chart, r chartRow, y int, band bool) {
	label := []rune(r.label)
	if len(label) > 26 {
		label = append(label[:25], '…')
	}
	if band {
		s.Add(`<rect class="band" x="%d" y="%d" width="%d" height="%d" fill-opacity="0.6"/>`, 0, y, svgLabel+svgPlot+20, svgRow)
	}
	s.Add(`<g><title>%s</title>`, fmt.Sprintf("%s: %s", r.label, core.Plural(r.hosts, "host")))
	s.Add(`<text class="text" x="12" y="%d">%s</text>`, y+16, string(label))
	for _, w := range r.open {
		x, width := c.x(w)
		s.Add(`<rect class="open" x="%.1f" y="%d" width="%.1f" height="%d"/>`, x, y+3, width, svgRow-6)
	}
	for _, w := range r.denied {
		x, width := c.x(w.Span)
		s.Add(`<rect class="denied" x="%.1f" y="%d" width="%.1f" height="%d"><title>%s</title></rect>`, x, y+3, width, svgRow-6, w.by)
	}
	for i, load := range c.load(r, svgBins) {
		if load <= 0 || c.peak <= 0 {
			continue
		}
		const bin = float64(svgPlot) / svgBins
		h := max(load/c.peak*(svgRow-6), 2)
		s.Add(`<rect class="load" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, svgLabel+float64(i)*bin, float64(y+svgRow-3)-h, bin, h)
	}
	s.Add(`</g>`)
}

// ends marks P50 and P90.
func (s *svg) ends(d *View, c *chart) {
	r := d.result
	if r.FinishP50.IsZero() {
		return
	}
	bottom := svgTop + len(c.rows)*svgRow
	for _, m := range []struct {
		class string
		x     float64
	}{{"p50", c.place(r.FinishP50, svgPlot)}, {"p90", c.place(r.FinishP90, svgPlot)}} {
		s.Add(`<line class="%s" x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke-width="1.5"/>`, m.class, svgLabel+m.x, svgTop-8, svgLabel+m.x, bottom+4)
	}
}

func (s *svg) legend(c *chart, y int) {
	x := 12
	item := func(shape, text string) {
		s.Raw(shape)
		s.Add(`<text class="dim" x="%d" y="%d">%s</text>`, x+24, y+10, text)
		x += 32 + 7*len(text)
	}
	for _, box := range [][2]string{{"load", fmt.Sprintf("hosts at work, full height: %.2g in the mean", c.peak)}, {"open", "window"}, {"denied", "freeze, holiday, deny"}} {
		item(fmt.Sprintf(`<rect class="%s" x="%d" y="%d" width="18" height="12"/>`, box[0], x, y), box[1])
	}
	for _, line := range []string{"p50", "p90"} {
		item(fmt.Sprintf(`<line class="%s" x1="%d" y1="%d" x2="%d" y2="%d" stroke-width="1.5"/>`, line, x+9, y-1, x+9, y+13), "end, "+strings.ToUpper(line))
	}
	note := "times are " + c.zone.String()
	if c.more > 0 {
		note += fmt.Sprintf("; %d rows with fewer hosts are left out", c.more)
	}
	s.Add(`<text class="dim" x="12" y="%d" font-size="11">%s</text>`, y+30, note)
}
