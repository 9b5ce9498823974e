package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/planview"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/plugins/host"
)

// planFlags are the flags of plan beyond what it shares with run.
type planFlags struct {
	play        localrun.PlayFlags
	plugins     node.PluginFlags
	remote      remote.Flags
	at, by      string
	workers     int
	concurrency int
	listHosts   bool
}

func (a *app) planCmd() *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan PLAYBOOK... -i INVENTORY",
		Short: "Show what a run would do: hosts, waves, start times and a forecast of the end; contacts no host",
		Long: `Show what a run would do: hosts, waves, order and limits; when each host may start, and what
blocks it until then; hosts that no window fits; an estimate of the end, and the limit that costs
most time. It contacts no host.

Durations of steps come from recent runs on this machine, or with --server (or --context) from
those on that server. Hosts, windows, facts and the needs of steps without needs: come from this
machine in both cases.

The exit code is 0 even if no window fits some hosts: they are listed. turnus run refuses such a
run with 5.`,
		Example: `  turnus plan site.yaml -i hosts.yaml
  turnus plan firmware.yaml -i hosts.yaml --windows windows/ --at 2026-12-18T12:00:00Z --workers 2
  turnus plan firmware.yaml -i hosts.yaml --windows windows/ -o svg > plan.svg
  turnus plan site.yaml -i hosts.ini --context prod --limit 'web*'
  turnus plan site.yaml -i hosts.ini --limit 'web*' -o json`,
		Args:        cobra.MinimumNArgs(1),
		Annotations: map[string]string{"svg": "yes", localrun.ProjectToo: "yes"},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			sup, err := f.plugins.Supervisor(nil)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, sup.Stop(cmd.Context())) }()
			f.plugins.ReportDev(a.Console)
			return a.plan(cmd, args, &f, sup)
		},
	}
	f.play.Add(c)
	f.play.SkipNoWindow = true
	f.plugins.Add(c)
	f.plugins.AddDev(c)
	f.remote.Add(c)
	c.Flags().StringVar(&f.at, "at", "", "when the run would be launched: RFC 3339, or local time of this machine (default: now)")
	c.Flags().StringVar(&f.by, "by", "", "show each host, or each customer (default: host, and customer over 200 hosts)")
	c.Flags().IntVar(&f.workers, "workers", 1, "workers that take part")
	c.Flags().IntVarP(&f.concurrency, "forks", "f", 256, "jobs at the same time on each worker")
	c.Flags().BoolVar(&f.listHosts, "list-hosts", false, "list the hosts of the run and end")
	return c
}

// bounds of --workers and --forks together: more than the hosts changes nothing.
const (
	maxWorkers     = 1 << 20
	maxConcurrency = 1 << 30
)

func (f *planFlags) check() error {
	switch {
	case f.by != "" && f.by != "host" && f.by != "customer":
		return console.Invalid("--by %s: expected host or customer", f.by)
	case f.workers < 1 || f.workers > maxWorkers:
		return console.Invalid("--workers %d: expected at least 1, at most %d", f.workers, maxWorkers)
	case f.concurrency < 1 || f.concurrency > maxConcurrency/f.workers:
		return console.Invalid("--forks %d: expected a concurrency from 1 to %d\nhint: -f 10, or leave it out", f.concurrency, maxConcurrency/f.workers)
	}
	return nil
}

func (a *app) plan(cmd *cobra.Command, args []string, f *planFlags, sup *host.Supervisor) error {
	if err := f.check(); err != nil {
		return err
	}
	at, err := instantFlag("--at", f.at, time.Local)
	if err != nil {
		return err
	}
	f.play.At = at
	inv, hosts, err := f.play.Inv.Load(cmd.Context())
	if err != nil {
		return err
	}
	record, err := localrun.ReadRecord(cmd.Context(), a.Console)
	if err != nil && !f.play.RetryFailed {
		a.Report(a.Paint(console.Yellow, "warning: ") + "cannot read earlier runs: " + core.ErrorText(err))
		err = nil
	}
	if err != nil {
		return err
	}
	if record != nil {
		defer func() { _ = record.Close(cmd.Context()) }() // it was only read
	}
	var none []*launch.NoWindowError
	f.play.NoWindow = func(e *launch.NoWindowError) { none = append(none, e) }
	f.play.Retried = func(r *api.Retried) { runview.WriteRetried(a.Console, r) }
	launches, err := f.play.Prepare(cmd.Context(), args, inv, hosts, sup, record)
	if err != nil {
		return err
	}
	if n := len(none) + len(launches); a.Output == "svg" && n > 1 {
		return console.Invalid("-o svg: %s are given, and a picture shows one\nhint: turnus plan PLAYBOOK -o svg, one call for each", core.Plural(n, "playbook"))
	}
	o := planview.Options{At: f.play.At, By: f.by, Workers: f.workers, Concurrency: f.concurrency, Calendar: f.play.Windows.Calendar(), Types: node.PlaybookOptions(sup, nil).Types}
	for _, e := range none {
		if err := planview.ShowNone(a.Console, e, o); err != nil {
			return err
		}
	}
	if f.listHosts {
		return localrun.ListLaunches(a.Console, launches)
	}
	for _, l := range launches {
		if o.Past, err = f.past(cmd.Context(), l.Playbook.Name, record); err != nil {
			return remote.Reported(err)
		}
		d, err := planview.New(l, o)
		if err != nil {
			return err
		}
		if err := planview.Show(a.Console, d); err != nil {
			return err
		}
	}
	return nil
}

// past is how long the steps of a playbook took: on the server that flags name, else on this
// machine.
func (f *planFlags) past(ctx context.Context, playbook string, record *localrun.Record) (func(step, uses string) *forecast.Learned, error) {
	if f.remote.Server == "" && f.remote.Context == "" {
		return record.Learned(ctx, playbook).Step, nil
	}
	c, err := f.remote.Client(0)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	steps, err := c.Durations(ctx, playbook)
	return func(step, uses string) *forecast.Learned {
		for _, s := range steps.Items {
			if s.Step == step && s.Uses == uses {
				return &forecast.Learned{Took: core.Map(s.Took, core.Seconds.Duration), Runs: s.Runs, Hosts: s.Hosts}
			}
		}
		return nil
	}, err
}
