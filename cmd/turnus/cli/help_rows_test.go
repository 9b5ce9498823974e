package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"
)

// helpExamples has a row for each example of the help, in the order in which
// TestLabExamplesOfTheHelp types them, and the files that they need.
const helpExamples = "testdata/help_examples.txtar"

// mostNeverTyped is how many examples of the help no test may type.
const mostNeverTyped = 8

// helpRow is a line of the table.
type helpRow struct {
	place string // in the table
	how   string // code or never, or a word of the fixture: do, until, is, env, in, stop
	code  int    // exit code that is expected
	stdin string
	shows string // what it shows when it serves; it continues until Ctrl-C
	of    string // what it is the value of; why it is never typed
	line  string // as the help has it, without its comment
}

// example reports that a row is one of the help's, not of the fixture.
func (r helpRow) example() bool { return r.how == "code" || r.how == "never" }

// helpChapter is a part of the table with a fixture of its own.
type helpChapter struct {
	name string
	rows []helpRow
}

var helpHow = regexp.MustCompile(`^(?:(\d+|do|until|env|in)(?:<(\S+)|&(\S+))? |(is) (\S+) |(never) ([^:]+): |(stop)$)(.*)$`)

// helpTable reads the chapters of a table.
func helpTable(text string) (all []helpChapter, err error) {
	for i, line := range strings.Split(text, "\n") {
		place := fmt.Sprintf("%s:%d", helpExamples, i+1)
		name, chapter := strings.CutPrefix(line, "[")
		switch m := helpHow.FindStringSubmatch(line); {
		case line == "" || line[0] == '#':
		case chapter:
			name, _, _ = strings.Cut(name, "]")
			all = append(all, helpChapter{name: name})
		case m == nil || len(all) == 0:
			return nil, fmt.Errorf("%s: %q is no row: expected one as 0 turnus version, in a chapter", place, line)
		default:
			r := helpRow{place: place, how: m[1] + m[4] + m[6] + m[8], stdin: m[2], shows: m[3], of: m[5] + m[7], line: m[9]}
			if code, failed := strconv.Atoi(r.how); failed == nil {
				r.how, r.code = "code", code
			}
			last := &all[len(all)-1]
			last.rows = append(last.rows, r)
		}
	}
	return all, err
}

// exampleLines returns the lines of an example as they are typed, without comments.
func exampleLines(example string) (lines []string) {
	for line := range strings.Lines(example) {
		line, _, _ = strings.Cut(" "+strings.TrimSpace(line), " #")
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// helpGaps returns which examples have no row, and which rows no example.
func helpGaps(table []helpChapter) (gaps []string) {
	rows := map[string]string{}
	for _, c := range table {
		for _, r := range c.rows {
			if r.example() {
				rows[r.line] = r.place
			}
		}
	}
	used := map[string]bool{}
	eachCommand(testRoot(), func(c *cobra.Command) {
		for _, line := range exampleLines(c.Example) {
			if rows[line] == "" && !used[line] {
				gaps = append(gaps, fmt.Sprintf("%s --help: no row of %s types %q", c.CommandPath(), helpExamples, line))
			}
			used[line] = true
		}
	})
	for line, place := range rows {
		if !used[line] {
			gaps = append(gaps, fmt.Sprintf("%s: no help has %q", place, line))
		}
	}
	slices.Sort(gaps)
	return gaps
}

func readHelpTable(t *testing.T) ([]helpChapter, []txtar.File) {
	t.Helper()
	archive, err := txtar.ParseFile(helpExamples)
	if err != nil {
		t.Fatal(err)
	}
	table, err := helpTable(string(archive.Comment))
	if err != nil {
		t.Fatal(err)
	}
	return table, archive.Files
}

// Every example has a row by which TestLabExamplesOfTheHelp types it, and few are never typed.
func TestExamplesOfTheHelpHaveRows(t *testing.T) {
	table, _ := readHelpTable(t)
	for _, gap := range helpGaps(table) {
		t.Error(gap)
	}
	never := 0
	for _, c := range table {
		for _, r := range c.rows {
			if r.how == "never" {
				never++
			}
		}
	}
	if never >= mostNeverTyped {
		t.Errorf("%d examples are never typed, expected fewer than %d", never, mostNeverTyped)
	}

	table[0].rows[0].line += " --more" // negative control: one without a row, and a row of none
	if gaps := helpGaps(table); len(gaps) != 2 {
		t.Errorf("a changed row gives %q, expected two gaps", gaps)
	}
	if _, err := helpTable("[a]\nturnus version\n"); err == nil {
		t.Error("a row without a code is taken")
	}
}
