package cli

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

var fence = regexp.MustCompile("(?ms)^```(yaml|console) ?([^\n]*)\n(.*?)^```$")

// TestWindowsGuides runs the examples of the pages about windows, in one folder: a YAML block
// that names a file is written, and a console block is typed and compared.
func TestWindowsGuides(t *testing.T) {
	var text strings.Builder
	for _, name := range []string{"windows", "windows-reference", "windows-approvals"} {
		text.WriteString(page(t, "docs/"+name+".md"))
	}
	t.Chdir(t.TempDir())
	for k, v := range map[string]string{"TURNUS_STATE": "state", "LC_ALL": "C", "COLUMNS": "90"} {
		t.Setenv(k, v)
	}
	ran := 0
	for _, block := range fence.FindAllStringSubmatch(text.String(), -1) {
		if block[1] == "yaml" {
			if err := os.WriteFile(block[2], []byte(block[3]), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		var got strings.Builder
		for line := range strings.Lines(block[3]) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				got.WriteString(line)
				got.WriteString(typed(t, strings.TrimSpace(command)))
				ran++
			}
		}
		if got.String() != block[3] {
			t.Errorf("got\n%s\nwant\n%s", got.String(), block[3])
		}
	}
	if ran < 8 {
		t.Errorf("only %d commands were found", ran)
	}
}

// typed runs a command line and returns what a person would see. "| grep -v WORD" is understood.
func typed(t *testing.T, command string) string {
	t.Helper()
	command, without, filtered := strings.Cut(command, " | grep -v ")
	var args []string
	for _, m := range regexp.MustCompile(`"([^"]*)"|(\S+)`).FindAllStringSubmatch(command, -1) {
		args = append(args, m[1]+m[2])
	}
	if args[0] != "turnus" {
		t.Fatalf("%s: not a turnus command", command)
	}
	var out bytes.Buffer
	code := Main(args[1:], strings.NewReader(""), &out, &out)
	if code != 0 {
		fmt.Fprintf(&out, "exit code %d\n", code)
	}
	seen := strings.ReplaceAll(out.String(), "\r\n", "\n")
	if !filtered {
		return seen
	}
	var kept strings.Builder
	for line := range strings.Lines(seen) {
		if !strings.Contains(line, without) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
