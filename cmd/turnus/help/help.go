// Package help owns what people read about commands: the help with its groups of flags, the
// reference pages of commands and job types, former names, and what to type after a mistake.
//
// It must not know what a command does.
package help

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// AllFlag asks for the help with all flags.
const AllFlag = "help-all"

// Alone is the annotation of a command that does something also without one of its subcommands.
const Alone = "alone"

// onlyGroups reports whether a command needs one of its subcommands to do anything.
func onlyGroups(c *cobra.Command) bool { return c.HasSubCommands() && c.Annotations[Alone] == "" }

// WantsAll replaces --help-all before the end of the flags by --help, and reports whether it did.
func WantsAll(args []string) (out []string, all bool) {
	out = slices.Clone(args)
	for i, arg := range out {
		if arg == "--" {
			break
		}
		if arg == "--"+AllFlag {
			out[i], all = "--help", true
		}
	}
	return out, all
}

// Print prints the help of a command: its everyday flags in groups, or all of them.
func Print(c *cobra.Command, all bool) {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(cmp.Or(c.Long, c.Short)) + "\n\n")
	if c.HasParent() {
		writeUsage(&b, c)
		writeCommands(&b, c)
		seldom := writeFlags(&b, c, all)
		writeEverywhere(&b, c, all, seldom)
	} else {
		fmt.Fprintf(&b, "Usage: %s COMMAND [flags]\n\n", c.Name())
		writeCommands(&b, c)
		writeEverywhere(&b, c, all, 0)
	}
	fmt.Fprint(c.OutOrStdout(), b.String())
}

func writeUsage(b *strings.Builder, c *cobra.Command) {
	usage := c.UseLine()
	if onlyGroups(c) {
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
	for _, g := range FlagGroups {
		sets[g.Title] = pflag.NewFlagSet(g.Title, pflag.ContinueOnError)
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || c.InheritedFlags().Lookup(f.Name) != nil {
			return
		}
		g, everyday := GroupOf(f)
		if !everyday && !all {
			leftOut++
			return
		}
		sets[g].AddFlag(f)
	})
	for _, g := range FlagGroups {
		if text := sets[g.Title].FlagUsages(); text != "" {
			fmt.Fprintf(b, "%s:\n%s\n", g.Title, text)
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
