package runview

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// Bounds of what WriteGroups shows.
const (
	maxResultGroups = 100
	maxGroupNames   = 160 // bytes of the host names of a group
)

// LocalLogs ends the command that shows the outputs of a run of this machine.
const LocalLogs = " --local"

// resultGroup is hosts on which a command ended the same way, with the same output.
type resultGroup struct {
	outcome core.Outcome
	status  string // such as "exit 1"; "" is success
	output  string // of the first host
	text    string // output, and a reason where there is one, of the first host: reasons of the others may name their own addresses
	cut     bool   // text is not all that the command wrote
	varied  bool   // each host showed another key than the one in text
	differs bool   // outputs of the others differ in what particulars lists
	hosts   []string
}

// WriteGroups prints the results of one command on many hosts, a group for each different result:
// failures first, and in each part the smallest group first. Then it prints the counts. logs ends
// the command that shows all outputs.
func WriteGroups(con *console.Console, w io.Writer, r Report, logs string) {
	groups := groupResults(r.Results)
	cut := len(groups) > maxResultGroups
	for _, g := range groups[:min(len(groups), maxResultGroups)] {
		cut = writeGroup(con, w, g) || cut
	}
	if more := groups[min(len(groups), maxResultGroups):]; len(more) > 0 {
		hosts := 0
		for _, g := range more {
			hosts += len(g.hosts)
		}
		fmt.Fprintf(w, "… and %s, of %s\n", core.Plural(len(more), "more different result"), core.Plural(hosts, "host"))
	}
	writeCounts(con, w, r)
	switch {
	case !cut:
	case r.Unrecorded:
		con.Message("some output is not shown, and the run is not recorded: leave out --no-record, or write it with -o json")
	default:
		con.Message("some output is not shown: turnus logs " + r.Run + logs)
	}
}

// groupResults puts equal results together, in the order in which they are shown.
func groupResults(results []api.Result) []*resultGroup {
	known := map[string]*resultGroup{}
	var groups []*resultGroup
	for _, r := range results {
		one, key := resultOfCommand(r)
		g := known[key]
		if g == nil {
			g = one
			known[key] = g
			groups = append(groups, g)
		}
		g.hosts, g.cut = append(g.hosts, r.Host), g.cut || one.cut
		g.differs = g.differs || one.output != g.output
		g.varied = g.varied || fingerprint().FindString(one.text) != fingerprint().FindString(g.text)
	}
	slices.SortStableFunc(groups, func(x, y *resultGroup) int {
		if (x.status == "") != (y.status == "") {
			return cmp.Compare(y.status, x.status)
		}
		return cmp.Compare(len(x.hosts), len(y.hosts))
	})
	return groups
}

// resultOfCommand is the result of one host as a group without hosts, and a key that equal results
// share.
func resultOfCommand(r api.Result) (g *resultGroup, key string) {
	g = &resultGroup{outcome: r.Outcome}
	var exit *int
	for _, s := range r.Steps {
		g.output, g.cut, exit = stepText(s), s.Truncated, s.ExitCode
	}
	g.text = g.output
	switch {
	case r.Outcome.Good():
		return g, g.text
	case r.Outcome == core.Failed && exit != nil:
		g.status = fmt.Sprintf("exit %d", *exit)
		return g, g.status + "\x00" + outputKey(r.Host, g.text, false)
	}
	g.status = strings.ReplaceAll(string(r.Outcome), "_", " ")
	key = g.status + "\x00" + outputKey(r.Host, g.text, false) + "\x00" + reasonKey(r)
	g.text = strings.TrimLeft(g.text+"\n"+cmp.Or(r.Reason, "no reason was recorded"), "\n")
	return g, key
}

// writeGroup prints a group: on one line where its text is one. It reports whether text was left
// out.
func writeGroup(con *console.Console, w io.Writer, g *resultGroup) (cut bool) {
	line := fmt.Sprintf("%s (%s)", FoldHosts(g.hosts, maxGroupNames), core.Plural(len(g.hosts), "host"))
	if g.status != "" {
		line += " " + g.status
	}
	line = con.Paint(console.OutcomeColor(g.outcome), line)
	lines := shownLines(g.text, reasonWidth)
	if g.varied { // an operator who copies the hint must not take it for all of them
		lines = slices.Insert(lines, 0, "each host showed another key; this is of "+console.Printable(g.hosts[0])+":")
	} else if g.differs {
		lines = slices.Insert(lines, 0, ofHost(g.hosts[0]))
	}
	switch {
	case g.text == "" && g.status == "":
		fmt.Fprintln(w, line+": no output")
	case g.text == "":
		fmt.Fprintln(w, line)
	case len(lines) == 1:
		fmt.Fprintln(w, line+": "+lines[0])
	default:
		fmt.Fprintln(w, line+":")
		for _, one := range lines {
			fmt.Fprintln(w, "  "+one)
		}
	}
	return g.cut || strings.Count(g.text, "\n") >= maxShownLines || longLine(g.text)
}

// longLine reports whether a line of the text is longer than what is shown of it.
func longLine(text string) bool {
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > reasonWidth {
			return true
		}
	}
	return false
}
