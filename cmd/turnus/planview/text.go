package planview

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/windows"
)

func writePlan(con *console.Console, d *View) {
	writePlanHead(con, d)
	for _, w := range d.launch.Plan().Waves {
		fmt.Fprintf(con.Out, "wave %d: %s\n", w.Wave, core.Plural(w.Count, "host"))
		if d.byHost {
			writePlanHosts(con, d, w)
		}
	}
	if !d.byHost {
		writePlanCustomers(con, d)
	}
	for _, text := range d.launch.Warnings() {
		fmt.Fprintln(con.Out, con.Paint(console.Yellow, "warning: ")+text)
	}
	writeNever(con, d.launch.NoWindow, len(d.launch.NoWindow)+len(d.launch.Hosts))
	writeForecast(con, d)
	writeChart(con, d)
	writeApprovals(con, d.approvals())
}

func writeApprovals(con *console.Console, list []approvalDoc) {
	const most = 20
	for i, h := range list {
		if i == most {
			fmt.Fprintf(con.Out, "approvals of %s more: -o json has all of them\n", core.Plural(len(list)-most, "window set"))
			break
		}
		fmt.Fprintf(con.Out, "approvals of %s may be bound to change: %s targets: %s\n", h.Set, h.Change, h.Targets)
	}
}

func writePlanHead(con *console.Console, d *View) {
	p := d.launch.Plan()
	fmt.Fprintf(con.Out, "%s: %s in %s", con.Paint(console.Bold, p.Playbook), core.Plural(p.Total, "host"), core.Plural(len(p.Waves), "wave"))
	if p.MaxInFlight > 0 {
		fmt.Fprintf(con.Out, ", %d at a time", p.MaxInFlight)
	}
	if p.StopAfter > 0 {
		fmt.Fprintf(con.Out, ", stops after %d failed", p.StopAfter)
	}
	if p.StopUnreachable > 0 {
		fmt.Fprintf(con.Out, ", stops after %d unreachable", p.StopUnreachable)
	}
	if p.Pause != "" {
		fmt.Fprintf(con.Out, ", between waves: %s", p.Pause)
	}
	if p.NextWaveAt != "" {
		fmt.Fprintf(con.Out, ", next wave at %s", p.NextWaveAt)
	}
	fmt.Fprintln(con.Out)
	rows := [][]string{}
	for _, s := range d.result.Steps {
		what := "step"
		if s.Handler {
			what = "handler"
		}
		row := []string{fmt.Sprintf("  %s %s (%s)", what, s.Name, s.Uses)}
		if len(s.Secrets) > 0 {
			row[0] += ", secrets: " + strings.Join(s.Secrets, ", ")
		}
		if s.Part != "" {
			row[0] += fmt.Sprintf(", %s of %s", s.Part, s.Group)
		}
		if s.After != "" && s.Selected {
			row[0] += ", after " + strings.ReplaceAll(s.After, "_", " ")
		}
		if s.Once && s.Selected {
			row[0] += ", on one host"
		}
		if n := len(s.On); n > 0 {
			row[0] += ", on " + strings.Join(s.On[:min(n, 3)], ", ")
			if n > 3 {
				row[0] += fmt.Sprintf(" and %d more", n-3)
			}
		}
		if s.Selected {
			from := s.From
			if s.Source != "learned" { // else it begins with the word
				from = s.Source + ": " + from
			}
			row = append(row, "takes "+rough(s.Took.Quantile(0.5))+", P95 "+rough(s.Took.Quantile(0.95)), from)
			if s.NeedSource == "learned" {
				row = append(row, "needs "+windows.FormatDuration(s.Need)+", learned: P95 of what it changed, and as much to roll it back")
			}
		} else {
			row[0] += "  (not selected by tags)"
		}
		rows = append(rows, row)
	}
	console.Table(con.Out, rows)
	writeOrder(con, d.launch)
}

// writeOrder prints which hosts come after which: they begin when the others have succeeded.
func writeOrder(con *console.Console, l *launch.Launch) {
	const most = 5
	if n := len(l.Passes()); n > 1 {
		fmt.Fprintf(con.Out, "  the waves are gone through %d times, %d in all: no host begins a later time before all hosts have done the one before\n", n, l.Waves())
	}
	n := 0
	for _, h := range l.Hosts {
		before := l.After[h.Name]
		if len(before) == 0 {
			continue
		}
		if n++; n <= most {
			fmt.Fprintf(con.Out, "  %s comes after %s\n", h.Name, strings.Join(before, ", "))
		}
	}
	if n > most {
		fmt.Fprintf(con.Out, "  … and %s more come after others: their standby, or bastions; -o json has them all\n", core.Plural(n-most, "host"))
	}
}

// rough writes a duration with as much precision as an estimate has.
func rough(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Minute:
		d = d.Round(time.Second)
	default:
		d = d.Round(time.Minute)
	}
	if d >= 2*24*time.Hour {
		d = d.Round(time.Hour)
	}
	return windows.FormatDuration(d)
}

func writePlanHosts(con *console.Console, d *View, w launch.PlanWave) {
	rows := [][]string{}
	for i, h := range w.Hosts {
		if i == maxPlanHosts {
			break
		}
		r, p := &d.result.Hosts[h.Index], d.result.Windows[h.Index]
		rows = append(rows, []string{
			"  " + h.Host, h.Address, h.Customer, h.Site, h.HAGroup,
			"from " + console.LocalAndUTC(r.Earliest, p.Zone()), startText(r), until(p.Reason, r.Earliest.Sub(d.at), r.Holds),
		})
	}
	console.Table(con.Out, dropEmpty(rows))
	if w.Count > maxPlanHosts {
		fmt.Fprintf(con.Out, "  … and %d more; -o json has them all\n", w.Count-maxPlanHosts)
	}
}

// dropEmpty leaves out the columns that no row fills.
func dropEmpty(rows [][]string) [][]string {
	used := map[int]bool{}
	for _, row := range rows {
		for i, cell := range row {
			used[i] = used[i] || cell != ""
		}
	}
	out := make([][]string, len(rows))
	for k, row := range rows {
		for i, cell := range row {
			if used[i] {
				out[k] = append(out[k], cell)
			}
		}
	}
	return out
}

// startText returns when a host is expected to start, after the earliest that is shown beside it.
func startText(r *forecast.HostResult) string {
	if r.Start.IsZero() {
		return "not started"
	}
	return delayed(r.Start.Sub(r.Earliest)) + "takes " + rough(r.Finish.Sub(r.Start))
}

// delayed returns how much later than at the earliest something starts; "" where that is no more
// than a moment.
func delayed(by time.Duration) string {
	if by < time.Second {
		return ""
	}
	return "+" + rough(by) + ", "
}

// until returns what blocks a host until it starts: why its windows are closed for the time before
// the earliest start, and the other waits of more than a moment.
func until(reason string, closed time.Duration, holds []forecast.Hold) string {
	text := reason
	for _, h := range holds {
		if h.Cause == forecast.ByWindows && reason != "" && h.For <= closed || h.For < time.Second {
			continue
		}
		if text != "" {
			text += "; "
		}
		text += fmt.Sprintf("%s, %s", h.Cause.Text(h.Name), rough(h.For))
	}
	return text
}

func writePlanCustomers(con *console.Console, d *View) {
	rows := [][]string{}
	for _, c := range d.customers() {
		waves := fmt.Sprintf("wave %d", c.FirstWave)
		if c.LastWave > c.FirstWave {
			waves = fmt.Sprintf("waves %d to %d", c.FirstWave, c.LastWave)
		}
		span := "not started"
		if !c.start.IsZero() {
			span = delayed(c.start.Sub(c.earliest)) + fmt.Sprintf("done in %s, each takes up to %s", rough(c.p50.Sub(c.start)), rough(c.took))
		}
		rows = append(rows, []string{
			cmp.Or(c.Customer, "(no customer)"), core.Plural(c.Hosts, "host"), waves,
			"from " + console.LocalAndUTC(c.earliest, c.zone), span, c.why(),
		})
	}
	console.Table(con.Out, rows)
}

// why returns what the customer's hosts wait for: the reason of the first, and what they wait for
// most.
func (c *customerDoc) why() string {
	w, ok := c.longest()
	switch {
	case !ok || w.Cause == forecast.ByWindows && c.reason != "":
		return c.reason
	case c.reason == "":
		return w.Cause.Text(w.Name)
	}
	return c.reason + "; " + w.Cause.Text(w.Name)
}

func writeNever(con *console.Console, list []launch.NoWindow, total int) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(con.Out, "%s %d of %d hosts; turnus run refuses them, or leaves them out with --skip-no-window:\n", con.Paint(console.Red, "no window fits"), len(list), total)
	rows := [][]string{}
	for _, u := range list {
		rows = append(rows, []string{"  " + u.Host, u.Customer, cmp.Or(u.Set, "no window set"), "needs " + windows.FormatDuration(u.Need.Duration()), u.Reason})
	}
	console.Table(con.Out, dropEmpty(rows))
}

// whoIsDone names the hosts whose end the forecast shows: not that of hosts that never finish.
func (d *View) whoIsDone() string {
	undone := int(d.result.Unfinished + 0.5)
	for _, h := range d.result.Hosts {
		if h.Never != "" {
			undone++
		}
	}
	if undone == 0 {
		return "done"
	}
	return fmt.Sprintf("%d of %s done", len(d.result.Hosts)-undone, core.Plural(len(d.result.Hosts), "host"))
}

// writeForecast prints when the run ends, and why not earlier.
func writeForecast(con *console.Console, d *View) {
	r := d.result
	if r.FinishP50.IsZero() {
		fmt.Fprintln(con.Out, "estimate: no host finds a window in which it is done")
		return
	}
	zone := d.commonZone()
	fmt.Fprintf(con.Out, "%s from %d simulations: %s at %s at P50, %s at P90\n", con.Paint(console.Bold, "estimate"), r.Samples, d.whoIsDone(),
		console.LocalAndUTC(r.FinishP50, zone), console.LocalAndUTC(r.FinishP90, zone))
	fmt.Fprintf(con.Out, "  what binds: %s", r.Binding.Cause.Text(r.Binding.Name))
	switch {
	case r.Binding.Hosts > 0:
		fmt.Fprintf(con.Out, "; without that limit, done: %s more", core.Plural(r.Binding.Hosts, "host"))
	case r.Binding.Gain > 0:
		fmt.Fprintf(con.Out, "; without that limit %s earlier", rough(r.Binding.Gain))
	}
	fmt.Fprintf(con.Out, "\n  launched at %s, %s with concurrency %d\n", console.LocalAndUTC(d.at, zone), core.Plural(d.workers, "worker"), d.concurrency)
	if r.Missed >= 0.5 {
		fmt.Fprintf(con.Out, "  carried over: about %s miss a window that they waited for\n", core.Plural(int(r.Missed+0.5), "host"))
	}
	if r.Unfinished >= 0.005 {
		fmt.Fprintf(con.Out, "  %s about %.1f hosts start in no window of the next %d days, or need a new approval first\n", con.Paint(console.Red, "not done:"), r.Unfinished, windows.DefaultDays)
	}
	for _, n := range d.notes {
		fmt.Fprintf(con.Out, "  %s\n", n)
	}
}

// commonZone is the zone of all hosts' sets, or UTC where they differ.
func (d *View) commonZone() *time.Location {
	zone := time.UTC
	for i, h := range d.result.Windows {
		if i == 0 {
			zone = h.Zone()
		} else if h.Zone().String() != zone.String() {
			return time.UTC
		}
	}
	return zone
}

// maxPlanHosts is how many names of a wave the text form shows, and up to how many hosts it shows
// each alone.
const maxPlanHosts = 200

// Show prints a forecast in the form that the command was asked for.
func Show(con *console.Console, d *View) error {
	for _, w := range d.warnings {
		fmt.Fprintln(con.Err, con.Paint(console.Yellow, "warning: ")+w)
	}
	switch con.Output {
	case "json":
		return console.PrintJSON(con.Out, d.doc())
	case "svg":
		return writePlanSVG(con, d)
	}
	writePlan(con, d)
	return nil
}

// ShowNone lists the hosts of a playbook none of whose hosts any window fits.
func ShowNone(con *console.Console, e *launch.NoWindowError, o Options) error {
	switch con.Output {
	case "json":
		return console.PrintJSON(con.Out, planDoc{
			Plan: launch.Plan{Playbook: e.Playbook, Change: e.Change, NoWindow: e.Hosts, Steps: []launch.PlanStep{}, Waves: []launch.PlanWave{}},
			Forecast: forecastDoc{
				At: console.UTC(o.At), Workers: o.Workers, Concurrency: o.Workers * o.Concurrency, Lifted: []constraintDoc{}, Steps: []stepDoc{}, Hosts: []hostDoc{},
				Customers: []customerDoc{}, Never: append([]launch.NoWindow{}, e.Hosts...), Approvals: approvalsOf(e.Change, e.Targets), Notes: []string{},
			},
		})
	case "svg":
		return console.Invalid("%s: no window fits any of %s, so there is nothing to show\nhint: without -o svg each is listed with its reason", e.Playbook, core.Plural(e.Total, "host"))
	}
	fmt.Fprintf(con.Out, "%s: no host can start\n", con.Paint(console.Bold, e.Playbook))
	writeNever(con, e.Hosts, e.Total)
	writeApprovals(con, approvalsOf(e.Change, e.Targets))
	return nil
}
