package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/pictures"
)

func (a *app) runsCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "runs", Short: "List, show and change runs, of a server or of turnus run on this machine",
		Long: `List, show and change the runs of a server.

turnus run records its runs on this machine; ls, show, explain and attempts (and turnus logs) read
that record with --local, and also where no server is named.`,
		Example: `  turnus runs ls --playbook ntp
  turnus runs show 20261120-021500-ab3cd5ef
  turnus runs ls --local`,
	}
	c.AddCommand(a.runsListCmd(), a.runsShowCmd(), a.runsForecastCmd(), a.runsSetCmd(), a.runsDecisionsCmd(), a.runsAttemptsCmd(), a.logsCmd(), a.watchCmd(),
		a.cancelCmd(), a.pauseCmd(), a.resumeCmd(), a.approveCmd(), a.retryCmd(), a.signalCmd(), a.explainCmd())
	return c
}

// most is how many entries of a list are shown.
type most struct{ n int }

func (m *most) add(c *cobra.Command, what string) {
	c.Flags().IntVarP(&m.n, "limit", "n", 50, "at most so many "+what+"; 0 is all")
}

func (a *app) runsListCmd() *cobra.Command {
	var r remote.Flags
	var f client.RunFilter
	var m most
	c := &cobra.Command{
		Use: "ls", Short: "List runs, newest first", Args: cobra.NoArgs,
		Example: `  turnus runs ls --phase active
  turnus runs ls --host fw1 -n 10 -o json`,
	}
	list := func(ctx context.Context, c *client.Client, _ []string) ([]api.Run, error) {
		return client.All(ctx, m.n, func(ctx context.Context, p client.Page) (client.List[api.Run], error) { return c.Runs(ctx, f, p) })
	}
	remote.Table(a.Console, c, &r, list, []string{"RUN", "PLAYBOOK", "PHASE", "HOSTS", "OUTCOMES", "LAUNCHED", "BY"}, func(run *api.Run) []string {
		return []string{run.ID, run.Playbook, string(run.Phase), strconv.Itoa(run.Total), runview.Marked(runview.OutcomeText(run.Outcomes), run.Check), console.LocalTime(run.Created), run.LaunchedBy}
	})
	r.AddLocal(c, true)
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
	var r remote.Flags
	var jobs bool
	var wave int
	c := &cobra.Command{
		Use: "show RUN", Short: "Show a run: its phase and outcomes, and the hosts that did not succeed", Args: cobra.ExactArgs(1),
		Example: `  turnus runs show 20261120-021500-ab3cd5ef --jobs
  turnus runs show 20261120-021500-ab3cd5ef -o svg > run.svg   # waves, windows and forecast
  turnus runs show 20261120-021500-ab3cd5ef -o svg --wave 1 > wave.svg   # the hosts of wave 1
  turnus runs show 20261120-021500-ab3cd5ef --jobs -o svg > grid.svg   # each step of each host`,
		Annotations: map[string]string{"svg": "yes"}, ValidArgsFunction: remote.Complete(&r, remote.RunIDs),
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
			if wave != 0 && (a.Output != "svg" || jobs) {
				return console.Invalid("--wave %d: expected the number of a wave, with -o svg and without --jobs\nhint: turnus runs show %s -o svg --wave 1", wave, args[0])
			}
			run, err := c.Run(ctx, args[0])
			if err != nil {
				return err
			}
			if a.Output == "json" && !jobs {
				return console.PrintJSON(a.Out, run)
			}
			if a.Output == "svg" {
				return a.printRunPicture(ctx, c, run, jobs, wave)
			}
			list, err := runview.JobsOf(ctx, c, run, !jobs)
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, console.ListOf(list))
			}
			runview.WriteRun(a.Console, run, c.Local())
			if !run.Phase.Over() {
				if f, err := c.Forecast(ctx, run.ID); err == nil { // an older server has none
					runview.WriteForecast(a.Console, f)
				}
			}
			if jobs {
				cells := [][]string{{"INDEX", "HOST", "STATE", "STEP", "WORKER", "TOOK"}}
				for i := range list {
					cells = append(cells, runview.JobCells(&list[i]))
				}
				console.Table(a.Out, cells)
				return nil
			}
			runview.WriteReasons(a.Console, a.Out, runview.ResultsOf(list))
			if run.MayHaveBegun == 0 {
				return nil
			}
			touched, err := client.All(ctx, 0, func(ctx context.Context, p client.Page) (client.List[api.Job], error) {
				return c.Jobs(ctx, run.ID, client.JobFilter{State: "uncertain"}, p)
			})
			runview.WriteTouched(a.Console, touched)
			return err
		}),
	}
	r.Add(c)
	r.AddLocal(c, true)
	c.Flags().BoolVar(&jobs, "jobs", false, "list every host, also those that wait and run; with -o json the jobs instead of the run, with -o svg the grid of hosts and steps")
	c.Flags().IntVar(&wave, "wave", 0, "with -o svg: draw the hosts of this wave, up to 200; those without an outcome first, then those that took longest")
	return c
}

// printRunPicture draws a picture of the page of a run: its timeline, the hosts of a wave, or its
// grid.
func (a *app) printRunPicture(ctx context.Context, c *client.Client, run api.Run, grid bool, wave int) error {
	if grid {
		g, err := c.WholeGrid(ctx, run.ID)
		if err != nil {
			return err
		}
		return a.Out.Picture(pictures.GridDocument(&g, pictures.RunTitle(&run)))
	}
	t, err := c.Timeline(ctx, run.ID, wave)
	if err != nil {
		return err
	}
	return a.Out.Picture(pictures.RunDocument(&t, pictures.RunTitle(&run)))
}

func (a *app) runsForecastCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "forecast RUN", Short: "Estimate when a run ends, and what holds it up", Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&r, remote.RunIDs),
		Example: "  turnus runs forecast 20261120-021500-ab3cd5ef",
	}
	ask := func(ctx context.Context, c *client.Client, args []string) (api.Forecast, error) {
		return c.Forecast(ctx, args[0])
	}
	return remote.Shown(a.Console, c, &r, ask, func(f api.Forecast) {
		runview.WriteForecast(a.Console, f)
		cells := [][]string{{"STEP", "TYPE", "P50", "P90", "FROM"}}
		for _, s := range f.Steps {
			cells = append(cells, []string{s.Step, s.Uses, console.Short(s.P50.Duration()), console.Short(s.P90.Duration()), s.From})
		}
		console.Table(a.Out, cells)
	})
}

func (a *app) runsSetCmd() *cobra.Command {
	var r remote.Flags
	var weight, criticality, most int
	var c *cobra.Command
	c = a.runVerb("set", "Change an unfinished run: its weight, its limit of hosts at the same time, or its criticality before it is in the queue",
		"  turnus runs set 20261120-021500-ab3cd5ef --weight 4", &r, func(ctx context.Context, ask *client.Client, id string) (api.Run, error) {
			var change api.ChangeRun
			if c.Flags().Changed("weight") {
				change.Weight = &weight
			}
			if c.Flags().Changed("criticality") {
				change.Criticality = &criticality
			}
			if c.Flags().Changed("max-in-flight") {
				change.MaxInFlight = &most
			}
			if change == (api.ChangeRun{}) {
				return api.Run{}, console.Invalid("nothing to change: give --weight, --max-in-flight or --criticality")
			}
			return ask.ChangeRun(ctx, id, change)
		})
	c.Flags().IntVar(&weight, "weight", 0, "1 to 1000: its share of the workers' time beside other runs of its tenant")
	c.Flags().IntVar(&most, "max-in-flight", 0, "0 to 100000: hosts at the same time; 0 is no limit")
	c.Flags().IntVar(&criticality, "criticality", 0, "0 to 1000: higher ones come first when a lost queue is rebuilt")
	return c
}

func (a *app) runsDecisionsCmd() *cobra.Command {
	var r remote.Flags
	cmd := &cobra.Command{
		Use: "decisions RUN", Short: "List who approved or refused a run and its waves", Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&r, remote.RunIDs),
		Example: "  turnus runs decisions 20261120-021500-ab3cd5ef",
	}
	list := func(ctx context.Context, c *client.Client, args []string) ([]api.Decision, error) {
		all, err := c.Decisions(ctx, args[0])
		return all.Items, err
	}
	return remote.Table(a.Console, cmd, &r, list, []string{"TIME", "OF", "BY", "DECISION", "REASON"}, func(d *api.Decision) []string {
		of, word := "the run", "approved"
		if d.Wave > 0 {
			of = "wave " + strconv.Itoa(d.Wave)
		}
		if !d.Approve {
			word = "refused"
		}
		if d.Void {
			word += ", void: the run was changed afterwards"
		}
		return []string{console.LocalTime(d.Time), of, d.By, word, console.Printable(d.Reason)}
	})
}

func (a *app) runsAttemptsCmd() *cobra.Command {
	var r remote.Flags
	cmd := &cobra.Command{
		Use: "attempts RUN HOST", Short: "List what was tried on a host of a run", Args: cobra.ExactArgs(2), ValidArgsFunction: remote.CompleteRunHost(&r),
		Example: "  turnus runs attempts 20261120-021500-ab3cd5ef fw1",
	}
	list := func(ctx context.Context, c *client.Client, args []string) ([]api.Attempt, error) {
		job, err := runview.HostJob(ctx, c, args[0], args[1])
		if err != nil {
			return nil, err
		}
		all, err := c.Attempts(ctx, core.JobID{Run: job.Run, Index: job.Index})
		return all.Items, err
	}
	remote.Table(a.Console, cmd, &r, list, []string{"ATTEMPT", "STARTED", "TOOK", "OUTCOME", "STEP", "WORKER", "REASON"}, func(t *api.Attempt) []string {
		took := ""
		if !t.Started.IsZero() {
			took = console.Short(t.Ended.Sub(t.Started))
		}
		return []string{strconv.Itoa(t.Attempt), console.LocalTime(t.Started), took, string(t.Outcome), t.Step, t.Worker, a.Out.Cell(t.Reason)}
	})
	r.AddLocal(cmd, true)
	return cmd
}
