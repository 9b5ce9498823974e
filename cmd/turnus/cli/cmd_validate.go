package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/playbooks"
)

func (a *app) validateCmd() *cobra.Command {
	var plugins node.PluginFlags
	var vars localrun.VarFlags
	c := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check playbooks or a project: every mistake of every file, with its place",
		Long: `Check playbooks: every mistake of every file, with its place. A folder with a turnus.yaml,
or with playbooks/ and inventory/, is checked as a project: playbooks, inventory, windows, secrets.
Files named secrets.yaml are checked as files of secrets of a project. Job types are asked about
params that hold no expression: one process of each plugin that the playbooks use.`,
		Example: `  turnus validate playbooks/
  turnus validate .                 # the project in this folder
  turnus validate site.yaml -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			sup, err := plugins.Supervisor(nil)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, sup.Stop(cmd.Context())) }()
			plugins.ReportDev(a.Console)
			extra, err := vars.Values()
			if err != nil {
				return err
			}
			files, args := secretFiles(args)
			problems, err := validateSecrets(files)
			if err != nil {
				return err
			}
			ctx, stop := a.Interruptible(cmd.Context())
			defer stop()
			o := node.PlaybookOptions(sup, extra)
			o.Ask = node.AskJobTypes(ctx, sup)
			all, warnings, err := definitions.LoadPaths(ctx, args, o)
			return a.reportValidation(all, withProblems(err, problems), warnings)
		},
	}
	plugins.Add(c)
	plugins.AddDev(c)
	vars.Add(c)
	return c
}

// validation is the -o json document of validate.
type validation struct {
	Valid     bool                  `json:"valid"`
	Playbooks []string              `json:"playbooks"`
	Secrets   []usedSecret          `json:"secrets"`
	Problems  playbooks.Diagnostics `json:"problems"`
	Warnings  playbooks.Diagnostics `json:"warnings"`
}

// usedSecret is a secret that a playbook's steps list.
type usedSecret struct {
	Secret   string   `json:"secret"`
	Playbook string   `json:"playbook"`
	Steps    []string `json:"steps"`
}

// usedSecrets lists them by playbook, and then by name.
func usedSecrets(all []*playbooks.Playbook) []usedSecret {
	out := []usedSecret{}
	for _, b := range all {
		for _, name := range b.Secrets() {
			one := usedSecret{Secret: name, Playbook: b.Name}
			for _, s := range b.Calls() {
				if slices.Contains(slices.Collect(maps.Values(s.Secrets)), name) {
					one.Steps = append(one.Steps, s.Name)
				}
			}
			out = append(out, one)
		}
	}
	return out
}

func (a *app) reportValidation(all []*playbooks.Playbook, err error, warnings playbooks.Diagnostics) error {
	var problems playbooks.Diagnostics
	if err != nil && !errors.As(err, &problems) {
		return err
	}
	doc := validation{Valid: len(problems) == 0, Playbooks: []string{}, Problems: problems, Warnings: append(playbooks.Diagnostics{}, warnings...), Secrets: usedSecrets(all)}
	for _, b := range all {
		doc.Playbooks = append(doc.Playbooks, b.Name)
	}
	if doc.Problems == nil {
		doc.Problems = playbooks.Diagnostics{}
	}
	if a.Output != "json" {
		for _, w := range warnings {
			fmt.Fprintln(a.Err, a.Paint(console.Yellow, "warning: ")+w.String())
		}
	}
	switch {
	case a.Output == "json":
		if err := console.PrintJSON(a.Out, doc); err != nil {
			return err
		}
	case doc.Valid:
		fmt.Fprintln(a.Out, core.Plural(len(all), "playbook")+" valid")
		for _, s := range doc.Secrets {
			fmt.Fprintf(a.Out, "  %s uses secret %s: step %s\n", s.Playbook, s.Secret, strings.Join(s.Steps, ", "))
		}
	default:
		fmt.Fprintln(a.Err, problems.Error())
		fmt.Fprintln(a.Err, a.Paint(console.Red, core.Plural(len(problems), "problem")))
	}
	if !doc.Valid {
		return &console.Exit{Code: console.ExitInvalid}
	}
	return nil
}
