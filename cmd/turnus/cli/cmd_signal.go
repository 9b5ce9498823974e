package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

func (a *app) signalCmd() *cobra.Command {
	var r remote.Flags
	var reason string
	var hosts []string
	c := &cobra.Command{
		Use: "signal RUN EVENT", Short: "Send an event to the jobs of a run that wait for it", Args: cobra.ExactArgs(2), ValidArgsFunction: remote.Complete(&r, remote.RunIDs),
		Long: `Send an event to the jobs of a run that their job type suspended until it comes: they continue
immediately. Other jobs are left alone. turnus runs show RUN --jobs prints the event that a job
waits for.`,
		Example: `  turnus runs signal 20261120-021500-ab3cd5ef ds-published
  turnus runs signal 20261120-021500-ab3cd5ef ds-published --host dns1 --reason "by the registrar's desk"`,
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
			n, err := postSignal(ctx, c, args[0], api.Signal{Event: args[1], Reason: reason}, hosts)
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, api.Signalled{Jobs: n})
			}
			fmt.Fprintf(a.Out, "%s: %s got the signal %s\n", args[0], core.Plural(n, "job"), args[1])
			return nil
		}),
	}
	r.Add(c)
	reasonFlag(c, &reason)
	c.Flags().StringSliceVar(&hosts, "host", nil, "only the job of this host; again for more")
	return c
}

// signal sends an event to the jobs of the hosts, or to all of the run where none is named.
func postSignal(ctx context.Context, c *client.Client, run string, w api.Signal, hosts []string) (n int, err error) {
	if len(hosts) == 0 {
		return c.SignalRun(ctx, run, w)
	}
	for _, host := range hosts {
		job, err := runview.HostJob(ctx, c, run, host)
		if err != nil {
			return n, err
		}
		w.Job = &job.Index
		one, err := c.SignalRun(ctx, run, w)
		if err != nil {
			return n, err
		}
		n += one
	}
	return n, nil
}
