package pictures

import (
	"fmt"

	"github.com/turnus/turnus/core/api"
)

// calendarStyle is the style of a document beside mapStyle. Pages have the same in their style
// sheet.
const calendarStyle = `
  .map .dim{fill:#5a6570}.c-tick{stroke:#c9d0d6;stroke-width:.5}.c-open{fill:#8fd3a7}.c-held{stroke:#8a5a00}.c-hatch{fill:#f6c26b}.c-deny{fill:#f2c1bd}
  .c-run{fill:#0b57a4}.c-plan{fill-opacity:.4}.c-tail{fill:none;stroke:#0b57a4;stroke-width:1.5}.c-fire{fill:#1c2126}.c-bad{fill:#b3261e}.map .c-sign{fill:#fff}
  .c-clock{stroke:#8a5a00;stroke-width:1.5}.c-now{stroke:#0b57a4;stroke-width:1.5}
  @media (prefers-color-scheme:dark){
  .map .dim{fill:#9aa5b0}.c-tick{stroke:#3a424a}.c-open{fill:#1f6b3d}.c-held{stroke:#f0b75c}.c-hatch{fill:#7d5200}.c-deny{fill:#5e2622}
  .c-run{fill:#7fb8f2}.c-tail{stroke:#7fb8f2}.c-fire{fill:#e4e8ec}.c-bad{fill:#ff8a80}.map .c-sign{fill:#15181c}
  .c-clock{stroke:#f0b75c}.c-now{stroke:#7fb8f2}}
`

// CalendarLegend explains the shapes of a calendar.
const CalendarLegend = "W: window. ? and hatched: not approved. F, H, D: freeze, holidays, other deny. Triangle: a schedule launches. " +
	"Bar: run until its P50 end, dashed until P90; pale: planned. !: conflict."

// CalendarDocument draws a calendar as one self-contained picture.
func CalendarDocument(c *api.Calendar, look CalendarLook) string {
	block := Calendar(c, look)
	width, height := calWidth+2*mapMargin, block.Height+40+calLegend+mapMargin
	s := &SVG{}
	s.Add(`<?xml version="1.0" encoding="UTF-8"?>`)
	s.Add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">`, width, height, width, height)
	title := fmt.Sprintf("Calendar, %s to %s", utc(c.From), utc(c.To))
	s.Add(`<title>%s</title>`, title)
	s.Raw("<style>" + mapStyle + calendarStyle + "</style>\n")
	s.Add(`<rect class="bg" width="%d" height="%d"/>`, width, height)
	s.Add(`<text class="text" x="%d" y="26" font-size="16" font-weight="600">%s</text>`, mapMargin, title)
	s.Add(`<g transform="translate(%d 40)">`, mapMargin)
	s.Raw(block.Markup + "</g>\n")
	s.Add(`<text class="dim" x="%d" y="%d">%s</text>`, mapMargin, height-mapMargin, CalendarLegend)
	s.Add(`</svg>`)
	return s.String()
}
