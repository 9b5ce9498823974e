package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

func (a *app) inventoryCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "inventory", Short: "Show where values of hosts come from, and review what sources of hosts give",
		Long: `Show where values of hosts come from, and review the hosts of sources. With -i the sources
are in a file, with --context or --server at a server.`,
		Example: `  turnus inventory show web1 -i hosts.yaml
  turnus inventory diff nb -i sources.yaml
  turnus inventory diff nb --context prod
  turnus inventory approve nb --context prod --generation sha256:0f3a`,
	}
	c.AddCommand(a.inventoryListCmd(), a.inventoryShowCmd(), a.inventoryDiffCmd(), a.inventoryApproveCmd())
	return c
}

// inventoryFlags are those of all its commands.
type inventoryFlags struct {
	inv     localrun.InventoryFlags
	secrets node.SecretFlags
	remote  remote.Flags
}

func (f *inventoryFlags) add(c *cobra.Command) {
	f.inv.AddSources(c)
	f.secrets.Add(c)
	f.remote.Add(c)
}

// either makes the RunE of a command that asks a server if one is named, and else works here.
func (a *app) either(f *inventoryFlags, there func(context.Context, *client.Client, []string) error, here func(context.Context, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if f.remote.Server+f.remote.Context == "" {
			for _, name := range []string{"token-file", "ca-file", "cert-file", "key-file"} {
				if cmd.Flags().Changed(name) {
					return console.Invalid("--%s is for a server, and none is named\nhint: --context NAME or --server URL", name)
				}
			}
			return here(cmd.Context(), args)
		}
		if cmd.Flags().Changed("inventory") {
			return console.Invalid("-i is for the inventory of this machine, and --context or --server names a server, which has its own\nhint: leave out -i")
		}
		return remote.Run(a.Console, &f.remote, there)(cmd, args)
	}
}

func (a *app) inventoryListCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "ls", Short: "List the sources of hosts of a server, and how fetching them goes", Args: cobra.NoArgs,
		Example: "  turnus inventory ls\n  turnus inventory ls --context prod -o json",
	}
	return remote.Table(a.Console, c, &r, func(ctx context.Context, c *client.Client, _ []string) ([]api.Source, error) {
		return client.All(ctx, 0, c.Sources)
	}, []string{"SOURCE", "TENANT", "TYPE", "STATE", "HOSTS", "LAST GOOD", "WHY"}, func(s *api.Source) []string {
		good := ""
		if !s.Good.IsZero() {
			good = console.LocalTime(s.Good)
		}
		return []string{s.Name, console.Printable(s.Tenant), s.Type, s.State, fmt.Sprint(s.Hosts), good, console.Printable(console.FirstLine(s.Reason))}
	})
}

// sourceNames completes the names of a server's sources.
func sourceNames(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.Sources(ctx, client.Page{Limit: 500})
	return core.Map(list.Items, func(s api.Source) string { return s.Name + "\t" + s.State }), err
}

func (a *app) inventoryShowCmd() *cobra.Command {
	var f inventoryFlags
	c := &cobra.Command{
		Use:   "show HOST",
		Short: "Show each value of a host with the file, group or source that it comes from",
		Example: `  turnus inventory show web1 -i hosts.yaml
  turnus inventory show web1 -i sources.yaml -i hosts.yaml -o json
  turnus inventory show web1 --context prod`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: remote.CompleteHosts(&f.remote, f.inv.Complete),
	}
	c.RunE = a.either(&f, func(ctx context.Context, c *client.Client, args []string) error {
		all, err := c.Origins(ctx, args[0])
		if err != nil {
			return err
		}
		return a.printOrigins(all.Items)
	}, func(ctx context.Context, args []string) error {
		origins, warnings, err := f.inv.Explain(ctx, args[0])
		if err != nil {
			return invalidIf(err, core.ErrNotFound)
		}
		a.Warn(warnings)
		docs := make([]api.Origin, len(origins))
		for i, o := range origins {
			docs[i] = api.Origin(o)
		}
		return a.printOrigins(docs)
	})
	f.add(c)
	return c
}

func (a *app) printOrigins(origins []api.Origin) error {
	if a.Output == "json" {
		return console.PrintJSON(a.Out, console.ListOf(origins))
	}
	cells := [][]string{{"FIELD", "VALUE", "LAYER", "FROM"}}
	for _, o := range origins {
		value, isText := o.Value.(string)
		if !isText {
			text, err := console.YAMLText(o.Value)
			if err != nil {
				return err
			}
			value = strings.Join(strings.Fields(text), " ")
		}
		cells = append(cells, core.Map([]string{o.Field, value, o.Layer, o.Place}, console.Printable))
	}
	console.Table(a.Out, cells)
	return nil
}

func invalidIf(err error, kinds ...error) error {
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return &console.Exit{Code: console.ExitInvalid, Err: err}
		}
	}
	return err
}

// reviewDoc is the information for a person who approves.
type reviewDoc struct {
	State sources.State       `json:"state"`
	Diff  *sources.Difference `json:"diff,omitempty"` // of the waiting generation against the one in use
}

func (a *app) inventoryDiffCmd() *cobra.Command {
	var f inventoryFlags
	c := &cobra.Command{
		Use:   "diff SOURCE",
		Short: "Show how fetching a source goes, and what a waiting generation would change",
		Long: `Show how fetching a source goes, and what a waiting generation would change. A source of a file
that -i names is fetched first. A server fetches its sources itself.`,
		Example: `  turnus inventory diff nb -i sources.yaml
  turnus inventory diff nb --context prod -o json`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&f.remote, sourceNames),
	}
	c.RunE = a.either(&f, func(ctx context.Context, c *client.Client, args []string) error {
		d, err := c.DiffSource(ctx, args[0])
		if err != nil {
			return err
		}
		if a.Output == "json" {
			return console.PrintJSON(a.Out, d)
		}
		return a.printReview(reviewOf(&d), shell.Quote(f.remote.Arguments()...))
	}, func(ctx context.Context, args []string) error { return a.inventoryDiff(ctx, &f, args[0]) })
	f.add(c)
	return c
}

// reviewOf returns the review of a server's source, for printReview.
func reviewOf(d *api.SourceDiff) reviewDoc {
	s := &d.Source
	doc := reviewDoc{State: sources.State{Source: s.Name, ID: s.Generation, Hosts: s.Hosts, Good: s.Good, Tried: s.Fetched, Left: s.Left, Total: s.LeftTotal}}
	if s.State == "failed" || s.State == "refused" {
		doc.State.Failed = s.Reason
	}
	if h := s.Waiting; h != nil {
		doc.State.Waiting = &sources.Waiting{ID: h.Generation, Hosts: h.Hosts, At: h.At, Why: h.Reason}
		doc.Diff = &sources.Difference{Added: d.Added, Removed: d.Removed}
		for _, c := range d.Changed {
			doc.Diff.Changed = append(doc.Diff.Changed, sources.Change(c))
		}
	}
	return doc
}

// inventoryDiff fetches a source of -i.
func (a *app) inventoryDiff(ctx context.Context, f *inventoryFlags, name string) error {
	s, err := f.inv.Source(name)
	if err != nil {
		return err
	}
	k, end, err := f.inv.Keeper(ctx)
	if err != nil {
		return err
	}
	defer end()
	var doc reviewDoc
	if doc.State, err = k.Refresh(ctx, s); err != nil {
		return err
	}
	used, held, err := k.Generations(ctx, s)
	if err != nil {
		return err
	}
	if doc.State.Waiting != nil {
		d, err := sources.Diff(ctx, used, held)
		if err != nil {
			return err
		}
		doc.Diff = &d
	}
	return a.printReview(doc, s.Given)
}

// printReview shows a source; where names its file or server in the next command.
func (a *app) printReview(doc reviewDoc, where string) error {
	if a.Output == "json" {
		return console.PrintJSON(a.Out, doc)
	}
	st := doc.State
	if st.Failed != "" {
		fmt.Fprintln(a.Out, st.Failed)
	}
	if !st.Good.IsZero() {
		fmt.Fprintf(a.Out, "source %s: in use: %s of %s, generation %s\n", st.Source, core.Plural(st.Hosts, "host"), st.Good.Format("2006-01-02T15:04:05Z07:00"), st.ID)
	}
	for _, left := range st.Left {
		fmt.Fprintln(a.Out, "left out: "+left)
	}
	if st.Waiting == nil || doc.Diff == nil {
		return nil
	}
	fmt.Fprintf(a.Out, "waiting for approval, with %s: %s\n", core.Plural(st.Waiting.Hosts, "host"), st.Waiting.Why)
	for _, h := range doc.Diff.Removed {
		fmt.Fprintln(a.Out, "- "+h)
	}
	for _, h := range doc.Diff.Added {
		fmt.Fprintln(a.Out, "+ "+h)
	}
	for _, h := range doc.Diff.Changed {
		fmt.Fprintf(a.Out, "~ %s: %s\n", h.Host, strings.Join(h.Fields, ", "))
	}
	fmt.Fprintf(a.Out, "to use it: turnus inventory approve %s %s --generation %s\n", st.Source, where, st.Waiting.ID)
	return nil
}

func (a *app) inventoryApproveCmd() *cobra.Command {
	var f inventoryFlags
	var generation string
	c := &cobra.Command{
		Use:   "approve SOURCE --generation ID",
		Short: "Use the waiting generation of a source that turnus inventory diff showed",
		Long: `Use the waiting generation of a source that turnus inventory diff showed. At a server it needs
a token of an approver.`,
		Example: `  turnus inventory approve nb -i sources.yaml --generation sha256:0f3a
  turnus inventory approve nb --context prod --generation sha256:0f3a`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&f.remote, sourceNames),
	}
	approved := func(name string, hosts int) {
		a.Message(fmt.Sprintf("source %s: in use: %s", name, core.Plural(hosts, "host")))
	}
	c.RunE = a.either(&f, func(ctx context.Context, c *client.Client, args []string) error {
		s, err := c.ApproveSource(ctx, args[0], generation)
		if err == nil {
			approved(s.Name, s.Hosts)
		}
		return err
	}, func(ctx context.Context, args []string) error {
		s, err := f.inv.Source(args[0])
		if err != nil {
			return err
		}
		k, end, err := f.inv.Keeper(ctx)
		if err != nil {
			return err
		}
		defer end()
		st, err := k.Approve(ctx, "", s, generation)
		if err != nil {
			return invalidIf(err, core.ErrNotFound, core.ErrConflict)
		}
		approved(s.Name, st.Hosts)
		return nil
	})
	f.add(c)
	c.Flags().StringVar(&generation, "generation", "", "id of the generation, as turnus inventory diff shows it")
	needs(c, "generation")
	return c
}
