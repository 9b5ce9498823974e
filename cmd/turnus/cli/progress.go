package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

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
// a line now and then elsewhere. The app's lock guards what it draws.
type progressView struct {
	a       *app
	tallies []*tally
	drawn   int  // lines on the screen that belong to the view
	held    bool // an operator is asked something: draw nothing
	done    chan struct{}
	wg      sync.WaitGroup

	// Of the plain form: a run that waits for days says the same now and then, not every 10 s.
	said   []string // the last line of each tally
	saidAt []time.Time
}

// showProgress starts the view; the function returned ends it, joins it and may be called twice.
func (a *app) showProgress(tallies ...*tally) (stop func()) {
	v := &progressView{a: a, tallies: tallies, done: make(chan struct{}), said: make([]string, len(tallies)), saidAt: make([]time.Time, len(tallies))}
	every := plainEvery
	if a.live {
		every = redrawEvery
	}
	a.mu.Lock()
	a.view = v
	a.mu.Unlock()
	v.wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-v.done:
				return
			case <-tick.C:
				v.show()
			}
		}
	})
	return sync.OnceFunc(func() {
		close(v.done)
		v.wg.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		v.erase()
		a.view = nil
	})
}

// message prints a line on stderr, above the moving part where there is one. It is never cut: its end may say what to do.
func (a *app) message(text string) {
	if a.structured != nil {
		structuredMessage(a.structured, text)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.view != nil {
		a.view.erase() // it is drawn again below the message, however many lines that takes
	}
	fmt.Fprintln(a.err, text)
}

// ask prints a question in place of the moving part, which stands still until answered is called.
func (a *app) ask(question string) (answered func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.view
	if v != nil {
		v.erase()
		v.held = true
	}
	fmt.Fprint(a.err, question)
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if v != nil {
			v.held = false
		}
	}
}

func (v *progressView) erase() {
	if v.drawn > 0 {
		fmt.Fprintf(raw{v.a.err}, "\x1b[%dA\x1b[J", v.drawn)
		v.drawn = 0
	}
}

func (v *progressView) show() {
	v.a.mu.Lock()
	defer v.a.mu.Unlock()
	if v.held {
		return
	}
	if !v.a.live {
		for i, t := range v.tallies {
			p := t.snapshot(1)
			line := plainLine(p)
			if p.done == p.total || line == v.said[i] && time.Since(v.saidAt[i]) < plainAgain {
				continue
			}
			v.said[i], v.saidAt[i] = line, time.Now()
			fmt.Fprintln(v.a.err, line)
		}
		return
	}
	width := terminalWidth(v.a.err)
	var lines []string
	for _, t := range v.tallies {
		lines = append(lines, v.a.liveLines(t.snapshot(slowRows), width)...)
	}
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	for _, line := range lines {
		b.WriteString("\r\x1b[K" + cutVisible(clean(line, v.a.color), width) + "\n")
	}
	b.WriteString("\x1b[J")
	v.drawn = len(lines)
	fmt.Fprint(raw{v.a.err}, b.String())
}

func plainLine(p progress) string {
	s := fmt.Sprintf("%s: %d/%d hosts done, %d running, %d failed, %d unreachable, %.0f/s", p.name, p.done, p.total, p.running,
		badCount(p.outcomes), p.outcomes[core.Unreachable], p.rate)
	if p.eta > 0 {
		s += ", about " + short(p.eta.Round(time.Second)) + " left"
	}
	if len(p.slowest) > 0 && time.Since(p.slowest[0].since) > slowAfter {
		s += fmt.Sprintf(", slowest %s (%s)", p.slowest[0].host, short(time.Since(p.slowest[0].since)))
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
func retryText(why string) string { return cutText(printable(firstLine(why)), 200) }

func badCount(outcomes map[core.Outcome]int) int {
	return outcomes[core.Failed] + outcomes[core.RolledBack] + outcomes[core.Lost]
}

const barWidth = 24

// bar shows how far p is. It leaves a narrow terminal to the figures, which say the same.
func (a *app) bar(p progress, width int) string {
	if width < 3*barWidth {
		return ""
	}
	full := 0
	if p.total > 0 {
		full = barWidth * p.done / p.total
	}
	return a.paint(green, strings.Repeat("━", full)) + a.paint(faint, strings.Repeat("─", barWidth-full)) + " "
}

// liveLines draws one run for a terminal of width columns: a bar, what was and is, and its slowest hosts.
func (a *app) liveLines(p progress, width int) []string {
	line := fmt.Sprintf("%s %s%d/%d", a.paint(bold, p.name), a.bar(p, width), p.done, p.total)
	if p.running > 0 {
		line += fmt.Sprintf("  %d running", p.running)
	}
	if p.waiting > 0 {
		line += fmt.Sprintf("  %d waiting", p.waiting)
	}
	if n := badCount(p.outcomes); n > 0 {
		line += "  " + a.paint(red, fmt.Sprintf("%d failed", n))
	}
	if n := p.outcomes[core.Unreachable]; n > 0 {
		line += "  " + a.paint(red, fmt.Sprintf("%d unreachable", n))
	}
	if p.done < p.total {
		line += fmt.Sprintf("  %.0f/s", p.rate)
		if p.eta > 0 {
			line += "  ETA " + short(p.eta.Round(time.Second))
		}
	} else {
		line += "  " + short(p.elapsed)
	}
	lines := []string{line}
	if p.note != "" {
		lines = append(lines, "  "+a.paint(cyan, p.note))
	}
	if p.retrying > 0 {
		lines = append(lines, "  "+a.paint(cyan, fmt.Sprintf("%d to be tried again: %s", p.retrying, retryText(p.retryWhy))))
	}
	if p.waiting > 0 && p.opening != "" {
		lines = append(lines, "  "+a.paint(cyan, "waiting for windows"+p.opening))
	}
	for _, j := range p.slowest {
		if took := time.Since(j.since); took > slowAfter {
			lines = append(lines, a.paint(faint, fmt.Sprintf("  %s  %s  %s", short(took.Round(100*time.Millisecond)), j.host, printable(j.step))))
		}
	}
	return lines
}

func terminalWidth(w io.Writer) int {
	if f, ok := w.(interface{ Fd() uintptr }); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

// cutVisible cuts a line to width columns; escape sequences take none.
func cutVisible(s string, width int) string {
	seen, escape := 0, false
	for i, r := range s {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		case seen == width:
			return s[:i] + "\x1b[0m"
		default:
			seen++
		}
	}
	return s
}
