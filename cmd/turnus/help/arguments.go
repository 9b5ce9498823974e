package help

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
)

// Strict makes wrong arguments of all commands below root wrong usage: they name what is missing or
// too much, and commands that only group others refuse a command that does not exist.
func Strict(root *cobra.Command) {
	for _, c := range root.Commands() {
		usageErrors(c)
		groups(c)
	}
	onlyCommands(root)
}

// groups applies onlyCommands to every command that only holds others.
func groups(c *cobra.Command) {
	if onlyGroups(c) {
		onlyCommands(c)
	}
	for _, sub := range c.Commands() {
		groups(sub)
	}
}

// onlyCommands makes a command that only groups others refuse what it does not have, as wrong
// usage, and show its help when nothing is asked, unless it has a function of its own.
func onlyCommands(c *cobra.Command) {
	c.SuggestionsMinimumDistance = 2
	c.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return console.Invalid("unknown command %q\nhint: %s", cmd.CommandPath()+" "+args[0], commandHint(cmd, args))
	}
	if c.RunE == nil {
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
}

// UnknownCommand refuses a command that does not exist, before its flags are read: these would be
// the flags of none.
func UnknownCommand(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if err != nil || !onlyGroups(cmd) || cmd.Args == nil || len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return nil //nolint:nilerr // cobra finds it again, and reports it
	}
	if hidden := []string{"help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}; cmd == root && slices.Contains(hidden, rest[0]) {
		return nil // cobra adds them later
	}
	return cmd.Args(cmd, rest)
}

// argumentNames returns the words of a command's usage for its arguments.
func argumentNames(cmd *cobra.Command) (names []string) {
	words := strings.Fields(cmd.Use)[1:]
	for i, word := range words {
		if flag := strings.HasPrefix(word, "-") || i > 0 && strings.HasPrefix(words[i-1], "-"); !flag {
			names = append(names, strings.Trim(word, "[]."))
		}
	}
	return names
}

// argumentProblem names the argument that is missing or too much.
func argumentProblem(cmd *cobra.Command, args []string) string {
	names := argumentNames(cmd)
	if len(args) < len(names) {
		return cmd.CommandPath() + ": no " + names[len(args)] + " is given"
	}
	return fmt.Sprintf("%s: unexpected argument %q", cmd.CommandPath(), args[len(names)])
}

// emptyArgument names an argument that is empty, as an unset variable of a shell is; "" if none is.
// Words of a command for hosts may be empty.
func emptyArgument(cmd *cobra.Command, args []string) string {
	if dash := cmd.ArgsLenAtDash(); dash >= 0 && strings.Contains(cmd.Use, "-- COMMAND") {
		args = args[:dash]
	}
	at := slices.IndexFunc(args, func(arg string) bool { return strings.TrimSpace(arg) == "" })
	if at < 0 {
		return ""
	}
	name := "an argument"
	if names := argumentNames(cmd); len(names) > 0 {
		name = names[min(at, len(names)-1)]
	}
	if name == "PATTERN" {
		return cmd.CommandPath() + ": PATTERN is empty: all is every host"
	}
	return cmd.CommandPath() + ": " + name + " is empty"
}

// usageErrors makes wrong arguments exit 5, like every invalid input.
func usageErrors(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return console.Invalid("%s\nusage: %s", argumentProblem(cmd, args), cmd.UseLine())
			}
			if empty := emptyArgument(cmd, args); empty != "" {
				return console.Invalid("%s\nusage: %s", empty, cmd.UseLine())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		usageErrors(sub)
	}
}
