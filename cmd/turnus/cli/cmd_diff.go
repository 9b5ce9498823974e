package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/playbooks"
)

type diffFlags struct {
	repo     string
	at       string
	exitCode bool
	rejected bool
	plugins  node.PluginFlags
	vars     localrun.VarFlags
	sources  string // a file of them
	remote   remote.Flags
}

func (a *app) diffCmd() *cobra.Command {
	var f diffFlags
	c := &cobra.Command{
		Use:   "diff [[OLD] NEW]",
		Short: "Check a project, and show what would change: against a server, another folder, or a revision of a repository",
		Long: `Check the project in NEW (playbooks, inventory, windows, and their references) and
print what would change: hosts that playbooks gain and lose, next fire times of schedules,
windows that come and go, approvals that an edit voids.

OLD and NEW are folders. NEW alone is compared with the project of the server.
With --repo there is one argument, OLD..NEW: branches, tags or commits of that repository.
Uncommitted changes are ignored.

With --rejected there is no argument. It prints the mistakes of the revision that the server does
not take, how its files differ from those that hold, and what the files without mistakes change.`,
		Example: `  turnus project diff ./ops                  # what turnus project apply ./ops would change
  turnus project diff ../main .
  turnus project diff --repo . origin/main..HEAD
  turnus project diff --repo . origin/main..HEAD --exit-code -o json
  turnus project diff --rejected             # why the server does not take the newest commit`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.rejected != (len(args) == 0) {
				return console.Invalid("turnus project diff: expected NEW, OLD NEW, or --rejected alone\nusage: turnus project diff OLD NEW")
			}
			if f.rejected {
				return remote.Run(a.Console, &f.remote, func(ctx context.Context, c *client.Client, _ []string) error {
					return a.diffRejected(ctx, c, f.exitCode)
				})(cmd, args)
			}
			if len(args) == 1 && f.repo == "" {
				if f.at != "" || f.sources != "" || len(f.vars.Args) > 0 {
					return console.Invalid("turnus project diff NEW compares with the server, which has its own sources, and knows neither --at nor --extra-vars\nusage: turnus project diff OLD NEW, or turnus project diff --repo DIR OLD..NEW")
				}
				return a.diffServer(cmd.Context(), &f, args[0])
			}
			return a.diff(cmd.Context(), &f, args)
		},
	}
	c.Flags().StringVar(&f.repo, "repo", "", "repository on this machine whose revisions are compared: OLD..NEW")
	c.Flags().StringVar(&f.sources, "sources", "", "file of the sources that the server takes hosts from: tenants may have no other hosts")
	c.Flags().StringVar(&f.at, "at", "", "compare schedules and windows from this time on, RFC 3339 (default: now)")
	c.Flags().BoolVar(&f.exitCode, "exit-code", false, "exit with 6 if anything changes")
	c.Flags().BoolVar(&f.rejected, "rejected", false, "show what the revision that the server rejects changes")
	f.plugins.Add(c)
	f.vars.Add(c)
	f.remote.Add(c)
	return c
}

// diffDoc is the -o json document of diff.
type diffDoc struct {
	Valid    bool                  `json:"valid"`
	Problems playbooks.Diagnostics `json:"problems"` // of NEW
	Warnings playbooks.Diagnostics `json:"warnings"` // of NEW
	OldValid bool                  `json:"old_valid"`
	Old      definitions.Revision  `json:"old"`
	New      definitions.Revision  `json:"new"`
	At       time.Time             `json:"at"`
	Changes  []definitions.Change  `json:"changes"`
}

func (a *app) diff(ctx context.Context, f *diffFlags, args []string) (err error) {
	at, err := instantFlag("--at", f.at, time.UTC)
	if err != nil {
		return err
	}
	from, to, err := f.sides(args)
	if err != nil {
		return err
	}
	sup, err := f.plugins.Supervisor(nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sup.Stop(ctx)) }()
	extra, err := f.vars.Values()
	if err != nil {
		return err
	}
	o := definitions.Options{Playbooks: node.PlaybookOptions(sup, extra)}
	if o.Sources, err = f.knownSources(); err != nil {
		return err
	}
	doc := diffDoc{Valid: true, OldValid: true, Problems: playbooks.Diagnostics{}, Warnings: playbooks.Diagnostics{}, Changes: []definitions.Change{}, At: at.UTC()}
	o.Playbooks.Ask = node.AskJobTypes(ctx, sup)
	after, err := f.load(ctx, to, o)
	if errors.As(err, &doc.Problems) {
		doc.Valid = false
		return a.reportDiff(doc, f)
	}
	if err != nil {
		return err
	}
	doc.Warnings = append(doc.Warnings, after.Warnings...)
	o.Playbooks.Ask = nil // of what is in use
	before, err := f.load(ctx, from, o)
	if found, ok := errors.AsType[playbooks.Diagnostics](err); ok {
		doc.OldValid = false // a change that mends it must not be refused
		fmt.Fprintf(a.Err, "%s%s is not valid (%s): all of %s is shown as added\n", a.Paint(console.Yellow, "note: "), from, core.Plural(len(found), "problem"), to)
	} else if err != nil {
		return err
	}
	changes := definitions.Diff(before, after, at)
	doc.Old, doc.New, doc.Changes = changes.Old, changes.New, changes.Changes
	return a.reportDiff(doc, f)
}

// knownSources are those of --sources.
func (f *diffFlags) knownSources() (known []definitions.KnownSource, err error) {
	if f.sources == "" {
		return nil, nil
	}
	all, err := sources.ReadFile(f.sources)
	if err != nil {
		return nil, &console.Exit{Code: console.ExitInvalid, Err: err}
	}
	for _, s := range all {
		known = append(known, definitions.KnownSource{Name: s.Name, Tenant: s.Tenant})
	}
	return known, nil
}

// sides returns the two sides of the comparison.
func (f *diffFlags) sides(args []string) (from, to string, err error) {
	if f.repo == "" {
		return args[0], args[1], nil
	}
	from, to, ok := strings.Cut(args[0], "..")
	if len(args) != 1 || !ok || from == "" || to == "" || strings.HasPrefix(to, ".") {
		return "", "", console.Invalid("turnus project diff --repo %s %s: expected one argument OLD..NEW, such as origin/main..HEAD", f.repo, strings.Join(args, " "))
	}
	return from, to, nil
}

func (f *diffFlags) load(ctx context.Context, side string, o definitions.Options) (*definitions.Set, error) {
	if f.repo == "" {
		return definitions.Load(ctx, side, o)
	}
	return definitions.LoadRevision(ctx, f.repo, side, o)
}

func (a *app) reportDiff(doc diffDoc, f *diffFlags) error {
	if a.Output == "json" {
		if err := console.PrintJSON(a.Out, doc); err != nil {
			return err
		}
	} else {
		if len(doc.Problems) > 0 {
			fmt.Fprintln(a.Err, doc.Problems.Error())
			fmt.Fprintln(a.Err, a.Paint(console.Red, core.Plural(len(doc.Problems), "problem")))
		}
		for _, w := range doc.Warnings {
			fmt.Fprintln(a.Err, a.Paint(console.Yellow, "warning: ")+w.String())
		}
		if doc.Valid {
			if err := (definitions.Changes{Changes: doc.Changes}).WriteText(a.Out); err != nil {
				return err
			}
		}
	}
	switch {
	case !doc.Valid:
		return &console.Exit{Code: console.ExitInvalid}
	case f.exitCode && len(doc.Changes) > 0:
		return &console.Exit{Code: console.ExitChanges}
	}
	return nil
}
