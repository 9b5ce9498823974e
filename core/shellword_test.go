package core

import (
	"os/exec"
	"testing"
)

// A shell reads the word as it was. Control: a plain name stays as it is.
func TestShellWord(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"restart", "reload web", "a'b", "$(id)", "`id`", "a;b", "#x", "~", "*", "{a,b}", "!!", "a\\b", "a\tb", ""} {
		got, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+ShellWord(word)).Output()
		if err != nil || string(got) != word {
			t.Errorf("%q: the shell reads %q, %v", word, got, err)
		}
	}
	if got := ShellWord("restart"); got != "restart" {
		t.Errorf("%s", got)
	}
}
