package cli

import (
	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/help"
	"github.com/turnus/turnus/cmd/turnus/node"
)

func (a *app) pluginsCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "plugins", Short: "Job types: list, document, make, test, install and lock them",
		Example: `  turnus plugins ls
  turnus plugins docs file`,
	}
	c.AddCommand(a.pluginsLsCmd(), a.pluginsDocsCmd(), a.pluginsInitCmd(), a.pluginsTestCmd(), a.pluginsInstallCmd(), a.pluginsLockCmd())
	return c
}

// jobTypeRow is one element of plugins ls -o json.
type jobTypeRow struct {
	Type       string `json:"type"`
	Plugin     string `json:"plugin"`
	Version    string `json:"version"`
	Summary    string `json:"summary"`
	Check      bool   `json:"check"`
	Idempotent bool   `json:"idempotent"`
	Disruptive bool   `json:"disruptive"`
}

func (a *app) pluginsLsCmd() *cobra.Command {
	var plugins node.PluginFlags
	c := &cobra.Command{
		Use: "ls", Short: "List the job types that playbooks can use", Args: cobra.NoArgs,
		Example: "  turnus plugins ls\n  turnus plugins ls --plugins plugins -o json",
		RunE: func(*cobra.Command, []string) error {
			sup, err := plugins.Supervisor(nil)
			if err != nil {
				return err
			}
			rows := []jobTypeRow{}
			cells := [][]string{{"TYPE", "PLUGIN", "VERSION", "CHECK", "DISRUPTIVE", "SUMMARY"}}
			for _, p := range sup.Plugins() {
				for _, t := range p.Manifest.Types {
					rows = append(rows, jobTypeRow{t.Name, p.Name, p.Version, t.Summary, t.Check, t.Idempotent, t.Disruptive})
					cells = append(cells, []string{t.Name, p.Name, p.Version, help.YesNo(t.Check), help.YesNo(t.Disruptive), t.Summary})
				}
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, console.ListOf(rows))
			}
			console.Table(a.Out, cells)
			return nil
		},
	}
	plugins.Add(c)
	return c
}
