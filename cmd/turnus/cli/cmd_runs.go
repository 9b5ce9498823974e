package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

func (a *app) runsCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "runs", Short: "List and show the runs of a server",
		Example: `  turnus runs ls --playbook ntp
  turnus runs show 20261120-021500-ab3cd5ef`,
	}
	c.AddCommand(a.runsListCmd(), a.runsShowCmd())
	return c
}

// most is how many entries of a list are shown.
type most struct{ n int }

func (m *most) add(c *cobra.Command, what string) {
	c.Flags().IntVarP(&m.n, "limit", "n", 50, "at most so many "+what+"; 0 is all")
}

func (a *app) runsListCmd() *cobra.Command {
	var r remoteFlags
	var f client.RunFilter
	var m most
	c := &cobra.Command{
		Use: "ls", Short: "List runs, newest first", Args: cobra.NoArgs,
		Example: `  turnus runs ls --phase active
  turnus runs ls --host fw-1.acme -n 10 -o json`,
		RunE: a.remote(&r, func(ctx context.Context, c *client.Client, _ []string) error {
			runs, err := client.All(ctx, m.n, func(ctx context.Context, p client.Page) (client.List[api.Run], error) { return c.Runs(ctx, f, p) })
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, runs)
			}
			cells := [][]string{{"RUN", "PLAYBOOK", "PHASE", "HOSTS", "OUTCOMES", "LAUNCHED", "BY"}}
			for i := range runs {
				run := &runs[i]
				cells = append(cells, []string{run.ID, run.Playbook, string(run.Phase), strconv.Itoa(run.Total), runview.OutcomeText(run.Outcomes), console.LocalTime(run.Created), run.LaunchedBy})
			}
			console.Table(a.Out, cells)
			return nil
		}),
	}
	r.add(c)
	m.add(c, "runs")
	c.Flags().StringVar(&f.Playbook, "playbook", "", "only of this playbook")
	c.Flags().StringVar((*string)(&f.Phase), "phase", "", "only in this phase: approval, queued, active, paused, stopped, cancelled, finished")
	c.Flags().StringVar(&f.Host, "host", "", "only with an outcome on this host")
	c.Flags().StringVar((*string)(&f.Outcome), "outcome", "", "only with a host that ended so: failed, unreachable, …")
	c.Flags().StringVar(&f.By, "by", "", "only launched by this token's name, or schedule:NAME")
	_ = c.RegisterFlagCompletionFunc("phase", cobra.FixedCompletions([]string{"approval", "queued", "active", "paused", "stopped", "cancelled", "finished"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) runsShowCmd() *cobra.Command {
	var r remoteFlags
	var jobs bool
	c := &cobra.Command{
		Use: "show RUN", Short: "Show a run: where it stands, and its hosts that are not as they should be", Args: cobra.ExactArgs(1),
		Example:           "  turnus runs show 20261120-021500-ab3cd5ef --jobs",
		ValidArgsFunction: completion(&r, runIDs),
		RunE: a.remote(&r, func(ctx context.Context, c *client.Client, args []string) error {
			run, err := c.Run(ctx, args[0])
			if err != nil {
				return err
			}
			if a.Output == "json" && !jobs {
				return console.PrintJSON(a.Out, run)
			}
			list, err := runview.JobsOf(ctx, c, run, !jobs)
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, list)
			}
			runview.WriteRun(a.Console, run)
			if jobs {
				cells := [][]string{{"INDEX", "HOST", "STATE", "STEP", "WORKER", "TOOK"}}
				for i := range list {
					cells = append(cells, runview.JobCells(&list[i]))
				}
				console.Table(a.Out, cells)
				return nil
			}
			runview.WriteReasons(a.Console, a.Out, runview.ResultsOf(list))
			return nil
		}),
	}
	r.add(c)
	c.Flags().BoolVar(&jobs, "jobs", false, "list every host, also those that wait and run; with -o json the jobs instead of the run")
	return c
}
