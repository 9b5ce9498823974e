package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/help"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

func (a *app) workersCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "workers", Short: "List workers, and take them out of service",
		Example: `  turnus admin workers ls
  turnus admin workers drain node-7 --reason "kernel update"`,
	}
	c.AddCommand(a.workersListCmd(),
		a.workerVerb("cordon", "Give a worker no further jobs; what it has continues", (*client.Client).CordonWorker),
		a.workerVerb("uncordon", "Give a worker jobs again", (*client.Client).UncordonWorker),
		a.workerVerb("drain", "Have a worker give its jobs to others after the step that runs, and end", (*client.Client).DrainWorker))
	return c
}

func workerNames(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.Workers(ctx, client.Page{Limit: 500})
	return core.Map(list.Items, func(w api.Worker) string { return w.Name + "\t" + w.State }), err
}

func (a *app) workersListCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "ls", Short: "List workers, with what they carry", Args: cobra.NoArgs, Example: "  turnus admin workers ls -o json",
	}
	list := func(ctx context.Context, c *client.Client, _ []string) ([]api.Worker, error) {
		return client.All(ctx, 0, c.Workers)
	}
	return remote.Table(a.Console, c, &r, list, []string{"WORKER", "STATE", "JOBS", "CPU", "MEMORY", "POOL", "VERSION", "UP"}, workerCells)
}

func workerCells(w *api.Worker) []string {
	if w.Started.IsZero() { // it is away: only the request to it is known
		return []string{w.Name, w.State, "", "", "", "", "", ""}
	}
	return []string{
		w.Name, w.State, fmt.Sprintf("%d/%d", w.Running, w.Concurrency), fmt.Sprintf("%.0f%%", 100*w.CPU), fmt.Sprintf("%.0f%%", 100*w.Memory),
		w.Pool, w.Version, console.Short(time.Since(w.Started).Round(time.Second)),
	}
}

func (a *app) workerVerb(verb, text string, do func(*client.Client, context.Context, string, string) (api.Worker, error)) *cobra.Command {
	var r remote.Flags
	var reason string
	c := &cobra.Command{
		Use: verb + " WORKER", Short: text, Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&r, workerNames),
		Example: "  turnus admin workers " + verb + " node-7",
	}
	reasonFlag(c, &reason)
	ask := func(ctx context.Context, c *client.Client, args []string) (api.Worker, error) {
		return do(c, ctx, args[0], reason)
	}
	return remote.Shown(a.Console, c, &r, ask, func(w api.Worker) {
		fmt.Fprintf(a.Out, "%s: %s, %s run\n", w.Name, w.State, core.Plural(w.Running, "job"))
	})
}

func (a *app) queueCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "queue", Short: "Show the state of the queue", Args: cobra.NoArgs,
		Annotations: map[string]string{help.Alone: "yes"},
		Example:     "  turnus admin queue",
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, _ []string) error {
			q, err := c.Queue(ctx)
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, q)
			}
			if q.Away != "" {
				fmt.Fprintf(a.Out, "%s, away: %s\n", q.Backend, console.Printable(q.Away))
				return nil
			}
			console.Table(a.Out, [][]string{
				{"BACKEND", "RUNS", "READY", "TENANTS", "IN FLIGHT", "TIMED", "NODES", "OLDEST OVERDUE"},
				{q.Backend, strconv.Itoa(q.Runs), strconv.Itoa(q.Ready), strconv.Itoa(q.Tenants), strconv.Itoa(q.InFlight), strconv.Itoa(q.Timed), strconv.Itoa(q.Sessions), console.Short(q.Oldest.Duration())},
			})
			return nil
		}),
	}
	r.Add(c)
	c.AddCommand(a.queueACLCmd())
	return c
}

// hostJobsCmd lists jobs of a host.
func (a *app) hostJobsCmd(use, short string, read func(*client.Client, context.Context, string, client.Page) (client.List[api.Job], error)) *cobra.Command {
	var r remote.Flags
	var m most
	c := &cobra.Command{
		Use: use + " HOST", Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&r, remote.HostNames),
		Example: "  turnus hosts " + use + " fw1 -n 10",
	}
	m.add(c, "jobs")
	list := func(ctx context.Context, c *client.Client, args []string) ([]api.Job, error) {
		return client.All(ctx, m.n, func(ctx context.Context, p client.Page) (client.List[api.Job], error) {
			return read(c, ctx, args[0], p)
		})
	}
	return remote.Table(a.Console, c, &r, list, []string{"STARTED", "PLAYBOOK", "STATE", "RUN", "WORKER", "REASON"}, func(j *api.Job) []string {
		state := runview.Marked(cmp.Or(string(j.Outcome), string(j.State)), j.Check)
		return []string{console.LocalTime(j.Started), j.Playbook, state, j.Run, j.Worker, a.Out.Cell(j.Reason)}
	})
}
