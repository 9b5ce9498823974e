package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/service"
)

func (a *app) serverCmd() *cobra.Command { return a.serverService().cmd }

func (a *app) serverService() longRunning {
	var f service.ServerFlags
	c := &cobra.Command{
		Use:   "server --redis URL",
		Short: "Run the service without a worker: API, ledger and schedules, over a shared queue",
		Long: `Run the service without a worker: API, ledger and schedules, over a queue in Redis that
turnus worker processes share. Any number of servers may run over one Redis and one
PostgreSQL; none of them leads, and any may be stopped.`,
		Example: `  turnus server --redis rediss://queue:6379/0 --ledger postgres://turnus@db/turnus --repo https://git.example.net/ops.git
  turnus server --redis rediss://queue:6379/0 --project ./ops --listen 0.0.0.0:8470 --tls-cert tls.crt --tls-key tls.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return service.Serve(cmd.Context(), a.Console, &f) },
	}
	f.Service.Add(c)
	f.Plugins.Add(c)
	f.Secrets.Add(c)
	f.Trace.Add(c)
	c.Flags().StringVar(&f.Service.Project, "project", "", "folder with playbooks, inventory and windows, whose edits are taken over")
	f.Logs.Add(c)
	c.Flags().BoolVarP(&f.Logs.Verbose, "verbose", "v", false, "log what the server does")
	check := func() error {
		if f.Service.Queue.URL == "" {
			return console.Invalid("server needs a queue that workers share\nhint: --redis rediss://HOST:6379/0; turnus up has a queue and a worker of its own")
		}
		return errors.Join(f.Service.Check(), f.Logs.Check(), f.Trace.Check())
	}
	return longRunning{cmd: c, check: check, queue: &f.Service.Queue, keeps: &f.Service}.settable()
}
