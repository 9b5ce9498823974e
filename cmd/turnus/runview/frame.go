package runview

import (
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
)

// progress is a run at one moment.
type progress struct {
	name            string
	total, done     int
	outcomes        map[core.Outcome]int
	stopAfter       int // failures at which the run stops; 0: not known
	stopUnreachable int
	running         int
	wave, waves     int // released last, from 1; 0: none yet
	released        int // hosts of the waves up to it
	limits          []waveCount
	steps           []stepCount
	slowest         []slowHost // longest first
	failures        []failure
	rate            float64       // hosts a second over the last seconds
	left            time.Duration // 0: unknown
	elapsed         time.Duration
	ended           bool
	note            string
	retrying        int
	retryWhy        string // of the first of them by name
	waiting         int
	opening         string
}

type waveCount struct {
	hosts, finished int
	released        bool
}

type stepCount struct {
	name     string
	at, past int
}

type slowHost struct {
	host, step string
	took       time.Duration
	tail       string
}

// view is everything that a frame shows.
type view struct {
	runs   []progress
	keys   bool // keys are read
	detail bool
	chosen string // host
	logs   bool   // of the chosen host
}

const (
	barWidth  = 24
	slowRows  = 3
	slowAfter = 2 * time.Second // a job that runs longer is worth a line
	nameWidth = 9               // of the names in front of lines
)

// hosts returns the hosts that can be chosen, in the order of the frame.
func (v view) hosts() []string {
	var list []string
	for _, p := range v.runs {
		if p.ended {
			continue
		}
		for _, s := range p.slowest {
			list = append(list, s.host)
		}
		for _, f := range p.failures {
			list = append(list, f.host)
		}
	}
	return list
}

// frame returns the lines of the view for a terminal of that size. The last row stays free for the
// cursor.
func frame(con *console.Console, v view, width, height int) []string {
	rows, active := height-1, 0
	if v.keys {
		rows--
	}
	for _, p := range v.runs {
		if p.ended {
			rows--
		} else {
			active++
		}
	}
	var lines []string
	for _, p := range v.runs {
		if p.ended {
			lines = append(lines, endedLine(con, p))
			continue
		}
		share := max(rows/active, 1)
		one := runLines(con, v, p, width, share)
		lines = append(lines, one...)
		rows, active = rows-len(one), active-1
	}
	if v.keys {
		lines = append(lines, keysLine(con, v))
	}
	return lines
}

func keysLine(con *console.Console, v view) string {
	text := "  d detail  ↑↓ choose a host  l logs of it  q quit"
	if v.logs {
		text = "  l back  ↑↓ another host  q quit"
	}
	return con.Paint(console.Faint, text)
}

// runLines draws one run on at most rows lines.
func runLines(con *console.Console, v view, p progress, width, rows int) []string {
	lines := headLines(con, p, width)
	if v.logs {
		if text, ok := p.logs(v.chosen); ok {
			lines = append(lines, logLines(con, v.chosen, text, rows-len(lines))...)
			return lines[:min(len(lines), rows)]
		}
	}
	lines = append(lines, stepLines(p, width, v.detail || len(p.steps) <= stepRows && len(lines)+len(p.steps) <= rows/2)...)
	most := slowRows
	if v.detail {
		most = slowRowsDetail
	}
	for i, s := range p.slowest[:min(most, len(p.slowest))] {
		if len(lines) >= rows-min(len(p.failures), 2) {
			break
		}
		text := fmt.Sprintf("%6s  %s  %s", console.Short(s.took.Truncate(time.Second)), s.host, s.step)
		lines = append(lines, row(con, v, s.host, firstName(i, "slowest"), text, console.Faint))
	}
	lines = append(lines, failureLines(con, v, p, rows-len(lines))...)
	return lines[:min(len(lines), rows)]
}

const (
	slowRowsDetail = 8 // slow hosts of the detailed frame
	stepRows       = 5 // more steps share a line without detail
)

// firstName returns the name on the first line of a list.
func firstName(i int, name string) string {
	if i == 0 {
		return name
	}
	return ""
}

// row is a line about a host, marked where it is the chosen one.
func row(con *console.Console, v view, host, name, text string, color console.Color) string {
	mark := "  "
	if v.chosen == host {
		mark, color = "> ", console.Bold
	}
	return mark + fmt.Sprintf("%-*s ", nameWidth, name) + con.Paint(color, console.Printable(text))
}

// named is a line with a name in front.
func named(name, text string) string { return fmt.Sprintf("  %-*s %s", nameWidth, name, text) }

// headLines are the figures of a run.
func headLines(con *console.Console, p progress, width int) []string {
	line := fmt.Sprintf("%s %s%d/%d  %s", con.Paint(console.Bold, console.Printable(p.name)), bar(con, p, width), p.done, p.total, seconds(p.elapsed))
	switch {
	case p.left > 0:
		line += "  about " + seconds(p.left) + " left"
	case p.done > 0 && p.running > 0 && p.running == p.total-p.done:
		line += "  last " + core.Plural(p.running, "host")
	}
	lines := []string{line}
	if p.waves > 1 {
		lines = append(lines, named("waves", wavesText(p)))
	}
	var good []string
	for _, o := range core.Outcomes() {
		if n := p.outcomes[o]; n > 0 && (o.Good() || o == core.Cancelled) {
			good = append(good, con.Paint(console.OutcomeColor(o), fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(o), "_", " "))))
		}
	}
	good = append(good, fmt.Sprintf("%d running", p.running), fmt.Sprintf("%.0f/s", p.rate))
	if p.waiting > 0 {
		good = append(good, fmt.Sprintf("%d waiting", p.waiting))
	}
	lines = append(lines, named("hosts", strings.Join(good, "  ")), named("failed", threshold(con, badCount(p.outcomes), p.stopAfter)+
		"   unreachable "+threshold(con, p.outcomes[core.Unreachable], p.stopUnreachable)))
	for _, note := range notes(p) {
		lines = append(lines, "  "+con.Paint(console.Cyan, console.Printable(note)))
	}
	return lines
}

// threshold is a count beside the one at which the run stops.
func threshold(con *console.Console, n, stop int) string {
	text := fmt.Sprint(n)
	if n > 0 {
		text = con.Paint(console.Red, text)
	}
	if stop > 0 {
		text += fmt.Sprintf(", stops at %d", stop)
	}
	return text
}

// notes are the reasons for which hosts wait.
func notes(p progress) []string {
	var list []string
	if p.note != "" {
		list = append(list, p.note)
	}
	if p.retrying > 0 {
		list = append(list, fmt.Sprintf("%d to be tried again: %s", p.retrying, retryText(p.retryWhy)))
	}
	if p.waiting > 0 && p.opening != "" {
		list = append(list, "waiting for windows"+p.opening)
	}
	return list
}

// wavesText folds the waves that have finished, and those that were not released.
func wavesText(p progress) string {
	if len(p.limits) == 0 {
		return fmt.Sprintf("%d of %d released, %d of %s", p.wave, p.waves, p.released, core.Plural(p.total, "host"))
	}
	var parts []string
	for i := 0; i < len(p.limits); {
		state, hosts, finished := p.limits[i].state(), 0, 0
		from := i
		for ; i < len(p.limits) && p.limits[i].state() == state && (i == from || state != waveReleased); i++ {
			hosts, finished = hosts+p.limits[i].hosts, finished+p.limits[i].finished
		}
		which := fmt.Sprint(from + 1)
		if i > from+1 {
			which = fmt.Sprintf("%d–%d", from+1, i)
		}
		switch state {
		case waveFinished:
			parts = append(parts, fmt.Sprintf("%s: all %d finished", which, hosts))
		case waveReleased:
			parts = append(parts, fmt.Sprintf("%s: %d/%d", which, finished, hosts))
		default:
			parts = append(parts, fmt.Sprintf("%s: %d later", which, hosts))
		}
	}
	return strings.Join(parts, "   ")
}

type waveState int

const (
	waveLater waveState = iota
	waveReleased
	waveFinished
)

func (w waveCount) state() waveState {
	switch {
	case w.finished >= w.hosts:
		return waveFinished
	case w.released:
		return waveReleased
	}
	return waveLater
}

// stepLines show how many hosts are at and past each step: on one line, or a line each.
func stepLines(p progress, width int, each bool) []string {
	if len(p.steps) == 0 {
		return nil
	}
	if each {
		lines := make([]string, len(p.steps))
		for i, s := range p.steps {
			lines[i] = named(firstName(i, "steps"), fmt.Sprintf("%5d at  %5d past  %s", s.at, s.past, console.Printable(s.name)))
		}
		return lines
	}
	text, more := "", len(p.steps)
	for _, s := range p.steps {
		part := fmt.Sprintf("%s %d at %d past   ", console.CutText(console.Printable(s.name), 24), s.at, s.past)
		if len([]rune(text+part)) > width-nameWidth-12 && text != "" {
			break
		}
		text += part
		more--
	}
	if more > 0 {
		text += fmt.Sprintf("… %d more", more)
	}
	return []string{named("steps", strings.TrimRight(text, " "))}
}

// failureLines list the reasons of failed hosts.
func failureLines(con *console.Console, v view, p progress, rows int) []string {
	most := failureRows
	if v.detail {
		most = rows
	}
	list := p.failures
	rows = min(rows, most)
	if rows <= 0 || len(list) == 0 {
		return nil
	}
	more := 0
	if len(list) > rows {
		more = len(list) - rows + 1
		list = list[more:] // the newest ones
	}
	var lines []string
	if more > 0 {
		lines = append(lines, named("failures", "… "+core.Plural(more, "earlier reason")))
	}
	for _, f := range list {
		who := f.host
		if f.hosts > 1 {
			who = fmt.Sprint(f.hosts)
		}
		text := fmt.Sprintf("%s %s  %s", who, strings.ReplaceAll(string(f.outcome), "_", " "), f.reason)
		lines = append(lines, row(con, v, f.host, firstName(len(lines), "failures"), text, console.OutcomeColor(f.outcome)))
	}
	return lines
}

// failureRows is how many reasons the frame lists without detail.
const failureRows = 5

// logs returns the end of the output of a host that the frame lists.
func (p progress) logs(host string) (string, bool) {
	for _, s := range p.slowest {
		if s.host == host {
			return s.tail, true
		}
	}
	for _, f := range p.failures {
		if f.host == host {
			return f.tail, true
		}
	}
	return "", false
}

func logLines(con *console.Console, host, text string, rows int) []string {
	lines := []string{named("logs", con.Paint(console.Bold, console.Printable(host)))}
	if strings.TrimSpace(text) == "" {
		return append(lines, "  | (no output yet)")
	}
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for _, line := range all[max(len(all)-min(tailLines, max(rows-1, 1)), 0):] {
		lines = append(lines, "  | "+console.Printable(strings.TrimRight(line, "\r")))
	}
	return lines
}

// endedLine is a run that has ended, beside others that continue.
func endedLine(con *console.Console, p progress) string {
	return fmt.Sprintf("%s %d/%d  ended after %s: %s", con.Paint(console.Bold, console.Printable(p.name)), p.done, p.total, console.Short(p.elapsed), OutcomeText(p.outcomes))
}

// seconds writes a duration in whole seconds.
func seconds(d time.Duration) string { return d.Truncate(time.Second).String() }

// bar shows how far p is. A narrow terminal has the figures only.
func bar(con *console.Console, p progress, width int) string {
	if width < 3*barWidth {
		return ""
	}
	full := 0
	if p.total > 0 {
		full = min(barWidth*p.done/p.total, barWidth)
	}
	return con.Paint(console.Green, strings.Repeat("━", full)) + con.Paint(console.Faint, strings.Repeat("─", barWidth-full)) + " "
}

func badCount(outcomes map[core.Outcome]int) int {
	return outcomes[core.Failed] + outcomes[core.RolledBack] + outcomes[core.Lost]
}

// retryText is the reason of a retry on one line.
func retryText(why string) string {
	return console.CutText(console.Printable(console.FirstLine(why)), 200)
}
