package pictures

import (
	"fmt"

	"github.com/turnus/turnus/core/api"
)

// densities are the rows of a calendar of many lanes.
var densities = []struct {
	class, name string
	of          func(*api.CalendarCount) int
}{
	{"c-bad", "conflict", func(c *api.CalendarCount) int { return c.Conflicts }},
	{"c-deny", "freeze or other deny", func(c *api.CalendarCount) int { return c.Denied }},
	{"c-held", "window not approved", func(c *api.CalendarCount) int { return c.Unapproved }},
	{"c-open", "open window", func(c *api.CalendarCount) int { return c.Open }},
	{"c-fire", "launch by a schedule", func(c *api.CalendarCount) int { return c.FireTimes }},
	{"c-run", "run", func(c *api.CalendarCount) int { return c.Runs }},
}

// density draws how many lanes have something, the more the higher.
func (d *calendar) density() {
	for i, row := range densities {
		bottom, most := calHead+(i+1)*calLane, 1
		for j := range d.Density {
			most = max(most, row.of(&d.Density[j]))
		}
		d.Add(`<line class="c-tick" x1="0" y1="%d" x2="%d" y2="%d"/><text x="0" y="%d">%s</text>`, bottom, calWidth, bottom, bottom-18, row.name)
		d.Add(`<text class="dim" x="0" y="%d" font-size="10">%s</text>`, bottom-5, fmt.Sprintf("at most %d of %d lanes", most, len(d.Lanes)))
		for j := range d.Density {
			part := &d.Density[j]
			n := row.of(part)
			if n == 0 {
				continue
			}
			x, height := d.x(part.From), max(n*(calLane-4)/most, 2)
			d.Add(`<g><title>%s</title>`, fmt.Sprintf("%s: %d of %d lanes, %s to %s", row.name, n, len(d.Lanes), utc(part.From), utc(part.To)))
			fill := ""
			if row.class == "c-held" {
				fill = ` fill="url(#c-hatch)"`
			}
			d.Raw(`<rect` + fill)
			d.Add(` class="%s" x="%.1f" y="%d" width="%.1f" height="%d"/></g>`, row.class, x, bottom-height, max(d.x(part.To)-x-0.5, 1), height)
		}
	}
}
