package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/playbooks"
)

func (a *app) validateCmd() *cobra.Command {
	var plugins pluginFlags
	var vars varFlags
	c := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check playbooks: every mistake of every file, with its place",
		Long: `Check playbooks: every mistake of every file, with its place. Files named secrets.yaml are
checked as files of secrets of a definitions tree. turnus diff checks a whole tree.`,
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
			files, args := secretFiles(args)
			problems, err := validateSecrets(files)
			if err != nil {
				return err
			}
			var books []*playbooks.Playbook
			if len(args) > 0 {
				books, err = playbooks.Load(args, playbookOptions(sup, extra))
			}
			return a.reportValidation(books, withProblems(err, problems))
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
	Secrets   []usedSecret          `json:"secrets"`
	Problems  playbooks.Diagnostics `json:"problems"`
}

// usedSecret is a secret that a playbook's steps list.
type usedSecret struct {
	Secret   string   `json:"secret"`
	Playbook string   `json:"playbook"`
	Steps    []string `json:"steps"`
}

// usedSecrets lists them by playbook, and then by name.
func usedSecrets(books []*playbooks.Playbook) []usedSecret {
	out := []usedSecret{}
	for _, b := range books {
		for _, name := range b.Secrets() {
			one := usedSecret{Secret: name, Playbook: b.Name}
			for _, s := range b.Steps {
				if slices.Contains(slices.Collect(maps.Values(s.Secrets)), name) {
					one.Steps = append(one.Steps, s.Name)
				}
			}
			out = append(out, one)
		}
	}
	return out
}

func (a *app) reportValidation(books []*playbooks.Playbook, err error) error {
	var problems playbooks.Diagnostics
	if err != nil && !errors.As(err, &problems) {
		return err
	}
	doc := validation{Valid: len(problems) == 0, Playbooks: []string{}, Problems: problems, Secrets: usedSecrets(books)}
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
		for _, s := range doc.Secrets {
			fmt.Fprintf(a.out, "  %s uses secret %s: step %s\n", s.Playbook, s.Secret, strings.Join(s.Steps, ", "))
		}
	default:
		fmt.Fprintln(a.err, problems.Error())
		fmt.Fprintln(a.err, a.paint(red, plural(len(problems), "problem")))
	}
	if !doc.Valid {
		return &exit{code: exitInvalid}
	}
	return nil
}
