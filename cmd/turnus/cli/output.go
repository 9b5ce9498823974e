package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/help"
	"github.com/turnus/turnus/core/yamlread"
)

// globalFlags adds the flags that every command has.
func (a *app) globalFlags(fl *pflag.FlagSet) {
	fl.StringVarP(&a.Output, "output", "o", "text", "text, json or yaml; lists also wide or name; results go to stdout, progress to stderr")
	fl.BoolVarP(&a.quiet, "quiet", "q", false, "no progress and no messages on stderr, except warnings and errors")
	fl.StringVar(&a.color, "color", "auto", "auto (on a terminal, without NO_COLOR), always or never")
	fl.Bool(help.AllFlag, false, "help with all flags")
}

// lists are the commands that print a table whose first column is the name of a thing: -o wide and
// -o name work there.
var lists = []string{
	"admin backup ls", "admin keys ls", "admin notifications ls", "admin notifications channels", "admin tokens ls", "admin workers ls", "context ls",
	"hosts config ls", "hosts ls", "inventory ls", "lab ls", "plugins ls", "project playbooks ls", "runs ls", "schedules ls",
}

// formats refuses a form of output that a command does not have, and has the console print the
// others.
func (a *app) formats(c *cobra.Command) error {
	known := []string{"text", "json", "yaml"}
	for _, more := range []struct{ annotation, format string }{{"svg", "svg"}, {"export", "ndjson"}, {"export", "csv"}} {
		if c.Annotations[more.annotation] != "" {
			known = append(known, more.format)
		}
	}
	if _, path, ok := strings.Cut(c.CommandPath(), " "); ok && slices.Contains(lists, path) {
		known = append(known, "wide", "name")
	}
	if !slices.Contains(known, a.Output) {
		last := len(known) - 1
		hint := "-o " + cmp.Or(yamlread.Nearest(a.Output, known), "json")
		return console.Invalid("-o %s: expected %s or %s\nhint: %s", a.Output, strings.Join(known[:last], ", "), known[last], hint)
	}
	a.Output = a.Out.Format(a.Output)
	return nil
}

// appearance applies --quiet and --color.
func (a *app) appearance() error {
	if a.quiet {
		a.Silence()
	}
	switch a.color {
	case "always":
		a.Colored(true)
	case "never":
		a.Colored(false)
	case "auto":
	default:
		return console.Invalid("--color %s: expected auto, always or never", a.color)
	}
	return nil
}
