package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/core/client"
)

func (a *app) hostFactsCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "facts HOST", Short: "Show the newest facts of a host, and their age", Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&r, remote.HostNames),
		Long: `Show the newest facts of a host, and their age. Runs gather facts: where a step reads
host.facts, and with the job type facts. targets of a playbook read what is shown here.

Those of runs on a server are kept there; --local asks for those of turnus run, which are kept on this machine.`,
		Example: `  turnus hosts facts web1
  turnus hosts facts web1 --local -o json`,
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
			all, err := c.HostFacts(ctx, args[0])
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, console.ListOf(all))
			}
			for _, f := range all {
				text, err := console.YAMLText(f.Facts)
				if err != nil {
					return err
				}
				name, booted := f.Host, ""
				if f.Tenant != "" {
					name += " of " + f.Tenant
				}
				if f.Booted {
					booted = "; the host has booted since, so targets do not count them"
				}
				fmt.Fprintf(a.Out, "%s: gathered %s, %s ago, by run %s%s\n%s", console.Printable(name), console.LocalTime(f.At), time.Since(f.At).Round(time.Second), f.Run, booted, text)
			}
			return nil
		}),
	}
	r.Add(c)
	r.AddLocal(c, true)
	return c
}
