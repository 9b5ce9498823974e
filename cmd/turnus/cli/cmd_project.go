package cli

import "github.com/spf13/cobra"

func (a *app) projectCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "project", Short: "Apply and compare projects, list playbooks, print the schema for editors",
		Long: "A project is a folder of playbooks, inventory and windows. Compare it with that of a server, and apply it there.",
		Example: `  turnus project diff .
  turnus project apply .
  turnus project playbooks ls`,
	}
	c.AddCommand(a.applyCmd(), a.diffCmd(), a.playbooksCmd(), a.schemaCmd())
	return c
}
