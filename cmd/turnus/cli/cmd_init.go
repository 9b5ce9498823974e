package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/project"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/playbooks"
)

func (a *app) initCmd() *cobra.Command {
	var o project.Options
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Begin a project: playbook, inventory, windows, turnus.yaml, a check for CI",
		Long: `Begin a project in DIR, or in the current folder: a playbook that runs as it is, an inventory,
a maintenance window, turnus.yaml with defaults for turnus run, a check for CI, and a README.
Files that exist are not replaced.`,
		Example: `  turnus init ops --host web1 --host web2
  cd ops && turnus run playbooks/motd.yaml --check --diff`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Dir = "."
			if len(args) > 0 {
				o.Dir = args[0]
			}
			return a.init(cmd.Context(), o)
		},
	}
	c.Flags().StringArrayVar(&o.Hosts, "host", nil, "a host of the new inventory: a name, or a range such as web[1:20].example.net (repeatable)")
	return c
}

func (a *app) init(ctx context.Context, o project.Options) error {
	for _, host := range o.Hosts {
		if _, err := inventory.Load(ctx, []string{host + ","}); err != nil {
			return console.Invalid("--host %s: %w", console.Printable(host), err)
		}
	}
	sup, err := new(node.PluginFlags).Supervisor(nil)
	if err != nil {
		return err
	}
	if o.Schema, err = playbooks.Schema(node.JobTypes(sup)); err != nil {
		return err
	}
	files, err := project.New(o)
	if errors.Is(err, fs.ErrExist) {
		return console.Invalid("%w\nhint: turnus init NEW-FOLDER", err)
	}
	if err != nil {
		return err
	}
	if a.Output == "json" {
		return console.PrintJSON(a.Out, map[string]any{"dir": o.Dir, "files": files})
	}
	for _, f := range files {
		fmt.Fprintln(a.Out, filepath.Join(o.Dir, f))
	}
	next := "turnus run playbooks/motd.yaml --check --diff"
	if o.Dir != "." {
		next = "cd " + o.Dir + " && " + next
	}
	if len(o.Hosts) == 0 {
		a.Message("write your hosts into " + filepath.Join(o.Dir, "inventory/hosts"))
	}
	a.Message("next: " + next)
	return nil
}
