package pictures

import (
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// Sizes of the picture of shares over time, in pixels.
const (
	historyLabel = 180
	historyHour  = 20 // width of an hour
	historyRow   = 44 // height of a tenant
	historyBar   = 34 // of the highest bar
	historyWidth = historyLabel + 24*historyHour + 160
)

// MostHistory is how many tenants the picture of shares over time has.
const MostHistory = 20

// ShareHistory draws the worker time of each tenant, a bar an hour, and its fair share of the hour
// as a line across the bar. All bars have one scale.
func ShareHistory(h *api.ShareHistory) Block {
	list := h.Tenants[:min(len(h.Tenants), MostHistory)]
	most := core.Seconds(1)
	for i := range list {
		for _, hour := range list[i].Hours {
			most = max(most, hour.Used, hour.Fair)
		}
	}
	s := &SVG{}
	for i := range list {
		s.historyRow(&list[i], h.From, i*historyRow, most)
	}
	bottom := len(list) * historyRow
	for n := 0; n <= 24; n += 6 {
		at := h.From.Add(time.Duration(n) * time.Hour).UTC()
		s.Add(`<text class="dim" x="%d" y="%d" text-anchor="middle">%s</text>`, historyLabel+n*historyHour, bottom+16, at.Format("15:04"))
	}
	return block(s, historyWidth, bottom+24, "Worker time of each tenant by hour, and its fair share")
}

func (s *SVG) historyRow(t *api.TenantHours, from time.Time, top int, most core.Seconds) {
	name, base := Tenant(t.Tenant), top+historyRow-4
	s.Add(`<text x="0" y="%d">%s</text>`, base-8, short(name, 26))
	s.Add(`<line class="c-tick" x1="%d" y1="%d" x2="%d" y2="%d"/>`, historyLabel, base, historyLabel+24*historyHour, base)
	for n, hour := range t.Hours {
		if hour.Used == 0 && hour.Fair == 0 {
			continue
		}
		x := historyLabel + n*historyHour
		at := from.Add(time.Duration(n) * time.Hour).UTC()
		s.Add(`<g><title>%s</title>`, fmt.Sprintf("%s, %s: %s of worker time, fair share %s", name, at.Format("Mon 15:04 MST"), Worked(hour.Used), Worked(hour.Fair)))
		height := max(historyBar*float64(hour.Used/most), 1)
		s.Add(`<rect class="c-run" x="%d" y="%.1f" width="%d" height="%.1f"/>`, x+2, float64(base)-height, historyHour-4, height)
		y := float64(base) - historyBar*float64(hour.Fair/most)
		s.Add(`<line class="c-clock" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/></g>`, x, y, x+historyHour, y)
	}
	s.Add(`<text class="dim" x="%d" y="%d">%s</text>`, historyLabel+24*historyHour+8, base-8, fmt.Sprintf("%s of %s", Worked(t.Used), Worked(t.Fair)))
}

// Worked is worker time for people: in hours, minutes or seconds.
func Worked(t core.Seconds) string {
	switch {
	case t >= 3600:
		return fmt.Sprintf("%.1f h", float64(t)/3600)
	case t >= 60:
		return fmt.Sprintf("%.1f min", float64(t)/60)
	}
	return fmt.Sprintf("%.1f s", float64(t))
}

// ShareHistoryNote explains the picture of shares over time.
const ShareHistoryNote = "A bar is the worker time of host tasks that ended in the hour, in UTC. The line is the fair share: the time of all tenants, by weight among those that used any. " +
	"A tenant below its line waited, or had less to do."

// ShareHistoryDocument draws shares over time as one self-contained picture.
func ShareHistoryDocument(h *api.ShareHistory) string {
	return sharesDocument(ShareHistory(h), "Worker time by tenant, 24 hours until "+utc(h.At),
		"Bar: worker time of host tasks that ended in the hour. Line: fair share by weight.")
}

// sharesDocument puts a block with a title and a note into one self-contained picture.
func sharesDocument(b Block, title, note string) string {
	width, height := b.Width+2*mapMargin, b.Height+40+calLegend+mapMargin
	s := &SVG{}
	s.Add(`<?xml version="1.0" encoding="UTF-8"?>`)
	s.Add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">`, width, height, width, height)
	s.Add(`<title>%s</title>`, title)
	s.Raw("<style>" + mapStyle + calendarStyle + "</style>\n")
	s.Add(`<rect class="bg" width="%d" height="%d"/>`, width, height)
	s.Add(`<text class="text" x="%d" y="26" font-size="16" font-weight="600">%s</text>`, mapMargin, title)
	s.Add(`<g transform="translate(%d 40)">`, mapMargin)
	s.Raw(b.Markup + "</g>\n")
	s.Add(`<text class="dim" x="%d" y="%d">%s</text>`, mapMargin, height-mapMargin, note)
	s.Add(`</svg>`)
	return s.String()
}
