package cli

import (
	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/playbooks"
)

func (a *app) schemaCmd() *cobra.Command {
	var plugins node.PluginFlags
	c := &cobra.Command{
		Use:   "schema [sources]",
		Short: "Print the JSON Schema of playbooks, or of files of sources, for editors",
		Example: `  turnus project schema > .turnus.schema.json
  # then, as the first line of a playbook, for yaml-language-server:
  # yaml-language-server: $schema=.turnus.schema.json
  turnus project schema sources > .turnus.sources.schema.json`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: []string{"sources"},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] != "sources" {
				return console.Invalid("turnus project schema %s: expected sources, or nothing for playbooks\nhint: turnus project schema sources", args[0])
			}
			if len(args) > 0 {
				schema, err := sources.Schema()
				if err == nil {
					_, err = a.Out.Write(append(schema, '\n'))
				}
				return err
			}
			sup, err := plugins.Supervisor(nil)
			if err != nil {
				return err
			}
			schema, err := playbooks.Schema(node.JobTypes(sup))
			if err != nil {
				return err
			}
			_, err = a.Out.Write(append(schema, '\n'))
			return err
		},
	}
	plugins.Add(c)
	return c
}
