package cli

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
)

const tutorial = "docs/tutorial.md"

// TestTutorial runs every command of the tutorial in one shell, and compares the output that the
// page shows. .ci/readme does it, as for README, with the turnus of this test.
func TestTutorial(t *testing.T) {
	if out, err := runPage(t, filepath.Join(repo, tutorial)); err != nil {
		t.Errorf("%s: %v\n%s", tutorial, err, out)
	}
}

func runPage(t *testing.T, path string) (string, error) {
	t.Helper()
	bash := testparts.Need(t, "bash", "bash")
	binary, err := exec.LookPath("turnus") // of testscript.Main
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), bash, filepath.Join(repo, ".ci", "readme"), path, "1")
	cmd.Env = append(cmd.Environ(), "TURNUS_BIN="+filepath.Dir(binary), "LC_ALL=C.UTF-8", "COLUMNS=100")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

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
