package cli

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/planview"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/plugins/sdk/shell"
	"github.com/turnus/turnus/windows"
	"github.com/turnus/turnus/windows/civil"
)

func (a *app) windowsCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "windows",
		Short: "Maintenance windows: when they open next, what blocks them, who approved them",
		Example: `  turnus windows next -f windows.yaml acme-fra
  turnus windows approvals --waiting`,
	}
	c.AddCommand(a.windowsNextCmd(), a.windowsCalendarCmd(), a.windowsExplainCmd(), a.windowsLintCmd(), a.windowsICSCmd(), a.windowsImportCmd(),
		a.windowsApprovalsCmd(), a.windowsApproveCmd(), a.windowsRevokeCmd())
	return c
}

// windowFlags choose a window set and a time.
type windowFlags struct {
	files []string
	from  string
	need  string
}

func (f *windowFlags) addFiles(c *cobra.Command) {
	c.Flags().StringArrayVarP(&f.files, "file", "f", nil, "file or folder with window sets, freezes and holidays (repeatable; read together)")
}

// load reads the definitions and finds the set.
func (f *windowFlags) load(name string) (*windows.Definitions, *time.Location, error) {
	if len(f.files) == 0 {
		return nil, nil, console.Invalid("no file with window sets is given\nhint: -f windows.yaml; of a server: turnus windows explain %s --need 1h, or turnus windows calendar", shell.Quote(name))
	}
	defs, err := windows.Load(f.files...)
	if err != nil {
		return nil, nil, err
	}
	set := defs.Sets[name]
	if set == nil {
		names := slices.Sorted(maps.Keys(defs.Sets))
		hint := cmp.Or(yamlread.DidYouMean(name, names), "turnus windows lint FILE checks a file; docs/windows.md shows how it is written")
		return nil, nil, console.Invalid("no window set %q; there are: %s\nhint: %s", name, strings.Join(names, ", "), hint)
	}
	zone, err := civil.LoadZone(set.Timezone)
	return defs, zone, err
}

// complete returns the names of the window sets.
func (f *windowFlags) complete(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || len(f.files) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	files := slices.Compact(slices.Sorted(slices.Values(f.files))) // completion parses flags twice
	defs, err := windows.Load(files...)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(defs.Sets)), cobra.ShellCompDirectiveNoFileComp
}

// instantFlag reads a time given by a flag: RFC 3339, or wall time in the zone; "" is now.
func instantFlag(flag, text string, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Now().Truncate(time.Second), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, checkYear(flag, t)
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			at, _ := civil.Resolve(t, zone)
			return at, checkYear(flag, at)
		}
	}
	where := zone.String()
	if zone == time.Local {
		where = "local time"
	}
	return time.Time{}, console.Invalid("%s %q: expected a time such as 2026-12-31T22:00:00Z, or 2026-12-31T22:00 or 2026-12-31 in %s\nhint: %s 2026-12-31T22:00", flag, text, where, flag)
}

// zonedFlag reads a time as instantFlag does, where a zone may follow:
// 2026-12-01T02:00[Europe/Zurich]. zone is "" where none does.
func zonedFlag(flag, text string) (at time.Time, zone string, err error) {
	where := time.Local
	if wall, rest, ok := strings.Cut(text, "["); ok {
		zone = strings.TrimSuffix(rest, "]")
		if where, err = civil.LoadZone(zone); err != nil || zone == rest {
			return at, "", console.Invalid("%s %q: expected a time and a zone such as 2026-12-01T02:00[Europe/Zurich]", flag, text)
		}
		text = wall
	}
	at, err = instantFlag(flag, text, where)
	return at, zone, err
}

func checkYear(flag string, t time.Time) error {
	if t.Year() < 1971 || t.Year() > 2150 {
		return console.Invalid("%s %s: expected a year from 1971 to 2150", flag, t.Format(time.RFC3339))
	}
	return nil
}

// needFlag reads --need; "" is 0.
func needFlag(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := windows.ParseDuration(text)
	if err != nil {
		return 0, console.Invalid("--need: %w", err)
	}
	return d, nil
}

func (a *app) windowsNextCmd() *cobra.Command {
	var f windowFlags
	var n int
	c := &cobra.Command{
		Use:   "next -f FILE SET",
		Short: "List the next windows of a set, in local time and UTC",
		Example: `  turnus windows next -f windows.yaml acme-fra
  turnus windows next -f windows.yaml acme-fra --from 2026-10-20T00:00:00Z -n 3 --need 40m -o json`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: f.complete,
		RunE: func(_ *cobra.Command, args []string) error {
			if n < 1 || n > planview.MaxWindows {
				return console.Invalid("-n %d: expected 1 to %d", n, planview.MaxWindows)
			}
			defs, zone, err := f.load(args[0])
			if err != nil {
				return err
			}
			from, err := instantFlag("--from", f.from, zone)
			if err != nil {
				return err
			}
			need, err := needFlag(f.need)
			if err != nil {
				return err
			}
			doc, err := planview.NextWindows(defs, args[0], zone, from, n, need)
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, doc)
			}
			doc.Show(a.Console, zone)
			return nil
		},
	}
	f.addFiles(c)
	c.Flags().StringVar(&f.from, "from", "", "from when on: RFC 3339, or local time of the set (default: now)")
	c.Flags().StringVar(&f.need, "need", "", "how long the work takes, rollback included: also show when it may start")
	c.Flags().IntVarP(&n, "count", "n", 10, "how many")
	return c
}

func (a *app) windowsExplainCmd() *cobra.Command {
	var f windowFlags
	var r remote.Flags
	c := &cobra.Command{
		Use:   "explain [-f FILE] SET --need D",
		Short: "Explain whether work may start at a time, what decides, and when it may start next",
		Long: `Show whether work may start at a time, what decides, and when it may start next: by the
windows of files, or without -f by those of a server, with the approvals that were given there.`,
		Example: `  turnus windows explain -f windows.yaml acme-fra --at 2026-12-19T22:30:00Z --need 40m
  turnus windows explain acme-fra --need 2h`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: func(c *cobra.Command, args []string, part string) ([]string, cobra.ShellCompDirective) {
			if len(f.files) > 0 {
				return f.complete(c, args, part)
			}
			return remote.Complete(&r, setNames)(c, args, part)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(f.files) == 0 {
				return remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
					need, err := needFlag(f.need)
					if err != nil {
						return err
					}
					return a.explainRemote(ctx, c, args[0], f.from, need)
				})(cmd, args)
			}
			if r != (remote.Flags{}) {
				return console.Invalid("-f reads files: --server, --context, --token-file and --ca-file are for asking a server, without -f")
			}
			defs, zone, err := f.load(args[0])
			if err != nil {
				return err
			}
			at, err := instantFlag("--at", f.from, zone)
			if err != nil {
				return err
			}
			need, err := needFlag(f.need)
			if err != nil {
				return err
			}
			if need == 0 {
				return errNoNeed()
			}
			return planview.ExplainWindow(a.Console, defs.Compile(args[0], windows.Ahead(at, windows.DefaultDays)), at, need)
		},
	}
	f.addFiles(c)
	r.Add(c)
	c.Flags().StringVar(&f.from, "at", "", "when: RFC 3339, or local time of the set (default: now)")
	c.Flags().StringVar(&f.need, "need", "", "how long the work takes, rollback included")
	return c
}

func errNoNeed() error {
	return console.Invalid("--need is missing: how long the work takes, rollback included\nhint: --need 40m")
}
