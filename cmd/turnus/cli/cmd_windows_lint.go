package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/windows"
	"github.com/turnus/turnus/windows/civil"
)

// lintDoc is the -o json document of windows lint.
type lintDoc struct {
	Valid    bool              `json:"valid"`
	Sets     []lintSet         `json:"sets"`
	Problems windows.Problems  `json:"problems"`
	Findings []windows.Finding `json:"findings"`
}

type lintSet struct {
	Set  string `json:"set"`
	Hash string `json:"hash"` // what approvals are bound to by window:
}

func (a *app) windowsLintCmd() *cobra.Command {
	var f windowFlags
	c := &cobra.Command{
		Use:   "lint PATH...",
		Short: "Check window sets: mistakes with their place, sets that never open, rules that never fit",
		Example: `  turnus windows lint windows.yaml --need 40m
  turnus windows lint windows/ -o json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			need, err := needFlag(f.need)
			if err != nil {
				return err
			}
			defs, err := windows.Load(args...)
			var problems windows.Problems
			if err != nil && !errors.As(err, &problems) {
				return err
			}
			doc := lintDoc{Valid: len(problems) == 0, Sets: []lintSet{}, Problems: windows.Problems{}, Findings: []windows.Finding{}}
			doc.Problems = append(doc.Problems, problems...)
			if defs != nil {
				for _, name := range slices.Sorted(maps.Keys(defs.Sets)) {
					zone, err := civil.LoadZone(defs.Sets[name].Timezone)
					if err != nil {
						return err
					}
					from, err := instantFlag("--from", f.from, zone)
					if err != nil {
						return err
					}
					doc.Sets = append(doc.Sets, lintSet{name, defs.HashOf(defs.Sets[name])})
					doc.Findings = append(doc.Findings, defs.Lint(defs.Compile(name, windows.Ahead(from, windows.DefaultDays)), need)...)
				}
			}
			return a.reportLint(doc)
		},
	}
	c.Flags().StringVar(&f.from, "from", "", "from when on: RFC 3339, or local time of the set (default: now)")
	c.Flags().StringVar(&f.need, "need", "", "how long the work of the playbooks takes: windows that are shorter do not count")
	return c
}

// reportLint exits with 5 if a file is wrong or a set can never be used.
func (a *app) reportLint(doc lintDoc) error {
	for _, f := range doc.Findings {
		doc.Valid = doc.Valid && f.Severity != windows.Error
	}
	if a.Output == "json" {
		if err := console.PrintJSON(a.Out, doc); err != nil {
			return err
		}
	} else {
		for _, p := range doc.Problems {
			fmt.Fprintf(a.Err, "%s\n\n", p)
		}
		paints := map[windows.Severity]console.Color{windows.Error: console.Red, windows.Warning: console.Yellow, windows.Info: console.Faint}
		for _, f := range doc.Findings {
			fmt.Fprintf(a.Out, "%s: %s: %s\n", f.Set, a.Paint(paints[f.Severity], string(f.Severity)), f.Message)
		}
	}
	if !doc.Valid {
		return &console.Exit{Code: console.ExitInvalid}
	}
	return nil
}
