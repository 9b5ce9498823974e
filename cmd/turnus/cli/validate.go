package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/playbooks"
)

func (a *app) validateCmd() *cobra.Command {
	var plugins pluginFlags
	var vars varFlags
	c := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check playbooks: every mistake of every file, with its place",
		Example: `  turnus validate playbooks/
  turnus validate site.yaml -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			sup, err := plugins.supervisor(nil)
			if err != nil {
				return err
			}
			extra, err := vars.values()
			if err != nil {
				return err
			}
			books, err := playbooks.Load(args, playbookOptions(sup, extra))
			return a.reportValidation(books, err)
		},
	}
	plugins.add(c)
	vars.add(c)
	return c
}

// validation is the -o json document of validate.
type validation struct {
	Valid     bool                  `json:"valid"`
	Playbooks []string              `json:"playbooks"`
	Problems  playbooks.Diagnostics `json:"problems"`
}

func (a *app) reportValidation(books []*playbooks.Playbook, err error) error {
	var problems playbooks.Diagnostics
	if err != nil && !errors.As(err, &problems) {
		return err
	}
	doc := validation{Valid: len(problems) == 0, Playbooks: []string{}, Problems: problems}
	for _, b := range books {
		doc.Playbooks = append(doc.Playbooks, b.Name)
	}
	if doc.Problems == nil {
		doc.Problems = playbooks.Diagnostics{}
	}
	switch {
	case a.output == "json":
		if err := printJSON(a.out, doc); err != nil {
			return err
		}
	case doc.Valid:
		fmt.Fprintln(a.out, plural(len(books), "playbook")+" valid")
	default:
		fmt.Fprintln(a.err, problems.Error())
		fmt.Fprintln(a.err, a.paint(red, plural(len(problems), "problem")))
	}
	if !doc.Valid {
		return &exit{code: exitInvalid}
	}
	return nil
}
