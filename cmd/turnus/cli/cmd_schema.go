package cli

import (
	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/playbooks"
)

func (a *app) schemaCmd() *cobra.Command {
	var plugins node.PluginFlags
	c := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of playbooks, for editors",
		Example: `  turnus project schema > .turnus.schema.json
  # then, as the first line of a playbook, for yaml-language-server:
  # yaml-language-server: $schema=.turnus.schema.json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
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
