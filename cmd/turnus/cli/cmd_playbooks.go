package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

func (a *app) playbooksCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "playbooks", Short: "List and show the playbooks that a server can run",
		Example: `  turnus project playbooks ls
  turnus project playbooks show ntp`,
	}
	c.AddCommand(a.playbooksListCmd(), a.playbooksShowCmd())
	return c
}

func (a *app) playbooksListCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "ls", Short: "List the playbooks of the server's project", Args: cobra.NoArgs, Example: "  turnus project playbooks ls",
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, _ []string) error {
			all, err := client.All(ctx, 0, c.Playbooks)
			if err != nil {
				return err
			}
			if now, err := c.Definitions(ctx); err == nil && now.Rejected != nil { // a person who may not ask gets the list alone
				a.Report(a.Paint(console.Yellow, "warning: ") + service.RejectionText(now.Rejected.Revision, now.Rejected.Author, now.Rejected.Since, now.Rejected.Error))
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, console.ListOf(all))
			}
			if len(all) == 0 {
				a.Message("the server has no playbooks; turnus project apply DIR gives it some")
			}
			cells := [][]string{{"PLAYBOOK", "TENANT", "STEPS", "SCHEDULE", "WINDOW", "DESCRIPTION"}}
			for _, b := range all {
				cells = append(cells, []string{b.Name, b.Tenant, strconv.Itoa(len(b.Steps)), b.Schedule, b.Window, a.Out.Cell(b.Description)})
			}
			console.Table(a.Out, cells)
			return nil
		}),
	}
	r.Add(c)
	return c
}

func (a *app) playbooksShowCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "show PLAYBOOK", Short: "Print a playbook as the server has it", Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&r, playbookNames),
		Example: "  turnus project playbooks show ntp",
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
			playbook, err := c.Playbook(ctx, args[0])
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, playbook)
			}
			return a.showPlaybook(&playbook)
		}),
	}
	r.Add(c)
	return c
}

// showPlaybook writes its source, byte by byte where stdout is no terminal.
func (a *app) showPlaybook(b *api.Playbook) error {
	if !a.Out.OnTerminal() {
		_, err := a.Out.Raw().Write([]byte(b.Source))
		return err
	}
	_, err := fmt.Fprintln(a.Out, strings.TrimSuffix(console.PrintableLines(b.Source), "\n"))
	return err
}
