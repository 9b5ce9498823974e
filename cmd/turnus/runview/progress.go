package runview

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
)

const (
	redrawEvery = 200 * time.Millisecond // on a terminal
	plainEvery  = time.Second            // elsewhere: how often to look for a milestone
	plainAgain  = time.Minute            // for a line between milestones
)

// progressView shows tallies while they change: redrawn in place on a terminal, lines at milestones
// elsewhere, and failures only in a file.
type progressView struct {
	con     *console.Console
	tallies []*Tally
	moving  *console.Moving
	quit    func()
	state   view

	// Of the plain form, by tally.
	said  []milestone
	lines []string
	times []time.Time
}

// ShowProgress starts the view. quit is called when the operator presses q. The function returned
// ends the view, joins it, and may be called twice.
func ShowProgress(con *console.Console, quit func(), tallies ...*Tally) (stop func()) {
	v := &progressView{
		con: con, tallies: tallies, moving: con.NewMoving(), quit: quit,
		said: make([]milestone, len(tallies)), lines: make([]string, len(tallies)), times: make([]time.Time, len(tallies)),
	}
	for i := range v.times {
		v.times[i] = time.Now()
	}
	every := plainEvery
	if con.Live {
		every = redrawEvery
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer v.moving.Close()
		keys, stopKeys := con.Keys()
		defer stopKeys()
		v.state.keys = keys != nil
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case key := <-keys:
				v.press(key)
				v.show()
			case <-tick.C:
				v.show()
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		wg.Wait()
	})
}

// press takes in a key.
func (v *progressView) press(key console.Key) {
	if key == 'q' {
		v.quit()
		return
	}
	v.state = v.state.press(key)
}

// press returns the view after a key.
func (v view) press(key console.Key) view {
	hosts := v.hosts()
	at := slices.Index(hosts, v.chosen)
	switch key {
	case 'd':
		v.detail = !v.detail
	case console.KeyDown, 'j':
		at++
	case console.KeyUp, 'k':
		at = max(at-1, 0)
	case 'l', console.KeyEnter:
		v.logs = !v.logs
		at = max(at, 0)
	case console.KeyEscape:
		v.logs, v.chosen = false, ""
		return v
	default:
		return v
	}
	if key != 'd' && len(hosts) > 0 {
		v.chosen = hosts[min(at, len(hosts)-1)]
	}
	return v
}

func (v *progressView) show() {
	if !v.con.Live {
		v.showPlain()
		return
	}
	v.state.runs = v.state.runs[:0]
	for _, t := range v.tallies {
		v.state.runs = append(v.state.runs, t.snapshot(slowRowsDetail))
	}
	width, height := v.moving.Size()
	v.moving.Draw(frame(v.con, v.state, width, height))
}

// milestone is equal for moments between which a line without a terminal would show nothing new.
type milestone struct {
	quarter, wave, reasons int
	note                   string
	retrying, waiting      bool
}

func (p progress) milestone() milestone {
	m := milestone{wave: p.wave, reasons: len(p.failures), note: p.note, retrying: p.retrying > 0, waiting: p.waiting > 0}
	if p.total > 0 {
		m.quarter = 4 * p.done / p.total
	}
	return m
}

func (v *progressView) showPlain() {
	if v.con.File {
		return
	}
	for i, t := range v.tallies {
		p := t.snapshot(1)
		line, reached := plainLine(p), p.milestone()
		if p.ended || p.done == p.total || line == v.lines[i] || reached == v.said[i] && time.Since(v.times[i]) < plainAgain {
			continue
		}
		if v.moving.Line(line) {
			v.said[i], v.lines[i], v.times[i] = reached, line, time.Now()
		}
	}
}

func plainLine(p progress) string {
	s := fmt.Sprintf("%s: %d/%d hosts finished, %d running, %d failed, %d unreachable, %.0f/s", p.name, p.done, p.total, p.running,
		badCount(p.outcomes), p.outcomes[core.Unreachable], p.rate)
	if p.left > 0 {
		s += ", about " + seconds(p.left) + " left"
	}
	if len(p.slowest) > 0 {
		s += fmt.Sprintf(", slowest %s (%s)", p.slowest[0].host, console.Short(p.slowest[0].took))
	}
	if p.waves > 1 {
		s += fmt.Sprintf(" - wave %d of %d", p.wave, p.waves)
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
