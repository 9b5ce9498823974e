package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnus/turnus/cmd/turnus/help"
	"github.com/turnus/turnus/core/testparts/language"
)

// foreign are commands whose texts are cobra's own.
func foreign(c *cobra.Command) bool {
	return c.Name() == "help" || c.Name() == "completion" || c.HasParent() && c.Parent().Name() == "completion"
}

// helpProblems returns what is wrong with the help of a command, of its flags and of the commands
// below it.
func helpProblems(c *cobra.Command) []string {
	if foreign(c) {
		return nil
	}
	var found []string
	check := func(place, text string) {
		for _, problem := range language.Text(text) {
			found = append(found, c.CommandPath()+place+": "+problem)
		}
	}
	check("", c.Short)
	check("", c.Long)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) { check(" --"+f.Name, f.Usage) })
	for _, sub := range c.Commands() {
		found = append(found, helpProblems(sub)...)
	}
	return found
}

func TestLanguageOfTheHelp(t *testing.T) {
	seen := map[string]bool{} // a flag that many commands have is reported once
	for _, problem := range helpProblems(testRoot()) {
		if _, what, _ := strings.Cut(problem, ": "); !seen[what] {
			seen[what] = true
			t.Error(problem)
		}
	}
	// The negative control: a short help, a long one and a flag.
	wrong := &cobra.Command{Use: "x", Short: "plan anew", Long: "It plans.\n\nIt says it."}
	wrong.Flags().Bool("y", false, "plan at once")
	if found := helpProblems(wrong); len(found) != 3 {
		t.Errorf("negative control: %q", found)
	}
}

// located are rooms whose hints stand below a place in a file: help.ErrorMessage adds the command
// that checks the file. The import of Ansible writes its hints into the file, and the cases of
// plugins show theirs beside the case.
var located = []string{"playbooks/", "windows/", "core/yamlread/", "core/definitions/", "core/inventory/", "core/secrets/parse.go", "core/notify/policy/", "plugins/conformance/cases"}

// typedCommand is a command and its subcommand, if any, as a hint names them.
var typedCommand = regexp.MustCompile(`\bturnus [a-z][a-z-]*(?: [a-z]+\b)?`)

// unknownInHint returns the commands of a hint that do not exist.
func unknownInHint(root *cobra.Command, hint string) []string {
	return unknownCommands(root, typedCommand.ReplaceAllString(hint, "`$0`"))
}

func TestLanguageOfTheHints(t *testing.T) {
	count, root := 0, testRoot()
	err := filepath.WalkDir(repo, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(repo, path)
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, ".") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		hints, err := language.Hints(name, src)
		inFile := slices.ContainsFunc(located, func(room string) bool { return strings.HasPrefix(name, room) })
		for _, h := range hints {
			for _, unknown := range unknownInHint(root, h.Text) {
				t.Errorf("%s:%d: hint %q names %s, which does not exist", name, h.Line, h.Text, unknown)
			}
			if inFile {
				continue
			}
			count++
			if !help.NamesNext(h.Text) {
				t.Errorf("%s:%d: hint %q: expected a command, a flag, a key of a file or a page of docs/ in it", name, h.Line, h.Text)
			}
		}
		return err
	})
	if err != nil || count < 180 {
		t.Errorf("%d hints were found: %v", count, err)
	}
	wrong := "turnus plugins conform DIR tests it; turnus plugins ls lists them; turnus --help" // negative control
	if got, want := unknownInHint(root, wrong), []string{"turnus plugins conform"}; !slices.Equal(got, want) {
		t.Errorf("unknown are %q, expected %q", got, want)
	}
}
