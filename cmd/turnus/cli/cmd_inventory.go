package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/inventory/sources"
)

func (a *app) inventoryCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "inventory", Short: "Show where values of hosts come from, and review what sources of hosts give",
		Example: `  turnus inventory show web1 -i hosts.yaml
  turnus inventory diff nb -i sources.yaml
  turnus inventory approve nb -i sources.yaml --generation sha256:0f3a`,
	}
	c.AddCommand(a.inventoryShowCmd(), a.inventoryDiffCmd(), a.inventoryApproveCmd())
	return c
}

// inventoryFlags are those of all its commands.
type inventoryFlags struct {
	inv     localrun.InventoryFlags
	secrets node.SecretFlags
}

func (f *inventoryFlags) add(c *cobra.Command) {
	f.inv.AddSources(c)
	f.secrets.Add(c)
}

func (a *app) inventoryShowCmd() *cobra.Command {
	var f inventoryFlags
	c := &cobra.Command{
		Use:   "show HOST",
		Short: "Show each value of a host with the file, group or source that it comes from",
		Example: `  turnus inventory show web1 -i hosts.yaml
  turnus inventory show web1 -i sources.yaml -i hosts.yaml -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			origins, warnings, err := f.inv.Explain(cmd.Context(), args[0])
			if err != nil {
				return invalidIf(err, core.ErrNotFound)
			}
			a.Warn(warnings)
			return a.printOrigins(origins)
		},
	}
	f.add(c)
	return c
}

type originDoc struct {
	Field string `json:"field"`
	Value any    `json:"value"`
	Layer string `json:"layer"`
	Place string `json:"place"`
}

func (a *app) printOrigins(origins []inventory.Origin) error {
	if a.Output == "json" {
		docs := make([]originDoc, len(origins))
		for i, o := range origins {
			docs[i] = originDoc(o)
		}
		return console.PrintJSON(a.Out, console.ListOf(docs))
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
		cells = append(cells, []string{o.Field, value, o.Layer, o.Place})
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

// reviewDoc is what a person who approves has to know.
type reviewDoc struct {
	State sources.State       `json:"state"`
	Diff  *sources.Difference `json:"diff,omitempty"` // of the held generation against the one in use
}

func (a *app) inventoryDiffCmd() *cobra.Command {
	var f inventoryFlags
	c := &cobra.Command{
		Use:   "diff SOURCE",
		Short: "Fetch a source, and show what a held generation would change",
		Example: `  turnus inventory diff nb -i sources.yaml
  turnus inventory diff nb -i sources.yaml -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			s, err := f.inv.Source(args[0])
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
			if doc.State.Held != nil {
				d, err := sources.Diff(ctx, used, held)
				if err != nil {
					return err
				}
				doc.Diff = &d
			}
			return a.printReview(s.Name, doc)
		},
	}
	f.add(c)
	return c
}

func (a *app) printReview(name string, doc reviewDoc) error {
	if a.Output == "json" {
		return console.PrintJSON(a.Out, doc)
	}
	st := doc.State
	if st.Failed != "" {
		fmt.Fprintln(a.Out, st.Failed)
	}
	if !st.Good.IsZero() {
		fmt.Fprintf(a.Out, "source %s: in use: %s of %s\n", name, console.Plural(st.Hosts, "host"), st.Good.Format("2006-01-02T15:04:05Z07:00"))
	}
	for _, left := range st.Left {
		fmt.Fprintln(a.Out, "left out: "+left)
	}
	if st.Held == nil || doc.Diff == nil {
		return nil
	}
	fmt.Fprintf(a.Out, "held, with %s: %s\n", console.Plural(st.Held.Hosts, "host"), st.Held.Why)
	for _, h := range doc.Diff.Removed {
		fmt.Fprintln(a.Out, "- "+h)
	}
	for _, h := range doc.Diff.Added {
		fmt.Fprintln(a.Out, "+ "+h)
	}
	for _, h := range doc.Diff.Changed {
		fmt.Fprintf(a.Out, "~ %s: %s\n", h.Host, strings.Join(h.Fields, ", "))
	}
	fmt.Fprintf(a.Out, "to use it: turnus inventory approve %s --generation %s\n", name, st.Held.ID)
	return nil
}

func (a *app) inventoryApproveCmd() *cobra.Command {
	var f inventoryFlags
	var generation string
	c := &cobra.Command{
		Use:     "approve SOURCE --generation ID",
		Short:   "Use the held generation of a source that turnus inventory diff showed",
		Example: `  turnus inventory approve nb -i sources.yaml --generation sha256:0f3a`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := f.inv.Source(args[0])
			if err != nil {
				return err
			}
			k, end, err := f.inv.Keeper(cmd.Context())
			if err != nil {
				return err
			}
			defer end()
			st, err := k.Approve(cmd.Context(), "", s, generation)
			if err != nil {
				return invalidIf(err, core.ErrNotFound, core.ErrConflict)
			}
			a.Message(fmt.Sprintf("source %s: in use: %s", s.Name, console.Plural(st.Hosts, "host")))
			return nil
		},
	}
	f.add(c)
	c.Flags().StringVar(&generation, "generation", "", "id of the generation, as turnus inventory diff shows it")
	needs(c, "generation")
	return c
}
