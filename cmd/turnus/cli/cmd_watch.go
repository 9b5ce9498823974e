package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core/client"
)

func (a *app) watchCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "watch RUN", Short: "Watch a run to its end, live", Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&r, remote.RunIDs),
		Long: `Watch a run to its end, with the live view and the exit code of turnus run. Ctrl-C ends
the watching only. It continues when the server is back after an outage.`,
		Example: "  turnus watch 20261120-021500-ab3cd5ef",
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
			return runview.Watch(ctx, a.Console, c, args[0])
		}),
	}
	r.Add(c)
	return c
}
