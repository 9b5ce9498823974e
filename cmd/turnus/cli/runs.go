package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/core"
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
			if a.output == "json" {
				return printJSON(a.out, runs)
			}
			cells := [][]string{{"RUN", "PLAYBOOK", "PHASE", "HOSTS", "OUTCOMES", "LAUNCHED", "BY"}}
			for i := range runs {
				run := &runs[i]
				cells = append(cells, []string{run.ID, run.Playbook, string(run.Phase), strconv.Itoa(run.Total), outcomeText(run.Outcomes), localTime(run.Created), run.LaunchedBy})
			}
			table(a.out, cells)
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
			if a.output == "json" && !jobs {
				return printJSON(a.out, run)
			}
			list, err := a.jobsOf(ctx, c, run, !jobs)
			if err != nil {
				return err
			}
			if a.output == "json" {
				return printJSON(a.out, list)
			}
			a.writeRun(run)
			if jobs {
				cells := [][]string{{"INDEX", "HOST", "STATE", "STEP", "WORKER", "TOOK"}}
				for i := range list {
					cells = append(cells, jobCells(&list[i]))
				}
				table(a.out, cells)
				return nil
			}
			a.writeReasons(a.out, resultsOf(list))
			return nil
		}),
	}
	r.add(c)
	c.Flags().BoolVar(&jobs, "jobs", false, "list every host, also those that wait and run; with -o json the jobs instead of the run")
	return c
}

// jobsOf lists the jobs of a run; bad takes those with an outcome that is not good only.
func (a *app) jobsOf(ctx context.Context, c *client.Client, run api.Run, bad bool) ([]api.Job, error) {
	if !bad {
		return client.All(ctx, 0, func(ctx context.Context, p client.Page) (client.List[api.Job], error) {
			return c.Jobs(ctx, run.ID, client.JobFilter{}, p)
		})
	}
	var list []api.Job
	for _, o := range core.Outcomes() {
		if o.Good() || run.Outcomes[o] == 0 {
			continue
		}
		some, err := client.All(ctx, 0, func(ctx context.Context, p client.Page) (client.List[api.Job], error) {
			return c.Jobs(ctx, run.ID, client.JobFilter{Outcome: o}, p)
		})
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

func jobCells(j *api.Job) []string {
	state, took := string(j.Outcome), ""
	if state == "" {
		state = string(j.State)
	}
	if !j.Started.IsZero() && !j.Ended.IsZero() {
		took = short(j.Ended.Sub(j.Started))
	}
	return []string{strconv.Itoa(j.Index), j.Host, state, j.Step, j.Worker, took}
}

// writeRun shows a run, a line each thing that is known.
func (a *app) writeRun(r api.Run) {
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(a.out, "%-12s %s\n", name, printable(value))
		}
	}
	row("run", r.ID)
	row("playbook", r.Playbook)
	row("tenant", r.Tenant)
	row("revision", r.Revision)
	row("phase", string(r.Phase))
	row("reason", r.Reason)
	row("launched", localTime(r.Created)+" by "+r.LaunchedBy)
	row("ended", localTime(r.Ended))
	if r.Check {
		row("check", "nothing is changed")
	}
	row("hosts", strconv.Itoa(r.Total))
	row("outcomes", outcomeText(r.Outcomes))
	if r.Handlers > 0 {
		row("handlers", fmt.Sprintf("%d pending: turnus handlers ls --run %s", r.Handlers, r.ID))
	}
	if l := r.Live; l != nil {
		row("now", liveText(l))
	}
	row("waits", waitsText(r))
}

func liveText(l *api.Live) string {
	parts := []string{fmt.Sprintf("wave %d of %d", l.Wave, l.Waves)}
	for _, p := range []struct {
		n    int
		what string
	}{
		{l.InFlight, "in flight"},
		{l.Pending, "pending"},
		{l.Blocked, "behind another job of their host or HA group"},
		{l.Waiting, "before another attempt"},
		{l.Suspended, "suspended"},
		{l.Deferred, "waiting for their window"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

// waitsText says for whom a run waits, and what that person types.
func waitsText(r api.Run) string {
	switch {
	case r.Phase == api.Approval:
		return "for an approval before it starts: turnus approve " + r.ID
	case r.Waits != nil:
		return fmt.Sprintf("for an approval of wave %d (%s): turnus approve %s --wave %d", r.Waits.Wave, plural(r.Waits.Hosts, "host"), r.ID, r.Waits.Wave)
	case r.Phase == api.Paused:
		return "until somebody resumes it: turnus resume " + r.ID
	}
	return ""
}

// outcomeText counts outcomes in the order of recaps.
func outcomeText(outcomes map[core.Outcome]int) string {
	var parts []string
	for _, o := range core.Outcomes() {
		if n := outcomes[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(o), "_", " ")))
		}
	}
	return strings.Join(parts, ", ")
}

func localTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// resultOf is a job as recaps know it.
func resultOf(j api.Job) core.Result {
	r := core.Result{
		Job: core.JobID{Run: j.Run, Index: j.Index}, Host: j.Host, Customer: j.Customer, Outcome: j.Outcome, Reason: j.Reason, Step: j.Step,
		Attempt: j.Attempt, Worker: j.Worker, Started: j.Started, Steps: j.Steps,
	}
	if !j.Ended.IsZero() && !j.Started.IsZero() {
		r.Took = j.Ended.Sub(j.Started)
	}
	return r
}

func resultsOf(jobs []api.Job) []core.Result {
	list := make([]core.Result, 0, len(jobs))
	for _, j := range jobs {
		if j.Outcome != "" {
			list = append(list, resultOf(j))
		}
	}
	return list
}
