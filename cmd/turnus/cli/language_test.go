package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	wrong := &cobra.Command{Use: "x", Short: "plan anew", Long: "It plans.\n\nAll but for one."}
	wrong.Flags().Bool("y", false, "plan at once")
	if found := helpProblems(wrong); len(found) != 3 {
		t.Errorf("negative control: %q", found)
	}
}
