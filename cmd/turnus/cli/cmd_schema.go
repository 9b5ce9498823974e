package cli

import (
	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/playbooks"
)

func (a *app) schemaCmd() *cobra.Command {
	var plugins node.PluginFlags
	others := map[string]func() ([]byte, error){"inventory": inventory.Schema, "sources": sources.Schema}
	c := &cobra.Command{
		Use:   "schema [inventory|sources]",
		Short: "Print the JSON Schema of playbooks, inventories, or files of sources, for editors",
		Example: `  turnus project schema > .turnus.schema.json
  # then, as the first line of a playbook, for yaml-language-server:
  # yaml-language-server: $schema=.turnus.schema.json
  turnus project schema inventory > .turnus.inventory.schema.json
  turnus project schema sources > .turnus.sources.schema.json`,
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: []string{"inventory", "sources"},
		RunE: func(_ *cobra.Command, args []string) error {
			schema := func() ([]byte, error) {
				sup, err := plugins.Supervisor(nil)
				if err != nil {
					return nil, err
				}
				return playbooks.Schema(node.JobTypes(sup))
			}
			if len(args) > 0 {
				if schema = others[args[0]]; schema == nil {
					return console.Invalid("turnus project schema %s: expected inventory or sources, or nothing for playbooks\nhint: turnus project schema inventory", args[0])
				}
			}
			text, err := schema()
			if err == nil {
				_, err = a.Out.Write(text)
			}
			return err
		},
	}
	plugins.Add(c)
	return c
}
