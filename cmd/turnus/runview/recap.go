// Package runview owns how people see runs, of this process and of a server: the live progress, the
// recap, events as lines of JSON, logs, and watching a run to its end.
//
// It must not know how a run is prepared, driven and kept.
package runview

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// maxGroups is how many different outputs of a step, and reasons of an outcome, a recap shows.
const maxGroups = 12

// maxShownLines is how much of one output a recap shows; -o json has all of it.
const maxShownLines = 40

// Report is the result of a run that has ended, and the -o json document of run.
type Report struct {
	Run      string               `json:"run"`
	Playbook string               `json:"playbook"`
	Check    bool                 `json:"check,omitempty"`
	Phase    string               `json:"phase"` // finished, stopped, cancelled
	Reason   string               `json:"reason,omitempty"`
	Exit     int                  `json:"exit_code"`
	Total    int                  `json:"total"`
	Outcomes map[core.Outcome]int `json:"outcomes"`
	Started  time.Time            `json:"started"`
	Took     core.Seconds         `json:"took_seconds"`
	Results  []api.Result         `json:"results"`
	Handlers int                  `json:"pending_handlers,omitempty"` // of all hosts, left to the next run
	NoWindow []launch.NoWindow    `json:"no_window,omitempty"`        // hosts left out by --skip-no-window

	// Removed are pending handlers that the playbook no longer has, with the file:line where an
	// earlier run had them; "" if it is not known.
	Removed map[string]string `json:"-"`

	Kind       string `json:"-"` // as api.Run has it
	File       string `json:"-"` // of the playbook; "" is a run of a server
	Unrecorded bool   `json:"-"` // it was run by this process, and is in no record
}

// ExitFor is the exit code that outcomes, and handlers that are pending still, ask for.
func ExitFor(outcomes map[core.Outcome]int, handlers int) int {
	switch {
	case badCount(outcomes) > 0:
		return console.ExitFailed
	case outcomes[core.Unreachable] > 0:
		return console.ExitUnreachable
	case outcomes[core.Cancelled] > 0:
		return console.ExitCancelled
	case handlers > 0:
		return console.ExitFailed
	}
	return console.ExitOK
}

// WriteRecap prints grouped outputs, then reasons, then the counts.
func WriteRecap(con *console.Console, w io.Writer, r Report) {
	writeOutputs(con, w, r)
	WriteReasons(con, w, r.Results)
	writePending(con, w, r)
	writeCounts(con, w, r)
}

// writeCounts prints how many hosts ended how, and why the run did not finish.
func writeCounts(con *console.Console, w io.Writer, r Report) {
	counts := make([]string, 0, len(r.Outcomes))
	for _, o := range core.Outcomes() {
		if n := r.Outcomes[o]; n > 0 {
			counts = append(counts, con.Paint(console.OutcomeColor(o), fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(o), "_", " "))))
		}
	}
	line := fmt.Sprintf("%s: %s in %s", con.Paint(console.Bold, r.Playbook), core.Plural(r.Total, "host"), console.Short(r.Took.Duration()))
	for _, code := range doubtful() {
		if n := withCode(r.Results, code); n > 0 {
			counts = append(counts, con.Paint(console.Yellow, fmt.Sprintf("%d %s", n, code)))
		}
	}
	if len(counts) > 0 {
		line += ": " + strings.Join(counts, ", ")
	}
	if r.Check {
		line += " (check mode: nothing was changed)"
	}
	fmt.Fprintln(w, line)
	if r.Reason != "" {
		fmt.Fprintf(w, "%s: %s\n", r.Phase, r.Reason)
	}
}

// doubtful are the reasons of hosts that succeeded and that people should check: a group dealt with
// a failure, or a dry run could not check a step.
func doubtful() []core.ReasonCode { return []core.ReasonCode{core.Rescued, core.Unchecked} }

// withCode counts the hosts with a reason.
func withCode(results []api.Result, code core.ReasonCode) (n int) {
	for _, r := range results {
		if r.ReasonCode == code {
			n++
		}
	}
	return n
}

// writePending prints the handlers that hosts still need.
func writePending(con *console.Console, w io.Writer, r Report) {
	if r.Handlers == 0 {
		return
	}
	hosts := map[string][]string{}
	for _, res := range r.Results {
		if res.Handlers != nil {
			for _, name := range res.Handlers.Pending {
				hosts[name] = append(hosts[name], res.Host)
			}
		}
	}
	if len(hosts) == 0 { // of a run on a server
		fmt.Fprintf(w, "%s; the next run of %s on their hosts runs them: turnus hosts handlers ls --run %s\n", con.Paint(console.Yellow, core.Plural(r.Handlers, "pending handler")), r.Playbook, r.Run)
		for _, name := range slices.Sorted(maps.Keys(r.Removed)) {
			fmt.Fprintf(w, "  except %s: %s\n", console.Printable(name), RemovedText("playbook "+r.Playbook, r.Playbook, name, r.Removed[name], ""))
		}
		fmt.Fprintln(w)
		return
	}
	kept := 0
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		fmt.Fprintf(w, "%s %s on %s: %s\n", con.Paint(console.Yellow, "pending handler"), console.Printable(name), core.Plural(len(hosts[name]), "host"), FoldHosts(hosts[name], 160))
		if place, gone := r.Removed[name]; gone {
			fmt.Fprintln(w, "  "+RemovedText(r.File, r.Playbook, name, place, " --local"))
		} else {
			kept++
		}
	}
	switch {
	case r.Unrecorded:
		fmt.Fprintln(w, "  the run is not recorded, so no later run knows them: do by hand what they do")
	case kept > 0:
		fmt.Fprintf(w, "  the next run of %s on these hosts runs them; turnus hosts handlers ls --local lists them, turnus hosts handlers drop %s --local forgets them\n", r.Playbook, r.Playbook)
	}
	fmt.Fprintln(w)
}

// RemovedText explains a pending handler that no run can call. subject is a playbook or its file,
// place the file:line where a run had the handler, if known. flags are those of the command.
func RemovedText(subject, playbook, handler, place, flags string) string {
	if place != "" {
		place = "; a run had it at " + place
	}
	return console.Printable(fmt.Sprintf("%s no longer has it%s, so no run calls it: add it again and run the playbook, or do by hand what it does and forget it: "+
		"turnus hosts handlers drop %s --handler %s%s", subject, place, playbook, shell.Quote(handler), flags))
}

// outputGroup is hosts whose step printed the same.
type outputGroup struct {
	text    string
	hosts   []string
	varied  bool // a reason: the hosts showed different keys, and text has that of the first
	differs bool // an output of failures: it is of the first host, and the others differ in what particulars lists
}

// Longest lines that are shown: of what a host printed, and of a reason, whose hint may be a key to
// be copied.
const (
	outputWidth = 200
	reasonWidth = 1000
)

// writeOutputs prints what steps showed, equal texts grouped: also failures after which their host
// continued, and of a dry run each step that would change its host.
func writeOutputs(con *console.Console, w io.Writer, run Report) {
	order, steps := []string{}, map[string]map[string]*outputGroup{}
	for _, r := range run.Results {
		for _, s := range r.Steps {
			title := fmt.Sprintf("%s (%s)", s.Name, s.Uses)
			if s.On != "" {
				title += " on " + s.On
			}
			if steps[title] == nil { // also without a text, so that steps are in the order of the playbook
				steps[title] = map[string]*outputGroup{}
				order = append(order, title)
			}
			text, exact := stepText(s), s.Outcome.Good()
			switch {
			case run.Check && s.Outcome == core.Changed && s.Diff == "": // also after a warning
				text, exact = strings.TrimPrefix(text+"\n"+cmp.Or(s.Reason, "would change"), "\n"), false
			case text != "":
			case r.Outcome.Good() && !s.Outcome.Good() && r.ReasonCode != core.Rescued:
				text = string(s.Outcome) + ", and the host continued: " + s.Reason
			}
			if text == "" || s.ReasonCode == core.CalledOnce { // the host that called it has printed it
				continue
			}
			key := outputKey(r.Host, text, exact)
			g := steps[title][key]
			if g == nil {
				g = &outputGroup{text: text}
				steps[title][key] = g
			}
			g.hosts, g.differs = append(g.hosts, r.Host), g.differs || text != g.text
		}
	}
	for _, title := range order {
		groups := biggestFirst(steps[title])
		if len(groups) == 0 {
			continue
		}
		fmt.Fprintln(w, con.Paint(console.Bold, "── "+title))
		for i, g := range groups {
			if i == maxGroups {
				fmt.Fprintf(w, "  … and %s; -o json has them all\n", core.Plural(len(groups)-i, "more different output"))
				break
			}
			fmt.Fprintln(w, con.Paint(console.Cyan, fmt.Sprintf("  %s: %s", core.Plural(len(g.hosts), "host"), FoldHosts(g.hosts, 160))))
			if g.differs {
				fmt.Fprintln(w, "    "+ofHost(g.hosts[0]))
			}
			for _, line := range shownLines(g.text, outputWidth) {
				fmt.Fprintln(w, "    "+line)
			}
		}
		fmt.Fprintln(w)
	}
}

// ofHost is the line above an output that stands for those of several hosts.
func ofHost(host string) string {
	return "of " + console.Printable(host) + "; others differ in ports, times or temporary names:"
}

func biggestFirst(groups map[string]*outputGroup) []*outputGroup {
	list := make([]*outputGroup, 0, len(groups))
	for _, g := range groups {
		list = append(list, g)
	}
	slices.SortFunc(list, func(x, y *outputGroup) int {
		return cmp.Or(cmp.Compare(len(y.hosts), len(x.hosts)), cmp.Compare(x.hosts[0], y.hosts[0]), cmp.Compare(x.text, y.text))
	})
	return list
}

// stepText returns what a step showed: its output, its errors, its diff.
func stepText(s api.StepResult) string {
	var parts []string
	for _, text := range []string{s.Stdout, s.Stderr, s.Diff} {
		if text = strings.TrimRight(text, "\n"); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n")
}

func shownLines(text string, width int) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = console.CutText(console.Printable(line), width)
	}
	if len(lines) > maxShownLines {
		more := len(lines) - maxShownLines
		lines = append(lines[:maxShownLines:maxShownLines], "… "+core.Plural(more, "more line"))
	}
	return lines
}

// recapKind is a group of results that are not as they should be.
type recapKind struct {
	name  string
	color console.Color
	has   func(api.Result) bool
}

// recapKinds are the bad outcomes, and before them what waits for somebody's decision: whatever
// the outcome, it did not happen for want of an approval. Hosts whose success is doubtful follow.
func recapKinds() []recapKind {
	kinds := []recapKind{{"unapproved", console.Yellow, func(r api.Result) bool { return unapproved(r) }}}
	for _, code := range doubtful() {
		kinds = append(kinds, recapKind{string(code), console.Yellow, func(r api.Result) bool { return r.ReasonCode == code }})
	}
	for _, o := range []core.Outcome{core.Failed, core.RolledBack, core.Lost, core.Unreachable, core.Cancelled} {
		kinds = append(kinds, recapKind{string(o), console.OutcomeColor(o), func(r api.Result) bool { return r.Outcome == o && !unapproved(r) }})
	}
	return kinds
}

// WriteReasons lists the hosts that are not as they should be, identical reasons grouped.
func WriteReasons(con *console.Console, w io.Writer, results []api.Result) {
	said := false
	for _, k := range recapKinds() {
		groups := map[string]*outputGroup{}
		for _, r := range results {
			if !k.has(r) {
				continue
			}
			key, text := reasonKey(r), ReasonText(r)
			if groups[key] == nil {
				groups[key] = &outputGroup{text: text} // of the first host, with its particulars
			}
			g := groups[key]
			g.hosts = append(g.hosts, r.Host)
			g.varied = g.varied || fingerprint().FindString(console.FirstLine(text)) != fingerprint().FindString(console.FirstLine(g.text))
		}
		for i, g := range biggestFirst(groups) {
			if i == maxGroups {
				fmt.Fprintf(w, "%s  … and %s\n", con.Paint(k.color, k.name), core.Plural(len(groups)-i, "more reason"))
				break
			}
			said = true
			fmt.Fprintf(w, "%s %s: %s\n", con.Paint(k.color, fmt.Sprintf("%-11s", k.name)), core.Plural(len(g.hosts), "host"), FoldHosts(g.hosts, 160))
			if g.varied { // a reader who copies the hint must not take it for all of them
				fmt.Fprintf(w, "            each showed another key; this is of %s:\n", console.Printable(g.hosts[0]))
			}
			for _, line := range shownLines(g.text, reasonWidth) {
				fmt.Fprintln(w, "            "+line)
			}
		}
	}
	if said {
		fmt.Fprintln(w)
	}
}
