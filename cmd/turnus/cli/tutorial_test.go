package cli

import (
	"regexp"
	"strings"
	"testing"
)

const tutorial = "docs/tutorial.md"

// A stranger types or pastes at most 60 commands from README and the tutorial: to a first exec, a
// dry run, a run, a failure that was retried, and a schedule.
func TestTutorialIsShort(t *testing.T) {
	count := 0
	for _, path := range []string{"README.md", tutorial} {
		count += len(pastedCommands(page(t, path)))
	}
	if count < 30 || count > 60 {
		t.Errorf("README and the tutorial have %d commands, expected 30 to 60", count)
	}
	all := strings.Join(pastedCommands(page(t, tutorial)), "\n")
	for _, want := range []string{"turnus exec ", " --check --diff", "turnus lab break ", " --retry-failed", "turnus windows next ", "turnus up ", "turnus schedules ls", "turnus submit ", "turnus admin audit"} {
		if !strings.Contains(all, want) {
			t.Errorf("the tutorial has no %q", want)
		}
	}
	if lines := strings.Count(page(t, tutorial), "\n"); lines > 300 {
		t.Errorf("the tutorial has %d lines, expected 300 at most", lines)
	}
}

var hereDocument = regexp.MustCompile(`(?ms)(<<'?([A-Z]+)'?)\n.*?^END$`)

// pastedCommands are the commands of a page's sh blocks. A here document is part of its command.
func pastedCommands(text string) []string {
	var list []string
	for _, block := range fenced(text, "sh") {
		for line := range strings.Lines(hereDocument.ReplaceAllString(block, "$1")) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				list = append(list, line)
			}
		}
	}
	return list
}
