package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core/client"
)

func (a *app) logsCmd() *cobra.Command {
	var r remote.Flags
	var host string
	var follow bool
	c := &cobra.Command{
		Use: "logs RUN", Short: "Show the outputs of a run's hosts", Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&r, remote.RunIDs),
		Long: `Show the outputs of a run's hosts, each line with its host and step. With --follow they
come as they are written, until the run has finished. A flood of lines is then shortened, with a
note; without --follow you get every line that was kept.`,
		Example: `  turnus logs 20261120-021500-ab3cd5ef --follow
  turnus logs 20261120-021500-ab3cd5ef --host fw1
  turnus logs 20261120-021500-ab3cd5ef -o json | jq -r '.items[].steps[]?.stdout'`,
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
			if follow {
				return runview.FollowLogs(ctx, a.Console, c, args[0], host)
			}
			return runview.Logs(ctx, a.Console, c, args[0], host)
		}),
	}
	r.Add(c)
	r.AddLocal(c, true)
	c.Flags().StringVar(&host, "host", "", "only of this host")
	remote.CompleteFlag(c, "host", &r, remote.HostNames)
	c.Flags().BoolVarP(&follow, "follow", "F", false, "show outputs as they are written, until the run has finished; with -o json a line each event")
	return c
}
