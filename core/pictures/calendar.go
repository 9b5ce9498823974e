package pictures

import (
	"cmp"
	"fmt"
	"time"

	"github.com/turnus/turnus/core/api"
)

// CalendarLook is how a calendar is drawn.
type CalendarLook struct {
	Zone *time.Location // of the upper axis
	// Links returns where a click on a lane, schedule or run leads; nil: nowhere.
	Links func(kind, name string) string
}

// Kinds of CalendarLook.Links.
const (
	LinkSet      = "set"
	LinkSchedule = "schedule"
	LinkRun      = "run"
)

// Sizes of a calendar in pixels.
const (
	calLabel  = 230 // of the names of lanes
	calPlot   = 920
	calAxis   = 18 // height of an axis
	calHead   = 3 * calAxis
	calLane   = 32
	calWidth  = calLabel + calPlot + 10
	calLegend = 30
)

// calendar draws a calendar.
type calendar struct {
	SVG
	*api.Calendar
	CalendarLook
	height int
}

// Calendar draws a calendar: a lane for each customer and window set, below an axis of local time
// and one of UTC. Of too many lanes it draws how many of them have something, by time.
func Calendar(c *api.Calendar, look CalendarLook) Block {
	d := &calendar{Calendar: c, CalendarLook: look}
	d.Zone = cmp.Or(d.Zone, time.UTC)
	if d.Links == nil {
		d.Links = func(string, string) string { return "" }
	}
	rows := len(c.Lanes)
	if len(c.Density) > 0 {
		rows = len(densities)
	}
	d.height = calHead + rows*calLane
	d.axes()
	if len(c.Density) > 0 {
		d.density()
	} else {
		for i := range c.Lanes {
			d.lane(&c.Lanes[i], calHead+i*calLane)
		}
	}
	d.marks()
	s := &SVG{}
	s.Add(`<svg xmlns="http://www.w3.org/2000/svg" class="map cal" width="%d" height="%d" viewBox="0 0 %d %d" role="group" aria-label="%s">`,
		calWidth, d.height, calWidth, d.height, fmt.Sprintf("Calendar of %d lanes, %s to %s", len(c.Lanes), utc(c.From), utc(c.To)))
	s.Raw(hatch)
	s.Raw(d.String())
	s.Raw("</svg>")
	return Block{s.String(), calWidth, d.height}
}

// hatch fills windows that nobody approved.
const hatch = `<defs><pattern id="c-hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="c-hatch" width="3" height="6"/></pattern></defs>
`

// x is where a time is, at the edge where it is outside of the range.
func (d *calendar) x(t time.Time) float64 {
	share := float64(t.Sub(d.From)) / float64(d.To.Sub(d.From))
	return calLabel + calPlot*min(max(share, 0), 1)
}

// seen reports whether a time from one moment to another one is in the range.
func (d *calendar) seen(from, to time.Time) bool { return from.Before(d.To) && !to.Before(d.From) }

// axes draws local time above UTC; of UTC alone one axis is enough.
func (d *calendar) axes() {
	zones := []*time.Location{d.Zone, time.UTC}
	if d.Zone.String() == "UTC" {
		zones = zones[1:]
	}
	for i, zone := range zones {
		y := (i+1)*calAxis - 5
		d.Add(`<text class="dim" x="0" y="%d">%s</text>`, y, short(zone.String(), 32))
		for _, at := range ticks(d.From, d.To, zone) {
			if d.x(at) < calWidth-50 { // else there is no room
				d.Add(`<text class="dim" x="%.1f" y="%d">%s</text>`, d.x(at)+2, y, tickText(at.In(zone), d.To.Sub(d.From)))
			}
			top := i * calAxis
			if i == 0 {
				d.Add(`<line class="c-tick" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, d.x(at), top, d.x(at), d.height)
			} else {
				d.Add(`<line class="c-tick" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, d.x(at), top+4, d.x(at), top+calAxis)
			}
		}
	}
}

const day = 24 * time.Hour

// ticks are the moments that an axis names: hours of up to two days, else days that begin.
func ticks(from, to time.Time, zone *time.Location) []time.Time {
	year, month, date := from.In(zone).Date()
	at := func(k int) time.Time { return time.Date(year, month, date+k, 0, 0, 0, 0, zone) }
	switch length := to.Sub(from); {
	case length <= 2*day+time.Hour:
		at = func(k int) time.Time { return time.Date(year, month, date, 6*k, 0, 0, 0, zone) }
	case length > 32*day:
		at = func(k int) time.Time { return time.Date(year, month, date+7*k, 0, 0, 0, 0, zone) }
	case length > 16*day:
		at = func(k int) time.Time { return time.Date(year, month, date+2*k, 0, 0, 0, 0, zone) }
	}
	var out []time.Time
	for k := 0; at(k).Before(to); k++ {
		if !at(k).Before(from) {
			out = append(out, at(k))
		}
	}
	return out
}

func tickText(at time.Time, length time.Duration) string {
	switch {
	case length <= 2*day+time.Hour && at.Hour() != 0:
		return at.Format("15:04")
	case length <= 8*day:
		return at.Format("Mon 2 Jan")
	}
	return at.Format("2 Jan")
}

// marks draws now, and where clocks change on the upper axis.
func (d *calendar) marks() {
	for _, z := range d.Zones {
		for _, c := range z.Changes {
			if z.Name != d.Zone.String() {
				continue
			}
			d.Add(`<g><title>%s</title>`, fmt.Sprintf("%s: clocks go from %s to %s, %s", z.Name, c.Before, c.After, utc(c.At)))
			d.Add(`<line class="c-clock" x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke-dasharray="4 3"/>`, d.x(c.At), 2*calAxis, d.x(c.At), d.height)
			d.Add(`<text class="c-mark" x="%.1f" y="%d" font-size="11">%s</text></g>`, d.x(c.At)+2, calHead-5, c.Before+"→"+c.After)
		}
	}
	if d.seen(d.At, d.At) {
		d.Add(`<line class="c-now" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, d.x(d.At), 2*calAxis, d.x(d.At), d.height)
		d.Add(`<text class="c-mark" x="%.1f" y="%d" font-size="11" text-anchor="end">now</text>`, d.x(d.At)-2, calHead-5)
	}
}

// lane draws what a lane has: denies behind all, then windows, below them fire times and runs, and
// above all conflicts.
func (d *calendar) lane(l *api.CalendarLane, y int) {
	d.Add(`<line class="c-tick" x1="0" y1="%d" x2="%d" y2="%d"/>`, y+calLane, calWidth, y+calLane)
	end := d.link(d.Links(LinkSet, l.Set), laneTitle(l))
	d.Add(`<text x="0" y="%d">%s</text>`, y+13, short(laneName(l), 36))
	d.Raw(end)
	d.Add(`<text class="dim" x="0" y="%d" font-size="10">%s</text>`, y+27, short(laneDetail(l), 40))
	for i := range l.Denied {
		n := &l.Denied[i]
		d.bar(n.From, n.To, y+1, calLane-2, "c-deny", deniedLetter(n.Kind), deniedText(n)+", "+n.FromLocal+" to "+n.ToLocal)
	}
	for i := range l.Windows {
		w := &l.Windows[i]
		class, letter := "c-open", "W"
		if w.Unapproved != "" {
			class, letter = "c-held", "?"
		}
		d.bar(w.Open, w.Close, y+3, 14, class, letter, windowText(w)+", "+w.OpenLocal+" to "+w.CloseLocal)
	}
	for i := range l.Runs {
		d.run(&l.Runs[i], y+20)
	}
	for i := range l.FireTimes {
		f := &l.FireTimes[i]
		end := d.link(d.Links(LinkSchedule, f.Schedule), fireText(f)+", "+f.Local)
		x := d.x(f.At)
		d.Add(`<path class="c-fire" d="M%.1f %d l4 8 h-8 z"/>`, x, y+20)
		d.Raw(end)
	}
	for _, c := range l.Conflicts {
		if d.seen(c.At, c.At) {
			d.Add(`<g><title>%s</title>`, c.Text+", "+c.Local)
			d.Add(`<circle class="c-bad" cx="%.1f" cy="%d" r="6"/><text class="c-sign" x="%.1f" y="%d" font-size="10" text-anchor="middle">!</text></g>`, d.x(c.At), y+10, d.x(c.At), y+14)
		}
	}
}

func setName(set string) string {
	if set == "" {
		return "no window needed"
	}
	return set
}

// laneName is the customer and the window set. Those of files have no customer.
func laneName(l *api.CalendarLane) string {
	if l.Tenant == "" {
		return setName(l.Set)
	}
	return l.Tenant + " / " + setName(l.Set)
}

func laneDetail(l *api.CalendarLane) string {
	switch l.Hosts {
	case 0:
		return l.Timezone
	case 1:
		return "1 host, " + l.Timezone
	}
	return fmt.Sprintf("%d hosts, %s", l.Hosts, l.Timezone)
}

func laneTitle(l *api.CalendarLane) string {
	text := laneName(l) + ": " + laneDetail(l)
	if l.Reason != "" {
		text += "; closed: " + l.Reason
	}
	if l.LeftOut > 0 {
		text += fmt.Sprintf("; at least %d entries are left out", l.LeftOut)
	}
	return text
}

func deniedLetter(kind string) string {
	switch kind {
	case "freeze":
		return "F"
	case "holidays":
		return "H"
	}
	return "D"
}

// bar draws a time as a rectangle, with its letter where there is room.
func (d *calendar) bar(from, to time.Time, y, height int, class, letter, title string) {
	if !d.seen(from, to) {
		return
	}
	x := d.x(from)
	width := max(d.x(to)-x, 1.5)
	d.Add(`<g><title>%s</title>`, title)
	if class == "c-held" {
		d.Add(`<rect class="c-held" fill="url(#c-hatch)" x="%.1f" y="%d" width="%.1f" height="%d"/>`, x, y, width, height)
	} else {
		d.Add(`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"/>`, class, x, y, width, height)
	}
	switch {
	case class == "c-deny" && width >= 30: // beside the sign of a conflict at its begin
		d.Add(`<text x="%.1f" y="%d" font-size="10">%s</text>`, x+12, y+11, letter)
	case width >= 10:
		d.Add(`<text x="%.1f" y="%d" font-size="10">%s</text>`, x+2, y+11, letter)
	}
	d.Raw("</g>\n")
}

// run draws a run until its P50 end, and its tail until the P90 end.
func (d *calendar) run(r *api.CalendarRun, y int) {
	end := r.FinishP90
	if end.IsZero() {
		end = d.At
	}
	if !d.seen(r.Begin, end) {
		return
	}
	kind, name, class, title := LinkRun, r.Run, "c-run", "run "+r.Run+": "
	if r.Run == "" {
		kind, name, class, title = LinkSchedule, r.Schedule, "c-run c-plan", ""
	}
	done := d.link(d.Links(kind, name), title+runText(r))
	from, middle := d.x(r.Begin), d.x(r.FinishP50)
	if r.FinishP90.IsZero() {
		middle = d.x(d.At)
	}
	d.Add(`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="7" rx="3"/>`, class, from, y, max(middle-from, 2))
	if late := d.x(end); late > middle {
		d.Add(`<rect class="c-tail" x="%.1f" y="%d" width="%.1f" height="7" stroke-dasharray="2 2"/>`, middle, y, late-middle)
	}
	d.Raw(done)
}
