package runview

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
)

const (
	redrawEvery = 100 * time.Millisecond
	plainEvery  = 10 * time.Second
	plainAgain  = 10 * time.Minute // for a line that says nothing new
	slowRows    = 3
	slowAfter   = 2 * time.Second // a job that runs longer is worth a line
)

// progressView shows tallies while they change: redrawn in place on a terminal,
// a line now and then elsewhere.
type progressView struct {
	con     *console.Console
	tallies []*Tally
	moving  *console.Moving

	// Of the plain form: a run that waits for days says the same now and then, not every 10 s.
	said   []string // the last line of each tally
	saidAt []time.Time
}

// ShowProgress starts the view; the function returned ends it, joins it and may be called twice.
func ShowProgress(con *console.Console, tallies ...*Tally) (stop func()) {
	v := &progressView{con: con, tallies: tallies, moving: con.NewMoving(), said: make([]string, len(tallies)), saidAt: make([]time.Time, len(tallies))}
	every := plainEvery
	if con.Live {
		every = redrawEvery
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				v.show()
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		wg.Wait()
		v.moving.Close()
	})
}

func (v *progressView) show() {
	if !v.con.Live {
		v.showPlain()
		return
	}
	width := v.moving.Width()
	var lines []string
	for _, t := range v.tallies {
		lines = append(lines, liveLines(v.con, t.snapshot(slowRows), width)...)
	}
	v.moving.Draw(lines)
}

func (v *progressView) showPlain() {
	for i, t := range v.tallies {
		p := t.snapshot(1)
		line := plainLine(p)
		if p.done == p.total || line == v.said[i] && time.Since(v.saidAt[i]) < plainAgain {
			continue
		}
		if v.moving.Line(line) {
			v.said[i], v.saidAt[i] = line, time.Now()
		}
	}
}

func plainLine(p progress) string {
	s := fmt.Sprintf("%s: %d/%d hosts done, %d running, %d failed, %d unreachable, %.0f/s", p.name, p.done, p.total, p.running,
		badCount(p.outcomes), p.outcomes[core.Unreachable], p.rate)
	if p.eta > 0 {
		s += ", about " + console.Short(p.eta.Round(time.Second)) + " left"
	}
	if len(p.slowest) > 0 && time.Since(p.slowest[0].since) > slowAfter {
		s += fmt.Sprintf(", slowest %s (%s)", p.slowest[0].host, console.Short(time.Since(p.slowest[0].since)))
	}
	if p.note != "" {
		s += " - " + p.note
	}
	if p.retrying > 0 {
		s += fmt.Sprintf(" - %d to be tried again: %s", p.retrying, retryText(p.retryWhy))
	}
	if p.waiting > 0 {
		s += fmt.Sprintf(" - %d waiting for windows%s", p.waiting, p.opening)
	}
	return s
}

// retryText is the reason of a retry on one line of the progress.
func retryText(why string) string {
	return console.CutText(console.Printable(console.FirstLine(why)), 200)
}

func badCount(outcomes map[core.Outcome]int) int {
	return outcomes[core.Failed] + outcomes[core.RolledBack] + outcomes[core.Lost]
}

const barWidth = 24

// bar shows how far p is. It leaves a narrow terminal to the figures, which say the same.
func bar(con *console.Console, p progress, width int) string {
	if width < 3*barWidth {
		return ""
	}
	full := 0
	if p.total > 0 {
		full = barWidth * p.done / p.total
	}
	return con.Paint(console.Green, strings.Repeat("━", full)) + con.Paint(console.Faint, strings.Repeat("─", barWidth-full)) + " "
}

// liveLines draws one run for a terminal of width columns: a bar, what was and is, and its slowest hosts.
func liveLines(con *console.Console, p progress, width int) []string {
	line := fmt.Sprintf("%s %s%d/%d", con.Paint(console.Bold, p.name), bar(con, p, width), p.done, p.total)
	if p.running > 0 {
		line += fmt.Sprintf("  %d running", p.running)
	}
	if p.waiting > 0 {
		line += fmt.Sprintf("  %d waiting", p.waiting)
	}
	if n := badCount(p.outcomes); n > 0 {
		line += "  " + con.Paint(console.Red, fmt.Sprintf("%d failed", n))
	}
	if n := p.outcomes[core.Unreachable]; n > 0 {
		line += "  " + con.Paint(console.Red, fmt.Sprintf("%d unreachable", n))
	}
	if p.done < p.total {
		line += fmt.Sprintf("  %.0f/s", p.rate)
		if p.eta > 0 {
			line += "  ETA " + console.Short(p.eta.Round(time.Second))
		}
	} else {
		line += "  " + console.Short(p.elapsed)
	}
	lines := []string{line}
	if p.note != "" {
		lines = append(lines, "  "+con.Paint(console.Cyan, p.note))
	}
	if p.retrying > 0 {
		lines = append(lines, "  "+con.Paint(console.Cyan, fmt.Sprintf("%d to be tried again: %s", p.retrying, retryText(p.retryWhy))))
	}
	if p.waiting > 0 && p.opening != "" {
		lines = append(lines, "  "+con.Paint(console.Cyan, "waiting for windows"+p.opening))
	}
	for _, j := range p.slowest {
		if took := time.Since(j.since); took > slowAfter {
			lines = append(lines, con.Paint(console.Faint, fmt.Sprintf("  %s  %s  %s", console.Short(took.Round(100*time.Millisecond)), j.host, console.Printable(j.step))))
		}
	}
	return lines
}
