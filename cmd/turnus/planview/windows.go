package planview

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/windows"
	"github.com/turnus/turnus/windows/civil"
)

// MaxWindows bounds how many windows are shown.
const MaxWindows = 10_000

// maxYears is how far windows next looks for rare windows.
const maxYears = 20

// Window is one in -o json.
type Window struct {
	Open       string   `json:"open"`
	Close      string   `json:"close"`
	OpenLocal  string   `json:"open_local"`
	CloseLocal string   `json:"close_local"`
	Rules      []string `json:"rules"`
	Notes      []string `json:"notes"`
	Approved   bool     `json:"approved"`
}

// WindowOf returns a window as -o json prints it.
func WindowOf(w windows.Window, zone *time.Location) Window {
	d := Window{
		Open: console.UTC(w.Open), Close: console.UTC(w.Close), OpenLocal: w.Open.In(zone).Format(time.RFC3339), CloseLocal: w.Close.In(zone).Format(time.RFC3339),
		Rules: w.Rules, Notes: append([]string{}, w.Notes...), Approved: w.Unapproved == "",
	}
	if w.Unapproved != "" {
		d.Notes = append(d.Notes, w.Unapproved)
	}
	return d
}

// droppedDoc is an occurrence that came to nothing, in -o json.
type droppedDoc struct {
	Rule   string `json:"rule"`
	Start  string `json:"start_local"` // wall time; it may not exist
	Reason string `json:"reason"`
}

// Next is the windows of a set, and what came to nothing, in -o json.
type Next struct {
	Set         string       `json:"set"`
	Timezone    string       `json:"timezone"`
	Occurrences []Window     `json:"occurrences"`
	Dropped     []droppedDoc `json:"dropped"`
	NextStart   **string     `json:"next_start,omitempty"` // with --need; null if nothing fits
	Reason      string       `json:"reason,omitempty"`     // why there is no next start, or no occurrence
}

// NextWindows compiles ever longer horizons until enough windows are found.
func NextWindows(defs *windows.Definitions, name string, zone *time.Location, from time.Time, n int, need time.Duration) (*Next, error) {
	doc := &Next{Set: name, Timezone: zone.String(), Occurrences: []Window{}, Dropped: []droppedDoc{}}
	var c *windows.Compiled
	var list []windows.Window
	var noStart error
	for days := windows.DefaultDays; ; days = min(2*days, maxYears*366) {
		c = defs.Compile(name, windows.Ahead(from, days))
		list = c.Occurrences(from, c.Horizon.To)
		var start time.Time
		if need > 0 {
			var text *string
			if start, noStart = c.Next(from, need); noStart == nil {
				at := console.UTC(start)
				text = &at
			}
			doc.NextStart = &text
		}
		if c.Reason() != "" || days == maxYears*366 || len(list) >= n && (need == 0 || noStart == nil || days > windows.DefaultDays) {
			break
		}
	}
	end := c.Horizon.To
	if len(list) > n {
		list = list[:n]
		end = list[n-1].Close
	}
	for _, w := range list {
		doc.Occurrences = append(doc.Occurrences, WindowOf(w, zone))
	}
	for _, d := range c.Dropped {
		if at, _ := civil.Resolve(d.Start, zone); at.Before(end) && len(doc.Dropped) < MaxWindows {
			doc.Dropped = append(doc.Dropped, droppedDoc{d.Rule, d.Start.Format("2006-01-02T15:04:05"), d.Reason})
		}
	}
	switch {
	case noStart != nil && !errors.Is(noStart, windows.ErrClosed):
		return nil, noStart
	case noStart != nil:
		doc.Reason = noStart.Error()
	case len(list) == 0:
		doc.Reason = "it does not open"
		if c.Reason() != "" {
			doc.Reason = c.Reason()
		}
	}
	return doc, nil
}

// Show prints the windows.
func (doc *Next) Show(con *console.Console, zone *time.Location) {
	for _, o := range doc.Occurrences {
		open, _ := time.Parse(time.RFC3339, o.Open)
		end, _ := time.Parse(time.RFC3339, o.Close)
		mark := con.Paint(console.Green, "open   ")
		if !o.Approved {
			mark = con.Paint(console.Red, "closed ")
		}
		fmt.Fprintf(con.Out, "%s %s  %s  by %s\n", mark, console.LocalAndUTC(open, zone), windows.FormatDuration(end.Sub(open)), strings.Join(o.Rules, ", "))
		fmt.Fprintf(con.Out, "     to %s\n", console.LocalAndUTC(end, zone))
		for _, note := range o.Notes {
			fmt.Fprintf(con.Out, "        %s\n", con.Paint(console.Yellow, note))
		}
	}
	for _, d := range doc.Dropped {
		fmt.Fprintf(con.Out, "dropped %s by %s: %s\n", strings.Replace(d.Start, "T", " ", 1), d.Rule, d.Reason)
	}
	if doc.NextStart != nil && *doc.NextStart != nil {
		start, _ := time.Parse(time.RFC3339, **doc.NextStart)
		fmt.Fprintf(con.Out, "next start: %s\n", console.LocalAndUTC(start, zone))
	}
	if doc.Reason != "" {
		fmt.Fprintln(con.Out, doc.Reason)
	}
}

type explainDoc struct {
	Set            string       `json:"set"`
	At             string       `json:"at"`
	AtLocal        string       `json:"at_local"`
	Need           core.Seconds `json:"need_seconds"`
	Open           bool         `json:"open"`
	Fits           bool         `json:"fits"`
	Cause          string       `json:"cause"`
	By             string       `json:"by,omitempty"`
	Reason         string       `json:"reason"`
	Window         *Window      `json:"window,omitempty"`
	NextStart      *string      `json:"next_start"`
	NextStartLocal *string      `json:"next_start_local"`
	NoNext         string       `json:"no_next,omitempty"`
	Overrun        string       `json:"overrun,omitempty"`
}

// ExplainWindow prints whether work may start at a time by the windows of files.
func ExplainWindow(con *console.Console, c *windows.Compiled, at time.Time, need time.Duration) error {
	e, err := c.Explain(at, need)
	if err != nil {
		return err
	}
	doc := explainDoc{
		Set: c.Name, At: console.UTC(at), AtLocal: at.In(c.Zone).Format(time.RFC3339), Need: core.InSeconds(need), Open: e.Open, Fits: e.Fits,
		Cause: string(e.Cause), By: e.By, Reason: e.Reason, NoNext: e.NoNext, Overrun: string(c.Overrun),
	}
	if e.Window != nil {
		w := WindowOf(*e.Window, c.Zone)
		doc.Window = &w
	}
	if !e.Next.IsZero() {
		next, local := console.UTC(e.Next), e.Next.In(c.Zone).Format(time.RFC3339)
		doc.NextStart, doc.NextStartLocal = &next, &local
	}
	return showExplained(con, doc, at, e.Next, c.Zone)
}

func showExplained(con *console.Console, doc explainDoc, at, next time.Time, zone *time.Location) error {
	if con.Output == "json" {
		return console.PrintJSON(con.Out, doc)
	}
	result := con.Paint(console.Red, "closed")
	switch {
	case doc.Fits:
		result = con.Paint(console.Green, "may start")
	case doc.Open:
		result = con.Paint(console.Yellow, "open, but it does not fit")
	}
	fmt.Fprintf(con.Out, "%s at %s: %s\n  %s\n", doc.Set, console.LocalAndUTC(at, zone), result, doc.Reason)
	if doc.NoNext != "" {
		fmt.Fprintf(con.Out, "  no next start: %s\n", doc.NoNext)
		return nil
	}
	fmt.Fprintf(con.Out, "  next start: %s\n", console.LocalAndUTC(next, zone))
	return nil
}

// ExplainedWindow prints what a server answers about it.
func ExplainedWindow(con *console.Console, w api.WindowAnswer, need time.Duration, zone *time.Location) error {
	doc := explainDoc{
		Set: w.Set, At: console.UTC(w.At), AtLocal: w.At.In(zone).Format(time.RFC3339), Need: core.InSeconds(need), Open: w.Open, Fits: w.Fits,
		Cause: w.Cause, By: w.By, Reason: w.Reason, NoNext: w.NoNext,
	}
	if !w.Next.IsZero() {
		next, local := console.UTC(w.Next), w.Next.In(zone).Format(time.RFC3339)
		doc.NextStart, doc.NextStartLocal = &next, &local
	}
	return showExplained(con, doc, w.At, w.Next, zone)
}
