package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpAllFlag asks for the help with all flags.
const helpAllFlag = "help-all"

// wantsAll replaces --help-all before the end of the flags by --help, and reports whether it did.
func wantsAll(args []string) (out []string, all bool) {
	out = slices.Clone(args)
	for i, arg := range out {
		if arg == "--" {
			break
		}
		if arg == "--"+helpAllFlag {
			out[i], all = "--help", true
		}
	}
	return out, all
}

// help prints the help of a command: its everyday flags in groups, or all of them.
func (a *app) help(c *cobra.Command, _ []string) {
	var b strings.Builder
	about := c.Long
	if about == "" {
		about = c.Short
	}
	b.WriteString(strings.TrimSpace(about) + "\n\n")
	if c.HasParent() {
		writeUsage(&b, c)
		writeCommands(&b, c)
		seldom := writeFlags(&b, c, a.helpAll)
		writeEverywhere(&b, c, a.helpAll, seldom)
	} else {
		fmt.Fprintf(&b, "Usage: %s COMMAND [flags]\n\n", c.Name())
		writeCommands(&b, c)
		writeEverywhere(&b, c, a.helpAll, 0)
	}
	fmt.Fprint(c.OutOrStdout(), b.String())
}

func writeUsage(b *strings.Builder, c *cobra.Command) {
	usage := c.UseLine()
	if c.HasSubCommands() && c.Annotations[alone] == "" {
		usage = c.CommandPath() + " COMMAND [flags]"
	}
	fmt.Fprintf(b, "Usage:\n  %s\n\n", usage)
	if c.HasExample() {
		fmt.Fprintf(b, "Examples:\n%s\n\n", c.Example)
	}
}

// writeCommands lists the commands in their groups. Those of the root that have none are named in
// one line at the end.
func writeCommands(b *strings.Builder, c *cobra.Command) {
	if !c.HasAvailableSubCommands() {
		return
	}
	list := func(title, group string) {
		var lines strings.Builder
		for _, sub := range c.Commands() {
			if sub.GroupID == group && sub.IsAvailableCommand() {
				fmt.Fprintf(&lines, "  %-*s %s\n", c.NamePadding(), sub.Name(), sub.Short)
			}
		}
		if lines.Len() > 0 {
			fmt.Fprintf(b, "%s\n%s\n", title, lines.String())
		}
	}
	for _, g := range c.Groups() {
		list(g.Title, g.ID)
	}
	if c.HasParent() {
		list("Commands:", "")
		return
	}
	var others []string
	for _, sub := range c.Commands() {
		if sub.GroupID == "" && (sub.IsAvailableCommand() || sub.Name() == "help") {
			others = append(others, sub.Name())
		}
	}
	fmt.Fprintf(b, "Also: %s.\n", strings.Join(others, ", "))
}

// writeFlags lists the flags in their groups, and returns how many it leaves out.
func writeFlags(b *strings.Builder, c *cobra.Command, all bool) (leftOut int) {
	sets := map[string]*pflag.FlagSet{}
	for _, g := range flagGroups {
		sets[g.title] = pflag.NewFlagSet(g.title, pflag.ContinueOnError)
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || c.InheritedFlags().Lookup(f.Name) != nil {
			return
		}
		g, everyday := groupOf(f)
		if !everyday && !all {
			leftOut++
			return
		}
		sets[g].AddFlag(f)
	})
	for _, g := range flagGroups {
		if text := sets[g.title].FlagUsages(); text != "" {
			fmt.Fprintf(b, "%s:\n%s\n", g.title, text)
		}
	}
	return leftOut
}

// writeEverywhere ends the help with the flags that every command has.
func writeEverywhere(b *strings.Builder, c *cobra.Command, all bool, seldom int) {
	if all {
		fmt.Fprintf(b, "Every command:\n%s", c.Root().PersistentFlags().FlagUsages())
		return
	}
	b.WriteString("Every command: -o, --output; -q, --quiet; --color; -h, --help; --help-all\n")
	if seldom > 0 {
		fmt.Fprintf(b, "%s --help-all shows %d more flags\n", c.CommandPath(), seldom)
	}
	if !c.HasParent() {
		fmt.Fprintf(b, "%s COMMAND --help shows the flags and examples of a command\n", c.Name())
	}
}
