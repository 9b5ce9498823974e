package cli

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A shell reads the words again that were given, whatever they hold. The negative control joins
// them without quotes.
func TestCommandLineKeepsWords(t *testing.T) {
	words := []string{"", " ", "a b", "'", `"`, `\`, "$HOME", "`id`", "$(id)", "*", "~", "a\nb", "; id", "| cat", "&", "> /dev/null", "#x", "!!", "-n", "X=1", "ü", "${{ vars.x }}"}
	read := func(line string) []string {
		out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", line).Output()
		if err != nil {
			return nil
		}
		return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	}
	all := append([]string{"printf", `%s\0`}, words...)
	if got := read(commandLine(all)); !slices.Equal(got, words) {
		t.Errorf("a shell reads %q, expected %q", got, words)
	}
	if got := read(strings.Join(all, " ")); slices.Equal(got, words) {
		t.Error("unquoted words are also read again: the test detects nothing")
	}
	if got := commandLine([]string{"X=1", "env"}); got != `'X=1' env` {
		t.Errorf("the first of several words is a variable: %s", got)
	}
	if got := commandLine([]string{"uptime | cut -c1-20"}); got != "uptime | cut -c1-20" {
		t.Errorf("one argument is no shell line: %s", got)
	}
}
