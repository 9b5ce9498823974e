package pictures

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// Sizes of the picture of a run in pixels.
const (
	runWidth  = 1180
	runLabel  = 190 // left of the plot
	runPlot   = runWidth - runLabel - 20
	runTop    = 84
	runCurve  = 200 // height
	runLane   = 22
	runLanes  = 40 // of waves
	runTicks  = 9
	runBottom = 56
)

// runStyle is all that the document needs: it loads nothing, and follows the reader's colours.
const runStyle = `
  svg{font:12px system-ui,sans-serif}
  .bg{fill:#fff}.text{fill:#1c2126}.dim{fill:#5a6570}.grid{stroke:#d6dce1}.now{stroke:#0b57a4;stroke-dasharray:2 3}
  .band{fill:#cfe3f5}.launch{fill:none;stroke:#8a5a00;stroke-dasharray:3 2}.p50{stroke:#0b57a4;fill:none;stroke-dasharray:6 3;stroke-width:1.5}.done{stroke:#1b6e3c;fill:none;stroke-width:2}
  .bad{fill:#f3b8b3;stroke:#a32a22}.wave{fill:#8fd3a7;stroke:#1b6e3c}.ahead{fill:none;stroke:#5a6570;stroke-dasharray:4 3}.open{fill:#cfe3f5;stroke:#0b57a4}
  @media (prefers-color-scheme:dark){
  .bg{fill:#15181c}.text{fill:#e4e8ec}.dim{fill:#9aa5b0}.grid{stroke:#3a424a}.now{stroke:#7fb8f2}
  .band{fill:#1f3d58}.launch{stroke:#f0b75c}.p50{stroke:#7fb8f2}.done{stroke:#74d19a}
  .bad{fill:#6b2420;stroke:#f0958d}.wave{fill:#1f6b3d;stroke:#74d19a}.ahead{stroke:#9aa5b0}.open{fill:#1f3d58;stroke:#7fb8f2}}
`

// runPicture is a timeline that is being drawn.
type runPicture struct {
	SVG
	t    *api.Timeline
	from time.Time
	span time.Duration
	y    int
}

// RunDocument draws how a run went and how it is expected to continue, as one self-contained
// picture: hosts that are done in the band of the forecast, waves and windows. If the timeline has
// the hosts of a wave, it draws these alone.
func RunDocument(t *api.Timeline, title string) string {
	d := &runPicture{t: t, y: runTop + runCurve + 28}
	legend := [][2]string{{"done", "hosts done"}, {"p50", "expected, P50"}, {"band", "P50 to P90"}, {"launch", "the same at the launch"}, {"wave", "wave at work"}, {"ahead", "wave expected"}, {"open", "window"}}
	if t.OfWave != nil {
		t = zoomed(t)
		d.t, d.y = t, runTop+8
		legend = [][2]string{{"wave", "host that succeeded"}, {"bad", "host that did not succeed"}, {"open", "at work since"}, {"ahead", "expected, to P90"}}
		title += fmt.Sprintf(", wave %d", t.OfWave.Wave)
	}
	d.from, d.span = t.From, max(t.To.Sub(t.From), time.Second)
	d.span += d.span / 25 // room for the end
	if t.OfWave != nil {
		d.hosts()
	} else {
		d.curves()
		d.waves()
		d.windows()
	}
	height := d.y + runBottom
	s := &SVG{}
	s.Add(`<?xml version="1.0" encoding="UTF-8"?>`)
	s.Add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="title desc">`, runWidth, height, runWidth, height)
	s.Add(`<title id="title">%s</title>`, title)
	s.Add(`<desc id="desc">%s</desc>`, TimelineText(t))
	s.Raw("<style>" + runStyle + "</style>\n")
	s.Add(`<rect class="bg" width="%d" height="%d"/>`, runWidth, height)
	s.Add(`<text class="text" x="12" y="26" font-size="16" font-weight="600">%s</text>`, short(title, 120))
	s.Add(`<text class="dim" x="12" y="46">%s</text>`, short(TimelineText(t), 190))
	d.axis(s)
	s.Raw(d.String())
	d.legend(s, height-20, legend)
	s.Add(`</svg>`)
	return s.String()
}

// RunTitle is the title of the picture of a run.
func RunTitle(run *api.Run) string { return run.Playbook + ", " + string(run.Phase) }

// TimelineText describes what the picture of a run shows.
func TimelineText(t *api.Timeline) string {
	if of := t.OfWave; of != nil {
		open := 0
		for _, h := range of.Hosts {
			if h.Outcome == "" {
				open++
			}
		}
		return fmt.Sprintf("%d hosts of wave %d, those without an outcome first (%d), then those that took longest", len(of.Hosts), of.Wave, open)
	}
	done := 0
	if n := len(t.Done); n > 0 {
		done = t.Done[n-1].Hosts
	}
	text := fmt.Sprintf("%d of %d hosts done, %d waves, from %s to %s", done, t.Hosts, len(t.Waves), utc(t.From), utc(t.To))
	if n := len(t.P50); n > 0 {
		text += fmt.Sprintf("; the last of %d hosts is expected at %s (P50), %s (P90)", t.P50[n-1].Hosts, utc(t.P50[n-1].At), utc(t.P90[len(t.P90)-1].At))
	}
	if t.Expected != nil {
		text += "; at the launch the end was expected at " + utc(t.Expected.FinishP50) + " (P50), " + utc(t.Expected.FinishP90) + " (P90)"
	}
	return text
}

func (d *runPicture) x(at time.Time) float64 {
	share := float64(at.Sub(d.from)) / float64(d.span)
	return runLabel + min(max(share, 0), 1)*runPlot
}

// rises is the height of a number of hosts.
func (d *runPicture) rises(hosts int) float64 {
	return runTop + runCurve - float64(hosts)/float64(max(d.t.Hosts, 1))*runCurve
}

func (d *runPicture) line(points []api.TimelinePoint) string {
	parts := core.Map(points, func(p api.TimelinePoint) string { return fmt.Sprintf("%.1f,%.1f", d.x(p.At), d.rises(p.Hosts)) })
	return strings.Join(parts, " ")
}

// around is the points of the band between two curves.
func (d *runPicture) around(p50, p90 []api.TimelinePoint) string {
	back := slices.Clone(p90)
	slices.Reverse(back)
	return d.line(p50) + " " + d.line(back)
}

// curves draws hosts that are done in the band of those that are expected to be.
func (d *runPicture) curves() {
	if x := d.t.Expected; x != nil && len(x.P50) > 0 {
		d.Add(`<polygon class="launch" points="%s"><title>expected at the launch: %s (P50) to %s (P90)</title></polygon>`, d.around(x.P50, x.P90), utc(x.FinishP50), utc(x.FinishP90))
	}
	if len(d.t.P50) > 0 {
		d.Add(`<polygon class="band" points="%s"/>`, d.around(d.t.P50, d.t.P90))
		d.Add(`<polyline class="p50" points="%s"/>`, d.line(d.t.P50))
	}
	done := d.t.Done
	if n := len(done); n > 0 && done[n-1].Hosts < d.t.Hosts && d.t.Now.After(done[n-1].At) { // nothing since
		done = append(slices.Clone(done), api.TimelinePoint{At: d.t.Now, Hosts: done[n-1].Hosts})
	}
	d.Add(`<polyline class="done" points="%s"/>`, d.line(done))
	for _, share := range []int{0, 2} {
		hosts := d.t.Hosts * share / 2
		d.Add(`<text class="dim" x="%d" y="%.1f" text-anchor="end">%s</text>`, runLabel-8, d.rises(hosts)+4, fmt.Sprintf("%d hosts", hosts))
	}
}

// lane writes the label of a row and returns where its bars begin.
func (d *runPicture) lane(label string) (top int) {
	top = d.y
	d.y += runLane
	d.Add(`<text class="text" x="12" y="%d">%s</text>`, top+14, short(label, 27))
	return top + 3
}

func (d *runPicture) bar(class string, from, to time.Time, top int, says string) {
	x := d.x(from)
	d.Add(`<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d" rx="2"><title>%s</title></rect>`, class, x, top, max(d.x(to)-x, 1), runLane-6, says)
}

// waves draws a lane a wave: when its hosts were at work, and when the others are expected.
func (d *runPicture) waves() {
	for i, w := range d.t.Waves {
		if i == runLanes {
			d.lane(fmt.Sprintf("%d more waves", len(d.t.Waves)-runLanes))
			break
		}
		top := d.lane(fmt.Sprintf("wave %d: %d of %d done", w.Wave, w.Done, w.Hosts))
		if w.From.IsZero() {
			continue
		}
		to, says := w.To, fmt.Sprintf("wave %d: %s to %s", w.Wave, utc(w.From), utc(w.To))
		if w.Done < w.Hosts {
			d.bar("ahead", w.From, later(w.To, w.Late), top, says+" (P50), "+utc(w.Late)+" (P90)")
			to = d.t.Now
		}
		if to.After(w.From) && w.Done > 0 {
			d.bar("wave", w.From, to, top, says)
		}
	}
}

// windows draws a lane a window set.
func (d *runPicture) windows() {
	for _, set := range d.t.Windows {
		top := d.lane(fmt.Sprintf("%s: %d hosts", set.Set, set.Hosts))
		for _, w := range set.Windows {
			if w.To.After(d.from) {
				d.bar("open", w.From, w.To, top, fmt.Sprintf("window of %s: %s to %s", set.Set, utc(w.From), utc(w.To)))
			}
		}
	}
}

// zoomed returns a timeline from the first start of its hosts of a wave to their last end.
func zoomed(t *api.Timeline) *api.Timeline {
	near := *t
	near.From, near.To = time.Time{}, time.Time{}
	for _, h := range t.OfWave.Hosts {
		if near.From.IsZero() || !h.From.IsZero() && h.From.Before(near.From) {
			near.From = h.From
		}
		near.To = later(near.To, later(h.To, h.Late))
		if h.State == core.Leased {
			near.To = later(near.To, t.Now)
		}
	}
	if near.From.IsZero() { // none has a time
		near.From, near.To = t.From, t.To
	}
	return &near
}

// hosts draws a lane a host of a wave.
func (d *runPicture) hosts() {
	for _, h := range d.t.OfWave.Hosts {
		word, class := cmp.Or(string(h.Outcome), string(h.State), "no outcome"), "ahead"
		top := d.lane(short(h.Host, 25-len(word)) + ": " + word)
		if h.From.IsZero() {
			continue
		}
		says := fmt.Sprintf("%s: %s, %s to %s", h.Host, word, utc(h.From), utc(h.To))
		switch {
		case h.State == core.Leased && h.Outcome == "":
			says = fmt.Sprintf("%s: at work since %s", h.Host, utc(h.From))
			if !h.To.IsZero() {
				says += ", expected to " + utc(h.To) + " (P50), " + utc(h.Late) + " (P90)"
				d.bar(class, h.From, later(h.To, h.Late), top, says)
			}
			d.bar("open", h.From, d.t.Now, top, says)
			continue
		case h.Outcome == "":
			says += " (P50), " + utc(h.Late) + " (P90)"
		case h.Outcome.Good():
			class = "wave"
		default:
			class = "bad"
		}
		d.bar(class, h.From, later(h.To, h.Late), top, says)
	}
	if left := d.t.OfWave.Left; left > 0 {
		d.lane(fmt.Sprintf("%d more hosts", left))
	}
}

// axis draws times, and now.
func (d *runPicture) axis(s *SVG) {
	step := d.span / runTicks
	for _, round := range []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour} {
		if step = max(round, step); step == round {
			break
		}
	}
	layout := "15:04:05"
	if step >= time.Minute {
		layout = "02 Jan 15:04"
	}
	bottom := d.y
	for at := d.from.UTC().Truncate(step).Add(step); at.Before(d.from.Add(d.span)); at = at.Add(step) {
		s.Add(`<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, d.x(at), runTop-4, d.x(at), bottom)
		s.Add(`<text class="dim" x="%.1f" y="%d" font-size="11" text-anchor="middle">%s</text>`, d.x(at), runTop-10, at.Format(layout))
	}
	if now := d.t.Now; now.After(d.from) && now.Before(d.t.To) {
		s.Add(`<line class="now" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, d.x(now), runTop-4, d.x(now), bottom)
	}
}

func (d *runPicture) legend(s *SVG, y int, all [][2]string) {
	x := 12
	for _, one := range all {
		if one[0] == "done" || one[0] == "p50" {
			s.Add(`<line class="%s" x1="%d" y1="%d" x2="%d" y2="%d"/>`, one[0], x, y-4, x+18, y-4)
		} else {
			s.Add(`<rect class="%s" x="%d" y="%d" width="18" height="12"/>`, one[0], x, y-10)
		}
		s.Add(`<text class="dim" x="%d" y="%d">%s</text>`, x+24, y, one[1])
		x += 44 + 7*len(one[1])
	}
	s.Add(`<text class="dim" x="%d" y="%d" text-anchor="end">times are UTC</text>`, runWidth-12, y)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
